#!/usr/bin/env bash
# The loop on a small repository of its own: people correct agents, merged work is recorded, the next session is told.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME="$scratch" GIT_CONFIG_GLOBAL="$scratch/gitconfig" GIT_CONFIG_NOSYSTEM=1
git config --global user.name "Ada"
git config --global user.email "ada@example.com"
git config --global init.defaultBranch main
git config --global advice.detachedHead false

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n%s\n' "$*"; }
run() {
  printf '$'
  for word in "$@"; do case $word in *" "*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac; done
  printf '\n'
  "$@"
}

# A session of Claude Code in which a person types something, and which its hook captures: session ID TEXT
session() {
  local at file="$scratch/$1.jsonl"
  at=$(date -u +%Y-%m-%dT%H:%M:%S.000Z)
  printf '{"type":"user","uuid":"%s-1","parentUuid":null,"sessionId":"%s","isSidechain":false,"userType":"external","timestamp":"%s","message":{"role":"user","content":"%s"}}\n' \
    "$1" "$1" "$at" "$2" > "$file"
  printf 'Ada, to the agent: %s\n' "$2"
  memory-ci sessions --capture "$file" > /dev/null
}

# What the hook of an agent tells a session at an event: told EVENT-AS-JSON
told() {
  printf '%s' "$1" | memory-ci hook agent | python3 -c \
    'import json, sys; print(json.load(sys.stdin)["hookSpecificOutput"]["additionalContext"].strip())'
}

say "A repository, and the files that memory starts with"
git init -q "$scratch/shop"
cd "$scratch/shop"
mkdir -p src/payments
echo "def post(url): ..." > src/payments/client.py
echo "# Changes" > CHANGELOG.md
git add . && git commit -q -m "Add the payments client"
run memory-ci init </dev/null # on a terminal it asks
git add . && git commit -q -m "Add memory"

say "In two sessions a person corrects an agent"
session 5f3b2a10-0000-4000-8000-000000000001 "Always add a line to CHANGELOG.md before you commit."
session 5f3b2a10-0000-4000-8000-000000000002 "You forgot it again: always add a line to CHANGELOG.md before you commit."

say "Pull request 128 is merged; its author marked a decision"
git checkout -q -b retry
echo "def post(url, key): ..." > src/payments/client.py
git commit -q -a -F - <<'MESSAGE'
fix: charge a card once

Root cause: the client retried a POST after a timeout although the gateway had booked the first one.
Fix: send an idempotency key with each charge, and retry only with the same key.

Decision: retries live in src/payments/client.py rather than in each caller, because only the client knows the key.
MESSAGE
git checkout -q main
git merge -q --no-ff retry -m "Merge pull request #128 from ada/retry

Charge a card once"

say "Merged work becomes commits"
run memory-ci record

say "What was asked again waits for a person, who agrees"
run memory-ci review --candidates
run memory-ci review --candidates --accept 1
memory-ci record > /dev/null
run git log --oneline

say "The next session is told: at its start,"
told '{"hook_event_name": "SessionStart", "source": "startup", "session_id": "s3"}'
say "and before it commits"
told '{"hook_event_name": "PreToolUse", "session_id": "s3", "tool_name": "Bash", "tool_input": {"command": "git commit -m x"}}'

say "What memory knows about a task"
run memory-ci retrieve "retry a failed charge in the payments client"
