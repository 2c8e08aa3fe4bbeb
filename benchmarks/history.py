"""How long a record run takes over a history of a thousand merged branches, against `git log` over the same."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from benchmarks.timing import Row
from memory_ci.commands.record.learner import ignore_progress
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.memory.workspace import open_workspace

MERGES = 1_000
IDENTITY = "Ada <ada@example.com> {when} +0000"


def make_history(root: Path) -> None:
    """A repository of MERGES merged branches with one commit each, by fast-import."""
    root.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "--initial-branch=main"], cwd=root, check=True)
    subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=root, input="".join(_stream()).encode(), check=True
    )


def _stream() -> Iterator[str]:
    yield _commit("refs/heads/main", 1, "Start", "M 644 inline a.txt\ndata 1\na\n")
    for number in range(1, MERGES + 1):
        learning = f"Learning: worker {number} must take lock {number} before the queue, because it is not reentrant."
        message = f"fix: part {number}\n\n{learning if number % 10 == 0 else 'As reviewed.'}\n"
        change = f"M 644 inline src/part{number}.py\ndata 2\n{number % 10}\n\n"
        yield _commit(
            f"refs/heads/b{number}", 2 * number, message, f"from {_tip(number - 1)}\n{change}"
        )
        merge = f"from {_tip(number - 1)}\nmerge :{2 * number}\n{change}"
        yield _commit(
            "refs/heads/main",
            2 * number + 1,
            f"Merge pull request #{number} from ada/b{number}",
            merge,
        )


def _tip(number: int) -> str:
    return f":{2 * number + 1}"


def _commit(ref: str, mark: int, message: str, rest: str) -> str:
    when = IDENTITY.format(when=1_767_225_600 + 60 * mark)
    return f"commit {ref}\nmark :{mark}\ncommitter {when}\ndata {len(message.encode())}\n{message}\n{rest}\n"


def bench_record(root: Path) -> list[Row]:
    """Planning a run over the whole history; nothing is written."""
    make_history(root)
    start = time.perf_counter()
    subprocess.run(
        ["git", "log", "--name-status", "-m", "--first-parent"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    log = time.perf_counter() - start
    start = time.perf_counter()
    plan = plan_record(open_workspace(root), RecordOptions(), date(2026, 11, 21), ignore_progress)
    spent = time.perf_counter() - start
    note = (
        f"{plan.counts.commits} commits, {sum(len(step.changes) for step in plan.steps)} learnings"
    )
    return [
        Row("git log --name-status --first-parent", log, log, "baseline"),
        Row(f"plan over {MERGES} merged changes", spent, log, note),
    ]
