"""The first screen of the report: what memory learned, whether it helped, and its faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, timedelta

from memory_ci.commands.health.asked_again import Period, count_asked_again_in
from memory_ci.commands.health.records import AskedAgain
from memory_ci.commands.report.inputs import ReportInputs, note_failure
from memory_ci.commands.report.records import (
    FAULT_KINDS,
    EntryLife,
    EntryMention,
    ExplainedTask,
    Summary,
    UsePeriod,
)
from memory_ci.commands.retrieve.norms import list_dropped_norms
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.view import open_view
from memory_ci.lifecycle.episodes import find_successors_among, replace_by_successors
from memory_ci.records.episode import Episode
from memory_ci.sessions.session_note import list_all_activities
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
    """Return the counts and the named entries of the report's first screen.

    Args:
        inputs: the memory and history.
        entries: all entries, the most prominent first.
        tasks: the tasks that are explained on the page.
        notes: gets a sentence for each part that could not be read.
    """
    in_force = [entry for entry in entries if entry.is_in_force]
    recent_weeks, weeks_before = _choose_periods(inputs.today)
    repetitions: tuple[AskedAgain, ...] = ()  # of each period; () without captured sessions
    with note_failure(notes, "What people asked again"):
        snapshot = inputs.workspace.at(inputs.tip)
        repetitions = count_asked_again_in(snapshot, (recent_weeks, weeks_before))
    recent_repetitions, former_repetitions = repetitions or (AskedAgain(0, 0), AskedAgain(0, 0))
    faulty_entries = [entry for entry in sort_worst_first(in_force) if entry.faults]
    over_budget = _list_norms_over_budget(inputs, entries, notes)
    over_budget += _list_entries_without_room(tasks)
    return Summary(
        recent=_count_period(inputs, entries, recent_weeks, recent_repetitions),
        before=_count_period(inputs, entries, weeks_before, former_repetitions),
        has_session_words=bool(repetitions),
        newest=_list_newest_ids(in_force),
        most_used=tuple(_list_most_used(inputs, in_force, recent_weeks)),
        asked_again=_mention_repeated_rules(recent_repetitions),
        failed_again=_mention_failed_rules(recent_repetitions),
        faulty=tuple(entry.id for entry in faulty_entries),
        over_budget=tuple(over_budget),
        compared_count=sum(entry.verdict not in ("", "unverifiable") for entry in in_force),
    )


def _list_newest_ids(entries: Iterable[EntryLife]) -> tuple[str, ...]:
    """Return the ids of the entries that the newest work taught, the newest first."""
    dated = [(entry.at, entry.id) for entry in entries if entry.at is not None]
    dated.sort(key=lambda date_and_id: date_and_id[0], reverse=True)
    return tuple(entry_id for _, entry_id in dated[:MAX_NEWEST])


def sort_worst_first(entries: Iterable[EntryLife]) -> list[EntryLife]:
    """Return entries sorted by their worst fault, then the most faults, then the most served.

    Entries without a fault come last.
    """

    def rank(entry: EntryLife) -> tuple[int, int, int]:
        fault_rank = len(FAULT_KINDS)
        if entry.faults:
            fault_rank = FAULT_KINDS.index(entry.faults[0].kind)
        return fault_rank, -len(entry.faults), -entry.served_count

    return sorted(entries, key=rank)


def _choose_periods(today: date) -> tuple[Period, Period]:
    """Return the last four weeks, and the four weeks before."""
    first_day = today - timedelta(days=PERIOD_DAYS - 1)
    last_before = first_day - timedelta(days=1)
    return (first_day, today), (first_day - timedelta(days=PERIOD_DAYS), last_before)


def _count_period(
    inputs: ReportInputs, entries: Iterable[EntryLife], period: Period, repeated: AskedAgain
) -> UsePeriod:
    """Return the counts of one period: entries learned, sessions served, and repeated requests.

    An entry that several changes were served counts for each of them.

    Args:
        inputs: the memory and history.
        entries: all entries.
        period: its first and last day.
        repeated: the requests and failures that were repeated in the period.
    """
    first_day, last_day = period
    served_sum = 0
    used_sum = 0
    for episode in _list_episodes_with_use(inputs, period):
        served_ids = {retrieved.id for retrieved in episode.retrieved}.union(episode.used)
        served_sum += len(served_ids)
        used_sum += len(served_ids.intersection(episode.used))
    return UsePeriod(
        first=first_day,
        last=last_day,
        learned=sum(
            entry.at is not None and first_day <= entry.at <= last_day for entry in entries
        ),
        sessions=_count_sessions(inputs, period),
        servings=served_sum,
        used=used_sum,
        repetitions=repeated.repetitions,
        although_written=repeated.although_written,
        rules_served=sum(outcome.sessions for outcome in repeated.outcomes),
        failed_again=sum(outcome.failed_again for outcome in repeated.outcomes),
    )


def _list_episodes_with_use(inputs: ReportInputs, period: Period) -> list[Episode]:
    """Return the episodes (records of work) of a period in which entries were served or used."""
    first_day, last_day = period
    return [
        episode
        for episode in inputs.episodes
        if (episode.retrieved or episode.used)
        and first_day <= episode.occurred_at.date() <= last_day
    ]


def _count_sessions(inputs: ReportInputs, period: Period) -> int:
    """Count the agent sessions of a period that were served an entry.

    They are found in episodes, the records of merged work, and in the notes that hooks keep on
    sessions in this clone. A session that both name counts once.
    """
    first_day, last_day = period
    session_keys: set[str] = set()
    for episode in _list_episodes_with_use(inputs, period):
        names = episode.context.get("sessions", "").split(", ")
        # Work that names no session counts as one session, under the id of its episode.
        session_keys.update(name or episode.id for name in names)
    for activity in list_all_activities(inputs.workspace):
        if activity.served and first_day <= activity.at.astimezone(UTC).date() <= last_day:
            session_keys.add(activity.key)
    return len(session_keys)


def _list_most_used(
    inputs: ReportInputs, in_force: Iterable[EntryLife], period: Period
) -> list[EntryMention]:
    """Return the entries in force that the work of a period used most often.

    The use of an entry that was superseded counts for the entry that replaced it, its successor.
    """
    successors = find_successors_among(located.entry for located in inputs.located)
    use_counts: Counter[str] = Counter()
    for episode in _list_episodes_with_use(inputs, period):
        use_counts.update(replace_by_successors(episode.used, successors))
    used_entries = [entry for entry in in_force if use_counts[entry.id]]
    used_entries.sort(key=lambda entry: use_counts[entry.id], reverse=True)
    return [
        EntryMention(entry.id, entry.title, plural(use_counts[entry.id], "time"))
        for entry in used_entries[:MAX_NAMED]
    ]


def _mention_repeated_rules(repeated: AskedAgain) -> tuple[EntryMention, ...]:
    """Return the written rules that people asked for again, with the number of sessions."""
    mentions = []
    for rule in repeated.rules[:MAX_NAMED]:
        sessions = plural(rule.sessions, "session")
        # The place is the id of an entry, or `path:line` of a document, which has no id.
        if ":" in rule.place:
            mention = EntryMention("", rule.title, f"{rule.place}, {sessions}")
        else:
            mention = EntryMention(rule.place, rule.title, sessions)
        mentions.append(mention)
    return tuple(mentions)


def _mention_failed_rules(repeated: AskedAgain) -> tuple[EntryMention, ...]:
    """Return the entries on known failures that were served and whose command failed again.

    Each has the number of sessions in which it failed, as `2 of 5 sessions`.
    """
    failures = [outcome for outcome in repeated.outcomes if outcome.failed_again > 0]
    mentions = []
    for failure in failures[:MAX_NAMED]:
        reason = f"{failure.failed_again} of {plural(failure.sessions, 'session')}"
        mentions.append(EntryMention(failure.id, failure.title, reason))
    return tuple(mentions)


def _list_norms_over_budget(
    inputs: ReportInputs, entries: Iterable[EntryLife], notes: list[str]
) -> list[EntryMention]:
    """Return the norms that no job is served because the budget of norms is used up.

    Norms are the rules that every job is served, whatever its task. If they cannot be read, a
    sentence that says so is added to `notes`, and the result is empty.
    """
    titles = {entry.id: entry.title for entry in entries}
    reason = "over the budget of norms that every job is served"
    mentions: list[EntryMention] = []
    with (
        note_failure(notes, "The budget"),
        open_view(inputs.workspace, RetrieveOptions(), inputs.today) as view,
    ):
        for norm in list_dropped_norms(view.index, inputs.workspace.config, inputs.today):
            entry_id = norm.entry_id or ""
            title = titles.get(entry_id, f"{norm.path}:{norm.line}")
            mentions.append(EntryMention(entry_id, title, reason))
    return mentions


def _list_entries_without_room(tasks: Iterable[ExplainedTask]) -> list[EntryMention]:
    """Return the entries that a search for a task found and the answer had no room for.

    An entry that several tasks found is named with the first of them.
    """
    mentions: dict[str, EntryMention] = {}
    for task in tasks:
        for entry in task.found:
            if entry.state == "no room" and entry.id not in mentions:
                reason = f"had no room for the task {task.task}"
                mentions[entry.id] = EntryMention(entry.id, entry.title, reason)
    return list(mentions.values())
