"""Back-test of checks: which merged changes violate them, and whether a person asked for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from msgspec.structs import replace

from memory_ci.checks.backtest import BacktestResult, PastViolation, backtest
from memory_ci.gitrepo.history import plan_range
from memory_ci.gitrepo.past import find_range_start
from memory_ci.memory.commit_rules import find_base
from memory_ci.memory.past_changes import iter_past_changes
from memory_ci.memory.workspace import Workspace
from memory_ci.records.check import RuleCheck
from memory_ci.records.history import MergedChange
from memory_ci.repetition.clauses import read_clause
from memory_ci.repetition.requests import is_same_request
from memory_ci.sessions.session_join import SessionFinder

MAX_JOINED = 300  # Newest changes whose sessions are looked for.


def run_backtest(
    workspace: Workspace, rules: Sequence[RuleCheck], since: str | None, today: date
) -> list[BacktestResult]:
    """Return for each check which merged changes of the default branch violate it.

    Args:
        workspace: the repository.
        rules: the checks.
        since: a revision, or an age as `1y`; None for all of history.
        today: the day from which an age counts.

    Raises:
        RepositoryError: unknown-revision, unreachable-cursor, shallow-clone.
    """
    base = find_base(workspace.repo)
    if base is None:
        return backtest(rules, ())
    start = find_range_start(workspace.repo, since, base, today) if since else None
    history = plan_range(workspace.repo, start, base)
    results = backtest(rules, iter_past_changes(workspace, history, rules))
    return list(join_sessions(workspace, base, results))


def join_sessions(
    workspace: Workspace, base: str, results: Sequence[BacktestResult]
) -> Iterator[BacktestResult]:
    """Yield the results, with what is known of the sessions in which each violation was made.

    A violation is a merged change that breaks a rule. If sessions of the change are known, it gets
    `has_session`. If a person asked the agent in one of them for what the rule says, it gets
    `is_asked`, too.

    Args:
        workspace: the repository.
        base: the commit in whose history the changes are.
        results: the results.
    """
    change_by_sha: dict[str, MergedChange] = {}
    for result in results:
        for violation in result.violations:
            change = violation.merged
            change_by_sha[change.tip.sha] = change
    # The oldest first: an event belongs to the first change that is made after it.
    oldest_first = sorted(change_by_sha.values(), key=lambda change: change.tip.committed_at)
    finder = SessionFinder(workspace, base=base)
    texts_by_sha: dict[str, list[str] | None] = {}
    for change in oldest_first[-MAX_JOINED:]:
        texts_by_sha[change.tip.sha] = _list_texts_of_people(finder, change)

    for result in results:
        terms = tuple(read_clause(result.rule.title).terms)
        violations: list[PastViolation] = []
        for violation in result.violations:
            texts = texts_by_sha.get(violation.merged.tip.sha)
            if texts is not None:
                is_asked = any(is_same_request(terms, text) for text in texts)
                violation = replace(violation, has_session=True, is_asked=is_asked)
            violations.append(violation)
        yield replace(result, violations=tuple(violations))


def _list_texts_of_people(finder: SessionFinder, merged: MergedChange) -> list[str] | None:
    """Return the texts of people in the sessions of a change; None if it has no known session."""
    joined_sessions = list(finder.find_sessions(merged, None))
    if not joined_sessions:
        return None
    texts = []
    for joined in joined_sessions:
        for event in joined.events:
            if event.actor == "human" and event.text.strip():
                texts.append(event.text)
    return texts
