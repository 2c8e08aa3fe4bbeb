#!/bin/sh
# The hook of the plugin: launch.sh AGENT EVENT, with the event on standard input.
# It runs the memory-ci of this machine. If there is none, it prints at the start of a session how
# to install it. The exit status is always 0, so that it never makes a session fail.

for program in memory-ci "$HOME/.local/bin/memory-ci"; do
  if command -v "$program" >/dev/null 2>&1; then
    "$program" hook agent --for "$1" --plugin --event "$2"
    exit 0
  fi
done

[ "$2" = SessionStart ] || [ "$2" = sessionStart ] || exit 0
case "$(cat)" in # the agent continues a session, at whose start it was printed
  *'"resume"'* | *'"compact"'* | *'"clear"'*) exit 0 ;;
esac
version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$(dirname "$0")/plugin.json")
source="git+https://github.com/OWNER/memory-ci@v$version"
message="memory-ci is not on this machine: pipx install 'memory-ci[mcp] @ $source' (OWNER: whose plugin this is)"
case "$1" in
  copilot) printf '{"additionalContext": "%s. Tell the person so in one line."}\n' "$message" ;; # Copilot shows people no message
  *) printf '{"systemMessage": "%s"}\n' "$message" ;;
esac
exit 0
