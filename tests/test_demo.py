"""The demo, and what README says that it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMMAND = '$ memory-ci retrieve "retry a failed charge in the payments client"'
VARYING = ((re.compile(r"id [0-9a-f]{8}"), "id X"), (re.compile(r"\d{4}-\d\d-\d\d"), "DAY"))


def find_block(text: str) -> str:
    """Return what a text shows behind the command, with ids and days masked."""
    block = text.partition(COMMAND)[2].partition("</recalled-memory>")[0]
    for pattern, mask in VARYING:
        block = pattern.sub(mask, block)
    return block.strip()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what `make demo` prints, by the program that is tested."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "memory-ci"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memory_ci "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    script = str(ROOT / "docs" / "demo.sh")
    done = subprocess.run(
        ["bash", script], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_demo_serves_both_entries_that_speak_of_the_task(demo: str) -> None:
    served = find_block(demo)
    assert "## The client retried a POST after a timeout" in served
    assert "## Retries live in src/payments/client.py rather than in each caller" in served
    assert "Amounts are integers" not in served


def test_readme_shows_what_the_demo_prints(demo: str) -> None:
    assert find_block((ROOT / "README.md").read_text(encoding="utf-8")) == find_block(demo)
