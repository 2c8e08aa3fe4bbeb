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

CHANGE_NUMBER = Regex(r"\s*[#!](\d{1,9})\s*")  # A task that is a number alone: `#128`, `!128`.
MIN_CHANGELOG_SHARE = 0.7
"""Share of the last changes of a class that had a changelog entry, for a hint to say so.

An entry is then right for three of four changes (benchmarks/results/retrieval.md).
"""
# Titles follow a convention if nearly all are Conventional Commits, or nearly none. Chosen by hand.
MIN_CONVENTIONAL_SHARE = 0.8
MAX_UNCONVENTIONAL_SHARE = 0.1
MIN_TITLES = 20
MAX_IN_SYNC = 2
CLASS_NAMES = {
    "fix": "fixes",
    "inner": "changes to documents, tests and tools",
    "other": "other changes",
}


def list_similar_tasks(
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
        similar_changes: the similar changes, best first.
        all_changes: all merged changes and the habits that they show; None if they cannot be read.
    """

    similar_changes: tuple[SimilarTask, ...]
    all_changes: CachedTasks | None


def recall_tasks(workspace: Workspace, task: str) -> RecalledTasks:
    """Return the merged changes that are so similar to a task that an agent should see them.

    The agent did not ask for them, so only close ones count. Changes are cached: if nothing was
    merged since the last call, it takes one git process. A repository that cannot be read (a
    shallow clone) gives nothing: an agent's job goes on.
    """
    with suppress(RepositoryError):
        tips = read_tips(workspace.repo)
        if tips.commit is not None:
            tasks = load_tasks(workspace, tips.commit)
            similar_changes = _find_similar(tasks, task, tips, MAX_TASKS, only_close=True)
            return RecalledTasks(similar_changes, tasks)
    return RecalledTasks((), None)


def _find_similar(
    past_changes: CachedTasks, task: str, tips: Tips, top: int, *, only_close: bool = False
) -> tuple[SimilarTask, ...]:
    """Return the changes that are similar to a task, which may be a number as `#128`.

    A number is replaced by the title of the newest change with that number, if there is one.

    Args:
        past_changes: the merged changes of the repository, and the prompts of their sessions.
        task: the task.
        tips: the checked-out branch (`work`), whose own changes are not returned.
        top: how many are returned at most.
        only_close: return only changes that are close to the task.
    """
    query = TaskQuery(task, branch=tips.work_branch)
    match = CHANGE_NUMBER.fullmatch(task)
    if match:
        number = int(match[1])
        title = task
        for change in reversed(past_changes.tasks):
            if change.number == number:
                title = change.title
                break
        query = TaskQuery(title, number=number)
    return find_similar(query, past_changes.tasks, past_changes.prompts, top, is_hint=only_close)


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
        is_new: called with a change, or with the sentence on a habit; returns whether the session
            was not served it before.
    """
    recalled = recall_tasks(workspace, task)
    all_changes = recalled.all_changes
    new_changes = tuple(change for change in recalled.similar_changes if is_new(change))
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
    """Yield a sentence on how many changes of the task's class had a changelog entry.

    It is yielded if most of them had one. The class (a fix, an inner change, another) follows from
    the title of the task.
    """
    change_class = classify_title(title)
    habit = habits.fragments.get(change_class)
    if habit is not None and habit.with_entry >= MIN_CHANGELOG_SHARE * habit.total:
        changes = f"{habit.with_entry} of the last {habit.total} {CLASS_NAMES[change_class]}"
        yield f"Changelog: {changes} came with an entry ({habit.path})"


def _describe_titles(habits: Habits) -> Iterator[str]:
    """Yield a sentence on whether titles are Conventional Commits, if nearly all or none are."""
    conventional_count, total = habits.conventional
    if total < MIN_TITLES:
        return
    share = conventional_count / total
    if share >= MIN_CONVENTIONAL_SHARE:
        form = "`fix: …`"
    elif share <= MAX_UNCONVENTIONAL_SHARE:
        form = "plain sentences otherwise"
    else:
        return
    yield f"Titles: {conventional_count} of the last {total} are Conventional Commits ({form})"
