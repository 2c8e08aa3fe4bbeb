# Sourced by the actions: sets outputs to the paths of the search index and of past tasks, and to their cache key.
set -euo pipefail
path="$(git rev-parse --path-format=absolute --git-common-dir)/memory-ci/index.db"
key=$("$COMMAND" index --key)
end="memory-ci-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
printf '%s<<%s\n%s\n%s\n' path "$end" "$path" "$end" tasks "$end" "${path%index.db}tasks.mpk" "$end" key "$end" "$key" "$end" >> "$GITHUB_OUTPUT"
