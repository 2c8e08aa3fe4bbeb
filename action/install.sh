# Sourced by the actions: puts memory-ci into an environment of its own, and names its command for the steps after.
# INSTALL: package, or skip where memory-ci is on PATH already; EXTRAS: such as anthropic; REPORT: true for its extra, too.
set -euo pipefail
[ "${REPORT:-}" != true ] || EXTRAS="$EXTRAS,report"
if [ "$INSTALL" = skip ]; then
  command=$(command -v memory-ci) || { echo "::error title=memory-ci::install: skip, but memory-ci is not on PATH"; exit 2; }
else
  bash "$(dirname "${BASH_SOURCE[0]}")/pip_install.sh" "$RUNNER_TEMP/memory-ci" "$EXTRAS"
  command="$RUNNER_TEMP/memory-ci/bin/memory-ci"
fi
end="memory-ci-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
printf 'command<<%s\n%s\n%s\n' "$end" "$command" "$end" >> "$GITHUB_OUTPUT"
