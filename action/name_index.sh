# Sourced by the actions: where the index lies, and its cache key, as outputs.
set -euo pipefail
path="$(git rev-parse --path-format=absolute --git-common-dir)/memory-ci/index.db"
key=$("$COMMAND" index --key)
end="memory-ci-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
printf 'path<<%s\n%s\n%s\nkey<<%s\n%s\n%s\n' "$end" "$path" "$end" "$end" "$key" "$end" >> "$GITHUB_OUTPUT"
