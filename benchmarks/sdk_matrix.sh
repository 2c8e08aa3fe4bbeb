#!/usr/bin/env bash
# Runs the tests of the Anthropic engine against the oldest and the newest version of the SDK that memory-ci supports,
# each in a virtual environment that is thrown away. Extra arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t tools < <(grep -oE '"(pytest|hypothesis)==[^"]+' pyproject.toml | tr -d '"')

status=0
for version in '==0.77.0' '>=2,<3'; do
  "${PYTHON:-python3}" -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check --editable . "anthropic$version" "${tools[@]}"
  echo "== anthropic $("$work/venv/bin/python" -c 'import anthropic; print(anthropic.__version__)')"
  "$work/venv/bin/pytest" -p no:cacheprovider -q "$@" tests/extraction/engines/test_{anthropic_api,batches,faults,prices}.py ||
    status=1
  rm -rf "$work/venv"
done
exit "$status"
