"""How often people repeat a request that a rule covers, and the outcomes of served rules."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.commands.health.records import AskedAgain, AskedRule
from memory_ci.lifecycle.episodes import combine
from memory_ci.memory.episodes import load_written
from memory_ci.memory.workspace import Snapshot
from memory_ci.records.repetition import Quotation, RuleOutcome, StandingRequest
from memory_ci.repetition.requests import find_standing_requests
from memory_ci.sessions.repetitions import (
    MAX_REQUESTS,
    StandingRule,
    find_rule,
    list_written_rules,
)
from memory_ci.sessions.rule_outcomes import ServedTimes, count_outcomes, read_served_times
from memory_ci.sessions.session_archive import SessionArchive, read_archive

FIRST_MADE = 2
"""Sessions that make a request before its next one is a repetition."""

Period = tuple[date, date]
"""The first and the last day of a period."""

EVER: Period = (date.min, date.max)


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
    """Return how often people asked again; None if no session holds words of a person.

    Args:
        snapshot: the commit whose rules are compared.

    Raises:
        RepositoryError: git-failed.
    """
    asked = count_asked_again_in(snapshot, [EVER])
    return asked[0] if asked else None


def count_asked_again_in(snapshot: Snapshot, periods: Iterable[Period]) -> tuple[AskedAgain, ...]:
    """Return how often people asked again in each period; () if no session holds their words.

    A request is a repetition if two earlier sessions made it, in whatever period.

    Args:
        snapshot: the commit whose rules are compared.
        periods: the first and the last day of each period.

    Raises:
        RepositoryError: git-failed.
    """
    archive = read_archive(snapshot.workspace, snapshot.sha)
    if not archive.turns:
        return ()
    requests = find_standing_requests(archive.turns, MAX_REQUESTS)
    written = list_written_rules(snapshot)
    repeated = [
        RepeatedRequest(request, find_rule(snapshot, request.terms, written))
        for request in requests
    ]
    served = _read_served(snapshot)
    counts = []
    for period in periods:
        rules = sorted(_list_asked(repeated, period), key=lambda rule: -rule.sessions)
        outcomes = _list_outcomes(snapshot, _cut_archive(archive, period), served)
        repetitions = sum(len(request.list_repetitions(period)) for request in repeated)
        although_written = sum(rule.sessions for rule in rules)
        counts.append(AskedAgain(repetitions, although_written, tuple(rules), tuple(outcomes)))
    return tuple(counts)


def _read_served(snapshot: Snapshot) -> ServedTimes:
    workspace = snapshot.workspace
    return read_served_times(workspace, combine(load_written(workspace, snapshot.sha).tellings))


def _cut_archive(archive: SessionArchive, period: Period) -> SessionArchive:
    """Return the turns and failures of a period."""
    first, last = period
    turns = tuple(turn for turn in archive.turns if first <= turn.at.date() <= last)
    failed = tuple(run for run in archive.failed if first <= run.at.date() <= last)
    return replace(archive, turns=turns, failed=failed)


def _list_outcomes(
    snapshot: Snapshot, archive: SessionArchive, served: ServedTimes
) -> list[RuleOutcome]:
    """Return the outcomes of served rules, those that were followed least first."""
    entries = [place.entry for place in snapshot.memory.located]
    outcomes = count_outcomes(entries, archive, served)
    return sorted(outcomes, key=lambda outcome: outcome.followed / outcome.sessions)


def _list_asked(repeated: Iterable[RepeatedRequest], period: Period) -> list[AskedRule]:
    """Return the rules that were asked for in a period although they were written before."""
    asked = []
    for request in repeated:
        rule = request.rule
        if rule is None:
            continue
        repetitions = request.list_repetitions(period)
        sessions = sum(repetition.day > rule.since for repetition in repetitions)
        if sessions:
            asked.append(AskedRule(rule.place, rule.title, sessions, rule.since))
    return asked
