"""How often people ask again for what a rule says already, and what became of served rules."""

from __future__ import annotations

from collections.abc import Iterable

from memory_ci.commands.health.records import AskedAgain, AskedRule
from memory_ci.lifecycle.episodes import combine
from memory_ci.memory.episodes import load_written
from memory_ci.memory.workspace import Snapshot
from memory_ci.records.repetition import RuleOutcome, StandingRequest
from memory_ci.repetition.requests import find_standing_requests
from memory_ci.sessions.repetitions import MAX_REQUESTS, find_rule, list_written_rules
from memory_ci.sessions.rule_outcomes import count_outcomes, read_served_times
from memory_ci.sessions.session_archive import SessionArchive, read_archive

FIRST_MADE = 2
"""Sessions that make a request before its next one is a repetition."""


def count_asked_again(snapshot: Snapshot) -> AskedAgain | None:
    """Return how often people asked again; None if no session holds words of a person.

    Args:
        snapshot: the commit whose rules are compared.

    Raises:
        RepositoryError: git-failed.
    """
    archive = read_archive(snapshot.workspace, snapshot.sha)
    if not archive.turns:
        return None
    requests = find_standing_requests(archive.turns, MAX_REQUESTS)
    rules = sorted(_list_asked(snapshot, requests), key=lambda rule: -rule.sessions)
    repetitions = sum(max(0, request.sessions - FIRST_MADE) for request in requests)
    return AskedAgain(
        repetitions,
        sum(rule.sessions for rule in rules),
        tuple(rules),
        tuple(_list_outcomes(snapshot, archive)),
    )


def _list_outcomes(snapshot: Snapshot, archive: SessionArchive) -> list[RuleOutcome]:
    """Return the outcomes of served rules, those that were followed least first."""
    workspace = snapshot.workspace
    episodes = combine(load_written(workspace, snapshot.sha).tellings)
    served = read_served_times(workspace, episodes)
    entries = [place.entry for place in snapshot.memory.located]
    outcomes = count_outcomes(entries, archive, served)
    return sorted(outcomes, key=lambda outcome: outcome.followed / outcome.sessions)


def _list_asked(snapshot: Snapshot, requests: Iterable[StandingRequest]) -> list[AskedRule]:
    written = list_written_rules(snapshot)
    asked = []
    for request in requests:
        rule = find_rule(snapshot, request.terms, written)
        if rule is None:
            continue
        repeated = request.occurrences[FIRST_MADE:]
        sessions = sum(occurrence.day > rule.since for occurrence in repeated)
        if sessions:
            asked.append(AskedRule(rule.place, rule.title, sessions, rule.since))
    return asked
