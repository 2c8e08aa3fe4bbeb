"""Count the merged changes that followed, ignored or skipped the check of an entry.

A check tests whether a change follows an entry. `Memory-Skip` in a commit message skips it. Also
counted are the changes that would have failed the check before it existed.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from typing import Literal

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
MAX_COMPARED = 50  # Changes before and after the check that are compared.
RECENT_COUNT = 20
"""Applicable changes whose share of ignored and skipped ones says whether a check still holds."""


_Reaction = Literal["followed", "ignored", "skipped"]
"""What a change did about a check that applies to it."""


class _OutcomeTally:
    """The counts of one check while history is read, oldest change first."""

    def __init__(self, rule: RuleCheck, check_time: datetime | None) -> None:
        """Start to count.

        Args:
            rule: the check.
            check_time: when the check was committed; None if git cannot tell.
        """
        self._rule = rule
        self._check_time = check_time
        # Of the changes to which the check applies, the oldest first: before the check was
        # committed, whether each breaks it; since then, whether each follows, ignores or skips it.
        self._is_broken_before: list[bool] = []
        self._reactions_since: list[_Reaction] = []
        self._unjudged_count = 0

    def add_change(self, past: PastChange) -> None:
        """Count a merged change, if the check applies to it and can be judged on it.

        After MAX_UNJUDGED changes on which it could not be judged, no more are counted: the check
        would fail to be judged on most of them, too, and each attempt takes time.
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
        if self._check_time is None or past.merged.tip.committed_at <= self._check_time:
            self._is_broken_before.append(is_broken)
        elif not is_broken:
            self._reactions_since.append("followed")
        elif self._rule.id in find_skips(past.change.messages, [self._rule]):
            self._reactions_since.append("skipped")  # by a trailer with a reason
        else:
            self._reactions_since.append("ignored")

    def build_outcome(self) -> RuleCheckOutcome:
        """Return the counts, with the shares of changes that break the check before and since.

        Changes since then that skip the check by a trailer do not count as breaking it. The shares
        are those of the MAX_COMPARED changes just before and just after the check was committed.
        """
        compared_before = self._is_broken_before[-MAX_COMPARED:]
        compared_since = self._reactions_since[:MAX_COMPARED]
        share_before = compute_share(sum(compared_before), len(compared_before))
        share_since = compute_share(compared_since.count("ignored"), len(compared_since))
        low = high = None
        if compared_before and compared_since:
            low, high = newcombe_interval(share_since, share_before)

        recent_reactions = self._reactions_since[-RECENT_COUNT:]
        recent_follow_count = recent_reactions.count("followed")
        return RuleCheckOutcome(
            id=self._rule.id,
            title=self._rule.title,
            since=self._check_time.date() if self._check_time else None,
            applicable=len(self._reactions_since),
            ignored=self._reactions_since.count("ignored"),
            skipped=self._reactions_since.count("skipped"),
            last_passed=len(recent_reactions) - recent_follow_count,
            before=share_before,
            after=share_since,
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
            tally.add_change(past)
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
                    return blamed.committed_at
            return None
    return None
