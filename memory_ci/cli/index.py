"""memory-ci index"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import FILE, at_option, flag, json_option, option, show
from memory_ci.cli.plain import progress, today, workspace
from memory_ci.records.retrieval import IndexStats
from memory_ci.rendering.table import render_finding
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.flows.index import IndexReport


@click.command("index")
@flag("--key", "only_key", help="Print the cache key of HEAD (or the view), and build nothing.")
@flag("--verify", help="Prove that the index is equal to the tree; exit 1 with what differs.")
@flag("--stats", help="Count what the index of the work tree holds.")
@flag("--vectors", help="Embed what has no vector yet: `memory-ci help embedders`.")
@option("--db", type=FILE, help="This file, not the one in the git directory.")
@flag("--staged", help="Look at what the next commit would hold.")
@at_option
@json_option
def index_command(
    only_key: bool,
    verify: bool,
    stats: bool,
    vectors: bool,
    db: Path | None,
    staged: bool,
    view: str | None,
    as_json: bool,
) -> None:
    """Build the search index, prove it, or print its cache key.

    The index is derived: `retrieve` opens, checks and repairs it by itself. Building it ahead saves the first
    retrieval that work. A file written with --db is the same, byte for byte, wherever its tree is the same.

    \b
    Example:
      memory-ci index
      memory-ci index --key
      memory-ci index --verify
      memory-ci index --db memory.db --at HEAD
    """
    from memory_ci.flows.index import build_index, index_key, index_stats, verify_index
    from memory_ci.flows.workspace import STAGED

    if only_key + verify + stats + vectors > 1:
        raise click.UsageError("--key, --verify, --stats and --vectors are four things to do: choose one.")
    if staged and view:
        raise click.UsageError("--staged and --at are two views: choose one.")
    if (stats or vectors) and (db or staged or view):
        raise click.UsageError("--stats and --vectors are about the index of the work tree: give no --db and no view.")
    view = STAGED if staged else view
    if only_key:
        key = index_key(workspace(), view or "HEAD")
        show({"key": key}, [key], as_json)
    elif verify:
        with progress("Comparing the index with the files"):
            findings = verify_index(workspace(), view, db)
        show(findings, map(render_finding, findings), as_json)
        raise SystemExit(1 if findings else 0)
    elif vectors:
        _embed(as_json)
    elif stats:
        counts = index_stats(workspace())
        show(counts, [_say_stats(counts)], as_json)
    else:
        with progress("Building the index"):
            report = build_index(workspace(), view, db)
        show(report, [_say_report(report)], as_json)


def _embed(as_json: bool) -> None:
    from memory_ci.flows.serve.embedding import build_vectors

    with progress("Embedding") as advance:
        report = build_vectors(workspace(), os.environ, advance, today())
    show(report, [f"{plural(report.embedded, 'entry')} embedded by {report.model_id}"], as_json)


def _say_report(report: IndexReport) -> str:
    how = "rebuilt" if report.was_rebuilt else "up to date" if not report.files_read else "updated"
    counted = f"{plural(report.entries, 'entry')} of {plural(report.files, 'file')}, {report.files_read} read"
    return f"{how}: {counted}\n{report.path}\n{report.key}"


def _say_stats(counts: IndexStats) -> str:
    """One line for each group of counts."""
    groups = {"scopes": counts.scopes, "types": counts.types, "statuses": counts.statuses, "vectors": counts.vectors}
    lines = [f"{name}: {_say_counts(group)}" for name, group in groups.items()]
    return "\n".join(
        [
            f"{plural(counts.entries, 'entry')} of {plural(counts.files, 'file')}, {counts.size} bytes",
            *lines,
            f"terms: {counts.terms}, in {counts.occurrences} places",
            f"schema {counts.schema}, SQLite {counts.sqlite}",
        ]
    )


def _say_counts(group: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in group.items()) or "none"
