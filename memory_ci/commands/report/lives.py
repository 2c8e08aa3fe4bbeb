"""The entries in the report: their use, their faults and their lives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

import msgspec

from memory_ci.anchors.text import format_verdict
from memory_ci.anchors.verdicts import judge_entry
from memory_ci.commands.health.metrics import list_contradictions
from memory_ci.commands.report.inputs import MAX_BODY, ReportInputs
from memory_ci.commands.report.records import EntryFault, EntryLife, FaultKind, LifeStep
from memory_ci.lifecycle.episodes import find_heirs_among, replace_by_heirs
from memory_ci.lifecycle.prominence import is_in_force, prominence
from memory_ci.lifecycle.relations import relations_of
from memory_ci.lifecycle.utility import is_idle
from memory_ci.records.anchor import STALE_KINDS
from memory_ci.records.entry import Entry, name_entry
from memory_ci.records.episode import Episode, Feedback, UseCount
from memory_ci.text import plural, shorten

MAX_STEPS = 3  # Events of one kind in the life of an entry.
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)


class EntryEvents(msgspec.Struct, frozen=True):
    """Events of one entry, and of those that it superseded, oldest first.

    Attributes:
        unused: the work that it was served to and that did not use it.
        used: the work that used it.
        feedback: feedback on it.
    """

    unused: list[Episode] = []
    used: list[Episode] = []
    feedback: list[Feedback] = []


def list_entries(inputs: ReportInputs) -> Iterator[EntryLife]:
    """Yield the entries, the most prominent first."""
    events: defaultdict[str, EntryEvents] = defaultdict(EntryEvents)
    heirs = find_heirs_among(located.entry for located in inputs.located)
    for episode in inputs.episodes:
        used_ids = replace_by_heirs(episode.used, heirs)
        served_ids = replace_by_heirs((served.id for served in episode.retrieved), heirs)
        for entry_id in used_ids:
            events[entry_id].used.append(episode)
        for entry_id in served_ids - used_ids:
            events[entry_id].unused.append(episode)
    for event in inputs.feedback:
        events[event.id].feedback.append(event)

    ranked = [(prominence(located.entry, inputs.today), located) for located in inputs.located]
    ranked.sort(key=lambda pair: (-pair[0], pair[1].path, pair[1].line))
    titles = {located.entry.id: name_entry(located.entry) for located in inputs.located}
    opponents = _map_opponents(inputs)
    for value, located in ranked:
        entry = located.entry
        verdicts = inputs.verdicts[entry.id]
        use_count = inputs.usage.get(entry.id, UseCount())
        against = [titles[opponent] for opponent in opponents.get(entry.id, ())]
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
            prominence=round(value, 3),
            given=use_count.given,
            used=use_count.used,
            verdict=judge_entry(verdicts) if verdicts else "",
            faults=_list_faults(inputs, entry, use_count, against),
            quotes=tuple(shorten(line, MAX_BODY) for line in entry.evidence),
            life=tuple(_list_life_steps(inputs, entry, events[entry.id])),
            others=_name_relations(entry, titles),
        )


def _map_opponents(inputs: ReportInputs) -> dict[str, list[str]]:
    """Return for each entry in force the ids of those that it contradicts."""
    in_force = [place for place in inputs.located if is_in_force(place.entry, inputs.today)]
    opponents: defaultdict[str, list[str]] = defaultdict(list)
    for pair in sorted(sorted(pair) for pair in list_contradictions(in_force)):
        opponents[pair[0]].append(pair[1])
        opponents[pair[1]].append(pair[0])
    return opponents


def _list_faults(
    inputs: ReportInputs, entry: Entry, use_count: UseCount, against: Iterable[str]
) -> tuple[EntryFault, ...]:
    """Return the faults of an entry in force, the worst first.

    Args:
        inputs: gives the verdicts of its cites.
        entry: the entry.
        use_count: how often it was served and used.
        against: the titles of the entries that it contradicts.
    """
    if not is_in_force(entry, inputs.today):
        return ()
    faults: list[EntryFault] = []
    verdicts = inputs.verdicts[entry.id]
    verdict = judge_entry(verdicts) if verdicts else ""
    if verdict in STALE_KINDS:
        details = [format_verdict(item) for item in verdicts if item.kind in STALE_KINDS]
        kind: FaultKind = "gone" if verdict == "gone" else "changed"
        faults.append(EntryFault(kind, "; ".join(details)))
    faults += [EntryFault("contradicted", title) for title in against]
    if is_idle(use_count):
        faults.append(EntryFault("unused", f"served {plural(use_count.given, 'time')}, never used"))
    return tuple(sorted(faults, key=lambda fault: FAULT_KINDS.index(fault.kind)))


def _name_relations(entry: Entry, titles: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the kind of each relation of an entry, with the title or id of the other entry."""
    relations = [
        (relation.kind, titles.get(relation.id, relation.id)) for relation in relations_of(entry)
    ]
    replaced = [("supersedes", titles[old]) for old in entry.supersedes if old in titles]
    return (*relations, *replaced)


def _list_life_steps(inputs: ReportInputs, entry: Entry, events: EntryEvents) -> Iterator[LifeStep]:
    """Yield the life of an entry: learning, work, feedback, changed code, end."""
    yield LifeStep(
        at=inputs.find_day_of_work(entry),
        what="learned",
        text=entry.engine or "",
        links=inputs.link_origins(entry),
    )
    if entry.created_at and entry.created_at != inputs.find_day_of_work(entry):
        yield LifeStep(at=entry.created_at, what="written")

    for what, episodes in (("served", events.unused), ("used", events.used)):
        for episode in episodes[-MAX_STEPS:]:
            yield LifeStep(
                at=episode.occurred_at.date(),
                what=what,
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
