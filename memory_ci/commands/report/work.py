"""Merged changes in the report: counted by week, and by the files that they touch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, timedelta
from typing import NamedTuple

import msgspec

from memory_ci import progress
from memory_ci.commands.report.inputs import ReportInputs, note_failure
from memory_ci.commands.report.records import ChurnedFile, Cover, WebLink, WorkWeek
from memory_ci.gitrepo import history, past
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.lifecycle.prominence import is_in_force
from memory_ci.memory.eligible import find_merge_day, is_work, list_work_commits
from memory_ci.memory.workspace import Workspace, build_memory_test, readable_path
from memory_ci.records.anchor import STALE_KINDS
from memory_ci.records.candidate import Question
from memory_ci.records.history import MergedChange
from memory_ci.store.layout import memory_pathspecs

WEEKS = 52
MAX_FILES = 60
MAX_STALE_FILES = 20
HOT_SHARE = 4  # One file of so many is hot: those that merged changes touch most. Chosen by hand.
HOT_CHURN_OF_FEW = 2  # Changes above which a file is hot where there are fewer files than that.


def list_changes(
    workspace: Workspace, tip: str, today: date, notes: list[str]
) -> tuple[MergedChange, ...]:
    """Return the merged changes of the weeks shown, oldest first.

    Changes of memory files alone are left out.

    Args:
        workspace: the repository and its configuration.
        tip: the commit whose history is read.
        today: the day on which the last week ends.
        notes: if history cannot be read, a sentence that says so is added; the result is () then.
    """
    repo = workspace.repo
    with note_failure(notes, "What was merged"):
        since = past.find_commit_of_day(repo, tip, _first_monday(today) - timedelta(days=1))
        commit_range = history.plan_range(repo, since, tip)
        changes: list[MergedChange] = []
        for done_count, change in enumerate(history.iter_merged_changes(repo, commit_range)):
            progress.report("Reading merged work", done_count, commit_range.change_count)
            if is_work(workspace, change):
                changes.append(change)
        return tuple(changes)
    return ()


def _first_monday(today: date) -> date:
    return _monday_of(today) - timedelta(weeks=WEEKS - 1)


def _monday_of(day: date) -> date:
    return day - timedelta(days=day.weekday())


class WeekCounts(msgspec.Struct):
    """The counts of one week while they are summed, as in `WorkWeek`."""

    merges: int = 0
    learned: int = 0
    candidates: int = 0
    retired: int = 0
    newest_merge: WebLink = WebLink("")
    newest_memory_commit: WebLink = WebLink("")


def count_weeks(inputs: ReportInputs, questions: Iterable[Question]) -> Iterator[WorkWeek]:
    """Yield the counts of each week, from the first week in which anything happened until today.

    Args:
        inputs: the memory and history.
        questions: the questions that wait for a maintainer; those about candidates are counted.
    """
    weeks: defaultdict[date, WeekCounts] = defaultdict(WeekCounts)
    for change in inputs.changes:
        week = _monday_of(find_merge_day(change))
        weeks[week].merges += 1
        weeks[week].newest_merge = inputs.links.link_commit(change.tip.sha)

    for question in questions:
        if question.suggestion is None or not question.suggestion.changes:
            continue
        # A candidate counts in the week of the first change that it was found in.
        merge_day = inputs.merge_days.get(question.suggestion.changes[0])
        if merge_day is not None:
            weeks[_monday_of(merge_day)].candidates += 1

    _add_memory_commits(inputs, weeks)

    for located in inputs.located:
        day = inputs.find_day_of_work(located.entry)
        if day is not None:
            weeks[_monday_of(day)].learned += 1

    first_monday = _find_first_week(inputs)
    shown_mondays = [monday for monday in weeks if first_monday <= monday <= inputs.today]
    if shown_mondays:
        monday = min(shown_mondays)
        while monday <= inputs.today:
            yield WorkWeek(start=monday, **msgspec.structs.asdict(weeks[monday]))
            monday += timedelta(weeks=1)


def _find_first_week(inputs: ReportInputs) -> date:
    """Return the Monday of the first week to show: 52 weeks ago, or when the history began."""
    first_monday = _first_monday(inputs.today)
    if not inputs.changes:
        return first_monday
    repo = inputs.workspace.repo
    has_older_commits = past.find_commit_of_day(repo, inputs.tip, first_monday - timedelta(days=1))
    if has_older_commits:
        return first_monday
    mondays_of_changes = [_monday_of(find_merge_day(change)) for change in inputs.changes]
    return max(first_monday, min(mondays_of_changes))


def _add_memory_commits(inputs: ReportInputs, weeks: defaultdict[date, WeekCounts]) -> None:
    """Add to each week the newest commit that changed memory, and how many entries were retired.

    A commit that retires an entry adds the line `status: retired` to a memory file. The number of
    lines that a commit adds is less those that it removes; it is negative where entries were moved
    or deleted.
    """
    paths = memory_pathspecs(inputs.workspace.config.scopes)
    line_counts = history.count_added_lines(
        inputs.workspace.repo,
        inputs.tip,
        _first_monday(inputs.today),
        paths,
        ("id: ", "status: retired"),
    )
    for line_count in line_counts:  # The newest commit comes first.
        has_changed_entries = any(line_count.added_counts.values())
        if not has_changed_entries:
            continue
        day = line_count.committed_at.astimezone(UTC).date()
        week = weeks[_monday_of(day)]
        week.retired += max(line_count.added_counts["status: retired"], 0)
        if not week.newest_memory_commit.label:
            week.newest_memory_commit = inputs.links.link_commit(line_count.sha)


def list_files(inputs: ReportInputs) -> Iterator[ChurnedFile]:
    """Yield the files of the map of the repository, with the entries that cite each of them.

    First come files with a stale citation: an entry cites code that has changed since. Then come
    those that merged changes touched most; the number of these changes is the churn of a file.
    """
    churn = _count_churn(inputs)
    citations = _map_citations(inputs)
    stale_ids = _map_stale_ids(citations)

    def sort_by_churn(paths: Iterable[str]) -> list[str]:
        return sorted(paths, key=lambda path: (-churn[path], path))

    most_churned = sort_by_churn(churn)
    paths = sort_by_churn(stale_ids)[:MAX_STALE_FILES]
    paths += [path for path in most_churned if path not in paths]
    hot_churn = _find_hot_churn([churn[path] for path in most_churned])  # hot: changes often
    for path in paths[:MAX_FILES]:
        file_citations = citations.get(path, [])
        url = ""
        if path in churn:  # A file that was deleted is cited, but not counted.
            url = inputs.links.file_url(path)
        yield ChurnedFile(
            path=path,
            churn=churn[path],
            entries=len(file_citations),
            cover=_judge_cover(file_citations, is_hot=churn[path] > hot_churn),
            url=url,
            stale_id=stale_ids.get(path, ""),
        )


def _map_stale_ids(citations: Mapping[str, Iterable[Citation]]) -> dict[str, str]:
    """Return for each path with a stale citation the id of the first entry that has one."""
    stale_ids: dict[str, str] = {}
    for path, file_citations in citations.items():
        for citation in file_citations:
            if citation.is_stale:
                stale_ids.setdefault(path, citation.entry_id)
    return stale_ids


def _find_hot_churn(churn: Sequence[int]) -> int:
    """Return the number of merged changes above which a file is hot: it changes often.

    A quarter of the files on the map are hot, if they are ordered by how often they change.

    Args:
        churn: how many merged changes touched each file, the highest number first.
    """
    if len(churn) < HOT_SHARE:
        return HOT_CHURN_OF_FEW  # So few files are not compared with each other.
    file_count = min(len(churn), MAX_FILES)
    hot_count = file_count // HOT_SHARE
    return churn[hot_count]  # of the first file that is not hot


def _count_churn(inputs: ReportInputs) -> Counter[str]:
    """Count the merged changes that touched each present file outside memory."""
    is_memory = build_memory_test(inputs.workspace)
    tree = tree_at(inputs.workspace.repo, inputs.tip)
    present_paths = {readable_path(file) for file in tree.files.values()}
    churn: Counter[str] = Counter()
    for change in inputs.changes:
        changed_paths: set[str] = set()
        for commit in list_work_commits(change):
            changed_paths.update(file.path for file in commit.files)
        for path in changed_paths & present_paths:
            if not is_memory(path):
                churn[path] += 1
    return churn


class Citation(NamedTuple):
    """An entry in force that cites a file, and whether the cited code has changed since."""

    entry_id: str
    is_stale: bool


def _map_citations(inputs: ReportInputs) -> dict[str, list[Citation]]:
    """Return for each path the entries in force that cite it, each of them once."""
    citations: defaultdict[str, list[Citation]] = defaultdict(list)
    for located in inputs.located:
        entry_id = located.entry.id
        if not is_in_force(located.entry, inputs.today):
            continue
        # An entry may cite several places of a file; one that changed makes it stale.
        stale_by_path: dict[str, bool] = {}
        for verdict in inputs.verdicts[entry_id]:
            is_stale = verdict.kind in STALE_KINDS
            stale_by_path[verdict.path] = is_stale or stale_by_path.get(verdict.path, False)
        for path, is_stale in stale_by_path.items():
            citations[path].append(Citation(entry_id, is_stale))
    return citations


def _judge_cover(citations: Sequence[Citation], *, is_hot: bool) -> Cover:
    """Return whether entries cover a file, given those that cite it; a hot file changes often."""
    if any(citation.is_stale for citation in citations):
        return "stale"
    if citations:
        return "covered"
    return "hot" if is_hot else "bare"
