"""The file with the ranges of history that record runs have read, and its update by a run."""

from __future__ import annotations

from msgspec.structs import replace

from memory_ci.gitrepo.history import list_first_parents
from memory_ci.gitrepo.repo import Repository, find_commit, is_ancestor
from memory_ci.memory.workspace import Snapshot
from memory_ci.records.plan import Plan
from memory_ci.store.layout import RECORDED_FILE
from memory_ci.store.ranges import (
    Recorded,
    RecordedRange,
    format_recorded,
    parse_recorded,
)


def plan_recorded_file(base: Snapshot, plan: Plan, *, is_committed: bool) -> dict[str, bytes]:
    """Return RECORDED_FILE with the range of a plan, by path; {} if the file does not change.

    The file lists the ranges of history that runs have read. A merged change in such a range that
    has no episode file (it is unwritten) gets an episode that is derived from its commits. A range
    is added if it has unwritten changes. Once the file exists, other ranges that a run commits are
    added as well: then ranges that follow each other remain one line of the file.

    Args:
        base: the commit that the plan was made for.
        plan: the plan.
        is_committed: whether the plan changes other files in the same commit.
    """
    has_unwritten_changes = bool(plan.unwritten.changes)
    is_added_if_file_exists = is_committed and base.workspace.config.episodes.write
    if plan.until is None or not (has_unwritten_changes or is_added_if_file_exists):
        return {}
    old_content = base.read([RECORDED_FILE]).get(RECORDED_FILE)
    if old_content is None and not has_unwritten_changes:
        return {}
    repo = base.workspace.repo
    since = find_commit(repo, plan.since) if plan.since else None
    if since == plan.until:
        return {}

    old_record = parse_recorded(old_content or b"")
    new_range = RecordedRange(since, plan.until, plan.unwritten.stage)
    removed_ids = dict.fromkeys((*old_record.removed_ids, *plan.unwritten.removed))
    ranges = _add_range(repo, old_record.ranges, new_range)
    new_record = Recorded(ranges, tuple(removed_ids))
    new_content = format_recorded(new_record)
    if new_content == old_content or new_record == old_record:
        return {}
    return {RECORDED_FILE: new_content}


def list_recorded_commits(
    repo: Repository, recorded: Recorded, since: str | None
) -> frozenset[str]:
    """Return the first-parent commits that runs have read and that a new range may contain.

    Args:
        repo: the repository.
        recorded: the ranges that runs have read.
        since: the commit before the new range. A range that ends there shares no commit with it.

    Raises:
        RepositoryError: git-failed, if the clone does not hold a range.
    """
    commits: set[str] = set()
    for old_range in recorded.ranges:
        if old_range.until != since:
            commits.update(list_first_parents(repo, old_range.since, old_range.until))
    return frozenset(commits)


def _add_range(
    repo: Repository, ranges: tuple[RecordedRange, ...], new_range: RecordedRange
) -> tuple[RecordedRange, ...]:
    """Add a range of history to others, and join it with those that it continues or contains.

    Only ranges in the same stage of the project are joined.
    """
    unjoined_ranges: list[RecordedRange] = []
    for old_range in ranges:
        is_same_stage = old_range.stage == new_range.stage
        if is_same_stage and old_range.until == new_range.since:
            new_range = replace(new_range, since=old_range.since)
        elif _contains(repo, old_range, new_range):
            return ranges
        elif not is_same_stage or not _contains(repo, new_range, old_range):
            unjoined_ranges.append(old_range)
    return (*unjoined_ranges, new_range)


def _contains(repo: Repository, outer: RecordedRange, inner: RecordedRange) -> bool:
    """Return whether a range begins not later and ends not earlier than another one."""
    if outer.until != inner.until and not is_ancestor(repo, inner.until, outer.until):
        return False
    if outer.since is None or outer.since == inner.since:
        return True
    return inner.since is not None and is_ancestor(repo, outer.since, inner.since)
