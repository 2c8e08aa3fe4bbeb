"""Memory as it was in a past commit: which commit a time means, and a search index of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from functools import partial

import msgspec

from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.gitrepo.log import read_commit_time
from memory_ci.gitrepo.past import (
    find_commit_of_day,
    find_commit_until,
    resolve_merge_base,
    resolve_past,
)
from memory_ci.memory.index import load_indexed
from memory_ci.memory.workspace import Workspace, list_indexed_files, readable_path, workspace_at
from memory_ci.records.report import LoadedFile
from memory_ci.regex import Regex
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import Index

DAY = Regex(r"\d{4}-\d\d-\d\d")


class PastMoment(msgspec.Struct, frozen=True):
    """A point in history whose memory is queried.

    Attributes:
        workspace: the repository with the configuration in force.
        commit: the commit; None if there was none yet.
        today: the day by which entries are ranked.
        note: a sentence about it for the output.
    """

    workspace: Workspace
    commit: str | None
    today: date
    note: str


def find_moment(workspace: Workspace, at: str) -> PastMoment:
    """Return the moment that a revision or a day means, as a commit and a day.

    Args:
        workspace: the repository.
        at: a revision, or a day (`2026-09-01`). A day means its end in UTC, along the first
            parents of HEAD.

    Raises:
        RepositoryError: unknown-revision, shallow-clone.
    """
    day = _parse_day(at)
    commit: str | None
    if day is None:
        commit = resolve_past(workspace.repo, at)
        day = read_commit_time(workspace.repo, commit).date()
    else:
        commit = find_commit_of_day(workspace.repo, "HEAD", day)

    note = f"There was no commit yet on {day}, and no memory."
    if commit:
        note = f"Memory of {commit[:12]}, ranked as on {day}."
    return PastMoment(workspace, commit, day, note)


def _parse_day(text: str) -> date | None:
    if not DAY.fullmatch(text):
        return None
    with suppress(ValueError):
        return date.fromisoformat(text)
    return None


def find_instant(workspace: Workspace, at: datetime) -> PastMoment:
    """Return the last commit before a time, along the first parents of HEAD.

    Raises:
        RepositoryError: shallow-clone.
    """
    time = at.astimezone(UTC)
    commit = find_commit_until(workspace.repo, "HEAD", time)
    note = f"Memory of {commit[:12]}" if commit else "There was no commit yet, and no memory"
    return PastMoment(workspace, commit, time.date(), f"{note}, as of {time:%Y-%m-%d %H:%M} UTC.")


def find_fork_point(workspace: Workspace, base: str, today: date) -> PastMoment:
    """Return the commit at which HEAD left a branch, with its memory and its configuration.

    Memory and configuration of HEAD itself are not reviewed yet, so they are not used.

    Args:
        workspace: the repository.
        base: the branch that HEAD left.
        today: the day by which entries are ranked.

    Raises:
        RepositoryError: unknown-revision, unrelated-histories, shallow-clone.
    """
    commit = resolve_merge_base(workspace.repo, "HEAD", base)
    trusted = workspace_at(workspace.repo, commit)
    note = f"Memory of {commit[:12]}, where this branch left {base}."
    return PastMoment(trusted, commit, today, note)


class PastIndexes:
    """Indexes of several commits.

    A memory or episode file that several commits have is read and screened once.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._loaded: dict[TreeFile, LoadedFile] = {}

    @contextmanager
    def open(self, commit: str | None) -> Iterator[Index]:
        """Open a search index of a commit's memory, which is in main memory only.

        Args:
            commit: the commit; without one the index is empty.
        """
        tree_files = list_indexed_files(self._workspace, commit) if commit else ()
        file_by_path = {readable_path(file): file for file in tree_files}
        oid_by_path = {path: file.oid for path, file in file_by_path.items()}
        with open_index(None) as index:
            sync(index, oid_by_path, load=partial(self._load, file_by_path))
            yield index

    def _load(self, files: Mapping[str, TreeFile], paths: Collection[str]) -> list[LoadedFile]:
        """Return the content of files, and read those that no other commit had before.

        Args:
            files: the files of the commit by path.
            paths: the paths of those that are returned.
        """
        wanted_files = [files[path] for path in sorted(paths)]
        new_files = [file for file in wanted_files if file not in self._loaded]
        files_by_path = {readable_path(file): file for file in new_files}
        for loaded in load_indexed(self._workspace, new_files):
            self._loaded[files_by_path[loaded.path]] = loaded
        return [self._loaded[file] for file in wanted_files]
