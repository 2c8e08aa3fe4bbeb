"""What it costs to judge a thousand anchored entries, when nothing changed and when a tenth of the files did."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.timing import Row
from memory_ci.extraction.entries import make_sample_entry
from memory_ci.memory.cite_verdicts import judge_anchors
from memory_ci.memory.cites import anchor_entries
from memory_ci.memory.workspace import Workspace, open_workspace
from memory_ci.records.entry import Entry, Located, ScopeOf

ENTRIES = 1_000
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")


def bench_anchors(root: Path) -> list[Row]:
    """Anchoring ENTRIES entries, then judging them in the work tree, against `git status` of the same."""
    sha = _make_code(root)
    workspace = open_workspace(root)
    start = time.perf_counter()
    subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, check=True)
    status = time.perf_counter() - start
    rows = [Row("git status", status, status, "baseline")]
    start = time.perf_counter()
    entries = anchor_entries(workspace, [_make_entry(number, sha) for number in range(ENTRIES)])
    rows.append(Row(f"anchor {ENTRIES} entries", time.perf_counter() - start, status))
    rows.append(_judge("nothing changed", workspace, entries, status))
    for number in range(0, ENTRIES, 10):
        path = root / _path(number)
        path.write_text("# a line above\n" + path.read_text())
    rows.append(_judge("a tenth of the files changed", workspace, entries, status))
    return rows


def _judge(what: str, workspace: Workspace, entries: Sequence[Entry], baseline: float) -> Row:
    located = [Located(entry, "MEMORY.md", 1, ScopeOf("project")) for entry in entries]
    start = time.perf_counter()
    verdicts = judge_anchors(workspace, located, None)
    spent = time.perf_counter() - start
    kinds = [verdict.kind for verdict in verdicts.values()]
    note = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    return Row(f"judge {len(entries)} entries, {what}", spent, baseline, note)


def _path(number: int) -> str:
    return f"src/package{number % 37}/part{number}.py"


def _make_code(root: Path) -> str:
    """A repository of ENTRIES small modules; the id of its commit."""
    for number in range(ENTRIES):
        path = root / _path(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        body = "".join(
            f"def work_{number}_{part}(job):\n    return job.run({part}, limit={number})\n\n\n"
            for part in range(20)
        )
        path.write_text(body)
    for command in (["init", "-q"], ["add", "."], [*IDENTITY, "commit", "-qm", "Code"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, check=True
    ).stdout.decode()[:12]


def _make_entry(number: int, sha: str) -> Entry:
    entry = make_sample_entry(number, f"work_{number}_7 needs a limit")
    return msgspec.structs.replace(entry, cites=(f"{_path(number)}@{sha}",))
