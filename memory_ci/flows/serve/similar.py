"""Similar tasks: what was merged or declined and is like the task at hand."""

from __future__ import annotations

import re
from contextlib import suppress

from memory_ci.errors import RepositoryError
from memory_ci.flows.past_tasks import KeptTasks, load_tasks
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.repo import Tips, find_commit, read_tips
from memory_ci.records.retrieval import SimilarTask
from memory_ci.retrieval.similar_tasks import TOP, TaskQuery, find_similar

NUMBER = re.compile(r"\s*[#!](\d{1,9})\s*")


def similar_tasks(
    workspace: Workspace, task: str, *, top: int = TOP, all_history: bool = False
) -> tuple[SimilarTask, ...]:
    """The merged changes that are like `task`; a task that is `#128` stands for the title of that change.

    Raises RepositoryError: shallow-clone, git-failed.
    """
    tips = read_tips(workspace.repo)
    tip = tips.commit or find_commit(workspace.repo, "HEAD")  # with no default branch HEAD stands for it
    if tip is None:
        return ()
    return _find(load_tasks(workspace, tip, all_history=all_history), task, tips, top)


def recall_tasks(workspace: Workspace, task: str) -> tuple[tuple[SimilarTask, ...], KeptTasks | None]:
    """(the changes that may be named to a job, what is kept of all); one git process while nothing was merged.

    Nothing where it cannot be found out (a shallow clone): an agent's job goes on.
    """
    with suppress(RepositoryError):
        tips = read_tips(workspace.repo)
        if tips.commit is not None:
            kept = load_tasks(workspace, tips.commit)
            return _find(kept, task, tips, TOP, is_gated=True), kept
    return (), None


def _find(kept: KeptTasks, task: str, tips: Tips, top: int, *, is_gated: bool = False) -> tuple[SimilarTask, ...]:
    asked = TaskQuery(task, branch=tips.work)
    if match := NUMBER.fullmatch(task):
        number = int(match[1])
        title = next((one.title for one in reversed(kept.tasks) if one.number == number), task)
        asked = TaskQuery(title, number=number)
    return find_similar(asked, kept.tasks, kept.prompts, top, is_gated=is_gated)
