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
        self.rule = rule
        self._since = since
        self.applicable = 0
        self.violations: list[PastViolation] = []
        self.unjudged = 0
        self.reason = ""

    def count(self, past: PastChange) -> None:
        """Judge a change and count the outcome; changes up to the day `since` do not count."""
        if self._since is not None and past.merged.tip.committed_at.date() <= self._since:
            return
        if self.unjudged >= MAX_UNJUDGED:
            self.unjudged += 1
            return
        judgement = judge(self.rule.check, past.change)
        if judgement.is_applicable:
            self.applicable += 1
        if judgement.unjudged:
            self.unjudged += 1
            self.reason = judgement.unjudged
        if judgement.fault is not None:
            self.violations.append(PastViolation(past.merged, judgement.fault))

    def report(self, changes: int) -> BacktestResult:
        """Return the result after a number of changes."""
        return BacktestResult(
            rule=self.rule,
            changes=changes,
            applicable=self.applicable,
            violations=tuple(reversed(self.violations)),
            unjudged=self.unjudged,
            reason=self.reason,
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
    changes = 0
    for past in history:
        changes += 1
        for tally in tallies:
            tally.count(past)
    return [tally.report(changes) for tally in tallies]
