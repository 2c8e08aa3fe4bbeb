"""Text and JSON of back-tests: which merged changes of the past a check would have reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from memory_ci.checks.backtest import BacktestResult, PastViolation
from memory_ci.findings import printable
from memory_ci.gitrepo.addresses import find_forge_address, link_to
from memory_ci.gitrepo.repo import Repository, find_setting
from memory_ci.records.candidate import CheckProposal
from memory_ci.records.check import BeforeCheck
from memory_ci.records.check_outcome import RuleCheckOutcome
from memory_ci.store.checkfield import format_check
from memory_ci.text import plural, shorten

MAX_LISTED = 10  # Changes that the text lists for each check.
MAX_TITLE = 80  # Characters of the title of a change.


def find_address(repo: Repository) -> str:
    """Return the web address of the repository, "" if it is on no forge."""
    return find_forge_address(find_setting(repo, "remote.origin.url") or "")


def render_backtests(results: Iterable[BacktestResult], address: str) -> list[str]:
    """Return the lines that describe the back-tests of some checks.

    Args:
        results: the results of the back-tests.
        address: the web address of the repository, "" if it has none.
    """
    lines: list[str] = []
    for result in results:
        lines += _describe_backtest(result, address)
    return [printable(line) for line in lines]


def export_backtests(results: Sequence[BacktestResult], address: str) -> list[dict[str, Any]]:
    """Return the rows of `--json` for some checks, with every change that violates them.

    The key `spoken` has the violations: in these changes the check would have spoken. `asked`
    counts the violations in whose sessions a person asked for what the check demands.

    Args:
        results: the results of the back-tests.
        address: the web address of the repository, "" if it has none.
    """
    rows: list[dict[str, Any]] = []
    for result in results:
        violations = [_export_violation(violation, address) for violation in result.violations]
        row = {
            "id": result.rule.id,
            "title": result.rule.title,
            "check": result.rule.check,
            "changes": result.changes,
            "applicable": result.applicable,
            "spoken": violations,
            "known_sessions": result.with_session,
            "asked": result.asked_for,
            "not_judged": result.unjudged,
            "reason": result.reason,
        }
        rows.append(row)
    return rows


def _export_violation(violation: PastViolation, address: str) -> dict[str, Any]:
    """Return the JSON object of a merged change that violates a check."""
    merged = violation.merged
    return {
        "commit": merged.tip.sha,
        "number": merged.number,
        "subject": merged.title,
        "day": merged.tip.committed_at.date(),
        "link": link_to(address, merged.number, merged.tip.sha),
        "fault": violation.fault.message,
        "has_session": violation.has_session,
        "is_asked": violation.is_asked,
    }


def _describe_backtest(result: BacktestResult, address: str) -> Iterator[str]:
    """Yield the lines that describe the back-test of one check, and list the newest violations.

    A back-test applies the check to merged changes of the past. Of the violations whose sessions
    are known, it counts those in which a person had asked for what the check demands.

    Args:
        result: the back-test.
        address: the web address of the repository, "" if it has none.
    """
    yield f"{result.rule.name} {result.rule.title}"
    if isinstance(result.rule.check, BeforeCheck):
        yield "  has no back-test: history does not show what a session ran"
        return
    count = plural(result.changes, "merged change")
    if not result.applicable:
        yield f"  applies to none of {count}"
    else:
        share = f" ({result.share:.0%})" if result.violations else ""
        outcome = f"would have spoken in {len(result.violations)}{share}"
        yield f"  applies to {result.applicable} of {count}, {outcome}"
    if result.unjudged:
        yield f"  could not judge {result.unjudged}: {result.reason}"
    if result.with_session:
        not_asked_count = result.with_session - result.asked_for
        yield (
            f"  sessions are known for {result.with_session} of these: {result.asked_for} "
            f"asked for just that, in {not_asked_count} nothing came of it"
        )
    for violation in result.violations[:MAX_LISTED]:
        merged = violation.merged
        link = link_to(address, merged.number, merged.tip.sha)
        title = shorten(merged.title, MAX_TITLE)
        yield f"  {merged.tip.committed_at:%Y-%m-%d} {merged.label} {title} {link}".rstrip()
    if len(result.violations) > MAX_LISTED:
        yield f"  and {len(result.violations) - MAX_LISTED} more: --json lists them"


SOURCES = {
    "request": "asked for again and again",
    "entry": "a rule of memory",
    "document": "a rule of",
    "habit": "a habit of the last year",
}


def describe_proposal(proposal: CheckProposal) -> Iterator[str]:
    """Yield the lines that describe a proposed check: its source, and the changes it would report.

    Args:
        proposal: the check with its back-test.
    """
    place = proposal.place[:8] if proposal.source == "entry" else proposal.place
    source = " ".join([SOURCES[proposal.source], place]).strip()
    writer = "; written by a model" if proposal.is_by_model else ""
    yield f"check: {format_check(proposal.check)} ({source}{writer})"
    changes = plural(proposal.applicable, "change")
    line = f"would have spoken {plural(proposal.violations, 'time')} in {changes}"
    if proposal.with_session:
        line += f"; of {proposal.with_session} the sessions are known"
        line += f", {proposal.asked_for} asked for just that"
    yield line
    yield from proposal.examples


def describe_check_outcome(outcome: RuleCheckOutcome) -> str:
    """Return how merged changes met a check since it exists: `followed 38 of 41, ignored 2; …`.

    Then come the shares of changes that broke it before and since, and in brackets the 95 %
    interval of their difference.
    """
    if not outcome.applicable:
        return "no merged change that it is about since"
    text = f"followed {outcome.followed} of {outcome.applicable}"
    if outcome.ignored:
        text += f", ignored {outcome.ignored}"
    if outcome.skipped:
        text += f", skipped {outcome.skipped}"
    broken_before = outcome.before
    broken_since = outcome.after
    if broken_before.total:
        text += f"; broken {broken_before.hits} of {broken_before.total} before"
        text += f", {broken_since.hits} of {broken_since.total} since"
    if outcome.low is not None and outcome.high is not None:
        text += f" [{outcome.low:+.2f}, {outcome.high:+.2f}]"
    return text
