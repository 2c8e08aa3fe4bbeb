"""Test of the recorded loop: it takes the same steps as in benchmarks/results/loop.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.loop_recording import OUTPUT, record_loop
from tests.integration.act import CAN_RUN

pytestmark = pytest.mark.slow

IDS = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{7,40}\b")
STEPS = re.compile(
    r"^(?:## |\$ |### (?:Learned|Reinforced)|\S+ github-actions\[bot\]: |Memory-|outcome: |utility ).*",
    re.M,
)


def list_steps(text: str) -> list[str]:
    """Return scenes, commands, learnings, commits and results, without ids, which depend on dates."""
    return [IDS.sub("ID", step) for step in STEPS.findall(text)]


def test_the_loop_takes_the_recorded_steps(tmp_path: Path) -> None:
    recorded = list_steps(OUTPUT.read_text(encoding="utf-8"))
    assert list_steps(record_loop(tmp_path / "told", use_act=CAN_RUN)) == recorded
    assert any(step.startswith("Memory-Retrieved: ID") for step in recorded)
