"""Merged or declined changes that are similar to a task, and hints from git history.

Hints complete a retrieval of fewer than two entries. They are counted and reviewed by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.repo import Tips, find_commit, read_tips
from memory_ci.memory.past_tasks import CachedTasks, load_tasks
from memory_ci.memory.workspace import Workspace
from memory_ci.records.retrieval import Habits, Hints, SimilarTask
from memory_ci.regex import Regex
from memory_ci.search.similar_tasks import MAX_TASKS, TaskQuery, classify_title, find_similar

NUMBER = Regex(r"\s*[#!](\d{1,9})\s*")
LEAST_SHARE = 0.7
"""Share of the last changes of a class that had a changelog entry, for a hint to say so.

An entry is then right for three of four changes (benchmarks/results/retrieval.md).
"""
# A share of Conventional Commits in titles that makes a convention: from USUAL on, or up to SELDOM.
USUAL = 0.8
SELDOM = 0.1
LEAST_TITLES = 20
MAX_IN_SYNC = 2
CLASS_NAMES = {
    "fix": "fixes",
    "inner": "changes to documents, tests and tools",
    "other": "other changes",
}


def similar_tasks(
    workspace: Workspace, task: str, *, top: int = MAX_TASKS
) -> tuple[SimilarTask, ...]:
    """Return the merged changes that are similar to a task, best first.

    Args:
        workspace: the repository and its configuration.
        task: a task, or `#128` for the title of that change.
        top: how many are returned at most.

    Raises:
        RepositoryError: shallow-clone, git-failed.
    """
    tips = read_tips(workspace.repo)
    # HEAD is used if there is no default branch.
    tip = tips.commit or find_commit(workspace.repo, "HEAD")
    if tip is None:
        return ()
    tasks = load_tasks(workspace, tip)
    return _find_similar(tasks, task, tips, top)


class RecalledTasks(msgspec.Struct, frozen=True):
    """The changes of a repository that are similar to a task, and all of its changes.

    Attributes:
        similar: the similar changes, best first.
        all_changes: all merged changes and the habits that they show; None if they cannot be read.
    """

    similar: tuple[SimilarTask, ...]
    all_changes: CachedTasks | None


def recall_tasks(workspace: Workspace, task: str) -> RecalledTasks:
    """Return the merged changes that are similar enough to a task to be named to an agent unasked.

    It takes one git process while nothing was merged. A repository that cannot be read (a shallow
    clone) gives nothing: an agent's job goes on.
    """
    with suppress(RepositoryError):
        tips = read_tips(workspace.repo)
        if tips.commit is not None:
            tasks = load_tasks(workspace, tips.commit)
            similar = _find_similar(tasks, task, tips, MAX_TASKS, is_gated=True)
            return RecalledTasks(similar, tasks)
    return RecalledTasks((), None)


def _find_similar(
    tasks: CachedTasks, task: str, tips: Tips, top: int, *, is_gated: bool = False
) -> tuple[SimilarTask, ...]:
    """Return the changes that are similar to a task, which may be a number as `#128`.

    A number is replaced by the title of the newest change with that number, if there is one.
    """
    query = TaskQuery(task, branch=tips.work)
    match = NUMBER.fullmatch(task)
    if match:
        number = int(match[1])
        title = task
        for change in reversed(tasks.tasks):
            if change.number == number:
                title = change.title
                break
        query = TaskQuery(title, number=number)
    return find_similar(query, tasks.tasks, tasks.prompts, top, is_gated=is_gated)


def find_hints(
    workspace: Workspace,
    task: str,
    paths: Sequence[str],
    is_new: Callable[[SimilarTask | str], bool],
) -> Hints:
    """Return earlier changes that are similar to a task, and habits of this repository.

    Args:
        workspace: the repository and its configuration.
        task: the task.
        paths: the files that the work touches.
        is_new: returns whether the session was not served a change or a habit before.
    """
    recalled = recall_tasks(workspace, task)
    all_changes = recalled.all_changes
    new_changes = tuple(change for change in recalled.similar if is_new(change))
    if all_changes is None or not new_changes:  # Habits alone say nothing about the task.
        return Hints()

    relevant_paths = set(paths)
    for change in new_changes:
        relevant_paths.update(change.task.touched)
    title = task.partition("\n")[0]
    habits = [
        *_describe_sync(all_changes.habits, relevant_paths),
        *_describe_changelog(all_changes.habits, title),
        *_describe_titles(all_changes.habits),
    ]
    return Hints(new_changes, tuple(habit for habit in habits if is_new(habit)))


def _describe_sync(habits: Habits, paths: set[str]) -> list[str]:
    """Return sentences on pairs of files which, by a comment in one of them, change together."""
    lines = []
    for pair in habits.in_sync:
        if pair.path in paths or pair.other_path in paths:
            lines.append(f"{pair.path} and {pair.other_path} change together: “{pair.comment}”")
    return lines[:MAX_IN_SYNC]


def _describe_changelog(habits: Habits, title: str) -> Iterator[str]:
    """Yield a sentence on how many changes of the task's class had a changelog entry, if most had.

    The class, for example a fix, is that of the task's title.
    """
    change_class = classify_title(title)
    habit = habits.fragments.get(change_class)
    if habit is not None and habit.with_entry >= LEAST_SHARE * habit.total:
        changes = f"{habit.with_entry} of the last {habit.total} {CLASS_NAMES[change_class]}"
        yield f"Changelog: {changes} came with an entry ({habit.path})"


def _describe_titles(habits: Habits) -> Iterator[str]:
    """Yield a sentence on whether titles are Conventional Commits, if nearly all or none are."""
    conventional, total = habits.conventional
    if total < LEAST_TITLES:
        return
    share = conventional / total
    if share >= USUAL or share <= SELDOM:
        form = "`fix: …`" if share >= USUAL else "plain sentences otherwise"
        yield f"Titles: {conventional} of the last {total} are Conventional Commits ({form})"
