"""What agents are told before and after a request, for the past tasks that are most like what it teaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date

from memory_ci.errors import RepositoryError
from memory_ci.flows.past_tasks import load_tasks
from memory_ci.flows.serve.options import RetrieveOptions
from memory_ci.flows.serve.retrieve import injected_ids, retrieve
from memory_ci.flows.workspace import Workspace
from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Task
from memory_ci.rendering.pull_request import TaskAnswers
from memory_ci.retrieval.similar_tasks import TaskQuery, find_similar

TASKS = 3
MAX_ASKED = 30  # Entries whose tasks are looked for.
MAX_ENTRIES = 2_000  # Of memory; each answer builds an index of its commit, which takes seconds beyond.


def compare_answers(
    workspace: Workspace, base: str, tip: str, added: Iterable[Entry], today: date
) -> tuple[TaskAnswers, ...]:
    """The answers of `base` and `tip` to the past tasks that are most like the entries `added`, by words alone.

    None without such a task, in a shallow clone, and where memory has more than MAX_ENTRIES.
    """
    places = {rev: workspace.at(rev).places for rev in (base, tip)}
    if len(places[tip]) > MAX_ENTRIES:
        return ()
    with suppress(RepositoryError):
        return tuple(
            TaskAnswers(
                task,
                gained=tuple(places[tip][key].entry.title for key in after if key not in before),
                lost=tuple(places[base][key].entry.title for key in before if key not in after),
                kept=len(set(before) & set(after)),
            )
            for task in _list_tasks(workspace, base, list(added)[:MAX_ASKED])
            for before, after in [[_answer(workspace, task, rev, today) for rev in (base, tip)]]
        )
    return ()


def _list_tasks(workspace: Workspace, base: str, added: Sequence[Entry]) -> Iterator[Task]:
    """The best of the tasks that are like one of the entries, each once. Raises RepositoryError: shallow-clone."""
    if not added:
        return
    kept = load_tasks(workspace, base)
    found = [one for entry in added for one in find_similar(TaskQuery(entry.title), kept.tasks, kept.prompts, TASKS)]
    ranked = sorted(found, key=lambda one: (-one.score, one.task.sha))
    yield from list({one.task.sha: one.task for one in ranked if one.task.sha}.values())[:TASKS]


def _answer(workspace: Workspace, task: Task, rev: str, today: date) -> tuple[str, ...]:
    return injected_ids(retrieve(workspace, task.title, RetrieveOptions(at=rev, walk=0), today))
