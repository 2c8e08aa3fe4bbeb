"""A scripted loop: an entry is given, used, confirmed twice, and then its work is reverted; what memory makes of it.

    python -m benchmarks.feedback HISTORY

HISTORY is a git repository with a long history; it is cloned, and nothing is written into it. After each step the rank
of the entry, its utility and the last lines of `memory-ci show ID --why` are printed: all of it from the commits alone, for the
index is thrown away before each look.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TASK = "the gateway is slow: retry a charge with a key after a timeout"
TITLE = "Retry a charge only with an idempotency key"
BODY = "Otherwise the card is charged twice: the gateway books what the client believes lost."
RIVALS = {
    "Retry a charge after a timeout of the gateway": "The worker takes it from its queue again after a pause.",
    "The idempotency key of a charge is the order's id": "Refunds have keys of their own.",
}

OTHERS = {
    "Name branches after their issue": "So that a reader finds the discussion.",
    "The release notes are made from fragments": "One file for each pull request, gathered at the tag.",
    "Windows runners need long paths": "Without the setting the checkout of fixtures fails.",
    "Log lines are JSON in production": "Dashboards read the fields level and span.",
    "Database migrations run before the deploy": "Two versions read the same tables for a while.",
    "Feature flags expire after a quarter": "A test names those that are overdue.",
    "Fixtures are built once per session": "Copying a directory is cheaper than making it.",
    "Static files are hashed by content": "The proxy keeps them for a year.",
}
"""What the rest of memory speaks of: in a memory of three entries every word is common."""


class Loop:
    """A clone in which agents work and record runs; each commit is a minute after the one before."""

    def __init__(self, history: Path, scratch: Path) -> None:
        self.path, self.minutes = scratch / "work", 0
        subprocess.run(["git", "clone", "-q", str(history), str(self.path)], check=True)
        self.branch = self.git("branch", "--show-current")

    @property
    def environ(self) -> Mapping[str, str]:
        when = f"2026-11-20T{10 + self.minutes // 60:02d}:{self.minutes % 60:02d}:00+00:00"
        who = {"NAME": "Ann", "EMAIL": "ann@example.com", "DATE": when}
        names = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in who.items()
        }
        return {
            **os.environ,
            **names,
            "MEMORY_CI_EMBEDDER": "none",
            "SOURCE_DATE_EPOCH": "1795219200",
        }

    def git(self, *args: str) -> str:
        self.minutes += 1
        done = subprocess.run(
            ["git", *args],
            cwd=self.path,
            env=self.environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def memory_ci(self, *args: str) -> str:
        command = [sys.executable, "-m", "memory_ci", *args]
        done = subprocess.run(
            command, cwd=self.path, env=self.environ, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"memory-ci {' '.join(args)}: {done.stderr}")
        return done.stdout

    def add(self, title: str, body: str) -> str:
        """An entry in memory, and its id."""
        shown = self.memory_ci("add", title, "--body", body, "--type", "corrective", "--json")
        return str(json.loads(shown)["entry"]["id"])

    def merge(self, name: str, number: int, message: str) -> str:
        """Merge a branch with one commit."""
        self.git("checkout", "-q", "-b", name)
        (self.path / f"{name}.txt").write_text(f"{name}\n", encoding="utf-8")
        self.git("add", ".")
        self.git("commit", "-q", "-m", message)
        self.git("checkout", "-q", self.branch)
        self.git(
            "merge",
            "-q",
            "--no-ff",
            "-m",
            f"Merge pull request #{number} from ann/{name}\n\n{message}",
            name,
        )
        return self.git("rev-parse", "HEAD")

    def record(self) -> str:
        return self.memory_ci("record", "--engine", "rules")

    def look(self, entry_id: str) -> tuple[int, float, float, list[str]]:
        """(rank, score, utility, the events) of the entry, by an index that is made from the commits anew."""
        shutil.rmtree(self.path / ".git" / "memory-ci", ignore_errors=True)
        answer: dict[str, Any] = json.loads(
            self.memory_ci("retrieve", TASK, "--json", "--no-record")
        )
        scores = {hit["located"]["entry"]["id"]: hit["score"] for hit in answer["hits"]}
        why: dict[str, Any] = json.loads(self.memory_ci("show", entry_id, "--why", "--json"))
        return [*scores].index(entry_id) + 1, scores[entry_id], *_utility(why)


def _utility(why: Mapping[str, Any]) -> tuple[float, list[str]]:
    events = [
        f"{one['kind']} {one['delta']:+.2f} -> {one['value']:.2f} ({one.get('ref', '')})"
        for one in why["heard"]
    ]
    return why["utility"], events


def main(history: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        loop = Loop(history, Path(scratch))
        loop.memory_ci("init")
        entry_id = loop.add(TITLE, BODY)
        for title, body in (RIVALS | OTHERS).items():
            loop.add(title, body)
        loop.git("add", ".")
        loop.git("commit", "-q", "-m", "Set memory up")
        loop.record()
        _show("learned", loop, entry_id)
        trailers = f"Memory-Retrieved: {entry_id}\nMemory-Used: {entry_id}"
        for number, name in ((901, "charge"), (902, "refund")):
            last = loop.merge(name, number, f"Send the key with each {name}\n\n{trailers}")
            loop.record()
            _show(f"used in #{number}, merged unchanged", loop, entry_id)
        loop.git("revert", "--no-edit", "-m", "1", last)
        loop.record()
        _show("#902 reverted", loop, entry_id)


def _show(step: str, loop: Loop, entry_id: str) -> None:
    rank, score, utility, events = loop.look(entry_id)
    print(f"== {step}")
    print(f"rank {rank} (score {score:.3f}), utility {utility:.2f}; {len(events)} events")
    print(loop.memory_ci("show", entry_id, "--why"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
