"""Count the merged changes that followed, ignored or skipped the check of an entry.

A check tests whether a change follows an entry. `Memory-Skip` in a commit message skips it. Also
counted are the changes that would have failed the check before it existed.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime

from memory_ci.checks.backtest import MAX_UNJUDGED, PastChange
from memory_ci.checks.judge import judge
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.edits import blame_lines
from memory_ci.gitrepo.past import plan_newest
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
    """The counts of one check while history is read, oldest change first."""

    def __init__(self, rule: RuleCheck, start: datetime | None) -> None:
        """Start to count.

        Args:
            rule: the check.
            start: when it was committed; None if it is not.
        """
        self._rule = rule
        self._start = start
        # Of each change that the check applies to, before it was committed: whether it breaks it.
        self._broken_before: list[bool] = []
        # Of each such change since then: whether it breaks the check, without and with those that
        # skip it.
        self._ignored: list[bool] = []
        self._ignored_or_skipped: list[bool] = []
        self._skipped_count = 0
        self._unjudged_count = 0

    def count(self, past: PastChange) -> None:
        """Count a merged change, if the check applies to it and can be judged on it.

        After MAX_UNJUDGED changes on which it cannot be judged, no more are counted.
        """
        if self._unjudged_count >= MAX_UNJUDGED:
            return
        judgement = judge(self._rule.check, past.change)
        if judgement.unjudged:
            self._unjudged_count += 1
            return
        if not judgement.is_applicable:
            return

        is_broken = judgement.fault is not None
        if self._start is None or past.merged.tip.committed_at <= self._start:
            self._broken_before.append(is_broken)
            return
        is_skipped = is_broken and self._rule.id in find_skips(past.change.messages, [self._rule])
        if is_skipped:
            self._skipped_count += 1
        self._ignored.append(is_broken and not is_skipped)
        self._ignored_or_skipped.append(is_broken)

    def build_outcome(self) -> RuleCheckOutcome:
        """Return the counts, with the shares of changes that break the check before and since."""
        last_before = self._broken_before[-COMPARED:]
        first_since = self._ignored[:COMPARED]
        before = compute_share(sum(last_before), len(last_before))
        after = compute_share(sum(first_since), len(first_since))
        low = high = None
        if last_before and first_since:
            low, high = newcombe_interval(after, before)
        return RuleCheckOutcome(
            id=self._rule.id,
            title=self._rule.title,
            since=self._start.date() if self._start else None,
            applicable=len(self._ignored),
            ignored=sum(self._ignored),
            skipped=self._skipped_count,
            last_passed=sum(self._ignored_or_skipped[-LAST:]),
            before=before,
            after=after,
            low=low,
            high=high,
        )


def count_check_outcomes(
    snapshot: Snapshot, today: date, entry_id: str | None = None
) -> list[RuleCheckOutcome]:
    """Count for each check of a commit the merged changes of two years that followed or broke it.

    Checks of the commands that a session ran are left out: history does not show commands.

    Args:
        snapshot: the commit whose checks are in force.
        today: the day.
        entry_id: the entry whose check is counted; None for all.

    Raises:
        RepositoryError: git-failed, shallow-clone.
    """
    rules = []
    for rule in collect_rules(snapshot.memory.located, today):
        if isinstance(rule.check, BeforeCheck):
            continue
        if entry_id is None or rule.id == entry_id:
            rules.append(rule)
    if not rules:
        return []

    repo = snapshot.workspace.repo
    history = plan_newest(repo, snapshot.sha, MAX_AGE, today, MAX_CHANGES)
    tallies = [_OutcomeTally(rule, _find_check_time(snapshot, rule)) for rule in rules]
    for past in iter_past_changes(snapshot.workspace, history, rules):
        for tally in tallies:
            tally.count(past)
    return [tally.build_outcome() for tally in tallies]


def _find_check_time(snapshot: Snapshot, rule: RuleCheck) -> datetime | None:
    """Return when the line `check:` of an entry was committed; None if git cannot tell."""
    data = snapshot.read([rule.path]).get(rule.path, b"")
    lines = data.decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines[rule.line - 1 :], start=rule.line):
        if line.startswith("check:"):
            repo = snapshot.workspace.repo
            with suppress(RepositoryError):
                for blamed in blame_lines(repo, rule.path, (number, number), snapshot.sha):
                    return blamed.at
            return None
    return None
