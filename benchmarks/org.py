"""What the index of an organisation costs: a generated one of many repositories, synced, asked and changed.

    python -m benchmarks.org                              # 50 repositories of 200 entries
    python -m benchmarks.org --repositories 500           # 100,000 entries
    python -m benchmarks.org --git 40 --kill 50           # real repositories, and 50 runs that are killed

All is seeded: the same words in the same entries anywhere. Times are of the CPU, in milliseconds.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from functools import partial
from itertools import accumulate
from pathlib import Path

from memory_ci.flows.org.sync import OrgReport, sync_org
from memory_ci.flows.org.targets import gather_targets
from memory_ci.flows.org.verify import verify_org
from memory_ci.flows.serve.organisation import search_org
from memory_ci.index.org import OrgEngine, open_engine
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.org import OrgFilters, OrgRepository
from memory_ci.store.edits import format_entry

NOW = datetime(2026, 11, 23, tzinfo=UTC)
WORDS, VOCABULARY = 53, 30_000
"""Words of an entry, and different words of all: their frequencies fall as Zipf's law has it, and the
commonest is in a tenth of the entries, for stop words are asked of no index."""

AUDIENCES = ("public", "internal", *(f"group-{number}" for number in range(8)))
QUERIES = 200


class Writer:
    """Entries that nobody wrote, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        syllables = [f"{a}{b}" for a in "bdfgklmnprstvz" for b in "aeiou"]
        self.vocabulary = ["".join(self.random.choices(syllables, k=3)) for _ in range(VOCABULARY)]
        self.weights = list(accumulate(1 / (rank + 100) for rank in range(VOCABULARY)))

    def words(self, count: int) -> list[str]:
        return self.random.choices(self.vocabulary, cum_weights=self.weights, k=count)

    def entry(self) -> Entry:
        title, body = self.words(8), self.words(WORDS - 8)
        return Entry(
            id=f"{self.random.getrandbits(32):08x}-0000-4000-8000-{self.random.getrandbits(48):012x}",
            type="procedural",
            domain="task",
            importance=0.5,
            reinforcement_count=self.random.randrange(5),
            last_reinforced=date(2026, 1 + self.random.randrange(11), 1),
            status="active",
            title=" ".join(title).capitalize(),
            body=f"{' '.join(body)}.",
        )

    def entries(self, count: int) -> list[Located]:
        return [Located(self.entry(), "MEMORY.md", 8 * at + 1, ScopeOf("project")) for at in range(count)]


def make_repository(number: int) -> OrgRepository:
    name = f"acme/r{number}"
    return OrgRepository(f"forge.example#{number}", name, f"https://forge.example/{name}", AUDIENCES[number % 10])


def fill(engine: OrgEngine, writer: Writer, numbers: Sequence[int], entries: int, head: str) -> None:
    for number in numbers:
        engine.sync(make_repository(number), head, writer.entries(entries))


def timed(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return 1000 * (time.process_time() - begin)


def percentiles(times: Sequence[float]) -> str:
    ordered = sorted(times)
    return f"p50 {ordered[len(ordered) // 2]:.1f}, p99 {ordered[int(len(ordered) * 0.99)]:.1f}"


def ask(engine: OrgEngine, writer: Writer, audiences: Sequence[str]) -> Iterator[float]:
    for _ in range(QUERIES):
        terms = writer.words(8)
        yield timed(lambda terms=terms: engine.search(terms, OrgFilters(today=NOW.date()), audiences, 100))  # type: ignore[misc]


def measure(index: str, repositories: int, entries: int, seed: int) -> None:
    writer = Writer(seed)
    with closing(open_engine(index, is_writer=True)) as engine:
        total = timed(lambda: fill(engine, writer, range(repositories), entries, "1"))
        print(f"sync of {repositories} x {entries}: {total:,.0f} ms, {total / repositories:.1f} a repository")
        print(f"publish: {timed(engine.publish):,.0f} ms")
        changed = range(0, repositories, max(1, repositories // 20))
        once = timed(lambda: fill(engine, writer, changed, entries, "2"))
        print(f"{len(changed)} rewritten: {once:,.0f} ms, {once / len(changed):.1f} each")
        print(f"publish: {timed(engine.publish):,.0f} ms")
    size = sum(path.stat().st_size for path in Path(index).glob("*.db"))
    print(f"size: {size / 1e6:.1f} MB in {len(list(Path(index).glob('*.db')))} files")
    for audiences in (("public", "internal"), AUDIENCES):
        with closing(open_engine(index)) as engine:
            print(f"search of {len(audiences)} audiences: {percentiles(list(ask(engine, writer, audiences)))} ms")
        lane = [
            timed(lambda: search_org(" ".join(writer.words(8)), index, tuple(audiences), 10, {}, NOW.date()))  # noqa: B023
            for _ in range(50)
        ]
        print(f"lane of {len(audiences)} audiences, ranked: {percentiles(lane)} ms")
    task = " ".join(writer.words(8))
    command = [sys.executable, "-m", "memory_ci", "org", "search", task, "--index", index]
    print(f"fresh process: {percentiles(list(children(command, 10)))} ms")


def children(command: Sequence[str], times: int) -> Iterator[float]:
    """CPU of a process and what it starts."""
    for _ in range(times):
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        yield 1000 * (after.children_user + after.children_system - before.children_user - before.children_system)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repositories", type=int, default=50)
    parser.add_argument("--entries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        measure(f"{place}/index", asked.repositories, asked.entries, asked.seed)


if __name__ == "__main__":
    main()
