# Sourced by the action: the page of `memory-ci report`, after a run that recorded. What was recorded stands without it,
# so that a page that cannot be written is a warning.
set -euo pipefail
[ "$REPORT" = true ] && [ "$JOB" = record ] || exit 0
page="$RUNNER_TEMP/memory-report.html"
if ! "$COMMAND" report --output "$page"; then
  echo "::warning title=memory-ci::the report was not written; the log says why"
  exit 0
fi
end="memory-ci-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
printf 'path<<%s\n%s\n%s\n' "$end" "$page" "$end" >> "$GITHUB_OUTPUT"
