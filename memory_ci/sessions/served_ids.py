"""The record of the entries served since the last commit, and the commit trailer that lists them.

The record is kept in the git directory of the work tree, so that reading memory leaves the work
tree clean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from memory_ci.files import read_regular
from memory_ci.gitrepo.process import decode_path, encode_path
from memory_ci.gitrepo.repo import find_comment_prefixes, find_commit, find_setting
from memory_ci.memory.workspace import Workspace
from memory_ci.records.names import HOLDOUT_TRAILER, SERVED_TRAILER
from memory_ci.store.files import write_file

SURFACE_SETTING = "memory-ci.surface"
"""The setting of git in a cloud agent's container for the value of SURFACE_TRAILER."""

MAX_RECORD = 8 * 1024 * 1024  # Bytes; the entries served since a commit take a few kilobytes.
HELD_OUT_PREFIX = "holdout:"  # The prefix of the mark of a held-out session among the ids.


class RetrievalRecord(msgspec.Struct, frozen=True):
    """One retrieval.

    Attributes:
        head: the commit of HEAD.
        at: the time.
        ids: the ids of the entries that were served, or the mark of a held-out session.
    """

    head: str
    at: datetime
    ids: tuple[str, ...]


def record_path(workspace: Workspace) -> Path:
    """Return the path of the record of this work tree."""
    return workspace.repo.git_dir / "memory-ci" / "retrieved.jsonl"


def record_served(workspace: Workspace, ids: Iterable[str], now: datetime) -> None:
    """Add ids of served entries to the record, and drop those from before HEAD was committed.

    These are listed in a trailer already.

    Raises:
        RepositoryError: write-failed.
    """
    head = find_commit(workspace.repo, "HEAD") or ""
    records = _read(workspace, head)
    recorded = set(list_ids_without_trailer(workspace)) if records else set()
    new_ids = tuple(entry_id for entry_id in dict.fromkeys(ids) if entry_id not in recorded)
    if new_ids:
        records.append(RetrievalRecord(head, now, new_ids))
        lines = [msgspec.json.encode(record) + b"\n" for record in records]
        write_file(record_path(workspace), b"".join(lines))


def add_served_trailer(workspace: Workspace, message_file: Path, source: str = "") -> bool:
    """Add the ids of the entries served since the last commit to a commit message as a trailer.

    The trailer is `Memory-Retrieved`. Some sessions are served nothing, to compare them with the
    others (held out): their marks go to the trailer `Memory-Holdout`. `Memory-Surface` names the
    agent of a cloud container. A merge gets no trailer, because its commits have theirs. Ids that a
    commit of another branch, made from the same HEAD, lists already are left out.

    Args:
        workspace: the workspace.
        message_file: the file of the message.
        source: the kind of message that git names (githooks(5)).

    Returns:
        Whether there was anything to add.

    Raises:
        RepositoryError: write-failed.
    """
    ids = () if source == "merge" else list_ids_without_trailer(workspace)
    served_ids: list[str] = []
    held_out_marks: list[str] = []
    for entry_id in ids:
        if entry_id.startswith(HELD_OUT_PREFIX):
            held_out_marks.append(entry_id.removeprefix(HELD_OUT_PREFIX))
        else:
            served_ids.append(entry_id)

    has_holdout_trailer = add_trailer(workspace, message_file, HOLDOUT_TRAILER, held_out_marks)
    has_served_trailer = add_trailer(workspace, message_file, SERVED_TRAILER, served_ids)
    if has_served_trailer:
        surface = find_setting(workspace.repo, SURFACE_SETTING)
        if surface:
            from memory_ci.gitrepo.history import SURFACE_TRAILER

            add_trailer(workspace, message_file, SURFACE_TRAILER, [surface])
    return has_served_trailer or has_holdout_trailer


def list_ids_without_trailer(workspace: Workspace) -> tuple[str, ...]:
    """Return the ids served since HEAD was committed that no commit lists in a trailer yet.

    A commit of another branch, made from the same HEAD, may list some of them. Only the first id is
    searched for there: the commit that lists it also lists all other ids that were served before
    that commit. The mark of a session that was served nothing for comparison (held out) counts as
    an id.
    """
    records = _read(workspace, find_commit(workspace.repo, "HEAD") or "")
    if records and records[0].ids:
        first_id = records[0].ids[0]
        if first_id.startswith(HELD_OUT_PREFIX):
            trailer = f"{HOLDOUT_TRAILER}: {first_id.removeprefix(HELD_OUT_PREFIX)}"
        else:
            trailer = f"{SERVED_TRAILER}: {first_id}"
        from memory_ci.gitrepo.history import find_unmerged_mention

        listed_at = find_unmerged_mention(workspace.repo, trailer)
        if listed_at is not None:
            # The date of a commit has no fractions of a second.
            records = [record for record in records if record.at.replace(microsecond=0) > listed_at]
    ids: dict[str, None] = {}  # a dict, because it keeps the order
    for record in records:
        ids.update(dict.fromkeys(record.ids))
    return tuple(ids)


def add_trailer(workspace: Workspace, message_file: Path, key: str, ids: Sequence[str]) -> bool:
    """Add ids to a trailer of a commit message, after those that it has.

    A message without text of its own stays empty, so that git can still abort the commit.
    The file is written without `git interpret-trailers`, which runs commands of the user's
    configuration and takes `---` for the end.

    Returns:
        Whether there was anything to add.

    Raises:
        RepositoryError: write-failed.
    """
    if not ids:
        return False
    from memory_ci.gitrepo.trailers import add_ids

    before = decode_path(message_file.read_bytes())
    after = add_ids(before, key, ids, find_comment_prefixes(workspace.repo))
    if after is not None and after != before:
        write_file(message_file, encode_path(after))
    return after is not None


def _read(workspace: Workspace, head: str) -> list[RetrievalRecord]:
    """Return the retrievals that were recorded while HEAD was the commit `head`.

    A damaged line is ignored.
    """
    try:
        lines = read_regular(record_path(workspace), MAX_RECORD).splitlines()
    except OSError:
        return []
    records = []
    for line in lines:
        with suppress(msgspec.DecodeError):
            record = msgspec.json.decode(line, type=RetrievalRecord)
            if record.head == head:
                records.append(record)
    return records
