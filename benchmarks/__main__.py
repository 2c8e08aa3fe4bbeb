"""`make bench`: every benchmark, one after the other, or those named: `make bench ARGS="index anchors"`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import memorycode, never_twice, start
from benchmarks.anchors import bench_anchors
from benchmarks.cache import bench_cache
from benchmarks.compaction import bench_compaction
from benchmarks.history import bench_record
from benchmarks.hooks import bench_hooks
from benchmarks.index import bench_index
from benchmarks.peers import bench_peers
from benchmarks.processes import bench_processes
from benchmarks.race import bench_race
from benchmarks.timing import Row, print_table

PARTS: dict[str, tuple[str, Callable[[Path], list[Row]]]] = {
    "processes": ("Whole processes (median of 15)", bench_processes),
    "index": ("The index", bench_index),
    "anchors": ("Anchors", bench_anchors),
    "history": ("Recording a history", bench_record),
    "compaction": ("Compaction", lambda _: bench_compaction()),
    "hooks": ("A commit with hooks (median of 20, 1,000 entries)", bench_hooks),
    "race": ("Writers at once on one remote (a job, median)", bench_race),
    "cache": ("The index from a cache, whole processes (median of 5)", bench_cache),
    "peers": ("Beside peers (median of 7; x: processor time against bare Python)", bench_peers),
}
NAMED_ONLY = {"hooks", "peers"}
"""Need a package registry, and take minutes."""


def main(names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"No such benchmark: {', '.join(unknown)}. There are: {', '.join(PARTS)}.")
    with tempfile.TemporaryDirectory() as scratch:
        for name in names or [name for name in PARTS if name not in NAMED_ONLY]:
            title, bench = PARTS[name]
            print_table(title, bench(Path(scratch) / name))


WITH_FILES = {"memorycode": memorycode.main, "never_twice": never_twice.main, "start": start.main}
"""Benchmarks that take files, and have no part of their own."""


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in WITH_FILES:
        WITH_FILES[sys.argv[1]](sys.argv[2:])
    else:
        main(sys.argv[1:])
