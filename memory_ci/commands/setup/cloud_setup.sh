#!/bin/sh
# memory-ci init --cloud; the next one replaces this file. Run it while the container has network. Afterwards memory is read without any.
set -eu
cd "$(dirname "$0")"
home="${MEMORY_CI_HOME:-$HOME/.memory-ci}"
python3 -m venv "$home"
"$home/bin/python" -m pip install --quiet "${MEMORY_CI_PACKAGE:-memory-ci==@VERSION@}"
for bin in /usr/local/bin "$HOME/.local/bin"; do
  [ "$bin" = /usr/local/bin ] || mkdir -p "$bin"
  [ ! -w "$bin" ] || { ln -sf "$home/bin/memory-ci" "$bin/memory-ci"; break; }
done
[ -z "${GITHUB_PATH-}" ] || echo "$bin" >>"$GITHUB_PATH"
git config memory-ci.surface "${1:-cloud}"
"$home/bin/memory-ci" init --clone >/dev/null || echo "memory-ci: no git hooks here: its trailers are missing" >&2
"$home/bin/memory-ci" index
