"""What agents are told before and after a request, for the past tasks that are most like what it teaches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date

from memory_ci.errors import RepositoryError
from memory_ci.flows.past_index import Past
from memory_ci.flows.past_tasks import load_tasks
from memory_ci.flows.serve.options import RetrieveOptions
from memory_ci.flows.serve.retrieve import View, injected_ids, retrieve
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
        tasks = _list_tasks(workspace, base, list(added)[:MAX_ASKED])
        past = Past(workspace)  # both commits hold most files alike
        before, after = (_answer(workspace, past, rev, tasks, today) for rev in (base, tip))
        return tuple(
            TaskAnswers(
                task,
                gained=tuple(places[tip][key].entry.title for key in new if key not in old and key in places[tip]),
                lost=tuple(places[base][key].entry.title for key in old if key not in new and key in places[base]),
                kept=len(set(old) & set(new)),
            )
            for task, old, new in zip(tasks, before, after, strict=True)
        )
    return ()


def _list_tasks(workspace: Workspace, base: str, added: Sequence[Entry]) -> list[Task]:
    """The best of the tasks that are like one of the entries, each once. Raises RepositoryError: shallow-clone."""
    if not added:
        return []
    kept = load_tasks(workspace, base)
    found = [one for entry in added for one in find_similar(TaskQuery(entry.title), kept.tasks, kept.prompts, TASKS)]
    ranked = sorted(found, key=lambda one: (-one.score, one.task.sha))
    return list({one.task.sha: one.task for one in ranked if one.task.sha}.values())[:TASKS]


def _answer(workspace: Workspace, past: Past, rev: str, tasks: Sequence[Task], today: date) -> list[tuple[str, ...]]:
    """The ids that each task is given by the memory of a commit."""
    if not tasks:
        return []
    options = RetrieveOptions(at=rev, walk=0)
    with past.index(rev) as index:
        view = View(workspace, today, index, rev)
        return [injected_ids(retrieve(workspace, one.title, options, today, opened=view)) for one in tasks]
