# Sourced by the action: runs `memory-ci ci` with an option for each input that is not empty.
set -euo pipefail
set -- --provider github
[ -z "$ENGINE" ] || set -- "$@" --engine "$ENGINE"
[ -z "$EXTRACT" ] || set -- "$@" --extract "$EXTRACT"
[ -z "$APPLY" ] || set -- "$@" --apply "$APPLY"
[ -z "$PUSH" ] || set -- "$@" --push "$PUSH"
[ "$DRY_RUN" != true ] || set -- "$@" --dry-run
[ -n "$ANTHROPIC_API_KEY" ] || unset ANTHROPIC_API_KEY # an empty one would be taken for a key
"$COMMAND" ci "$@"
end="memory-ci-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
printf 'commit<<%s\n%s\n%s\n' "$end" "$(git rev-parse HEAD)" "$end" >> "$GITHUB_OUTPUT"
