"""Notes of the inbox that somebody without write access brought."""

from __future__ import annotations

from collections.abc import Collection

from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.gitrepo.history import list_versions
from memory_ci.memory.claims import change_of_tip
from memory_ci.records.history import Commit


def list_strangers(run: RecordRun, paths: Collection[str]) -> frozenset[str]:
    """The notes that an outsider added or changed: by the first-parent commits that did, back to the one that added it.
    Raises EngineError where the forge cannot be asked, RepositoryError (shallow-clone) where history does not hold
    it."""
    brought: list[tuple[str, Commit]] = []
    waiting = set(paths)
    repo = run.workspace.repo
    versions = (
        list_versions(repo, run.base.sha, [f":(top,literal){path}" for path in paths])
        if paths
        else ()
    )
    for version in versions:
        if version.path in waiting:
            brought.append((version.path, version.commit))
            if any(
                file.path == version.path and file.status in "AD" for file in version.commit.files
            ):
                waiting.remove(version.path)
        if not waiting:
            break
    strange: set[str] = set()
    for path, tip in brought:
        merged = change_of_tip(run.workspace, tip.sha)
        request = run.gatherer.find_request(merged)
        own = [
            one
            for one in merged.commits
            if len(one.parents) < 2 and any(file.path == path for file in one.files)
        ]
        if not all(run.gatherer.may_claim(one, merged, request) for one in own or [merged.tip]):
            strange.add(path)
    return frozenset(strange)
