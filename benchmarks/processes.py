"""What a user waits for: `check` and `retrieve` as whole processes, against what Python alone costs."""

from __future__ import annotations

import random
import subprocess
import uuid
from datetime import date, timedelta
from pathlib import Path

from benchmarks.timing import Row, median_time
from memory_ci.records.entry import Entry
from memory_ci.store.edit import format_entry

WORDS = "retry charge client timeout cache index branch merge token schema parser worker queue lock page build".split()


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
    """`check` on 1,000 entries; `retrieve` on 1,000 and 10,000 when nothing changed since the last call."""
    rows = []
    bare = median_time(["-c", "pass"], Path.cwd())
    libraries = median_time(["-c", "import click, yaml"], Path.cwd())
    rows.append(Row("bare Python", bare, bare, "baseline of retrieve"))
    rows.append(Row("python -c 'import click, yaml'", libraries, libraries, "baseline of check"))
    for count in (1_000, 10_000):
        place = root / str(count)
        place.mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=place, check=True)
        (place / "MEMORY.md").write_text(make_entries(count))
        subprocess.run(["git", "add", "."], cwd=place, check=True)
        rows.append(Row(f"check, {count} entries", median_time(["-m", "memory_ci", "check"], place, 5), libraries))
        median_time(["-m", "memory_ci", "index"], place, 1)
        task = ["-m", "memory_ci", "retrieve", "retry7 the charge3 after a timeout21"]
        rows.append(Row(f"retrieve, {count} entries, nothing changed", median_time(task, place), bare))
    return rows
