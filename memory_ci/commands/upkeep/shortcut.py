"""`memory-ci index` without click, which costs start-up time, and the building of the index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memory_ci.cli.plain import (
    Option,
    echo_json,
    open_current_workspace,
    progress,
    say,
    shorten_path,
)
from memory_ci.text import plural

OPTIONS: tuple[Option, ...] = ()


def read_words(words: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `run` for the words of a command line.

    None lets click parse the command line and report its errors.
    """
    return None if words else values


def run(view: str | None = None, db: Path | None = None, *, as_json: bool = False) -> None:
    """Build the search index, and print whether it was rebuilt, updated or left as it was.

    Args:
        view: None for the work tree, or a revision.
        db: where to write a copy for other machines instead.
        as_json: print JSON instead of text.
    """
    from memory_ci.memory.index import build_index

    with progress("Building the index"):
        workspace = open_current_workspace()
        report = build_index(workspace, view, db)
    if as_json:
        echo_json(report)
        return
    how = "updated"
    if report.was_rebuilt:
        how = "rebuilt"
    elif not report.files_read:
        how = "up to date"
    indexed = f"{plural(report.entries, 'entry')} of {plural(report.files, 'file')}"
    path = shorten_path(report.path, workspace.repo.root)
    say(f"{how}: {indexed}, {report.files_read} read; {path}\n")
