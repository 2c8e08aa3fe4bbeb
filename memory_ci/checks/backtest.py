"""The back-test: which merged changes of the past would have violated a check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from itertools import zip_longest

import msgspec

from memory_ci.checks.judge import ChangeFault, CheckedChange, judge
from memory_ci.records.check import RuleCheck
from memory_ci.records.history import MergedChange

MAX_UNJUDGED = 10
"""Changes that a check could not judge, after which it judges no more: each takes all its time."""


class PastChange(msgspec.Struct, frozen=True):
    """A merged change as it was merged."""

    merged: MergedChange
    change: CheckedChange


class PastViolation(msgspec.Struct, frozen=True):
    """A merged change that would have violated a check.

    Attributes:
        has_session: whether a session of the change is known.
        is_asked: whether a person asked for the violation in such a session.
    """

    merged: MergedChange
    fault: ChangeFault
    has_session: bool = False
    is_asked: bool = False


class BacktestResult(msgspec.Struct, frozen=True):
    """The back-test of one check.

    Attributes:
        changes: the number of merged changes.
        applicable: the number of those that the check is about.
        violations: those of them that violate it, the newest first.
        unjudged: the number of those that it could not judge.
        reason: why it could not judge the last of these, "" if it judged all.
    """

    rule: RuleCheck
    changes: int = 0
    applicable: int = 0
    violations: tuple[PastViolation, ...] = ()
    unjudged: int = 0
    reason: str = ""

    @property
    def share(self) -> float:
        """The share of the applicable changes that violate the check."""
        return len(self.violations) / self.applicable if self.applicable else 0.0

    @property
    def with_session(self) -> int:
        """The number of violating changes that have a known session."""
        return sum(violation.has_session for violation in self.violations)

    @property
    def asked_for(self) -> int:
        """The number of these that a person asked for in a session."""
        return sum(violation.is_asked for violation in self.violations)


class _Tally:
    """The counts of one check while the changes of a history are judged."""

    def __init__(self, rule: RuleCheck, since: date | None) -> None:
        """Start to count.

        Args:
            rule: the check.
            since: the day up to which changes do not count; None for none.
        """
        self._rule = rule
        self._since = since
        self._applicable_count = 0
        self._violations: list[PastViolation] = []  # the oldest first
        self._unjudged_count = 0
        self._unjudged_reason = ""

    def judge_change(self, past: PastChange) -> None:
        """Judge a change by the check, and count the outcome.

        After MAX_UNJUDGED changes that the check could not judge, all others are counted as not
        judged: each attempt may take all its time.
        """
        if self._since is not None and past.merged.tip.committed_at.date() <= self._since:
            return
        if self._unjudged_count >= MAX_UNJUDGED:
            self._unjudged_count += 1
            return
        judgement = judge(self._rule.check, past.change)
        if judgement.is_applicable:
            self._applicable_count += 1
        if judgement.unjudged:
            self._unjudged_count += 1
            self._unjudged_reason = judgement.unjudged
        if judgement.fault is not None:
            self._violations.append(PastViolation(past.merged, judgement.fault))

    def build_result(self, change_count: int) -> BacktestResult:
        """Return the result after a number of changes."""
        newest_first = tuple(reversed(self._violations))
        return BacktestResult(
            rule=self._rule,
            changes=change_count,
            applicable=self._applicable_count,
            violations=newest_first,
            unjudged=self._unjudged_count,
            reason=self._unjudged_reason,
        )


def backtest(
    rules: Sequence[RuleCheck],
    history: Iterable[PastChange],
    since: Sequence[date | None] = (),
) -> list[BacktestResult]:
    """Judge the changes of a history by each check, in one pass over it.

    Args:
        rules: the checks.
        history: the merged changes, oldest first.
        since: for each check the day after which changes count; None for all.

    Returns:
        One result for each check, in their order.
    """
    # Without days, or with too few of them, all changes count for the rest of the checks.
    tallies = [_Tally(rule, day) for rule, day in zip_longest(rules, since[: len(rules)])]
    change_count = 0
    for past in history:
        change_count += 1
        for tally in tallies:
            tally.judge_change(past)
    return [tally.build_result(change_count) for tally in tallies]
