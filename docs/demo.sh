#!/usr/bin/env bash
# The main job on a small repository of its own: merged work in, committed memory out, retrieved by the next job.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME="$scratch" GIT_CONFIG_GLOBAL="$scratch/gitconfig" GIT_CONFIG_NOSYSTEM=1
git config --global user.name "Ada"
git config --global user.email "ada@example.com"
git config --global init.defaultBranch main
git config --global advice.detachedHead false

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() {
  printf '$'
  for word in "$@"; do case $word in *" "*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac; done
  printf '\n'
  "$@"
}
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n%s\n' "$*"; }

say "A repository, and the files memory starts with"
git init -q "$scratch/shop"
cd "$scratch/shop"
mkdir -p src/payments
echo "def post(url): ..." > src/payments/client.py
git add . && git commit -q -m "Add the payments client"
run memory-ci init </dev/null # on a terminal it asks
git add . && git commit -q -m "Add memory"

say "A branch whose author marks what was learned, merged as pull request 128"
git checkout -q -b retry
echo "def post(url, key): ..." > src/payments/client.py
git commit -q -a -F - <<'MESSAGE'
fix: charge a card once

Customers were charged twice when the gateway was slow.

Root cause: the client retried a POST after a timeout although the gateway had booked the first one.
Fix: send an idempotency key with each charge, and retry only with the same key.

Decision: retries live in src/payments/client.py rather than in each caller, because only the client knows the key.
MESSAGE
git checkout -q main
git merge -q --no-ff retry -m "Merge pull request #128 from ada/retry

Charge a card once"

say "A person adds what no commit says; it waits in the inbox"
run memory-ci add --type directive "Amounts are integers in cents, never floats" \
  --body "A float once lost a cent per invoice; see the ledger's rounding tests."
git add .memory && git commit -q -m "Note how amounts are kept"

say "Record: merged work becomes commits"
run memory-ci record
say "Running it again changes nothing"
run memory-ci record
run git log --oneline
run git status --short

say "What the next agent's job is given"
run memory-ci retrieve "retry a failed charge in the payments client"

say "What was learned, with the words that prove it"
run cat MEMORY.md
