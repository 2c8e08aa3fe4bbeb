"""Functions that write commits, and check the state of the repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.repo import Repository
from memory_ci.gitrepo.writer import Identity, PlannedCommit, commit_series
from tests.repos import RepoBuilder

MAIN = "refs/heads/main"
BOT = Identity("memory-ci", "memory-ci@example.com")
WHEN = datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=5, minutes=30)))


def series(*commits: Mapping[str, bytes | None]) -> list[PlannedCommit]:
    return [
        PlannedCommit(files, f"memory: step {number}\n") for number, files in enumerate(commits, 1)
    ]


def write(
    repo: Repository,
    commits: Sequence[PlannedCommit],
    *,
    ref: str = MAIN,
    expected: str | None = None,
) -> str:
    """Write commits to a ref, by default from its current commit, and return the new tip."""
    base = expected or RepoBuilder(repo.cwd).sha(ref)
    return commit_series(repo, ref=ref, expected=base, commits=commits, identity=BOT, when=WHEN)


def state(builder: RepoBuilder) -> tuple[str, ...]:
    """Return everything that a failed write must not change: refs, index, status and files of the work tree."""
    files = sorted(p for p in builder.path.rglob("*") if p.is_file() and ".git" not in p.parts)
    return (
        builder.git("for-each-ref"),
        builder.git("ls-files", "-s", "-t"),
        builder.git("status", "--porcelain=v2"),
        *(f"{path} {path.read_bytes()!r}" for path in files),
    )


def refused(repo: Repository, commits: Sequence[PlannedCommit], **more: str) -> RepositoryError:
    """Return the error of a write, and check that refs, index and work tree are unchanged."""
    builder = RepoBuilder(repo.root or repo.git_dir)
    before = state(builder)
    with pytest.raises(RepositoryError) as failure:
        write(repo, commits, **more)
    assert state(builder) == before
    return failure.value
