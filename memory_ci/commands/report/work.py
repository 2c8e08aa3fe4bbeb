"""Merged work in the report: its weeks, and the files that it changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, timedelta
from typing import NamedTuple

import msgspec

from memory_ci import progress
from memory_ci.commands.report.inputs import ReportInputs, note_failure
from memory_ci.commands.report.records import ChurnedFile, Cover, WebLink, WorkWeek
from memory_ci.gitrepo import history, past
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.lifecycle.prominence import is_in_force
from memory_ci.memory.eligible import is_work, merged_on, own_commits
from memory_ci.memory.workspace import Workspace, build_memory_test, readable_path
from memory_ci.records.anchor import STALE_KINDS
from memory_ci.records.candidate import Question
from memory_ci.records.history import MergedChange
from memory_ci.store.layout import memory_pathspecs

WEEKS = 52
MAX_FILES = 60
MAX_STALE_FILES = 20
HOT = 4  # A file that no entry cites is hot among the 1/HOT of the files that change most.


def list_changes(
    workspace: Workspace, tip: str, today: date, notes: list[str]
) -> tuple[MergedChange, ...]:
    """Return the merged changes of the weeks shown that did work, oldest first."""
    repo = workspace.repo
    with note_failure(notes, "What was merged"):
        since = past.find_commit_of_day(repo, tip, _first_monday(today) - timedelta(days=1))
        planned = history.plan_range(repo, since, tip)
        found: list[MergedChange] = []
        for done, change in enumerate(history.iter_merged_changes(repo, planned)):
            progress.report("Reading merged work", done, planned.change_count)
            if is_work(workspace, change):
                found.append(change)
        return tuple(found)
    return ()


def _first_monday(today: date) -> date:
    return _monday(today) - timedelta(weeks=WEEKS - 1)


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


class WeekCounts(msgspec.Struct):
    """The counts of one week while they are summed, as in `WorkWeek`."""

    merges: int = 0
    learned: int = 0
    candidates: int = 0
    retired: int = 0
    newest: WebLink = WebLink("")
    written: WebLink = WebLink("")


def count_weeks(inputs: ReportInputs, questions: Iterable[Question]) -> Iterator[WorkWeek]:
    """Yield each week from the first one in which anything happened to the present one."""
    weeks: defaultdict[date, WeekCounts] = defaultdict(WeekCounts)
    for change in inputs.changes:
        week = _monday(merged_on(change))
        weeks[week].merges += 1
        weeks[week].newest = inputs.links.link_commit(change.tip.sha)

    for question in questions:
        labels = question.suggestion.changes[:1] if question.suggestion else ()
        for label in labels:
            if label in inputs.merge_days:
                weeks[_monday(inputs.merge_days[label])].candidates += 1

    _count_written(inputs, weeks)

    for located in inputs.located:
        day = inputs.find_day_of_work(located.entry)
        if day is not None:
            weeks[_monday(day)].learned += 1

    first = _find_first_week(inputs)
    shown = [monday for monday in weeks if first <= monday <= inputs.today]
    if shown:
        monday = min(shown)
        while monday <= inputs.today:
            yield WorkWeek(start=monday, **msgspec.structs.asdict(weeks[monday]))
            monday += timedelta(weeks=1)


def _find_first_week(inputs: ReportInputs) -> date:
    """Return the first week that is shown and that the history has."""
    first = _first_monday(inputs.today)
    if not inputs.changes:
        return first
    repo = inputs.workspace.repo
    if past.find_commit_of_day(repo, inputs.tip, first - timedelta(days=1)):
        return first
    return max(first, min(_monday(merged_on(change)) for change in inputs.changes))


def _count_written(inputs: ReportInputs, weeks: defaultdict[date, WeekCounts]) -> None:
    """Add the commits that changed memory, and the entries that they retired, to their weeks."""
    paths = memory_pathspecs(inputs.workspace.config.scopes)
    line_counts = history.count_added_lines(
        inputs.workspace.repo,
        inputs.tip,
        _first_monday(inputs.today),
        paths,
        ("id: ", "status: retired"),
    )
    for line_count in line_counts:  # The newest commit comes first.
        if any(line_count.added.values()):
            week = weeks[_monday(line_count.committed_at.astimezone(UTC).date())]
            week.retired += max(line_count.added["status: retired"], 0)
            if not week.written.label:
                week.written = inputs.links.link_commit(line_count.sha)


def list_files(inputs: ReportInputs) -> Iterator[ChurnedFile]:
    """Yield the files with stale entries, then those that merged changes touched most."""
    churn = _count_churn(inputs)
    marks = _list_cite_marks(inputs)
    stale_ids: dict[str, str] = {}
    for path, file_marks in marks.items():
        for mark in file_marks:
            if mark.is_stale:
                stale_ids.setdefault(path, mark.entry_id)
    most_churned = sorted(churn, key=lambda path: (-churn[path], path))
    stale_paths = sorted(stale_ids, key=lambda path: (-churn[path], path))[:MAX_STALE_FILES]
    paths = [*stale_paths, *(path for path in most_churned if path not in stale_paths)]
    hot_churn = 2
    if len(most_churned) >= HOT:
        hot_churn = churn[most_churned[min(len(most_churned), MAX_FILES) // HOT]]
    for path in paths[:MAX_FILES]:
        file_marks = marks.get(path, [])
        yield ChurnedFile(
            path=path,
            churn=churn[path],
            entries=len(file_marks),
            cover=_judge_cover(file_marks, is_hot=churn[path] > hot_churn),
            url=inputs.links.file_url(path) if path in churn else "",
            stale_id=stale_ids.get(path, ""),
        )


def _count_churn(inputs: ReportInputs) -> Counter[str]:
    """Count the merged changes that touched each present file outside memory."""
    is_memory = build_memory_test(inputs.workspace)
    tree = tree_at(inputs.workspace.repo, inputs.tip)
    present_paths = {readable_path(file) for file in tree.files.values()}
    churn: Counter[str] = Counter()
    for change in inputs.changes:
        paths: set[str] = set()
        for commit in own_commits(change):
            paths.update(file.path for file in commit.files)
        churn.update(path for path in paths if path in present_paths and not is_memory(path))
    return churn


class CiteMark(NamedTuple):
    """An entry in force that cites a file, and whether it cites older code of it."""

    entry_id: str
    is_stale: bool


def _list_cite_marks(inputs: ReportInputs) -> dict[str, list[CiteMark]]:
    """Return for each path the entries in force that cite it."""
    marks: defaultdict[str, list[CiteMark]] = defaultdict(list)
    for located in inputs.located:
        entry_id = located.entry.id
        if not is_in_force(located.entry, inputs.today):
            continue
        is_stale: dict[str, bool] = {}
        for verdict in inputs.verdicts[entry_id]:
            is_stale.setdefault(verdict.path, False)
            if verdict.kind in STALE_KINDS:
                is_stale[verdict.path] = True
        for path, stale in is_stale.items():
            marks[path].append(CiteMark(entry_id, stale))
    return marks


def _judge_cover(marks: Sequence[CiteMark], *, is_hot: bool) -> Cover:
    if any(mark.is_stale for mark in marks):
        return "stale"
    if marks:
        return "covered"
    return "hot" if is_hot else "bare"
