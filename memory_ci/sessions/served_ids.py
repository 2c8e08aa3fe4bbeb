"""The retrieval record: which entries the work since the last commit was given, and the trailer that lists them.

It is kept in the git directory of the work tree, so that reading memory leaves the work tree clean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from memory_ci.files import read_regular
from memory_ci.gitrepo.history import SURFACE, find_told
from memory_ci.gitrepo.process import decode_path, encode_path
from memory_ci.gitrepo.repo import find_comment_prefixes, find_commit, find_setting
from memory_ci.gitrepo.trailers import add_ids
from memory_ci.memory.workspace import Workspace
from memory_ci.records.names import HOLDOUT, SERVED
from memory_ci.store.files import write_file

SURFACE_SETTING = "memory-ci.surface"
"""Where git of a cloud agent's container keeps the agent's name, which the trailer SURFACE repeats."""
MAX_RECORD = 8 * 1024 * 1024  # Bytes; what was served since the last commit takes a few kilobytes.
HELD_OUT = "holdout:"  # How the mark of a session that is given nothing stands among the ids.


class RetrievalRecord(msgspec.Struct, frozen=True):
    """One retrieval: the commit that HEAD was at, when, and the ids that were injected."""

    head: str
    at: datetime
    ids: tuple[str, ...]


def record_path(workspace: Workspace) -> Path:
    """The record of this work tree."""
    return workspace.repo.git_dir / "memory-ci" / "retrieved.jsonl"


def record_injected(workspace: Workspace, ids: Iterable[str], now: datetime) -> None:
    """Add ids to the record. What was noted before an earlier commit is dropped: that commit has carried it. Raises
    RepositoryError (write-failed)."""
    head = find_commit(workspace.repo, "HEAD") or ""
    kept = _read(workspace, head)
    known = set(list_untold(workspace)) if kept else set()
    fresh = tuple(entry_id for entry_id in dict.fromkeys(ids) if entry_id not in known)
    if fresh:
        lines = [
            msgspec.json.encode(record) + b"\n"
            for record in (*kept, RetrievalRecord(head, now, fresh))
        ]
        write_file(record_path(workspace), b"".join(lines))


def add_retrieved_trailer(workspace: Workspace, message_file: Path, source: str = "") -> bool:
    """Put the record into a commit message as a `Memory-Retrieved` trailer, or `Memory-Holdout` for a session that was
    given nothing; whether there was anything to put.

    `source` is the kind of message that git names (githooks(5)). A merge gets no trailer: its commits have theirs. Ids
    that a commit of another branch, made from the same HEAD, lists already are left out: the work was done there.

    Raises RepositoryError (write-failed).
    """
    ids = () if source == "merge" else list_untold(workspace)
    held_out = [one.removeprefix(HELD_OUT) for one in ids if one.startswith(HELD_OUT)]
    is_held_out = add_trailer(workspace, message_file, HOLDOUT, held_out)
    is_given = add_trailer(
        workspace, message_file, SERVED, [one for one in ids if not one.startswith(HELD_OUT)]
    )
    if is_given and (surface := find_setting(workspace.repo, SURFACE_SETTING)):
        add_trailer(workspace, message_file, SURFACE, [surface])
    return is_given or is_held_out


def list_untold(workspace: Workspace) -> tuple[str, ...]:
    """The ids that were given since HEAD was committed, without those that a commit beside it lists."""
    records = _read(workspace, find_commit(workspace.repo, "HEAD") or "")
    first = f"{SERVED}: {records[0].ids[0]}" if records and records[0].ids else ""
    told = (
        find_told(workspace.repo, first.replace(f"{SERVED}: {HELD_OUT}", f"{HOLDOUT}: "))
        if first
        else None
    )
    waiting = [one for one in records if told is None or one.at.replace(microsecond=0) > told]
    return tuple(dict.fromkeys(entry_id for record in waiting for entry_id in record.ids))


def add_trailer(workspace: Workspace, message_file: Path, key: str, ids: Sequence[str]) -> bool:
    """Put ids into a commit message as a trailer, beside those that it has; whether there was anything to put.

    A message without any text of its own stays empty: git must still be able to abort the commit. The file is written
    without `git interpret-trailers`, which runs commands of the user's configuration and takes `---` for the end.

    Raises RepositoryError (write-failed).
    """
    if not ids:
        return False
    before = decode_path(message_file.read_bytes())
    after = add_ids(before, key, ids, find_comment_prefixes(workspace.repo))
    if after is not None and after != before:
        write_file(message_file, encode_path(after))
    return after is not None


def _read(workspace: Workspace, head: str) -> list[RetrievalRecord]:
    """The records that were noted at `head`; a damaged line is passed over."""
    try:
        lines = read_regular(record_path(workspace), MAX_RECORD).splitlines()
    except OSError:
        return []
    records = []
    for line in lines:
        with suppress(msgspec.DecodeError):
            records.append(msgspec.json.decode(line, type=RetrievalRecord))
    return [record for record in records if record.head == head]
