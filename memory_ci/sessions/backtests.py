"""The back-test of checks on a repository, with what people asked in its sessions."""

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
from memory_ci.repetition.clauses import read_clause
from memory_ci.repetition.requests import is_same_request
from memory_ci.sessions.session_join import SessionFinder

MAX_JOINED = 300  # Newest changes whose sessions are looked for.


def run_backtest(
    workspace: Workspace, rules: Sequence[RuleCheck], since: str | None, today: date
) -> list[BacktestResult]:
    """Judge the merged changes of the default branch by checks.

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
    """Yield the results, each violation marked if a person asked for it in a session.

    Args:
        workspace: the repository.
        base: the commit whose changes they are.
        results: the results.
    """
    violations: dict[str, PastViolation] = {}
    for result in results:
        violations |= {item.merged.tip.sha: item for item in result.violations}
    newest = sorted(violations.values(), key=lambda item: item.merged.tip.committed_at)
    newest = newest[-MAX_JOINED:]
    finder = SessionFinder(workspace, base=base)
    # The oldest first: an event belongs to the first change that is made after it.
    texts_by_change = {item.merged.tip.sha: _list_texts(finder, item) for item in newest}
    for result in results:
        terms = tuple(read_clause(result.rule.title).terms)
        joined: list[PastViolation] = []
        for item in result.violations:
            texts = texts_by_change.get(item.merged.tip.sha)
            if texts is not None:
                is_asked = any(is_same_request(terms, text) for text in texts)
                item = replace(item, has_session=True, is_asked=is_asked)
            joined.append(item)
        yield replace(result, violations=tuple(joined))


def _list_texts(finder: SessionFinder, item: PastViolation) -> list[str] | None:
    """Return what people wrote in the sessions of a change; None if none is known."""
    joined = list(finder.find(item.merged, None))
    if not joined:
        return None
    events = [event for session in joined for event in session.events]
    return [event.text for event in events if event.actor == "human" and event.text.strip()]
