"""Memory as it was: an index in memory of any commit, each file read once however many commits hold it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime

import msgspec

from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.gitrepo.history import (
    commit_time,
    find_commit_of_day,
    find_commit_until,
    resolve_merge_base,
    resolve_past,
)
from memory_ci.memory.index import load_indexed
from memory_ci.memory.workspace import Workspace, list_indexed_files, readable_path, workspace_at
from memory_ci.records.report import LoadedFile
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import Index

DAY = re.compile(r"\d{4}-\d\d-\d\d")


class PastMoment(msgspec.Struct, frozen=True):
    """A commit whose memory is asked (None: there was none yet), the day that counts as today, and what to say of it.
    `workspace` has the configuration in force."""

    workspace: Workspace
    commit: str | None
    today: date
    note: str


def find_moment(workspace: Workspace, at: str) -> PastMoment:
    """The moment that a revision or a day (`2026-09-01`, the end of it in UTC, along the first parents of HEAD) names.
    Raises RepositoryError: unknown-revision, shallow-clone."""
    day = None
    with suppress(ValueError):
        day = date.fromisoformat(at) if DAY.fullmatch(at) else None
    if day is None:
        commit = resolve_past(workspace.repo, at)
        day = commit_time(workspace.repo, commit).date()
        return PastMoment(workspace, commit, day, f"Memory of {commit[:12]}, ranked as on {day}.")
    found = find_commit_of_day(workspace.repo, "HEAD", day)
    note = (
        f"Memory of {found[:12]}, ranked as on {day}."
        if found
        else f"There was no commit yet on {day}, and no memory."
    )
    return PastMoment(workspace, found, day, note)


def find_instant(workspace: Workspace, at: datetime) -> PastMoment:
    """The moment of a time of day, along the first parents of HEAD. Raises RepositoryError (shallow-clone)."""
    when = at.astimezone(UTC)
    found = find_commit_until(workspace.repo, "HEAD", when)
    note = f"Memory of {found[:12]}" if found else "There was no commit yet, and no memory"
    return PastMoment(workspace, found, when.date(), f"{note}, as of {when:%Y-%m-%d %H:%M} UTC.")


def find_fork_point(workspace: Workspace, base: str, today: date) -> PastMoment:
    """Where HEAD left `base`: its memory and its configuration, for what a fork says of either is not reviewed yet.
    Raises RepositoryError: unknown-revision, unrelated-histories, shallow-clone."""
    commit = resolve_merge_base(workspace.repo, "HEAD", base)
    trusted = workspace_at(workspace.repo, commit)
    return PastMoment(
        trusted, commit, today, f"Memory of {commit[:12]}, where this branch left {base}."
    )


class Past:
    """Indexes of commits; a memory or episode file that several commits hold is read and screened once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._loaded: dict[TreeFile, LoadedFile] = {}

    @contextmanager
    def index(self, commit: str | None) -> Iterator[Index]:
        """The index of a commit, in memory; of None it is empty."""
        listed = list_indexed_files(self._workspace, commit) if commit else ()
        files = {readable_path(file): file for file in listed}
        with open_index(None) as index:
            sync(
                index,
                {path: file.oid for path, file in files.items()},
                lambda paths: self._load(files, paths),
            )
            yield index

    def _load(self, files: dict[str, TreeFile], paths: Collection[str]) -> list[LoadedFile]:
        wanted = [files[path] for path in sorted(paths)]
        fresh = [file for file in wanted if file not in self._loaded]
        by_path = {readable_path(file): file for file in fresh}
        self._loaded |= {
            by_path[loaded.path]: loaded for loaded in load_indexed(self._workspace, fresh)
        }
        return [self._loaded[file] for file in wanted]
