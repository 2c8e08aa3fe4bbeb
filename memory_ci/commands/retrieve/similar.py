"""Similar tasks: what was merged or declined and is like the task at hand.

And hints: what git history says of a task where memory gives fewer than two entries. Counted, reviewed by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.repo import Tips, find_commit, read_tips
from memory_ci.memory.past_tasks import KeptTasks, load_tasks
from memory_ci.memory.workspace import Workspace
from memory_ci.records.retrieval import Hints, SimilarTask
from memory_ci.search.similar_tasks import TOP, TaskQuery, class_of, find_similar

NUMBER = re.compile(r"\s*[#!](\d{1,9})\s*")
FEW = 2  # Entries from which on no hints are given.
# Of the last changes of a class: a changelog entry is then right for three of four (docs/similar.md).
LEAST_SHARE = 0.7
USUAL, SELDOM = 0.8, 0.1  # Shares of titles from and up to which there is a convention to speak of.
LEAST_TITLES = 20
MAX_IN_SYNC = 2
NAMES = {"fix": "fixes", "inner": "changes to documents, tests and tools", "other": "other changes"}


def similar_tasks(
    workspace: Workspace, task: str, *, top: int = TOP, all_history: bool = False
) -> tuple[SimilarTask, ...]:
    """The merged changes that are like `task`; a task that is `#128` stands for the title of that change. Raises
    RepositoryError: shallow-clone, git-failed."""
    tips = read_tips(workspace.repo)
    tip = tips.commit or find_commit(
        workspace.repo, "HEAD"
    )  # with no default branch HEAD stands for it
    if tip is None:
        return ()
    return _find(load_tasks(workspace, tip, all_history=all_history), task, tips, top)


def recall_tasks(
    workspace: Workspace, task: str
) -> tuple[tuple[SimilarTask, ...], KeptTasks | None]:
    """(the changes that may be named to a job, what is kept of all); one git process while nothing was merged. Nothing
    where it cannot be found out (a shallow clone): an agent's job goes on."""
    with suppress(RepositoryError):
        tips = read_tips(workspace.repo)
        if tips.commit is not None:
            kept = load_tasks(workspace, tips.commit)
            return _find(kept, task, tips, TOP, is_gated=True), kept
    return (), None


def _find(
    kept: KeptTasks, task: str, tips: Tips, top: int, *, is_gated: bool = False
) -> tuple[SimilarTask, ...]:
    asked = TaskQuery(task, branch=tips.work)
    if match := NUMBER.fullmatch(task):
        number = int(match[1])
        title = next((one.title for one in reversed(kept.tasks) if one.number == number), task)
        asked = TaskQuery(title, number=number)
    return find_similar(asked, kept.tasks, kept.prompts, top, is_gated=is_gated)


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
    habits, named = kept.habits, {*paths, *(path for one in fresh for path in one.task.touched)}
    in_sync = [
        (path, other, said)
        for path, other, said in habits.in_sync
        if path in named or other in named
    ]
    told = [
        f"{path} and {other} change together: “{said}”"
        for path, other, said in in_sync[:MAX_IN_SYNC]
    ]
    name = class_of(task.partition("\n")[0])
    count, total, place = habits.fragments.get(name, (0, 0, ""))
    if total and count >= LEAST_SHARE * total:
        told.append(
            f"Changelog: {count} of the last {total} {NAMES[name]} came with an entry ({place})"
        )
    conventional, titles = habits.conventional
    if titles >= LEAST_TITLES and not SELDOM < conventional / titles < USUAL:
        form = "`fix: …`" if conventional > titles / 2 else "plain sentences otherwise"
        told.append(
            f"Titles: {conventional} of the last {titles} are Conventional Commits ({form})"
        )
    return Hints(fresh, tuple(filter(is_new, told)))
