"""`make bench`: every benchmark, one after the other."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.anchors import bench_anchors
from benchmarks.compaction import bench_compaction
from benchmarks.history import bench_record
from benchmarks.index import bench_index
from benchmarks.processes import bench_processes
from benchmarks.timing import print_table


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        print_table("Whole processes (median of 15)", bench_processes(Path(scratch) / "memory"))
        print_table("The index", bench_index(Path(scratch) / "index"))
        print_table("Anchors", bench_anchors(Path(scratch) / "anchors"))
        print_table("Recording a history", bench_record(Path(scratch) / "history"))
        print_table("Compaction", bench_compaction())


if __name__ == "__main__":
    main()
