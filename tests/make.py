"""Functions that make records with default values; a test names only the fields that matter to it."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from typing import Any

from hypothesis import settings

from memory_ci.records.entry import Entry, Located, ScopeName, ScopeOf
from memory_ci.records.history import Commit, FileChange, MergedChange
from memory_ci.store.edits import format_entry
from memory_ci.store.frontmatter import CONVERTERS, format_field

ID = "0f6f1f0e-5f0a-4c55-9c0b-3f3a0c2f9d11"


def examples(most: int) -> settings:
    """Return hypothesis settings: half of `most` examples in CI, a fifth of them on a developer's machine.

    CI tries the same examples each time, so that further ones would find nothing after the first time.
    """
    part = most // 2 if os.environ.get("CI") else most // 5
    return settings(max_examples=min(most, max(part, 10)))


def make_id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def make_entry(number: int = 1, **fields: Any) -> Entry:
    """Return an entry with an id made from its number."""
    defaults: dict[str, Any] = {
        "id": make_id(number),
        "type": "procedural",
        "domain": "task",
        "importance": 0.5,
        "reinforcement_count": 0,
        "last_reinforced": date(2026, 9, 1),
        "status": "active",
        "title": f"Learning number {number}",
    }
    return Entry(**defaults | fields)


def format_all_keys(entry: Entry) -> str:
    """Return the text of an entry as version 0.2 wrote it, with the keys that have their default."""
    head = [line for key in CONVERTERS for line in format_field(key, getattr(entry, key))]
    _, below = format_entry(entry).split("\n---\n", 1)
    return "\n".join(["---", *head, "---", below])


def make_located(
    number: int = 1,
    path: str = "MEMORY.md",
    scope: ScopeName = "project",
    where: str = "",
    **fields: Any,
) -> Located:
    """Return an entry with its place: the file, the line and the scope."""
    return Located(make_entry(number, **fields), path, 1, ScopeOf(scope, where))


def make_commit(
    message: str = "work", sha: str = "a" * 40, paths: tuple[str, ...] = (), **fields: Any
) -> Commit:
    """Return a commit that modifies paths."""
    defaults: dict[str, Any] = {
        "sha": sha,
        "parents": ("b" * 40,),
        "author": "Ada",
        "email": "ada@example.com",
        "authored_at": datetime(2026, 9, 1, 12, tzinfo=UTC),
        "committed_at": datetime(2026, 9, 1, 12, tzinfo=UTC),
        "message": message,
        "files": tuple(FileChange("M", path) for path in paths),
    }
    return Commit(**defaults | fields)


def make_change(*commits: Commit, **fields: Any) -> MergedChange:
    """Return a merged change of these commits, by default one."""
    members = commits or (make_commit(),)
    defaults: dict[str, Any] = {
        "kind": "direct",
        "tip": members[-1],
        "commits": members,
        "title": members[-1].subject,
    }
    return MergedChange(**defaults | fields)
