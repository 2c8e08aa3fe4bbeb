"""The first minutes at a terminal of 80 columns: from an empty home to the first learning that an agent is given.

    python -m benchmarks.first_minutes    # writes benchmarks/results/first-minutes.md

Seconds of the machine are measured; those of reading are words at 200 a minute (Brysbaert, Journal of Memory and
Language, 2019, gives 238 for prose).
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OUTPUT = Path(__file__).parent / "results" / "first-minutes.md"
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|[^\n]*\r(?!\n)")
"""Colours, and what a line of progress showed before."""

WORDS_A_MINUTE = 200
MARKED = """fix: charge a card once

Root cause: the client retried a POST after a timeout although the gateway had booked the first one.
Fix: send an idempotency key with each charge, and retry only with the same key.
Decision: retries live in src/client.py rather than in each caller, because only the client knows the key."""

STEPS = (
    ("memory-ci init --agent claude-code", True),
    ("git add --all && git commit --quiet --message 'Set memory-ci up'", False),
    ("git commit --quiet --allow-empty --file ../message", False),
    ("memory-ci record", True),
    ("memory-ci retrieve 'retry a failed charge'", True),
)
"""Commands, and whether they are ours."""


def run(command: str, place: Path, environ: dict[str, str]) -> tuple[str, float]:
    """(what a terminal of 80 columns shows, seconds)."""
    ours, theirs = pty.openpty()
    began = time.perf_counter()
    with subprocess.Popen(  # noqa: S602
        command, shell=True, cwd=place, env=environ, stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65_536)
            except OSError:  # nobody writes there any more
                break
    os.close(ours)
    return ESCAPES.sub(b"", shown.replace(b"\r\n", b"\n")).decode(), time.perf_counter() - began


def make_environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TERM": "xterm",
        "COLUMNS": "80",
        "LANG": "C.UTF-8",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "Ann",
        "GIT_CONFIG_KEY_1": "user.email",
        "GIT_CONFIG_VALUE_1": "ann@example.com",
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        home, shop = Path(name, "home"), Path(name, "shop")
        home.mkdir()
        (shop / "src").mkdir(parents=True)
        (shop / "src" / "client.py").write_text("def charge(card):\n    return post(card)\n")
        Path(name, "message").write_text(MARKED)
        environ = make_environment(home)
        run("git init -q -b main && git add . && git commit -qm 'Begin'", shop, environ)
        told, seconds, words = [], 0.0, 0
        for command, is_ours in STEPS:
            shown, took = run(command, shop, environ)
            told.append(f"$ {command}\n{shown.replace(name, '~')}".rstrip())
            seconds, words = seconds + took * is_ours, words + len(shown.split())
    OUTPUT.write_text(render(told, seconds, words), encoding="utf-8")


def render(told: list[str], seconds: float, words: int) -> str:
    widest = max(
        len(line) for step in told for line in step.splitlines() if not line.startswith("$ ")
    )
    count = sum(is_ours for _, is_ours in STEPS)
    text = "\n\n".join(told)
    reading = f"{60 * words / WORDS_A_MINUTE:.0f} s of reading at {WORDS_A_MINUTE} a minute"
    counted = f"{count} commands of memory-ci and two commits, {seconds:.1f} s of machine"
    return (
        f"# The first minutes\n\nFrom an empty home, memory-ci installed: {counted},\n"
        f"{words} words shown ({reading}), no line over {widest} columns. "
        f"`python -m benchmarks.first_minutes` writes this.\n\n```console\n{text}\n```\n"
    )


if __name__ == "__main__":
    main()
