"""What became of checks in merged changes: followed, ignored, skipped, and compared with before."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime

from msgspec.structs import replace

from memory_ci.checks.backtest import MAX_UNJUDGED, PastChange
from memory_ci.checks.judge import judge
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.edits import blame_lines
from memory_ci.gitrepo.history import plan_range
from memory_ci.gitrepo.past import find_range_start
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


class _OutcomeTally:
    """The counts of one check while history is read."""

    def __init__(self, rule: RuleCheck, start: datetime | None) -> None:
        self._rule = rule
        self._start = start
        self._before: list[bool] = []  # For each applicable change whether it breaks the rule.
        self._after: list[bool] = []  # The same since then, without what is skipped.
        self._passed: list[bool] = []  # For each of these whether it ignores or skips the check.
        self._skipped = 0
        self._unjudged = 0

    def count(self, past: PastChange) -> None:
        if self._unjudged >= MAX_UNJUDGED:
            return
        judgement = judge(self._rule.check, past.change)
        self._unjudged += bool(judgement.unjudged)
        if not judgement.is_applicable or judgement.unjudged:
            return
        is_broken = judgement.fault is not None
        if self._start is None or past.merged.tip.committed_at <= self._start:
            self._before.append(is_broken)
            return
        is_skipped = is_broken and self._rule.id in find_skips(past.change.messages, [self._rule])
        self._skipped += is_skipped
        self._after.append(is_broken and not is_skipped)
        self._passed.append(is_broken)

    def finish(self) -> RuleCheckOutcome:
        """Return the outcome."""
        last = self._before[-COMPARED:]
        first = self._after[:COMPARED]
        before = compute_share(sum(last), len(last))
        after = compute_share(sum(first), len(first))
        low = high = None
        if last and first:
            low, high = newcombe_interval(after, before)
        return RuleCheckOutcome(
            id=self._rule.id,
            title=self._rule.title,
            since=self._start.date() if self._start else None,
            applicable=len(self._after),
            ignored=sum(self._after),
            skipped=self._skipped,
            last_passed=sum(self._passed[-LAST:]),
            before=before,
            after=after,
            low=low,
            high=high,
        )


def count_check_outcomes(
    snapshot: Snapshot, today: date, entry_id: str | None = None
) -> list[RuleCheckOutcome]:
    """Return what became of each check of a commit in the merged changes of two years.

    Checks of what a session ran are left out: history does not show it.

    Args:
        snapshot: the commit whose checks are in force.
        today: the day.
        entry_id: the entry whose check is counted; None for all.

    Raises:
        RepositoryError: git-failed, shallow-clone.
    """
    rules = [
        rule
        for rule in collect_rules(snapshot.memory.located, today)
        if not isinstance(rule.check, BeforeCheck) and entry_id in (None, rule.id)
    ]
    if not rules:
        return []
    repo = snapshot.workspace.repo
    start = find_range_start(repo, MAX_AGE, snapshot.sha, today)
    history = plan_range(repo, start, snapshot.sha)
    newest = replace(history, groups=history.groups[-MAX_CHANGES:])
    tallies = [_OutcomeTally(rule, _find_start(snapshot, rule)) for rule in rules]
    for past in iter_past_changes(snapshot.workspace, newest, rules):
        for tally in tallies:
            tally.count(past)
    return [tally.finish() for tally in tallies]


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
