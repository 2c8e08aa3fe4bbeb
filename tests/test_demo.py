"""Tests of the demo, and of its output in README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMMAND = '$ memory-ci retrieve "retry a failed charge in the payments client"'
MAKE = ("make demo", "make test")
VARYING = ((re.compile(r"id [0-9a-f]{8}"), "id X"), (re.compile(r"\d{4}-\d\d-\d\d"), "DAY"))
RULE = "Always add a line to CHANGELOG.md before you commit"


def find_block(text: str) -> str:
    """Return the output after the command in a text, with ids and days masked."""
    block = text.partition(COMMAND)[2].partition("</recalled-memory>")[0]
    for pattern, mask in VARYING:
        block = pattern.sub(mask, block)
    return block.strip()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of `make demo` with the tested program."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "memory-ci"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memory_ci "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    script = str(ROOT / "docs" / "demo.sh")
    completed = subprocess.run(
        ["bash", script], env=environment, capture_output=True, text=True, check=True
    )
    return completed.stdout


def test_the_demo_serves_a_request_that_was_made_twice_to_the_next_session(demo: str) -> None:
    _, _, served = demo.partition("The next session is told")
    start, _, commit = served.partition("and before it commits")
    assert f"> ## {RULE}" in start
    assert f"memory-ci: before you commit: {RULE} (id " in commit


def test_the_demo_serves_both_entries_about_the_task(demo: str) -> None:
    served = find_block(demo)
    assert "## The client retried a POST after a timeout" in served
    assert "## Retries live in src/payments/client.py rather than in each caller" in served


def test_readme_shows_what_the_demo_prints(demo: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert find_block(readme) == find_block(demo)
    assert f" 1. {RULE}\n    request: asked in 2 sessions" in demo
    assert f" 1. {RULE}\n    request: asked in 2 sessions" in readme


def test_both_commands_are_on_the_first_screen_of_a_short_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first_screen = text.splitlines()[:20]
    assert all(any(line.startswith(command) for line in first_screen) for command in MAKE)
    assert len(text.split()) <= 800
    assert len(re.findall(r"(?m)^\|", text)) <= 10
