"""What became of checks in merged changes: followed, ignored, skipped, and compared with before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime

from msgspec.structs import replace

from memory_ci.checks.backtest import PastChange
from memory_ci.checks.judge import judge
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.edits import blame_lines
from memory_ci.gitrepo.history import find_range_start, plan_range
from memory_ci.memory.past_changes import iter_past_changes
from memory_ci.memory.rules import collect_rules, find_skips
from memory_ci.memory.workspace import Snapshot
from memory_ci.records.check import BeforeCheck, RuleCheck
from memory_ci.records.check_outcome import RuleCheckOutcome
from memory_ci.records.proportion import compute_share, newcombe_interval

MAX_AGE = "2y"
"""The age of the oldest merged change that is judged."""

MAX_CHANGES = 2_000  # Merged changes that are judged, the newest ones.
COMPARED = 50  # Changes before and after the check that are compared.
LAST = 20
"""Applicable changes whose share of ignored and skipped ones says whether a check still holds."""


def count_check_outcomes(snapshot: Snapshot, today: date) -> list[RuleCheckOutcome]:
    """Return what became of each check of a commit in the merged changes of two years.

    Checks of what a session ran are left out: history does not show it.

    Args:
        snapshot: the commit whose checks are in force.
        today: the day.

    Raises:
        RepositoryError: git-failed, shallow-clone.
    """
    rules = [
        rule
        for rule in collect_rules(snapshot.memory.located, today)
        if not isinstance(rule.check, BeforeCheck)
    ]
    if not rules:
        return []
    repo = snapshot.workspace.repo
    start = find_range_start(repo, MAX_AGE, snapshot.sha, today)
    history = plan_range(repo, start, snapshot.sha)
    newest = replace(history, groups=history.groups[-MAX_CHANGES:])
    changes = list(iter_past_changes(snapshot.workspace, newest, rules))
    return [_count(rule, _find_start(snapshot, rule), changes) for rule in rules]


def _count(
    rule: RuleCheck, start: datetime | None, changes: Iterable[PastChange]
) -> RuleCheckOutcome:
    """Return the outcome of one check.

    Args:
        rule: the check.
        start: when its entry got it; None if it is not committed.
        changes: the merged changes, oldest first.
    """
    before: list[bool] = []  # For each applicable change whether it breaks the rule.
    after: list[bool] = []
    skipped = 0
    last: list[bool] = []  # For each applicable change since then whether it ignores or skips it.
    for past in changes:
        judgement = judge(rule.check, past.change)
        if not judgement.is_applicable or judgement.unjudged:
            continue
        is_broken = judgement.fault is not None
        if start is None or past.merged.tip.committed_at <= start:
            before.append(is_broken)
            continue
        is_skipped = is_broken and rule.id in find_skips(past.change.messages, [rule])
        skipped += is_skipped
        after.append(is_broken and not is_skipped)
        last.append(is_broken)
    since = start.date() if start else None
    return _compare(rule, since, before[-COMPARED:], after, skipped, sum(last[-LAST:]))


def _compare(
    rule: RuleCheck,
    since: date | None,
    before: Sequence[bool],
    after: Sequence[bool],
    *counts: int,
) -> RuleCheckOutcome:
    skipped, last_passed = counts
    share_before = compute_share(sum(before), len(before))
    first = after[:COMPARED]
    share_after = compute_share(sum(first), len(first))
    low = high = None
    if before and first:
        low, high = newcombe_interval(share_after, share_before)
    return RuleCheckOutcome(
        id=rule.id,
        title=rule.title,
        since=since,
        applicable=len(after),
        ignored=sum(after),
        skipped=skipped,
        last_passed=last_passed,
        before=share_before,
        after=share_after,
        low=low,
        high=high,
    )


def _find_start(snapshot: Snapshot, rule: RuleCheck) -> datetime | None:
    """Return when the line `check:` of an entry was committed."""
    data = snapshot.read([rule.path]).get(rule.path, b"")
    lines = data.decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines[rule.line - 1 :], start=rule.line):
        if line.startswith("check:"):
            with suppress(RepositoryError):
                repo = snapshot.workspace.repo
                for brought in blame_lines(repo, rule.path, (number, number), snapshot.sha):
                    return brought.at
            return None
    return None
