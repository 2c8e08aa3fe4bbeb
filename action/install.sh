# Sourced by the actions: installs memory-ci into a virtual environment, and sets the output `command` to its path.
# INSTALL: package, or skip if memory-ci is on PATH; EXTRAS: extras to install, such as anthropic; REPORT: true installs
# the extra report, too.
set -euo pipefail
[ "${REPORT:-}" != true ] || EXTRAS="$EXTRAS,report"
if [ "$INSTALL" = skip ]; then
  command=$(command -v memory-ci) || { echo "::error title=memory-ci::install: skip, but memory-ci is not on PATH"; exit 2; }
else
  bash "$(dirname "${BASH_SOURCE[0]}")/pip_install.sh" "$RUNNER_TEMP/memory-ci" "$EXTRAS"
  command="$RUNNER_TEMP/memory-ci/bin/memory-ci"
fi
# An output of several lines ends at a word that its text cannot have.
end="memory-ci-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
printf 'command<<%s\n%s\n%s\n' "$end" "$command" "$end" >> "$GITHUB_OUTPUT"
