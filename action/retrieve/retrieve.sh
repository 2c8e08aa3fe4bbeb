# Sourced by the action: writes the entries of memory that fit $TASK into a file and into outputs. The git hooks that it
# installs in this clone add the ids of these entries to the messages of the job's commits.
set -euo pipefail
file="${FILE:-$RUNNER_TEMP/memory-ci/memory.md}"
mkdir -p "$(dirname "$file")"
set --
[ -z "$BASE" ] || set -- --base "$BASE"
"$COMMAND" init --clone > /dev/null
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
