"""Helpers that write repeated requests and failures as a record run leaves them for hooks."""

from __future__ import annotations

import json
from pathlib import Path

from memory_ci.extraction.entries import compute_content_key
from memory_ci.sessions.moments import TimedLine, load_timed_lines, save_timed_lines
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import Project


def pending_path(project: Project) -> Path:
    return project.path / ".git/memory-ci/repeated.json"


def put_pending(project: Project, *lines: tuple[str, str] | str, kind: str = "request") -> None:
    """Write the list that a run leaves: titles, or titles with their moment."""
    rows = []
    for line in lines:
        text, when = (line, "start") if isinstance(line, str) else line
        rows.append(
            {"key": compute_content_key(text, ""), "text": text, "when": when, "kind": kind}
        )
    path = pending_path(project)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))


def put_entry(project: Project, when: str, title: str = "Run the linter", **fields: object) -> str:
    """Commit an entry that is due at a moment, and return its id."""
    entry = make_entry(7, title=title, when=when, **fields)
    text = (project.path / "MEMORY.md").read_text()
    project.commit("Remember when", {"MEMORY.md": f"{text}\n{format_entry(entry)}"})
    return entry.id


def put_moments(project: Project, *moments: TimedLine) -> None:
    save_timed_lines(project.path / ".git", moments)


def list_moments(project: Project) -> list[TimedLine]:
    return load_timed_lines(project.path / ".git")
