"""Measuring: wall time of whole processes, and tables with ratios to a baseline of the same run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """One line of a table: what was measured, in seconds, and the baseline it is compared with."""

    what: str
    seconds: float
    baseline: float
    note: str = ""


def bench_environment(cwd: Path) -> dict[str, str]:
    """The variables of a measured process: none of the user's own settings."""
    home = cwd / ".git"  # not cwd: its MEMORY.md would be read as the global one, too
    environment = {
        **os.environ,
        "HOME": str(home),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "MEMORY_CI_EMBEDDER": "none",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    return environment


def median_time(
    args: Sequence[str], cwd: Path, runs: int = 15, before: Callable[[], None] = lambda: None
) -> float:
    """Median wall seconds of a Python process with these arguments, output discarded; `before` each is not counted."""
    environment = bench_environment(cwd)
    times = []
    for _ in range(runs):
        before()
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, *args], cwd=cwd, env=environment, capture_output=True, check=False
        )
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def print_table(title: str, rows: Sequence[Row]) -> None:
    """The rows with their ratio to the baseline; a row without a time is a count or a remark."""
    print(f"\n{title}\n")
    print("| what | ms | ratio to the baseline | |\n|---|---|---|---|")
    for row in rows:
        ratio = f"{row.seconds / row.baseline:.1f}" if row.baseline else ""
        spent = f"{row.seconds * 1000:.0f}" if row.seconds else ""
        print(f"| {row.what} | {spent} | {ratio} | {row.note} |")
