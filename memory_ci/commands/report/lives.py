"""The memory entries in the report: their use, their faults and the events of their lives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from memory_ci.anchors.text import format_verdict
from memory_ci.anchors.verdicts import judge_entry
from memory_ci.commands.health.metrics import list_contradictions
from memory_ci.commands.report.inputs import MAX_BODY, ReportInputs
from memory_ci.commands.report.records import (
    FAULT_KINDS,
    EntryFault,
    EntryLife,
    FaultKind,
    LifeStep,
)
from memory_ci.lifecycle.episodes import find_successors_among, replace_by_successors
from memory_ci.lifecycle.prominence import is_in_force, prominence
from memory_ci.lifecycle.relations import parse_relations
from memory_ci.lifecycle.utility import is_idle
from memory_ci.records.anchor import STALE_KINDS
from memory_ci.records.entry import Entry, Located, name_entry
from memory_ci.records.episode import Episode, Feedback, UseCount
from memory_ci.text import plural, shorten

MAX_STEPS = 3  # Events of one kind in the life of an entry.


class EventsOfEntry(msgspec.Struct, frozen=True):
    """Events of one entry, and of the entries that it superseded, oldest first.

    Attributes:
        unused: the episodes of work that was served the entry and did not use it.
        used: the episodes of work that used it.
        feedback: feedback on it.
    """

    unused: list[Episode] = []
    used: list[Episode] = []
    feedback: list[Feedback] = []


def list_entries(inputs: ReportInputs) -> Iterator[EntryLife]:
    """Yield all memory entries as the page shows them, the most prominent first.

    The prominence of an entry is its rank without a task: by importance, age, and how often work
    reinforced it. With each entry are the work that was served or used it, its faults (such as a
    contradiction with another entry), the events of its life, and its relations.
    """
    events_by_id = _group_events(inputs)
    titles = {located.entry.id: name_entry(located.entry) for located in inputs.located}
    opponent_ids = _map_opponents(inputs)
    for entry_prominence, located in _sort_by_prominence(inputs):
        entry = located.entry
        verdicts = inputs.verdicts[entry.id]
        use_count = inputs.usage.get(entry.id, UseCount())
        opponent_titles = [titles[opponent_id] for opponent_id in opponent_ids.get(entry.id, ())]
        yield EntryLife(
            id=entry.id,
            title=name_entry(entry),
            body=shorten(entry.body, MAX_BODY),
            type=entry.type,
            scope=located.scope.target,
            status=entry.status,
            is_in_force=is_in_force(entry, inputs.today),
            at=inputs.find_day_of_work(entry),
            links=inputs.link_origins(entry),
            place=f"{located.path}:{located.line}",
            prominence=round(entry_prominence, 3),
            served_count=use_count.served_count,
            used_count=use_count.used_count,
            verdict=judge_entry(verdicts) if verdicts else "",
            faults=_list_faults(inputs, entry, use_count, opponent_titles),
            quotes=tuple(shorten(line, MAX_BODY) for line in entry.evidence),
            life=tuple(_list_life_steps(inputs, entry, events_by_id[entry.id])),
            relations=_name_relations(entry, titles),
        )


def _group_events(inputs: ReportInputs) -> defaultdict[str, EventsOfEntry]:
    """Return the use of and the feedback on each entry, by the id of the entry.

    Events of an entry that was superseded count for the entry that replaced it, its successor.
    """
    events: defaultdict[str, EventsOfEntry] = defaultdict(EventsOfEntry)
    successors = find_successors_among(located.entry for located in inputs.located)
    for episode in inputs.episodes:
        used_ids = replace_by_successors(episode.used, successors)
        served_ids = replace_by_successors((served.id for served in episode.retrieved), successors)
        for entry_id in used_ids:
            events[entry_id].used.append(episode)
        for entry_id in served_ids - used_ids:
            events[entry_id].unused.append(episode)
    for event in inputs.feedback:
        events[event.id].feedback.append(event)
    return events


def _sort_by_prominence(inputs: ReportInputs) -> list[tuple[float, Located]]:
    """Return the entries with their prominence, highest first, and equal ones by file and line.

    Prominence is the rank of an entry without a task.
    """
    ranked = [(prominence(located.entry, inputs.today), located) for located in inputs.located]

    def sort_key(scored: tuple[float, Located]) -> tuple[float, str, int]:
        entry_prominence, located = scored
        return -entry_prominence, located.path, located.line

    return sorted(ranked, key=sort_key)


def _map_opponents(inputs: ReportInputs) -> dict[str, list[str]]:
    """Return for each entry in force the ids of the entries in force that contradict it."""
    in_force = [located for located in inputs.located if is_in_force(located.entry, inputs.today)]
    id_pairs = sorted(sorted(pair) for pair in list_contradictions(in_force))
    opponent_ids: defaultdict[str, list[str]] = defaultdict(list)
    for first_id, second_id in id_pairs:
        opponent_ids[first_id].append(second_id)
        opponent_ids[second_id].append(first_id)
    return opponent_ids


def _list_faults(
    inputs: ReportInputs, entry: Entry, use_count: UseCount, opponent_titles: Iterable[str]
) -> tuple[EntryFault, ...]:
    """Return the faults of an entry, the worst first; an entry that is not in force has none.

    Args:
        inputs: holds the verdicts of the entry's cites: whether the cited code is unchanged.
        entry: the entry.
        use_count: how often it was served and used.
        opponent_titles: the titles of the entries that it contradicts.
    """
    if not is_in_force(entry, inputs.today):
        return ()
    faults: list[EntryFault] = []
    verdicts = inputs.verdicts[entry.id]
    worst_kind = judge_entry(verdicts) if verdicts else ""
    if worst_kind in STALE_KINDS:
        stale_cites = [format_verdict(cite) for cite in verdicts if cite.kind in STALE_KINDS]
        fault_kind: FaultKind = "gone" if worst_kind == "gone" else "changed"
        faults.append(EntryFault(fault_kind, "; ".join(stale_cites)))
    faults += [EntryFault("contradicted", title) for title in opponent_titles]
    if is_idle(use_count):
        faults.append(
            EntryFault("unused", f"served {plural(use_count.served_count, 'time')}, never used")
        )
    return tuple(sorted(faults, key=lambda fault: FAULT_KINDS.index(fault.kind)))


def _name_relations(entry: Entry, titles: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the kind of each relation of an entry, with the title or id of the other entry."""
    relations = [
        (relation.kind, titles.get(relation.id, relation.id)) for relation in parse_relations(entry)
    ]
    replaced = [("supersedes", titles[old]) for old in entry.supersedes if old in titles]
    return (*relations, *replaced)


def _list_life_steps(
    inputs: ReportInputs, entry: Entry, events: EventsOfEntry
) -> Iterator[LifeStep]:
    """Yield the events in the life of an entry, grouped by kind, for its timeline on the page.

    They are: when it was learned and written, the newest work that was served it or used it, the
    newest feedback, cited code that changed, and its retirement or end date.
    """
    yield LifeStep(
        at=inputs.find_day_of_work(entry),
        what="learned",
        text=entry.engine or "",
        links=inputs.link_origins(entry),
    )
    if entry.created_at and entry.created_at != inputs.find_day_of_work(entry):
        yield LifeStep(at=entry.created_at, what="written")

    for use, episodes in (("served", events.unused), ("used", events.used)):
        for episode in episodes[-MAX_STEPS:]:
            yield LifeStep(
                at=episode.occurred_at.date(),
                what=use,
                text=episode.situation.summary,
                links=inputs.links.link_work(episode),
            )

    for event in events.feedback[-MAX_STEPS:]:
        if event.kind != "touched":
            yield LifeStep(
                at=event.at.date(),
                what=event.kind,
                text=f"by {event.by}" if event.by else "",
                links=(inputs.links.link_origin(event.ref),) if event.ref else (),
            )

    for verdict in inputs.verdicts[entry.id]:
        if verdict.kind in STALE_KINDS:
            yield LifeStep(at=None, what=f"code {verdict.kind}", text=format_verdict(verdict))

    if entry.status != "active":
        yield LifeStep(at=None, what=entry.status)
    elif entry.valid_until:
        yield LifeStep(at=entry.valid_until, what="ends")
