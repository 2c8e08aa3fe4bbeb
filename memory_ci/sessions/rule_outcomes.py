"""Count how often sessions followed the rules of conduct that they were served.

A person does not repeat a request that the agent follows. So a session followed a rule if it was
served the rule and no person asked for the same in it. A session avoided a known failure if it was
served the failure and the command did not fail again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import Entry
from memory_ci.records.episode import Episode
from memory_ci.records.repetition import RuleOutcome
from memory_ci.repetition.clauses import read_clause
from memory_ci.repetition.requests import is_same_request
from memory_ci.sessions.session_archive import SessionArchive
from memory_ci.sessions.session_note import list_all_activities

FAILURE_MOMENT_PREFIX = "before:command "
"""The beginning of the moment of a known failure; the command that fails follows."""

EARLIEST_TIME = datetime.min.replace(tzinfo=UTC)


class ServedTimes(NamedTuple):
    """When sessions were first served entries, and proposed requests that nobody agreed to yet.

    Attributes:
        entries: the time by session, by the id of the entry.
        requests: the time by session, by the key of the request.
    """

    entries: Mapping[str, Mapping[str, datetime]]
    requests: Mapping[str, Mapping[str, datetime]]


def read_served_times(workspace: Workspace, episodes: Iterable[Episode] = ()) -> ServedTimes:
    """Return when each session was first served each entry and each proposed request.

    The notes of this work tree have the time, for the last 30 days. Episodes (records of merged
    changes) name the sessions and the entries, but no time: such an entry counts as served from the
    beginning of the session.
    """
    entries: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
    requests: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
    for activity in list_all_activities(workspace):  # the earliest first
        for entry_id in activity.served:
            entries[entry_id].setdefault(activity.key, activity.at)
        for request_key in activity.served_requests:
            requests[request_key].setdefault(activity.key, activity.at)
    for episode in episodes:
        session_keys = episode.context.get("sessions", "")
        for session_key in filter(None, session_keys.split(", ")):
            for served_entry in episode.retrieved:
                entries[served_entry.id].setdefault(session_key, EARLIEST_TIME)
    return ServedTimes(entries, requests)


def count_outcomes(
    entries: Iterable[Entry], archive: SessionArchive, served: ServedTimes
) -> list[RuleOutcome]:
    """Return how often sessions followed each rule, and avoided each known failure, served to them.

    Args:
        entries: entries of any type.
        archive: the sessions of the repository.
        served: when sessions were served which entry.
    """
    outcomes = []
    for entry in entries:
        times = served.entries.get(entry.id, {})
        outcome = RuleOutcome(entry.id, entry.title)
        if entry.type == "directive":
            terms = tuple(read_clause(entry.title).terms)
            outcome = count_outcome_of_request(entry.id, entry.title, terms, archive, times)
        elif (entry.when or "").startswith(FAILURE_MOMENT_PREFIX):
            outcome = _count_outcome_of_failure(entry, archive, times)
        if outcome.sessions:
            outcomes.append(outcome)
    return outcomes


def count_outcome_of_request(
    rule_id: str,
    title: str,
    terms: Iterable[str],
    archive: SessionArchive,
    served_at_by_session: Mapping[str, datetime],
) -> RuleOutcome:
    """Count the sessions that were served a request, and those in which a person repeated it.

    Args:
        rule_id: the id of the entry with the request; "" for a proposed request.
        title: the text of the request.
        terms: the words of the request by which repetitions of it are recognised.
        archive: the sessions; sessions without a turn in it are not counted.
        served_at_by_session: when each session was served the request.
    """
    terms = tuple(terms)
    served_sessions: set[str] = set()
    repeating_sessions: set[str] = set()
    for turn in archive.turns:
        served_at = served_at_by_session.get(turn.session)
        if served_at is None:
            continue
        served_sessions.add(turn.session)
        if turn.at > served_at and is_same_request(terms, turn.text):
            repeating_sessions.add(turn.session)
    return RuleOutcome(
        rule_id, title, sessions=len(served_sessions), asked_again=len(repeating_sessions)
    )


def _count_outcome_of_failure(
    entry: Entry, archive: SessionArchive, served_at_by_session: Mapping[str, datetime]
) -> RuleOutcome:
    """Count the sessions that were served a known failure, and those in which it failed again.

    Args:
        entry: the entry, whose moment (`before:command npm test`) names the command that fails.
        archive: the sessions; sessions without a turn in it are not counted.
        served_at_by_session: when each session was served the entry.
    """
    command = (entry.when or "").removeprefix(FAILURE_MOMENT_PREFIX)
    served_sessions = {
        turn.session for turn in archive.turns if turn.session in served_at_by_session
    }
    failing_sessions: set[str] = set()
    for run in archive.failed:
        if run.session not in served_sessions or run.form != command:
            continue
        if run.at > served_at_by_session[run.session]:
            failing_sessions.add(run.session)
    return RuleOutcome(
        entry.id, entry.title, sessions=len(served_sessions), failed_again=len(failing_sessions)
    )
