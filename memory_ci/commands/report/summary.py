"""The first screen of the report: the learnings, whether they helped, and the faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, timedelta

from memory_ci.commands.health.asked_again import Period, count_asked_again_in
from memory_ci.commands.health.records import AskedAgain
from memory_ci.commands.report.inputs import ReportInputs, note_failure
from memory_ci.commands.report.records import (
    EntryLife,
    EntryMention,
    ExplainedTask,
    Summary,
    UsePeriod,
)
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import list_dropped_norms, open_view
from memory_ci.lifecycle.episodes import find_heirs_among, replace_by_heirs
from memory_ci.records.episode import Episode
from memory_ci.sessions.session_note import list_all_signs
from memory_ci.text import plural

PERIOD_DAYS = 28
MAX_NEWEST = 5  # Entries that are named as learned.
MAX_NAMED = 3  # Entries that are named for each other reason.


def summarise(
    inputs: ReportInputs,
    entries: Sequence[EntryLife],
    tasks: Iterable[ExplainedTask],
    notes: list[str],
) -> Summary:
    """Return the answers to the questions of the first screen.

    Args:
        inputs: the memory and history.
        entries: all entries, the most prominent first.
        tasks: the tasks that are explained on the page.
        notes: is added a sentence on what could not be read.
    """
    in_force = [entry for entry in entries if entry.is_in_force]
    periods = _list_periods(inputs.today)
    asked: tuple[AskedAgain, ...] = ()
    with note_failure(notes, "What people asked again"):
        asked = count_asked_again_in(inputs.workspace.at(inputs.tip), periods)
    recent, before = (
        _count_period(inputs, entries, period, asked[number] if asked else AskedAgain(0, 0))
        for number, period in enumerate(periods)
    )
    dated = [entry for entry in in_force if entry.at is not None]
    dated.sort(key=lambda entry: entry.at or date.min, reverse=True)
    return Summary(
        recent=recent,
        before=before,
        is_heard=bool(asked),
        newest=tuple(entry.id for entry in dated[:MAX_NEWEST]),
        most_used=tuple(_list_most_used(inputs, in_force, periods[0])),
        asked_again=_name_asked_rules(asked[0]) if asked else (),
        failed_again=_name_failed_rules(asked[0]) if asked else (),
        faulty=tuple(entry.id for entry in sort_worst_first(in_force) if entry.faults),
        over_budget=(*_list_norms_over_budget(inputs, entries, notes), *_list_no_room(tasks)),
        compared=sum(entry.verdict not in ("", "unverifiable") for entry in in_force),
    )


def sort_worst_first(entries: Iterable[EntryLife]) -> list[EntryLife]:
    """Return entries with the worst and most faults first, and of equals the most served."""
    order = ("gone", "contradicted", "changed", "unused")
    return sorted(
        entries,
        key=lambda entry: (
            order.index(entry.faults[0].kind) if entry.faults else len(order),
            -len(entry.faults),
            -entry.given,
        ),
    )


def _list_periods(today: date) -> tuple[Period, Period]:
    """Return the last four weeks, and the four weeks before."""
    first = today - timedelta(days=PERIOD_DAYS - 1)
    last_before = first - timedelta(days=1)
    return (first, today), (first - timedelta(days=PERIOD_DAYS), last_before)


def _count_period(
    inputs: ReportInputs, entries: Iterable[EntryLife], period: Period, asked: AskedAgain
) -> UsePeriod:
    first, last = period
    servings = 0
    used = 0
    for episode in _list_episodes(inputs, period):
        served_ids = {retrieved.id for retrieved in episode.retrieved}.union(episode.used)
        servings += len(served_ids)
        used += len(served_ids.intersection(episode.used))
    return UsePeriod(
        first=first,
        last=last,
        learned=sum(entry.at is not None and first <= entry.at <= last for entry in entries),
        sessions=_count_sessions(inputs, period),
        servings=servings,
        used=used,
        repetitions=asked.repetitions,
        although_written=asked.although_written,
        rules_served=sum(outcome.sessions for outcome in asked.outcomes),
        failed_again=sum(outcome.failed_again for outcome in asked.outcomes),
    )


def _list_episodes(inputs: ReportInputs, period: Period) -> list[Episode]:
    """Return the episodes of a period whose work was served an entry."""
    first, last = period
    return [
        episode
        for episode in inputs.episodes
        if (episode.retrieved or episode.used) and first <= episode.occurred_at.date() <= last
    ]


def _count_sessions(inputs: ReportInputs, period: Period) -> int:
    """Count the sessions that were served an entry; work that names no session counts as one."""
    first, last = period
    sessions: set[str] = set()
    for episode in _list_episodes(inputs, period):
        named = episode.context.get("sessions", "").split(", ")
        sessions.update(name or episode.id for name in named)
    for sign in list_all_signs(inputs.workspace):
        if sign.served and first <= sign.at.astimezone(UTC).date() <= last:
            sessions.add(sign.key)
    return len(sessions)


def _list_most_used(
    inputs: ReportInputs, in_force: Iterable[EntryLife], period: Period
) -> list[EntryMention]:
    heirs = find_heirs_among(place.entry for place in inputs.located)
    counts: Counter[str] = Counter()
    for episode in _list_episodes(inputs, period):
        counts.update(replace_by_heirs(episode.used, heirs))
    used = [entry for entry in in_force if counts[entry.id]]
    used.sort(key=lambda entry: -counts[entry.id])
    return [
        EntryMention(entry.id, entry.title, plural(counts[entry.id], "time"))
        for entry in used[:MAX_NAMED]
    ]


def _name_asked_rules(asked: AskedAgain) -> tuple[EntryMention, ...]:
    named = []
    for rule in asked.rules[:MAX_NAMED]:
        is_line = ":" in rule.place
        reason = f"{rule.place}, " if is_line else ""
        reason += plural(rule.sessions, "session")
        named.append(EntryMention("" if is_line else rule.place, rule.title, reason))
    return tuple(named)


def _name_failed_rules(asked: AskedAgain) -> tuple[EntryMention, ...]:
    failed = [outcome for outcome in asked.outcomes if outcome.failed_again]
    return tuple(
        EntryMention(
            outcome.id,
            outcome.title,
            f"{outcome.failed_again} of {plural(outcome.sessions, 'session')}",
        )
        for outcome in failed[:MAX_NAMED]
    )


def _list_norms_over_budget(
    inputs: ReportInputs, entries: Iterable[EntryLife], notes: list[str]
) -> list[EntryMention]:
    """Return the norms that no job is served, for the budget of all norms is used up."""
    titles = {entry.id: entry.title for entry in entries}
    with (
        note_failure(notes, "The budget"),
        open_view(inputs.workspace, RetrieveOptions(), inputs.today) as view,
    ):
        dropped = list_dropped_norms(view.index, inputs.workspace.config, inputs.today)
        return [
            EntryMention(
                norm.entry_id or "",
                titles.get(norm.entry_id or "", f"{norm.path}:{norm.line}"),
                "over the budget of norms that every job is served",
            )
            for norm in dropped
        ]
    return []


def _list_no_room(tasks: Iterable[ExplainedTask]) -> list[EntryMention]:
    """Return the entries that a task of the page found and that had no room."""
    named: dict[str, EntryMention] = {}
    for task in tasks:
        for entry in task.found:
            if entry.state == "no room":
                reason = f"had no room for the task {task.task}"
                named.setdefault(entry.id, EntryMention(entry.id, entry.title, reason))
    return list(named.values())
