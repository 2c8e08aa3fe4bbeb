"""The memory that a retrieval searches, and what the caller's session was served before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING

import msgspec

from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.errors import UsageError
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.memory.index import synced_index
from memory_ci.memory.workspace import Workspace, index_path
from memory_ci.records.report import Finding
from memory_ci.search.database import Index

if TYPE_CHECKING:
    from memory_ci.sessions.session_note import ServedItem


class MemoryView(msgspec.Struct, frozen=True):
    """The memory of a work tree or of a commit.

    Attributes:
        today: the day on which its entries are ranked.
        commit: the commit in which cited code is judged; None is the work tree.
        note: a sentence for the caller on which memory this is.
    """

    workspace: Workspace
    today: date
    index: Index
    commit: str | None = None
    note: str = ""


class CallerSession(msgspec.Struct, frozen=True):
    """The items that the caller's session was served before.

    Attributes:
        held_out: the mark of a session that is served nothing, to measure the effect of memory
            (`retrieve.holdout`); "" for other sessions.
        served_fingerprints: fingerprints of these items; None if items may be served again.
    """

    held_out: str = ""
    served_fingerprints: frozenset[str] | None = None

    def is_new(self, item: ServedItem) -> bool:
        """Return whether the session was not served an item; a path means the memory about it."""
        if self.served_fingerprints is None:
            return True
        from memory_ci.sessions.session_note import compute_fingerprint

        return compute_fingerprint(item) not in self.served_fingerprints


def load_session(workspace: Workspace, options: RetrieveOptions) -> CallerSession:
    """Return which items the caller's session was served before, and whether it is held out.

    A session that is held out is served nothing, so that sessions with and without memory can be
    compared. Without a session, or if the caller asks for all matches or for the memory of another
    moment, nothing counts as served and no session is held out.
    """
    if options.session is None or options.all_matches or asks_for_other_memory(options):
        return CallerSession()
    from memory_ci.sessions.session_note import (
        hash_session_id,
        is_held_out,
        list_served_fingerprints,
    )

    mark = hash_session_id(options.session)
    held_out = mark if is_held_out(mark, workspace.config.retrieve.holdout) else ""
    return CallerSession(held_out, list_served_fingerprints(workspace, options.session))


def asks_for_other_memory(options: RetrieveOptions) -> bool:
    """Return whether another memory than that of the work tree is searched."""
    return options.at is not None or options.base is not None


@contextmanager
def open_view(workspace: Workspace, options: RetrieveOptions, today: date) -> Iterator[MemoryView]:
    """Open the memory of the work tree, of an earlier moment, or of where a fork began.

    Its index is open inside the block.

    Args:
        workspace: the repository and its configuration.
        options: have the moment (`at`) or the start of the fork (`base`).
        today: the day that counts as today for the present memory.

    Raises:
        RepositoryError: unknown-revision, shallow-clone, unrelated-histories.
        UsageError: option-conflict.
    """
    if options.at is not None and options.base is not None:
        hint = (
            "--at names an earlier state of this branch, "
            "--base what a fork's branch was started from."
        )
        raise UsageError("--at and --base exclude each other", slug="option-conflict", hint=hint)
    if not asks_for_other_memory(options):
        with synced_index(workspace) as index:
            yield MemoryView(workspace, today, index)
        return

    # Imported here, for it takes 15 ms.
    from memory_ci.memory.past_index import PastIndexes, find_fork_point, find_moment

    if options.at:
        moment = find_moment(workspace, options.at)
        commit = moment.commit
    else:
        moment = find_fork_point(workspace, options.base or "", today)
        commit = None
    with PastIndexes(moment.workspace).open(moment.commit) as index:
        yield MemoryView(moment.workspace, moment.today, index, commit, moment.note)


def resolve_tree(view: MemoryView, options: RetrieveOptions) -> str | None:
    """Return the revision in which cited code is judged; None is the work tree."""
    if options.tree is None:
        return view.commit
    resolve_commit(view.workspace.repo, options.tree)
    return options.tree


def warn_of_lost_index(view: MemoryView) -> tuple[Finding, ...]:
    """Return a warning if the index could not be saved: the next retrieval must build it again."""
    if not view.index.is_temporary or not view.index.reason:
        return ()
    return (
        Finding(
            path=str(index_path(view.workspace)),
            line=1,
            code="index-not-kept",
            message=f"the index could not be kept: {view.index.reason}",
            hint="Check the rights and the space there.",
            level="warning",
        ),
    )
