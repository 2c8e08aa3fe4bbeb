"""Tombstones (hashes of forgotten text): lines of `.memory/rejected.txt`, and a copy of them.

The copy is next to the index. It applies to every work tree and branch of a clone, so that an older
branch cannot add the text again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memory_ci.files import read_regular
from memory_ci.memory.workspace import Snapshot, Workspace
from memory_ci.records.entry import Located
from memory_ci.records.report import Finding

if TYPE_CHECKING:
    from memory_ci.extraction.tombstones import Tombstones

REJECTED_FILE = ".memory/rejected.txt"
HEADER = (
    "# What a person declined, by a hash of what it says. "
    "Take a line out, and it is proposed again.\n"
)
MAX_BYTES = 16 * 1024 * 1024
"""Size of the largest file of tombstones that is read; a line has about 80 bytes."""

HINT = "Reword it; `memory-ci help reviewing` says how to take it back."


def copy_path(workspace: Workspace) -> Path:
    """Return the path of the copy of the tombstones next to the index."""
    return workspace.repo.common_dir / "memory-ci" / "forgotten.txt"


def read_rejected(snapshot: Snapshot) -> list[str]:
    """Return the lines of REJECTED_FILE at a commit, without comments."""
    data = snapshot.read([REJECTED_FILE]).get(REJECTED_FILE, b"")
    return parse_rejected(data.decode("utf-8", "replace"))


def read_rejected_here(workspace: Workspace) -> list[str]:
    """Return the lines of REJECTED_FILE in the work tree, without comments."""
    root = workspace.repo.root
    return parse_rejected("\n".join(_read_lines(root / REJECTED_FILE))) if root else []


def parse_rejected(text: str) -> list[str]:
    """Return the lines of a REJECTED_FILE without comments."""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def read_tombstones_at(snapshot: Snapshot) -> Tombstones:
    """Return the tombstones of a commit and of this clone."""
    from memory_ci.extraction.tombstones import parse_tombstones

    copied_lines = _read_lines(copy_path(snapshot.workspace))
    return parse_tombstones([*read_rejected(snapshot), *copied_lines])


def read_tombstones_here(workspace: Workspace) -> Tombstones:
    """Return the tombstones of the work tree and of this clone."""
    from memory_ci.extraction.tombstones import parse_tombstones

    return parse_tombstones(_list_lines_here(workspace))


def find_forgotten_here(workspace: Workspace, located_entry: Located) -> list[Finding]:
    """Return a finding if an entry has a text that was forgotten in the work tree or this clone."""
    if not _list_lines_here(workspace):
        return []
    return find_forgotten(read_tombstones_here(workspace), located_entry)


def _list_lines_here(workspace: Workspace) -> list[str]:
    """Return the lines of the tombstones of the work tree and of this clone."""
    lines: list[str] = []
    if workspace.repo.root:
        lines += _read_lines(workspace.repo.root / REJECTED_FILE)
    return lines + _read_lines(copy_path(workspace))


def find_forgotten(tombstones: Tombstones, located_entry: Located) -> list[Finding]:
    """Return a finding, which does not repeat the text, if an entry has a forgotten text.

    Args:
        tombstones: hashes of the forgotten texts.
        located_entry: the entry and where it is.
    """
    if not tombstones:
        return []
    # Imported here because it takes 10 ms, and most repositories have no tombstones.
    from memory_ci.extraction.entries import list_texts

    if not tombstones.refuses(*list_texts(located_entry.entry)):
        return []
    return [
        Finding(
            located_entry.path,
            located_entry.line,
            "forgotten",
            "repeats a text that people had forgotten",
            HINT,
        )
    ]


def _read_lines(path: Path) -> list[str]:
    try:
        return read_regular(path, MAX_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
