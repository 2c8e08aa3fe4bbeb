"""Find commits of a branch by date or age, and the merge base of two revisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.history import FETCH_HINT, HistoryRange, plan_range
from memory_ci.gitrepo.process import run_git, stream_git
from memory_ci.gitrepo.repo import (
    Repository,
    cache_ancestor,
    find_commit,
    find_merge_base,
    is_shallow,
    resolve_commit,
)
from memory_ci.regex import Regex

# An age: `90d`, `6m`.
AGE = Regex(r"(?P<count>\d{1,4})(?P<unit>[dwmy])")
DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
EPOCH = date(1970, 1, 1)
"""No commit is older. Git takes an earlier date for a missing one, and uses the current time."""


def find_range_start(repo: Repository, since: str, tip: str, today: date) -> str | None:
    """Return the id of the commit after which a range begins; `since` names it or is an age.

    Args:
        repo: the repository.
        since: a revision, or an age in days, weeks, months or years (`90d`).
        tip: the commit along whose first parents an age is looked up.
        today: the day from which an age counts.

    Returns:
        The id of the commit; None where all of history is younger than the age.

    Raises:
        RepositoryError: unknown-revision, shallow-clone.
    """
    if AGE.fullmatch(since) is None:
        return resolve_commit(repo, since)
    first_day = _find_first_day(since, today)
    return find_commit_until(repo, tip, datetime.combine(first_day, time.min, UTC))


def plan_newest(repo: Repository, tip: str, age: str, today: date, limit: int) -> HistoryRange:
    """Return the newest changes of a branch. The time it takes does not depend on older history.

    Args:
        repo: the repository.
        tip: the last commit.
        age: how old the changes may be on `today`, as `1y`.
        today: the day from which the age counts.
        limit: how many first-parent commits the range has at most.

    Raises:
        RepositoryError: shallow-clone, when history is cut off inside the range.
    """
    oldest = datetime.combine(_find_first_day(age, today), time.min, UTC).timestamp()
    args = ("rev-list", "--first-parent", "--timestamp", f"--max-count={limit + 1}", tip, "--")
    lines = run_git(repo.cwd, *args).decode().splitlines()
    for line in lines:
        seconds, sha = line.split()
        if int(seconds) <= oldest:
            cache_ancestor(repo, sha, tip)
            return plan_range(repo, sha, tip)
    older = lines[limit].split()[1] if len(lines) > limit else None
    return plan_range(repo, older, tip)


def _find_first_day(age: str, today: date) -> date:
    """Return the day that is an age before another; an age is in days, weeks, months or years."""
    match = AGE.fullmatch(age)
    if match is None:
        raise ValueError(f"not an age: {age!r}")
    return today - timedelta(days=int(match["count"]) * DAYS[match["unit"]])


def resolve_past(repo: Repository, rev: str) -> str:
    """Return the id of the commit that `rev` names.

    Raises:
        RepositoryError: unknown-revision, or shallow-clone if the clone may lack the commit.
    """
    commit = find_commit(repo, rev)
    if commit is not None:
        return commit
    if is_shallow(repo):
        raise _shallow_past(repo, f"{rev!r} is not in it")
    return resolve_commit(repo, rev)  # It raises unknown-revision.


def find_commit_of_day(repo: Repository, rev: str, day: date) -> str | None:
    """Return the newest first-parent commit of `rev` that was made on `day` (UTC) or earlier.

    None where all commits are younger.

    Raises:
        RepositoryError: shallow-clone, when history ends before that day is reached.
    """
    return find_commit_until(repo, rev, datetime.combine(day, time.max, UTC))


def find_commits_of_days(repo: Repository, rev: str, days: Collection[date]) -> dict[date, str]:
    """Return for each day the newest first-parent commit of `rev` made on it (UTC) or earlier.

    It takes one process, which ends at the oldest of the days. A day that is before all commits,
    or before the commits of a shallow clone, is left out.
    """
    newest_first_days = sorted((day for day in days if day >= EPOCH), reverse=True)
    tip = find_commit(repo, rev) if newest_first_days else None
    if tip is None:
        return {}
    pending = deque(newest_first_days)
    commits: dict[date, str] = {}
    with stream_git(repo.cwd, "rev-list", "--first-parent", "--timestamp", tip, "--") as stream:
        for line in stream:
            seconds, sha = line.decode().split()
            # No date is made of the seconds: they may be out of the calendar's range.
            while pending and int(seconds) < _end_of_day(pending[0]):
                commits[pending.popleft()] = sha
            if not pending:
                break
    return commits


def _end_of_day(day: date) -> float:
    """Return the Unix time at which a day (UTC) is over."""
    return datetime.combine(day, time.min, UTC).timestamp() + timedelta(days=1).total_seconds()


def find_commit_until(repo: Repository, rev: str, moment: datetime) -> str | None:
    """Return the newest first-parent commit of `rev` that was made at `moment` or earlier.

    None where all commits are younger.

    Raises:
        RepositoryError: shallow-clone, when history ends before that moment is reached.
    """
    tip = find_commit(repo, rev)
    if tip is None or moment.date() < EPOCH:
        return None

    before = f"--before=@{int(moment.timestamp())} +0000"
    listing = run_git(repo.cwd, "rev-list", "--first-parent", "-n1", before, tip, "--")
    sha = listing.decode().strip()
    if not sha and is_shallow(repo):
        raise _shallow_past(repo, f"it does not reach back to {moment:%Y-%m-%d}")
    return sha or None


def resolve_merge_base(repo: Repository, rev: str, base_rev: str) -> str:
    """Return the merge base of two revisions.

    Raises:
        RepositoryError: unknown-revision, unrelated-histories, shallow-clone.
    """
    base = find_merge_base(repo, resolve_past(repo, rev), resolve_past(repo, base_rev))
    if base is not None:
        return base
    if is_shallow(repo):
        raise _shallow_past(repo, f"it does not hold where {rev} and {base_rev} met")
    message = f"{rev} and {base_rev} have no commit in common"
    hint = "Name the branch that the work was started from."
    raise RepositoryError(message, slug="unrelated-histories", hint=hint)


def _shallow_past(repo: Repository, reason: str) -> RepositoryError:
    """Return the error for a commit that a shallow clone may lack."""
    message = f"the clone at {repo.cwd} is shallow: {reason}"
    return RepositoryError(message, slug="shallow-clone", hint=FETCH_HINT)
