"""Earlier states of a branch: the commit that a day or a name stands for, and where two histories met."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.log import read_log
from memory_ci.gitrepo.merges import find_merge_base
from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.repo import Repository, find_commit, is_shallow, resolve_commit

EPOCH = date(1970, 1, 1)
"""No commit is older; git takes the date of an older day for no date at all, and that for now."""


def resolve_past(repo: Repository, rev: str) -> str:
    """The commit that `rev` names. Raises RepositoryError: unknown-revision, or shallow-clone if it may be cut off."""
    commit = find_commit(repo, rev)
    if commit is None and is_shallow(repo):
        raise _cut_off(repo, f"{rev!r} is not in it")
    return commit or resolve_commit(repo, rev)


def find_commit_of_day(repo: Repository, rev: str, day: date) -> str | None:
    """The newest first-parent commit of `rev` that was made on `day` (UTC) or earlier; None before the first.

    Raises RepositoryError (shallow-clone) when history ends before that day is reached.
    """
    return find_commit_until(repo, rev, datetime.combine(day, time.max, UTC))


def find_commit_until(repo: Repository, rev: str, moment: datetime) -> str | None:
    """The newest first-parent commit of `rev` that was made at `moment` or earlier; None before the first.

    Raises RepositoryError (shallow-clone) when history ends before that moment is reached.
    """
    tip = find_commit(repo, rev)
    if tip is None or moment.date() < EPOCH:
        return None
    asked = ("--first-parent", "-n1", f"--before=@{int(moment.timestamp())} +0000", tip, "--")
    found = run_git(repo.cwd, "rev-list", *asked).decode().strip() or None
    if found is None and is_shallow(repo):
        raise _cut_off(repo, f"it does not reach back to {moment:%Y-%m-%d}")
    return found


def commit_time(repo: Repository, sha: str) -> datetime:
    """When a commit was made, in UTC."""
    ((commit, _),) = read_log(repo, "--no-walk", "--end-of-options", sha)
    return commit.committed_at.astimezone(UTC)


def resolve_merge_base(repo: Repository, one: str, other: str) -> str:
    """Where two histories met. Raises RepositoryError: unknown-revision, unrelated-histories, shallow-clone."""
    base = find_merge_base(repo, resolve_past(repo, one), resolve_past(repo, other))
    if base is not None:
        return base
    if is_shallow(repo):
        raise _cut_off(repo, f"it does not hold where {one} and {other} met")
    message = f"{one} and {other} have no commit in common"
    raise RepositoryError(message, slug="unrelated-histories", hint="Name the branch that the work was started from.")


def _cut_off(repo: Repository, why: str) -> RepositoryError:
    hint = "Fetch all of it: `git fetch --unshallow`, or `fetch-depth: 0` for actions/checkout."
    return RepositoryError(f"the clone at {repo.cwd} is shallow: {why}", slug="shallow-clone", hint=hint)
