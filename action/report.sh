# Sourced by the action: writes the page of `memory-ci report` after a run that recorded, and sets the output `path`.
# If it cannot be written, the job warns and goes on: the recorded memory is complete without it.
set -euo pipefail
[ "$REPORT" = true ] && [ "$JOB" = record ] || exit 0
page="$RUNNER_TEMP/memory-report.html"
if ! "$COMMAND" report --output "$page"; then
  echo "::warning title=memory-ci::the report was not written; the log says why"
  exit 0
fi
end="memory-ci-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
printf 'path<<%s\n%s\n%s\n' "$end" "$page" "$end" >> "$GITHUB_OUTPUT"
