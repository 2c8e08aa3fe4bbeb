"""Notes of the inbox that somebody without write access to the repository committed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.gitrepo.history import FileVersion, list_versions
from memory_ci.memory.claims import change_of_tip
from memory_ci.records.history import Commit, MergedChange


def list_notes_of_outsiders(run: RecordRun, paths: Collection[str]) -> frozenset[str]:
    """Return the paths of notes that somebody without write access added or changed.

    Each note is followed along first parents back to the commit that added it.

    Args:
        run: the run.
        paths: the notes.

    Raises:
        EngineError: `forge-…` if the forge cannot be queried.
        RepositoryError: shallow-clone if history does not hold the addition.
    """
    outsiders_paths: set[str] = set()
    for version in _list_bringing_commits(run, paths):
        merged = change_of_tip(run.workspace, version.commit.sha)
        request = run.gatherer.find_request(merged)
        for commit in _list_commits_of_file(merged, version.path):
            if not run.gatherer.may_claim(commit, merged, request):
                outsiders_paths.add(version.path)
    return frozenset(outsiders_paths)


def _list_commits_of_file(merged: MergedChange, path: str) -> Sequence[Commit]:
    """Return the commits of a merged change that changed a file, without merges; else its tip."""
    commits: list[Commit] = []
    for commit in merged.commits:
        is_merge = len(commit.parents) > 1
        if not is_merge and any(file.path == path for file in commit.files):
            commits.append(commit)
    return commits or [merged.tip]


def _list_bringing_commits(run: RecordRun, paths: Collection[str]) -> list[FileVersion]:
    """Return the first-parent commits that changed one of the notes, each back to its addition."""
    if not paths:
        return []
    bringing: list[FileVersion] = []
    unfinished = set(paths)
    pathspecs = [f":(top,literal){path}" for path in paths]
    for version in list_versions(run.workspace.repo, run.base.sha, pathspecs):
        if version.path in unfinished:
            bringing.append(version)
            if _adds_or_deletes(version.commit, version.path):
                unfinished.remove(version.path)
        if not unfinished:
            break
    return bringing


def _adds_or_deletes(commit: Commit, path: str) -> bool:
    return any(file.path == path and file.status in "AD" for file in commit.files)
