"""What a user waits for: `check` and `retrieve` as whole processes, against what Python alone costs."""

from __future__ import annotations

import os
import random
import subprocess
import uuid
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

from benchmarks.timing import Row, median_time
from memory_ci.records.entry import Entry
from memory_ci.store.edits import format_entry

WORDS = "retry charge client timeout cache index branch merge token schema parser worker queue lock page build".split()
TASK = ["-m", "memory_ci", "retrieve", "retry7 the charge3 after a timeout21"]
CHECKING = "import click, yaml"
LIBRARIES = {
    CHECKING: "baseline of check",
    "import typing": "",
    "import msgspec": "",
    "import msgspec, sqlite3, subprocess, pathlib, hashlib": "what `retrieve` cannot do without",
}
LONG_AGO = 1_700_000_000
"""A time of modification: of a file as young as its index git reads the content to know whether it changed."""


def make_entries(count: int) -> str:
    """A memory file of generated entries, about 500 characters each."""
    chance = random.Random(7)  # noqa: S311 - the same texts in every run
    texts = []
    for number in range(count):
        words = [f"{chance.choice(WORDS)}{chance.randrange(900)}" for _ in range(40)]
        entry = Entry(
            id=str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            type="procedural",
            domain="task",
            importance=0.5,
            reinforcement_count=number % 7,
            last_reinforced=date(2026, 1, 1) + timedelta(days=number % 300),
            status="active",
            created_at=date(2026, 1, 1),
            source=f"pr:{number} commit:3f2ab91",
            title=" ".join(words[:8]),
            body=" ".join(words),
        )
        texts.append(format_entry(entry))
    return "\n".join(texts)


def bench_processes(root: Path) -> list[Row]:
    """`check` on 1,000 and 10,000 entries; `retrieve` when nothing changed, and with one new entry in the inbox."""
    bare = median_time(["-c", "pass"], Path.cwd())
    libraries = {program: median_time(["-c", program], Path.cwd()) for program in LIBRARIES}
    rows = [Row("bare Python", bare, bare, "baseline of retrieve")]
    rows += [
        Row(f"python -c '{program}'", libraries[program], bare, note)
        for program, note in LIBRARIES.items()
    ]
    for count in (1_000, 10_000):
        place = _make_project(root / str(count), count)
        checked = median_time(["-m", "memory_ci", "check"], place, 5)
        rows.append(Row(f"check, {count} entries", checked, libraries[CHECKING]))
        median_time(["-m", "memory_ci", "index"], place, 1)
        rows.append(
            Row(f"retrieve, {count} entries, nothing changed", median_time(TASK, place), bare)
        )
        updated = median_time(TASK, place, before=_make_adder(place))
        rows.append(Row(f"retrieve, {count} entries, one new in the inbox", updated, bare))
    return rows


def _make_project(place: Path, count: int) -> Path:
    """A repository with one memory file that is staged, and was not written just now."""
    place.mkdir(parents=True)
    (place / "MEMORY.md").write_text(make_entries(count))
    os.utime(place / "MEMORY.md", (LONG_AGO, LONG_AGO))
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)
    subprocess.run(["git", "add", "."], cwd=place, check=True)
    return place


def _make_adder(place: Path) -> Callable[[], None]:
    """What puts a new entry into the inbox, at each call."""
    chance = random.Random(11)  # noqa: S311 - the same texts in every run
    known = make_entries(1).partition("\n")[2]
    inbox = place / ".memory" / "inbox"
    inbox.mkdir(parents=True)

    def add() -> None:
        entry_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        text = "\n".join(
            f"id: {entry_id}" if line.startswith("id: ") else line for line in known.split("\n")
        )
        (inbox / f"{entry_id}.md").write_text(f"---\n{text}")

    return add
