"""Measure the index against SQLite's own full-text table: building, updating, queries, and size."""

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
    """Return the times of builds, updates and queries for each size of memory.

    The baseline is a bare FTS5 table of the same titles and bodies, searched for the same words.
    """
    root.mkdir(parents=True)
    rows: list[Row] = []
    for size in SIZES:
        rows += _bench_builds(root, size)
        rows += _bench_queries(root, size)
    return rows


def _bench_builds(root: Path, size: int) -> list[Row]:
    """Return the processor times to build and update an index of `size` parsed entries."""
    files = {"MEMORY.md": _make_file("MEMORY.md", make_located(size))}
    located_entries = files["MEMORY.md"].entries
    bare_path = _bare_path(root, size)
    index_path = _index_path(root, size)
    runs = 3 if size < SIZES[-1] else 1
    bare_build = min(_cpu(lambda: _build_bare(bare_path, located_entries)) for _ in range(runs))
    build = min(_cpu(lambda: _build(index_path, files)) for _ in range(runs))
    unchanged = _cpu(lambda: _sync(index_path, files))
    new_file = _make_file(".memory/inbox/new.md", make_located(1))
    update = _cpu(lambda: _sync(index_path, files | {new_file.path: new_file}))
    sizes = f"{_megabytes(index_path)} MB, bare {_megabytes(bare_path)} MB"
    note = f"{sizes}, text {_measure_text(located_entries)}"
    return [
        Row(f"bare FTS5 build, {size} entries", bare_build, bare_build, "processor time; baseline"),
        Row(f"cold build, {size} entries", build, bare_build, note),
        Row(f"nothing changed, {size} entries", unchanged, bare_build),
        Row(f"one new entry, {size} entries", update, bare_build),
    ]


def _bench_queries(root: Path, size: int) -> list[Row]:
    """Return the median times of queries of the tables that `_bench_builds` wrote."""
    located_entries = make_located(size)
    queries = [_list_query_words(located.entry) for located in located_entries[:: size // QUERIES]]
    bare_time = _time_bare_queries(_bare_path(root, size), queries)
    query_time = _time_queries(_index_path(root, size), queries)
    note = "200 whole entries instead of row numbers"
    return [
        Row(f"bare FTS5 query, {size} entries", bare_time, bare_time, "median wall time; baseline"),
        Row(f"query, {size} entries", query_time, bare_time, note),
    ]


def _bare_path(root: Path, size: int) -> Path:
    return root / f"{size}.bare.db"


def _index_path(root: Path, size: int) -> Path:
    return root / f"{size}.db"


def _measure_text(located_entries: Iterable[Located]) -> str:
    letters = sum(len(located.entry.title) + len(located.entry.body) for located in located_entries)
    return f"{letters / 1e6:.1f} MB"


def make_located(count: int) -> tuple[Located, ...]:
    """Return entries of 53 words drawn by Zipf's law, as in prose; the same in every run."""
    generator = random.Random(7)  # noqa: S311 - no secret
    return tuple(
        Located(_make_entry(generator, number), "MEMORY.md", 1 + 12 * number, PROJECT)
        for number in range(count)
    )


def _make_entry(generator: random.Random, number: int) -> Entry:
    """Return an entry with random words."""
    return Entry(
        id=str(uuid.UUID(int=generator.getrandbits(128), version=4)),
        type="procedural",
        domain="task",
        importance=0.5,
        reinforcement_count=number % 7,
        last_reinforced=date(2026, 1, 1) + timedelta(days=number % 300),
        status="active",
        created_at=date(2026, 1, 1),
        source=f"pr:{number} commit:3f2ab91",
        title=" ".join(_draw_word(generator) for _ in range(8)),
        body=" ".join(_draw_word(generator) for _ in range(45)),
    )


def _draw_word(generator: random.Random) -> str:
    """Return a random word, or an identifier of two words; low numbers are more frequent."""
    word = _spell(int(VOCABULARY ** generator.random()))
    if generator.random() >= IDENTIFIERS:
        return word
    other = _spell(int(VOCABULARY ** generator.random()))
    return generator.choice((f"{word}_{other}", f"{word}.{other}", f"{word}{other.capitalize()}"))


def _spell(number: int) -> str:
    """Return the word of a number: its digits to the base of the number of syllables."""
    rest, digit = divmod(number, len(SYLLABLES))
    syllable = SYLLABLES[digit]
    return syllable + _spell(rest) if rest else syllable


def _make_file(path: str, located_entries: Sequence[Located]) -> LoadedFile:
    moved = tuple(msgspec.structs.replace(located, path=path) for located in located_entries)
    return LoadedFile(path=path, scope=PROJECT, entries=moved)


def _build(path: Path, files: dict[str, LoadedFile]) -> None:
    path.unlink(missing_ok=True)
    _sync(path, files)


def _sync(path: Path, files: dict[str, LoadedFile]) -> None:
    with open_index(path) as index:
        sync(index, dict.fromkeys(files, "1"), lambda paths: [files[path] for path in paths])


def _build_bare(path: Path, located_entries: Sequence[Located]) -> None:
    """Write titles and bodies into a full-text table of SQLite, and nothing else."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"CREATE VIRTUAL TABLE f USING fts5 (title, body, tokenize = '{TOKENIZER}')"
        )
        texts = ((located.entry.title, located.entry.body) for located in located_entries)
        connection.executemany("INSERT INTO f VALUES (?, ?)", texts)


def _list_query_words(entry: Entry) -> list[str]:
    return list(dict.fromkeys(entry.body.split()[:8]))


def _time_queries(path: Path, queries: Sequence[Sequence[str]]) -> float:
    """Return the median seconds of a query of the index."""
    with open_index(path) as index:
        return statistics.median(_wall(partial(search, index, words)) for words in queries)


def _time_bare_queries(path: Path, queries: Sequence[Sequence[str]]) -> float:
    """Return the median seconds of a query of the bare full-text table."""

    def run_query(words: Sequence[str]) -> None:
        match = " OR ".join(f'"{word}"' for word in words)
        connection.execute(BARE_QUERY, (match,)).fetchall()

    with closing(sqlite3.connect(path)) as connection:
        return statistics.median(_wall(partial(run_query, words)) for words in queries)


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
