# Sourced by the action: what memory knows about $TASK, as a file and as outputs. The hook that install puts into this
# clone notes in the job's commits what was given.
set -euo pipefail
file="${FILE:-$RUNNER_TEMP/memory-ci/memory.md}"
mkdir -p "$(dirname "$file")"
set --
[ -z "$BASE" ] || set -- --base "$BASE"
"$COMMAND" install > /dev/null
printf '%s' "$TASK" | "$COMMAND" retrieve --format markdown --record "$@" > "$file"
ids=$(printf '%s' "$TASK" | "$COMMAND" retrieve --ids --no-record "$@")
end="memory-ci-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
{
  printf 'file<<%s\n%s\n%s\n' "$end" "$file" "$end"
  printf 'ids<<%s\n%s\n%s\n' "$end" "$ids" "$end"
  printf 'memory<<%s\n' "$end"
  cat "$file"
  printf '\n%s\n' "$end"
} >> "$GITHUB_OUTPUT"
