#!/usr/bin/env bash
# bash action/pip_install.sh PLACE [EXTRAS]: installs this checkout of memory-ci into a new virtual environment at PLACE.
# pip installs the packages of action/requirements/, by hash and without building any of them, and then memory-ci itself.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=$1
requirements=(--requirement "$source/action/requirements/base.txt")
for extra in $(tr ',' ' ' <<< "${2:-}"); do
  lock="$source/action/requirements/$extra.txt"
  if [[ ! $extra =~ ^[a-z]+$ ]] || [ ! -f "$lock" ]; then
    known=$(cd "$source/action/requirements" && echo *.txt)
    echo "::error title=memory-ci::there is no extra '$extra' for jobs; extras: $(sed 's/base.txt //; s/\.txt//g; s/ /, /g' <<< "$known")"
    exit 2
  fi
  requirements+=(--requirement "$lock")
done
# The runner's own pip installs into the environment: to install a pip there takes longer than all packages together.
# A pip before 22.3 has no option --python.
if python3 -c 'import pip, sys; sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (22, 3))' 2> /dev/null; then
  python3 -m venv --without-pip "$place"
  pip=(python3 -m pip --python "$place/bin/python")
else
  python3 -m venv "$place"
  pip=("$place/bin/python" -m pip)
fi
pip+=(install --quiet --disable-pip-version-check --no-deps)
"${pip[@]}" --require-hashes --only-binary :all: "${requirements[@]}"
"${pip[@]}" --no-build-isolation "$source"
