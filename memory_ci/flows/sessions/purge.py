"""Purge: captured sessions taken out of this repository, and of a remote."""

from __future__ import annotations

from collections.abc import Sequence

from memory_ci.errors import UsageError
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.sessionrefs import SESSIONS, StoredSession, delete, delete_remote, list_remote, list_stored

MIN_ID = 8
"""Characters that an id may be shortened to."""


def list_captured(workspace: Workspace) -> tuple[StoredSession, ...]:
    """The sessions that are kept in this repository."""
    return list_stored(workspace.repo)


def places_of(remote: str = "") -> tuple[str, ...]:
    """Where captured sessions are looked for, in words: here, and on `remote` if one is named."""
    return (SESSIONS, f"{SESSIONS} of {remote}") if remote else (SESSIONS,)


def purge(
    workspace: Workspace, ids: Sequence[str], *, every: bool = False, remote: str = "", dry_run: bool = False
) -> tuple[str, ...]:
    """Take sessions out of here, and of `remote` if one is named; the refs that are gone are returned.

    An id is `<agent>:<id>`, the id alone, or at least eight characters that it begins with. Raises UsageError
    (unknown-session) before anything is deleted, EngineError (remote-failed), RepositoryError (git-failed).
    """
    here = list_stored(workspace.repo)
    there = list_remote(workspace.repo, remote) if remote else {}
    refs = sorted({stored.ref for stored in here} | set(there))
    chosen = frozenset(refs) if every else frozenset(ref for id_ in ids for ref in _matching(refs, id_))
    if not dry_run:
        delete_remote(workspace.repo, remote, sorted(chosen & there.keys()))  # first: it may fail, and be tried again
        delete(workspace.repo, [stored for stored in here if stored.ref in chosen])
    return tuple(sorted(chosen))


def _matching(refs: Sequence[str], wanted: str) -> list[str]:
    agent, _, session_id = wanted.rpartition(":")
    parts = [(ref, *ref.split("/")[-2:]) for ref in refs]
    found = [ref for ref, of, id_ in parts if agent in ("", of) and _is_meant(id_, session_id)]
    if not found:
        hint = "`memory-ci sessions --captured` lists them."
        raise UsageError(f"no captured session is named {wanted!r}", slug="unknown-session", hint=hint)
    return found


def _is_meant(session_id: str, wanted: str) -> bool:
    return session_id == wanted or (len(wanted) >= MIN_ID and session_id.startswith(wanted))
