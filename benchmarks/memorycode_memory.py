"""What memory holds after the sessions of a dialogue, read as `record` reads sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from benchmarks.memorycode_data import Dialogue, Turn
from memory_ci.evidence.ingestion import collect_evidence
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.rules import RulesEngine
from memory_ci.extraction.entries import entry_id, to_entry
from memory_ci.extraction.judge import JudgedCase, judge_reply
from memory_ci.extraction.norms import is_conduct_request
from memory_ci.extraction.settlement import settle_candidates
from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.lifecycle.consolidation import plan_consolidation
from memory_ci.lifecycle.prominence import is_in_force
from memory_ci.lifecycle.relations import parse_relations
from memory_ci.records.candidate import Candidate, ExistingEntry, Judged, Request
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.entry import PROJECT, Entry, Located, create_entry
from memory_ci.records.event import Event, Evidence, Origin
from memory_ci.records.repetition import PersonTurn
from memory_ci.repetition.requests import find_standing_requests, is_same_request

FIRST_DAY = datetime(2026, 1, 1, 9, tzinfo=UTC)
PATH = "MEMORY.md"
MODEL = "a model"
MAX_REQUESTS = 10  # Standing requests that are proposed, as many as `record` proposes.


class KeptEntry(NamedTuple):
    """An entry after the last session.

    Attributes:
        title: its title, from which a check is derived.
        text: its title, its body and the words that prove it.
        is_in_force: whether it is served.
        is_contradicted: whether it says that another entry contradicts it.
    """

    title: str
    text: str
    is_in_force: bool
    is_contradicted: bool


def remember(dialogue: Dialogue, engine: Engine | None) -> list[KeptEntry]:
    """Return the entries after all sessions, each session read by the rules and by an engine.

    Raises:
        EngineError: as the engine.
    """
    located: list[Located] = []
    spoken: list[PersonTurn] = []
    today = FIRST_DAY.date()
    for number, turns in enumerate(dialogue.sessions):
        at = FIRST_DAY + timedelta(days=number)
        today = at.date()
        name = f"dialogue {dialogue.number} session {number}"
        existing = [place.entry for place in located if is_in_force(place.entry, today)]
        for candidate in _find_candidates(name, turns, at, existing, engine):
            located.append(_locate(candidate, today))
        located = _consolidate(located, today)
        spoken += [
            PersonTurn(str(number), at, "mentor", turn.text) for turn in turns if turn.is_mentor
        ]
    located += _list_repeated(dialogue, spoken, [place.entry for place in located])
    return [_keep(place.entry, today) for place in _consolidate(located, today)]


def _list_repeated(
    dialogue: Dialogue, spoken: Sequence[PersonTurn], existing: Sequence[Entry]
) -> Iterator[Located]:
    """Yield what is asked again in several sessions and not in memory yet; read once, at the end."""
    for number, request in enumerate(find_standing_requests(spoken, MAX_REQUESTS)):
        days = [said.day for said in request.occurrences if said.text == request.text]
        id_ = f"{dialogue.number:04}-{number:04}"
        entry = create_entry(
            id_, request.text, "", max(days), type_="directive", domain="team", importance=0.6
        )
        is_known = any(is_same_request(request.terms, entry.text) for entry in existing)
        if is_conduct_request(request.text) and not is_known:
            yield Located(entry, PATH, 1, PROJECT)


def _find_candidates(
    name: str,
    turns: Sequence[Turn],
    at: datetime,
    existing: Sequence[Entry],
    engine: Engine | None,
) -> Iterator[Candidate]:
    """Yield what is written or proposed of a session and not in memory yet."""
    pieces = collect_evidence(_make_events(name, turns, at), ExtractionConfig()).pieces
    case = JudgedCase(label=name, pieces=pieces, existing=tuple(existing))
    request = Request(change=name, evidence=pieces)
    judged = list(judge_reply(case, RulesEngine().extract(request).text).judged)
    if engine is not None:
        known = tuple(ExistingEntry(entry.id, entry.title) for entry in existing)
        reply = engine.extract(replace(request, existing=known))
        judged += judge_reply(case, reply.text, MODEL).judged
    settled = settle_candidates(judged, ExtractionConfig().max_entries_per_change)
    yield from (item.candidate for item in settled if item.verdict == "written")
    yield from _list_proposed(settled, existing)


def _list_proposed(judged: Iterable[Judged], existing: Sequence[Entry]) -> Iterator[Candidate]:
    for suggestion in list_suggestions(judged, existing=existing):
        yield replace(suggestion.candidate, accepted="in the benchmark")


def _make_events(name: str, turns: Iterable[Turn], at: datetime) -> Iterator[Event]:
    """Yield the turns of a session: the mentor is the person, the other speaker the agent."""
    for line, turn in enumerate(turns, start=1):
        yield Event(
            seq=line,
            at=at + timedelta(minutes=line),
            actor="human" if turn.is_mentor else "agent",
            kind="text",
            text=turn.text,
            origin=Origin("session", name.replace(" ", "-"), line=line),
            author="mentor" if turn.is_mentor else "",
            session=name.replace(" ", "-"),
        )


def _locate(candidate: Candidate, today: date) -> Located:
    entry = to_entry(candidate, entry_id=entry_id(candidate), today=today, merged_on=today)
    return Located(entry, PATH, 1, PROJECT)


def _consolidate(located: Sequence[Located], today: date) -> list[Located]:
    """Return the entries as the upkeep of a run leaves them."""
    changes = plan_consolidation(located, today)
    updates = {change.entry.id: change.entry for change in changes}
    return [replace(place, entry=updates.get(place.entry.id, place.entry)) for place in located]


def _keep(entry: Entry, today: date) -> KeptEntry:
    return KeptEntry(
        title=entry.title,
        text="\n".join((entry.title, entry.body, *entry.evidence)),
        is_in_force=is_in_force(entry, today),
        is_contradicted=any(relation.kind == "contradicts" for relation in parse_relations(entry)),
    )


def list_pieces(dialogue: Dialogue, number: int) -> tuple[Evidence, ...]:
    """Return the evidence of a session, as a model would see it."""
    name = f"dialogue {dialogue.number} session {number}"
    events = _make_events(name, dialogue.sessions[number], FIRST_DAY + timedelta(days=number))
    return collect_evidence(events, ExtractionConfig()).pieces
