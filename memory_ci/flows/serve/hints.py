"""Hints: what git history says of a task where memory gives fewer than two entries. Counted, reviewed by nobody."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from memory_ci.flows.serve.similar import recall_tasks
from memory_ci.flows.workspace import Workspace
from memory_ci.records.retrieval import Habits, Hints, SimilarTask
from memory_ci.retrieval.similar_tasks import class_of

FEW = 2
"""Entries from which on no hints are given."""

LEAST_SHARE = (
    0.7  # Of the last changes of a class: a changelog entry is then right for three of four (docs/similar.md).
)
USUAL, SELDOM = 0.8, 0.1  # Shares of titles from and up to which there is a convention to speak of.
LEAST_TITLES = 20
MAX_IN_SYNC = 2
NAMES = {"fix": "fixes", "inner": "changes to documents, tests and tools", "other": "other changes"}


def find_hints(
    workspace: Workspace,
    task: str,
    paths: Sequence[str],
    is_new: Callable[[SimilarTask | str], bool],
) -> Hints:
    """Earlier changes like a task, and habits with them; those that `is_new` says the session was not given."""
    changes, kept = recall_tasks(workspace, task)
    fresh = tuple(filter(is_new, changes))
    if kept is None or not fresh:  # habits alone say nothing of the task
        return Hints()
    named = {*paths, *(path for one in fresh for path in one.task.touched)}
    return Hints(fresh, tuple(filter(is_new, _list_habits(kept.habits, task, named))))


def _list_habits(habits: Habits, task: str, named: Collection[str]) -> Iterator[str]:
    in_sync = [(path, other, said) for path, other, said in habits.in_sync if path in named or other in named]
    for path, other, said in in_sync[:MAX_IN_SYNC]:
        yield f"{path} and {other} change together: “{said}”"
    name = class_of(task.partition("\n")[0])
    count, total, place = habits.fragments.get(name, (0, 0, ""))
    if total and count >= LEAST_SHARE * total:
        yield f"Changelog: {count} of the last {total} {NAMES[name]} came with an entry ({place})"
    conventional, titles = habits.conventional
    if titles >= LEAST_TITLES and not SELDOM < conventional / titles < USUAL:
        form = "`fix: …`" if conventional > titles / 2 else "plain sentences otherwise"
        yield f"Titles: {conventional} of the last {titles} are Conventional Commits ({form})"
