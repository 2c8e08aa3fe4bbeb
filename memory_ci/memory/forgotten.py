"""What was forgotten: the tombstones among the lines of `.memory/rejected.txt`, and their copy beside the index.

The copy holds for every work tree and branch of a clone: one that was begun before must not bring it back.
"""

from __future__ import annotations

from pathlib import Path

from memory_ci.extraction.tombstones import Tombstones, parse_tombstones
from memory_ci.files import read_regular
from memory_ci.memory.workspace import Snapshot, Workspace
from memory_ci.records.entry import Located
from memory_ci.records.report import Finding

REJECTED_FILE = ".memory/rejected.txt"
HEADER = "# What a person declined, by a hash of what it says. Take a line out, and it is proposed again.\n"
MAX_BYTES = 16 * 1024 * 1024  # Of a file of tombstones; a line has about 80.
HINT = "Reword it; `memory-ci help forgetting` says how to take it back."


def copy_path(workspace: Workspace) -> Path:
    """Where the tombstones of this clone are kept beside the index."""
    return workspace.repo.common_dir / "memory-ci" / "forgotten.txt"


def read_rejected(snapshot: Snapshot) -> list[str]:
    """The lines of REJECTED_FILE that say what was rejected."""
    return parse_rejected(
        snapshot.read([REJECTED_FILE]).get(REJECTED_FILE, b"").decode("utf-8", "replace")
    )


def parse_rejected(text: str) -> list[str]:
    """The lines of a REJECTED_FILE that say what was rejected."""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def tombstones_at(snapshot: Snapshot) -> Tombstones:
    """What a commit says, and what this clone forgot."""
    return parse_tombstones([*read_rejected(snapshot), *_lines_of(copy_path(snapshot.workspace))])


def tombstones_here(workspace: Workspace) -> Tombstones:
    """What the work tree says, and what this clone forgot."""
    root = workspace.repo.root
    paths = (*([root / REJECTED_FILE] if root else []), copy_path(workspace))
    return parse_tombstones(line for path in paths for line in _lines_of(path))


def find_forgotten(forgotten: Tombstones, place: Located) -> list[Finding]:
    """A finding on an entry that says what was forgotten. It does not repeat it."""
    if not forgotten:
        return []
    from memory_ci.extraction.entries import (
        list_texts,
    )  # 10 ms that a repository which forgot nothing saves

    if not forgotten.refuses(*list_texts(place.entry)):
        return []
    return [Finding(place.path, place.line, "forgotten", "says what was to be forgotten", HINT)]


def _lines_of(path: Path) -> list[str]:
    try:
        return read_regular(path, MAX_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
