"""Repeated requests and failures that nobody agreed to yet, as hooks read them.

`sessions.repetitions` writes the list into the git directory.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from memory_ci.files import read_regular
from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import Entry

MAX_FILE = 1_000_000  # Bytes of the list in the git directory.
FILE = "repeated.json"


class PendingLine(msgspec.Struct, frozen=True):
    """A repeated request or failure that is not agreed yet, as hooks read it.

    Attributes:
        key: the content key of its candidate.
        text: the line.
        when: its moment, as `records.entry.MOMENT`.
        kind: a request or a failure.
    """

    key: str
    text: str
    when: str
    kind: str


def pending_path(workspace: Workspace) -> Path:
    """Return the path of the list."""
    return workspace.repo.common_dir / "memory-ci" / FILE


def load_pending(workspace: Workspace) -> list[PendingLine]:
    """Return the list of proposals that the last run wrote, empty if it cannot be read."""
    with suppress(OSError, ValueError, RecursionError, msgspec.DecodeError):
        data = read_regular(pending_path(workspace), MAX_FILE)
        return msgspec.json.decode(data, type=list[PendingLine])
    return []


def list_unanswered(workspace: Workspace, entries: Iterable[Entry]) -> list[PendingLine]:
    """Return the proposed requests and failures that nobody has answered since they were written.

    Left out are proposals that are in memory, that a person declined, or that are unfit to be
    served.

    Args:
        workspace: the repository; with `extraction.repeated: off` the list is empty.
        entries: the entries of the work tree.
    """
    if workspace.config.extraction.repeated == "off":
        return []
    pending = load_pending(workspace)
    if not pending:
        return []
    # Most repositories have no such line, and no use for what compares them.
    from memory_ci.extraction.entries import compute_content_key
    from memory_ci.memory.forgotten import read_rejected_here
    from memory_ci.memory.screening import is_unfit

    entries = tuple(entries)
    answered_keys = {compute_content_key(entry.title, entry.body) for entry in entries}
    answered_keys.update(line.split()[0] for line in read_rejected_here(workspace))
    unanswered = []
    for line in pending:
        is_answered = line.key in answered_keys or _is_covered(line, entries)
        if not is_answered and not is_unfit(line.text):
            unanswered.append(line)
    return unanswered


def _is_covered(line: PendingLine, entries: Iterable[Entry]) -> bool:
    """Return whether an entry says the same as a line, maybe in other words."""
    if line.kind == "failure":
        return any(entry.when == line.when for entry in entries)
    from memory_ci.repetition.clauses import read_clause
    from memory_ci.repetition.requests import is_same_request

    terms = tuple(read_clause(line.text).terms)
    return any(
        entry.type == "directive" and is_same_request(terms, entry.title) for entry in entries
    )
