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

FAILING_FORM = "before:command "
"""The beginning of the moment of a known failure; the form of the command follows."""

BEGINNING = datetime.min.replace(tzinfo=UTC)


class ServedTimes(NamedTuple):
    """When sessions were served entries, and told requests that nobody agreed to yet.

    Attributes:
        entries: by id of the entry, when it was first served, by session.
        requests: by the key of the request, when it was first told, by session.
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
        for key in activity.served_requests:
            requests[key].setdefault(activity.key, activity.at)
    for episode in episodes:
        sessions = episode.context.get("sessions", "")
        for session in filter(None, sessions.split(", ")):
            for retrieved in episode.retrieved:
                entries[retrieved.id].setdefault(session, BEGINNING)
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
            outcome = count_asked_again(entry.id, entry.title, terms, archive, times)
        elif (entry.when or "").startswith(FAILING_FORM):
            outcome = _count_failed_again(entry, archive, times)
        if outcome.sessions:
            outcomes.append(outcome)
    return outcomes


def count_asked_again(
    id_: str,
    title: str,
    terms: Iterable[str],
    archive: SessionArchive,
    times: Mapping[str, datetime],
) -> RuleOutcome:
    """Count the sessions that were served a request, and those in which a person asked it again.

    Args:
        id_: the id of its entry, or its key.
        title: its words.
        terms: its terms.
        archive: the sessions; sessions without a turn in it are not counted.
        times: when each session was served it.
    """
    terms = tuple(terms)
    served_sessions: set[str] = set()
    repeating_sessions: set[str] = set()
    for turn in archive.turns:
        served_at = times.get(turn.session)
        if served_at is None:
            continue
        served_sessions.add(turn.session)
        if turn.at > served_at and is_same_request(terms, turn.text):
            repeating_sessions.add(turn.session)
    return RuleOutcome(
        id_, title, sessions=len(served_sessions), asked_again=len(repeating_sessions)
    )


def _count_failed_again(
    entry: Entry, archive: SessionArchive, times: Mapping[str, datetime]
) -> RuleOutcome:
    """Count the sessions that were served a known failure, and those in which it failed again.

    Args:
        entry: the entry, whose moment names the command that fails.
        archive: the sessions; sessions without a turn in it are not counted.
        times: when each session was served the entry.
    """
    form = (entry.when or "").removeprefix(FAILING_FORM)
    served_sessions = {turn.session for turn in archive.turns if turn.session in times}
    failing_sessions = {
        run.session
        for run in archive.failed
        if run.session in served_sessions and run.form == form and run.at > times[run.session]
    }
    return RuleOutcome(
        entry.id, entry.title, sessions=len(served_sessions), failed_again=len(failing_sessions)
    )
