#!/bin/sh
# The hook of the plugin: launch.sh AGENT EVENT, with the event on standard input.
# It runs the memory-ci of this machine. Without one it says at the start of a session how to get
# it. Its exit status is always 0, so that no session fails by it.

for program in memory-ci "$HOME/.local/bin/memory-ci"; do
  if command -v "$program" >/dev/null 2>&1; then
    "$program" hook agent --for "$1" --plugin --event "$2"
    exit 0
  fi
done

[ "$2" = SessionStart ] || [ "$2" = sessionStart ] || exit 0
case "$(cat)" in # the agent goes on with a session that was told
  *'"resume"'* | *'"compact"'* | *'"clear"'*) exit 0 ;;
esac
version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$(dirname "$0")/plugin.json")
source="git+https://github.com/OWNER/memory-ci@v$version"
line="memory-ci is not on this machine: pipx install 'memory-ci[mcp] @ $source' (OWNER: whose plugin this is)"
case "$1" in
  copilot) printf '{"additionalContext": "%s. Tell the person so in one line."}\n' "$line" ;; # it shows people nothing
  *) printf '{"systemMessage": "%s"}\n' "$line" ;;
esac
exit 0
