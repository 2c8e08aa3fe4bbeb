"""The effect of a memory pull request on agents: the entries for past tasks, before and after it.

An answer is the entries that an agent is shown for a task. A past task is a merged change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from memory_ci.commands.publish.text import TaskAnswers
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import list_served_ids, retrieve
from memory_ci.commands.retrieve.view import MemoryView
from memory_ci.errors import RepositoryError
from memory_ci.memory.past_index import PastIndexes
from memory_ci.memory.past_tasks import load_tasks
from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import Entry, Located
from memory_ci.records.retrieval import SimilarTask, Task
from memory_ci.search.similar_tasks import TaskQuery, find_similar

MAX_TASKS = 3

MAX_ADDED = 30
"""Number of added entries for which similar tasks are searched."""

MAX_ENTRIES = 2_000
"""Entries of memory up to which answers are compared.

Each answer builds an index of its commit, which takes seconds beyond.
"""


def compare_answers(
    workspace: Workspace, base: str, tip: str, added_entries: Iterable[Entry], today: date
) -> tuple[TaskAnswers, ...]:
    """Compare the entries that agents are shown for past tasks, before and after a request.

    The tasks are those most similar to the added entries, which are found by words alone. The
    result is empty without a similar task, in a shallow clone, and where memory has more than
    `MAX_ENTRIES` entries.

    Args:
        workspace: the repository.
        base: the commit before the request.
        tip: the commit of the request.
        added_entries: the entries that the request adds.
        today: the day on which entries are ranked.
    """
    entries = list(added_entries)[:MAX_ADDED]
    new_entries = workspace.at(tip).entries_by_id
    if not entries or len(new_entries) > MAX_ENTRIES:
        return ()
    try:
        tasks = _find_similar_tasks(workspace, base, entries)
    except RepositoryError:  # A shallow clone has no past tasks.
        return ()
    if not tasks:
        return ()

    past = PastIndexes(workspace)  # One for both commits, which have most files in common.
    try:
        old_answers = _list_served_for_tasks(workspace, past, base, tasks, today)
        new_answers = _list_served_for_tasks(workspace, past, tip, tasks, today)
    except RepositoryError:
        return ()
    old_entries = workspace.at(base).entries_by_id
    return tuple(
        TaskAnswers(
            task,
            gained_titles=_list_titles(new_entries, new_ids, old_ids),
            lost_titles=_list_titles(old_entries, old_ids, new_ids),
            unchanged_count=len(set(old_ids) & set(new_ids)),
        )
        for task, old_ids, new_ids in zip(tasks, old_answers, new_answers, strict=True)
    )


def _find_similar_tasks(workspace: Workspace, base: str, entries: Sequence[Entry]) -> list[Task]:
    """Return the past tasks that are most similar to the titles of entries, the best first."""
    past_changes = load_tasks(workspace, base)
    matches: list[SimilarTask] = []
    for entry in entries:
        matches += find_similar(
            TaskQuery(entry.title), past_changes.tasks, past_changes.prompts, MAX_TASKS
        )

    def by_score(match: SimilarTask) -> tuple[float, str]:
        return -match.score, match.task.sha

    # A task that several entries match counts once; one without a commit cannot be linked.
    tasks_by_sha: dict[str, Task] = {}
    for match in sorted(matches, key=by_score):
        if match.task.sha:
            tasks_by_sha[match.task.sha] = match.task
    return list(tasks_by_sha.values())[:MAX_TASKS]


def _list_served_for_tasks(
    workspace: Workspace, past: PastIndexes, rev: str, tasks: Sequence[Task], today: date
) -> list[tuple[str, ...]]:
    """Return for each task the ids of the entries that an agent is served from a commit's memory.

    Args:
        workspace: the repository.
        past: builds the index of a commit.
        rev: the commit.
        tasks: the tasks.
        today: the day that counts as today.
    """
    options = RetrieveOptions(at=rev)
    answers = []
    with past.open(rev) as index:
        view = MemoryView(workspace, today, index, rev)
        for task in tasks:
            retrieval = retrieve(workspace, task.title, options, today, shared_view=view)
            answers.append(list_served_ids(retrieval))
    return answers


def _list_titles(
    entries: Mapping[str, Located], ids: Iterable[str], other_ids: Sequence[str]
) -> tuple[str, ...]:
    """Return the titles of the entries that are in one answer and not in the other.

    Args:
        entries: the entries by id.
        ids: the ids of the one answer.
        other_ids: the ids of the other answer.
    """
    titles: list[str] = []
    for entry_id in ids:
        if entry_id not in other_ids and entry_id in entries:
            titles.append(entries[entry_id].entry.title)
    return tuple(titles)
