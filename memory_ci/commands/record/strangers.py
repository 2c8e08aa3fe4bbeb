"""Notes of the inbox that somebody without write access brought."""

from __future__ import annotations

from collections.abc import Collection

from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.gitrepo.history import list_versions
from memory_ci.memory.claims import change_of_tip
from memory_ci.records.history import Commit


def list_strangers(run: RecordRun, paths: Collection[str]) -> frozenset[str]:
    """Return the paths of notes that somebody without write access added or changed.

    Each note is followed along first parents back to the commit that added it.

    Args:
        run: the run.
        paths: the notes.

    Raises:
        EngineError: `forge-…` if the forge cannot be queried.
        RepositoryError: shallow-clone if history does not hold the addition.
    """
    strange_paths: set[str] = set()
    for path, tip in _list_bringing_commits(run, paths):
        merged = change_of_tip(run.workspace, tip.sha)
        request = run.gatherer.find_request(merged)
        commits = [
            commit
            for commit in merged.commits
            if len(commit.parents) < 2 and any(file.path == path for file in commit.files)
        ]
        for commit in commits or [merged.tip]:
            if not run.gatherer.may_claim(commit, merged, request):
                strange_paths.add(path)
    return frozenset(strange_paths)


def _list_bringing_commits(run: RecordRun, paths: Collection[str]) -> list[tuple[str, Commit]]:
    """Return each first-parent commit that added or changed a note, with the note's path."""
    if not paths:
        return []
    bringing: list[tuple[str, Commit]] = []
    waiting = set(paths)
    pathspecs = [f":(top,literal){path}" for path in paths]
    for version in list_versions(run.workspace.repo, run.base.sha, pathspecs):
        if version.path in waiting:
            bringing.append((version.path, version.commit))
            if _adds_or_deletes(version.commit, version.path):
                waiting.remove(version.path)
        if not waiting:
            break
    return bringing


def _adds_or_deletes(commit: Commit, path: str) -> bool:
    return any(file.path == path and file.status in "AD" for file in commit.files)
