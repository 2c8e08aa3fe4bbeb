"""The index against SQLite's own full-text table: building, updating, asking, and how large it is."""

from __future__ import annotations

import random
import sqlite3
import statistics
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.timing import Row
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.report import LoadedFile
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import TOKENIZER
from memory_ci.search.search import search

SIZES = (1_000, 10_000, 100_000)
SYLLABLES = "ba de fi go ku la me ni po ra se ti vo wu xa zen mor tal rik".split()
VOCABULARY = 20_000
IDENTIFIERS = 0.1
"""Share of words that are identifiers of two parts: of the words in changelogs and issues 4 to 10 % are parts of
identifiers in capitals, and as many of others."""

QUERIES = 40
BARE_QUERY = "SELECT rowid, bm25(f) FROM f WHERE f MATCH ? ORDER BY bm25(f) LIMIT 200"
PROJECT = ScopeOf("project")


def bench_index(root: Path) -> list[Row]:
    """Each size: processor time of building from parsed entries, of a run without a change and with one new entry;
    median time of a query. The baseline is a bare FTS5 table of the same titles and bodies, asked for the same words.
    """
    root.mkdir(parents=True)
    return [row for size in SIZES for row in _bench_size(root, size)]


def _bench_size(root: Path, size: int) -> list[Row]:
    files = {"MEMORY.md": _file("MEMORY.md", make_located(size))}
    located = files["MEMORY.md"].entries
    bare, index = root / f"{size}.bare.db", root / f"{size}.db"
    runs = 3 if size < SIZES[-1] else 1
    floor = min(_cpu(lambda: _build_bare(bare, located)) for _ in range(runs))
    build = min(_cpu(lambda: _build(index, files)) for _ in range(runs))
    unchanged = _cpu(lambda: _sync(index, files))
    new = _file(".memory/inbox/new.md", make_located(1))
    update = _cpu(lambda: _sync(index, files | {new.path: new}))
    queries = [_words(one.entry) for one in located[:: size // QUERIES]]
    bare_query, query = _ask_bare(bare, queries), _ask(index, queries)
    note = f"{_megabytes(index)} MB, bare {_megabytes(bare)} MB, text {_measure_text(located)}"
    return [
        Row(f"bare FTS5 build, {size} entries", floor, floor, "processor time; baseline"),
        Row(f"cold build, {size} entries", build, floor, note),
        Row(f"nothing changed, {size} entries", unchanged, floor),
        Row(f"one new entry, {size} entries", update, floor),
        Row(
            f"bare FTS5 query, {size} entries", bare_query, bare_query, "median wall time; baseline"
        ),
        Row(
            f"query, {size} entries", query, bare_query, "200 whole entries instead of row numbers"
        ),
    ]


def _measure_text(located: Iterable[Located]) -> str:
    letters = sum(len(place.entry.title) + len(place.entry.body) for place in located)
    return f"{letters / 1e6:.1f} MB"


def make_located(count: int) -> tuple[Located, ...]:
    """Entries of 53 words drawn by Zipf's law, as in prose; the same in every run."""
    chance = random.Random(7)  # noqa: S311 - no secret
    return tuple(
        Located(_entry(chance, number), "MEMORY.md", 1 + 12 * number, PROJECT)
        for number in range(count)
    )


def _entry(chance: random.Random, number: int) -> Entry:
    return Entry(
        id=str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        type="procedural",
        domain="task",
        importance=0.5,
        reinforcement_count=number % 7,
        last_reinforced=date(2026, 1, 1) + timedelta(days=number % 300),
        status="active",
        created_at=date(2026, 1, 1),
        source=f"pr:{number} commit:3f2ab91",
        title=" ".join(_word(chance) for _ in range(8)),
        body=" ".join(_word(chance) for _ in range(45)),
    )


def _word(chance: random.Random) -> str:
    word = _spell(int(VOCABULARY ** chance.random()))
    if chance.random() >= IDENTIFIERS:
        return word
    other = _spell(int(VOCABULARY ** chance.random()))
    return chance.choice((f"{word}_{other}", f"{word}.{other}", f"{word}{other.capitalize()}"))


def _spell(number: int) -> str:
    """The word of a number, the shorter the more frequent."""
    first, rest = SYLLABLES[number % len(SYLLABLES)], number // len(SYLLABLES)
    return first + (_spell(rest) if rest else "")


def _file(path: str, located: Sequence[Located]) -> LoadedFile:
    placed = tuple(msgspec.structs.replace(one, path=path) for one in located)
    return LoadedFile(path=path, scope=PROJECT, entries=placed)


def _build(path: Path, files: dict[str, LoadedFile]) -> None:
    path.unlink(missing_ok=True)
    _sync(path, files)


def _sync(path: Path, files: dict[str, LoadedFile]) -> None:
    with open_index(path) as index:
        sync(index, dict.fromkeys(files, "1"), lambda paths: [files[path] for path in paths])


def _build_bare(path: Path, located: Sequence[Located]) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"CREATE VIRTUAL TABLE f USING fts5 (title, body, tokenize = '{TOKENIZER}')"
        )
        connection.executemany(
            "INSERT INTO f VALUES (?, ?)", ((one.entry.title, one.entry.body) for one in located)
        )


def _words(entry: Entry) -> list[str]:
    return list(dict.fromkeys(entry.body.split()[:8]))


def _ask(path: Path, queries: Sequence[Sequence[str]]) -> float:
    with open_index(path) as index:
        return statistics.median(_wall(partial(search, index, words)) for words in queries)


def _ask_bare(path: Path, queries: Sequence[Sequence[str]]) -> float:
    def ask(words: Sequence[str]) -> None:
        connection.execute(BARE_QUERY, (" OR ".join(f'"{word}"' for word in words),)).fetchall()

    with closing(sqlite3.connect(path)) as connection:
        return statistics.median(_wall(partial(ask, words)) for words in queries)


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _wall(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f}"
