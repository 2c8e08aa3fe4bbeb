"""Count requests that a rule in memory already answers, and check if served rules are followed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.commands.health.records import AskedAgain, AskedRule
from memory_ci.lifecycle.episodes import apply_amendments
from memory_ci.memory.episodes import load_written
from memory_ci.memory.workspace import Snapshot
from memory_ci.records.repetition import Quotation, RuleOutcome, StandingRequest
from memory_ci.repetition.requests import find_standing_requests
from memory_ci.sessions.repetitions import (
    MAX_REQUESTS,
    StandingRule,
    find_existing_rule,
    list_written_rules,
)
from memory_ci.sessions.rule_outcomes import ServedTimes, count_outcomes, read_served_times
from memory_ci.sessions.session_archive import SessionArchive, read_archive

FIRST_MADE = 2
"""Sessions that make a request before the request of a further session is a repetition."""

Period = tuple[date, date]
"""The first and the last day of a period."""

ALL_TIME: Period = (date.min, date.max)


class RepeatedRequest(NamedTuple):
    """A request that people repeated, and the rule that says it, if one does."""

    request: StandingRequest
    rule: StandingRule | None

    def list_repetitions(self, period: Period) -> list[Quotation]:
        """Return its repetitions in a period, the earliest first."""
        first, last = period
        repetitions = self.request.occurrences[FIRST_MADE:]
        return [repetition for repetition in repetitions if first <= repetition.day <= last]


def count_asked_again(snapshot: Snapshot) -> AskedAgain | None:
    """Count how often people ever repeated a request; None if no session has words of a person.

    Args:
        snapshot: the commit whose rules are compared with the requests.

    Raises:
        RepositoryError: git-failed.
    """
    counts = count_asked_again_in(snapshot, [ALL_TIME])
    return counts[0] if counts else None


def count_asked_again_in(snapshot: Snapshot, periods: Iterable[Period]) -> tuple[AskedAgain, ...]:
    """Count for each period how often people repeated a request; () if no session has their words.

    A request, say "run the linter before you commit", is a repetition if two earlier sessions made
    it, in whatever period.

    Args:
        snapshot: the commit whose rules are compared with the requests.
        periods: the first and the last day of each period.

    Raises:
        RepositoryError: git-failed.
    """
    archive = read_archive(snapshot.workspace, snapshot.sha)
    if not archive.turns:
        return ()
    requests = find_standing_requests(archive.turns, MAX_REQUESTS)
    written_rules = list_written_rules(snapshot)
    repeated_requests = [
        RepeatedRequest(request, find_existing_rule(snapshot, request.terms, written_rules))
        for request in requests
    ]
    served_times = _read_served_times(snapshot)
    counts = []
    for period in periods:
        rules = _list_asked_rules(repeated_requests, period)
        outcomes = _list_outcomes(snapshot, _cut_archive(archive, period), served_times)
        repetitions = sum(len(request.list_repetitions(period)) for request in repeated_requests)
        although_written = sum(rule.sessions for rule in rules)
        counts.append(AskedAgain(repetitions, although_written, tuple(rules), tuple(outcomes)))
    return tuple(counts)


def _read_served_times(snapshot: Snapshot) -> ServedTimes:
    workspace = snapshot.workspace
    episodes = apply_amendments(load_written(workspace, snapshot.sha).records)
    return read_served_times(workspace, episodes)


def _cut_archive(archive: SessionArchive, period: Period) -> SessionArchive:
    """Return an archive of sessions with only the turns and failed commands of a period."""
    first_day, last_day = period
    turns = tuple(turn for turn in archive.turns if first_day <= turn.at.date() <= last_day)
    failed_commands = tuple(run for run in archive.failed if first_day <= run.at.date() <= last_day)
    return replace(archive, turns=turns, failed=failed_commands)


def _list_outcomes(
    snapshot: Snapshot, archive: SessionArchive, served_times: ServedTimes
) -> list[RuleOutcome]:
    """Return in how many sessions each served rule was followed, the least followed rule first."""
    entries = [located.entry for located in snapshot.memory.located]
    outcomes = count_outcomes(entries, archive, served_times)
    return sorted(outcomes, key=lambda outcome: outcome.followed / outcome.sessions)


def _list_asked_rules(requests: Iterable[RepeatedRequest], period: Period) -> list[AskedRule]:
    """Return the rules that people asked for in a period although they were written before.

    The rule that most sessions asked for comes first.
    """
    asked_rules = []
    for request in requests:
        rule = request.rule
        if rule is None:
            continue
        repetitions = request.list_repetitions(period)
        sessions = sum(repetition.day > rule.since for repetition in repetitions)
        if sessions:
            asked_rules.append(AskedRule(rule.place, rule.title, sessions, rule.since))
    return sorted(asked_rules, key=lambda rule: rule.sessions, reverse=True)
