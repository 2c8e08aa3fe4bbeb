"""Judgement of a pull request by checks, which entries of memory on its base branch define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date

import msgspec

from memory_ci.checks.judge import Judgement
from memory_ci.checks.lines import render_violation
from memory_ci.gitrepo.log import read_commit_time
from memory_ci.memory.rules import find_skips, judge_all, list_rules, read_change
from memory_ci.memory.workspace import Snapshot
from memory_ci.records.check import CheckLevel, CheckOutcome, CheckVerdict, RuleCheck
from memory_ci.records.report import Finding, Level

LEVELS: Mapping[CheckLevel, Level] = {"remind": "notice", "warn": "warning", "fail": "error"}
"""The level of the finding on a violation, by the level of the check."""

UNJUDGED_HINT = (
    "It counts neither as followed nor as violated; make the pattern or its files fewer."
)
FORK_HINT = "A maintainer may skip a check, in a commit of a branch of this repository."


class JudgedChecks(msgspec.Struct, frozen=True):
    """The checks of a base with the findings on a change."""

    outcomes: tuple[CheckOutcome, ...] = ()
    findings: tuple[Finding, ...] = ()


def judge_request(
    base: Snapshot, start: str, head: str, *, is_fork: bool = False, title: str = ""
) -> JudgedChecks:
    """Judge the changes of a pull request by the checks at the tip of its base.

    The checks of the base alone are read, so a request cannot change or remove them for itself.
    A commit message of the request may skip a check, with a reason.

    Args:
        base: the tip of the base.
        start: the commit where the request left the base.
        head: its newest commit.
        is_fork: its author may not write to the repository. So its messages cannot skip a check,
            and none is exempt from checks because it looks like the message of a run of memory-ci.
        title: its title, "" if unknown.
    """
    rules = list_rules(base)
    if not rules:
        return JudgedChecks()
    repo = base.workspace.repo
    # The messages of runs are recognised, and not judged, only in a trusted workspace.
    change = read_change(
        repo, start, head, rules, reviewed_workspace=None if is_fork else base.workspace
    )
    change = msgspec.structs.replace(change, title=title)
    skip_reasons = find_skips(change.messages, rules)
    today = read_commit_time(repo, head).astimezone(UTC).date()

    outcomes: list[CheckOutcome] = []
    findings: list[Finding] = []
    for rule, judgement in judge_all(rules, change):
        skip_reason = skip_reasons.get(rule.id, "") if judgement.fault else ""
        verdict = _choose_verdict(judgement, is_skipped=bool(skip_reason) and not is_fork)
        reason = skip_reason if verdict == "skipped" else judgement.unjudged
        outcome = CheckOutcome(
            id=rule.id, title=rule.title, level=rule.level, verdict=verdict, reason=reason
        )
        outcomes.append(outcome)
        findings += _list_findings(rule, judgement, outcome, today)
        if skip_reason and is_fork:
            findings.append(_refuse_skip(rule))
    return JudgedChecks(tuple(outcomes), tuple(findings))


def _choose_verdict(judgement: Judgement, *, is_skipped: bool) -> CheckVerdict:
    """Return the verdict of a check on a change: the first of these that applies.

    The check could not be judged; it does not apply to the changed files; the change follows it;
    the change violates it, and a commit message skips it; the change violates it.
    """
    if judgement.unjudged:
        return "not-judged"
    if not judgement.is_applicable:
        return "not-applicable"
    if judgement.fault is None:
        return "followed"
    return "skipped" if is_skipped else "violated"


def _list_findings(
    rule: RuleCheck, judgement: Judgement, outcome: CheckOutcome, today: date
) -> Sequence[Finding]:
    """Return the finding on a check that was violated, skipped or not judged."""
    if outcome.verdict == "skipped":
        message = f"{rule.name} is skipped: {outcome.reason}"
        hint = f"The rule: {rule.title}."
        return [Finding(rule.path, rule.line, "skipped-check", message, hint, "notice")]
    if outcome.verdict == "not-judged":
        message = f"{rule.name} is not judged: {judgement.unjudged}"
        return [Finding(rule.path, rule.line, "unjudged-check", message, UNJUDGED_HINT, "notice")]
    if outcome.verdict != "violated" or judgement.fault is None:
        return []
    message = render_violation(rule, judgement.fault, today)
    hint = f"The rule: {rule.title.rstrip('.')}."
    path, line = judgement.fault.path, judgement.fault.line
    if not path:  # The fault is in a commit message or in the title.
        path, line = rule.path, rule.line
    return [Finding(path, line, "violated-check", message, hint, LEVELS[rule.level])]


def _refuse_skip(rule: RuleCheck) -> Finding:
    message = f"{rule.name} is not skipped, for the change comes from a fork"
    return Finding(rule.path, rule.line, "skip-from-fork", message, FORK_HINT, "notice")
