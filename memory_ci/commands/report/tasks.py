"""Tasks in the report: the entries that `retrieve` finds and serves for each, with their scores."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import NamedTuple

from memory_ci import progress
from memory_ci.commands.report.inputs import ReportInputs, note_failure
from memory_ci.commands.report.records import ExplainedTask, FoundState, ScoredEntry
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import retrieve
from memory_ci.commands.retrieve.text import entry_cost, norm_cost
from memory_ci.memory.past_tasks import load_tasks
from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import name_entry
from memory_ci.records.retrieval import Hit, Retrieval
from memory_ci.search.strength import score_alone

MAX_TASKS = 5
MAX_TRIED = 8  # Tasks that are explained to choose from them.
MAX_FOUND = 14  # Entries that one task finds.
MAX_WITHHELD = 3  # Entries that are withheld from one task.


def explain_tasks(
    inputs: ReportInputs, task: str | None, environ: Mapping[str, str], notes: list[str]
) -> tuple[ExplainedTask, ...]:
    """Explain the task of the user, then tasks of jobs in CI, then those of the newest merges.

    Args:
        inputs: the memory and history of the report.
        task: the task of the user, if there is one.
        environ: the environment that `retrieve` reads.
        notes: gets a sentence if tasks cannot be explained; the result is empty then.
    """
    with note_failure(notes, "Tasks"):
        past_tasks = load_tasks(inputs.workspace, inputs.tip).tasks
        served_tasks = [
            episode.situation.summary for episode in inputs.episodes if episode.retrieved
        ]
        merged_titles = [past_task.title for past_task in past_tasks if past_task.is_merged]
        candidates = [task or "", *reversed(served_tasks), *reversed(merged_titles)]
        unique_tasks = [candidate for candidate in dict.fromkeys(candidates) if candidate]

        explained_tasks = [
            _explain_task(inputs.workspace, tried_task, inputs.today, environ)
            for tried_task in progress.count("Explaining tasks", unique_tasks[:MAX_TRIED])
        ]
        # The user's task comes first, then the tasks that were served an entry.
        explained_tasks.sort(
            key=lambda explained: (explained.task != task, not _has_served_entry(explained))
        )
        return tuple(explained_tasks[:MAX_TASKS])
    return ()


def _has_served_entry(task: ExplainedTask) -> bool:
    return any(entry.state == "served" for entry in task.found)


def _explain_task(
    workspace: Workspace, task: str, today: date, environ: Mapping[str, str]
) -> ExplainedTask:
    """Return the entries that a search for a task finds, each with its score and its state.

    First come the entries that `retrieve` serves, in its order. Then come those that it does not
    serve, in this order: no room in the budget of characters, over the limit of entries, too weak
    a match, withheld because the code that they cite is gone.

    Raises:
        RepositoryError: as `retrieve`.
    """
    retrieval = retrieve(workspace, task, RetrieveOptions(), today, environ)
    all_matches = retrieve(workspace, task, RetrieveOptions(all_matches=True), today, environ)
    rejected = _split_rejected_hits(retrieval, all_matches)
    rejected_hits: list[tuple[Hit, FoundState]] = []
    rejected_hits += [(hit, "over limit") for hit in rejected.over_limit]
    rejected_hits += [(hit, "weak") for hit in rejected.weak]
    selected_count = len(_list_selected_ids(retrieval))
    listed_hits = rejected_hits[: max(0, MAX_FOUND - selected_count)]

    entries = [_score_entry(hit, "served") for hit in retrieval.hits]
    entries += [_score_entry(hit, "no room") for hit in retrieval.hits_dropped]
    entries += [_score_entry(hit, state) for hit, state in listed_hits]
    entries += [
        _score_entry(withheld.hit, "withheld", withheld.why)
        for withheld in retrieval.withheld[:MAX_WITHHELD]
    ]
    return ExplainedTask(
        task=retrieval.task,
        found=tuple(entries),
        omitted_count=len(rejected_hits) - len(listed_hits),
        answer_parts=_measure_answer_parts(retrieval),
        budget=workspace.config.retrieve.max_chars,
    )


class RejectedHits(NamedTuple):
    """The hits that `retrieve` did not select, each group by falling score.

    Attributes:
        over_limit: hits that are strong enough, but beyond the number of entries it serves.
        weak: hits that match the task too weakly.
    """

    over_limit: list[Hit]
    weak: list[Hit]


def _split_rejected_hits(retrieval: Retrieval, all_matches: Retrieval) -> RejectedHits:
    """Return the hits that a retrieval did not select, split by the reason.

    Args:
        retrieval: the answer to a task. It counts the strong hits over the limit, but does not
            name them.
        all_matches: the answer to the same task without a threshold and without a limit.
    """
    selected_ids = _list_selected_ids(retrieval)
    rejected_hits = [
        hit
        for hit in (*all_matches.hits, *all_matches.hits_dropped)
        if hit.located.entry.id not in selected_ids
    ]
    # `retrieve` compares scores without novelty with the threshold, so the strongest by that
    # score are those over the limit. It orders hits by the score with novelty.
    rejected_hits.sort(key=score_alone, reverse=True)
    over_limit_hits = rejected_hits[: retrieval.over_limit_count]
    weak_hits = rejected_hits[retrieval.over_limit_count :]
    for hits in (over_limit_hits, weak_hits):
        hits.sort(key=lambda hit: hit.score, reverse=True)
    return RejectedHits(over_limit_hits, weak_hits)


def _list_selected_ids(retrieval: Retrieval) -> set[str]:
    """Return the ids of the entries that are served, or would be if they fitted the budget."""
    return {hit.located.entry.id for hit in (*retrieval.hits, *retrieval.hits_dropped)}


def _measure_answer_parts(retrieval: Retrieval) -> tuple[tuple[str, int], ...]:
    """Return how many characters each part of an answer takes, as (part, characters).

    Norms are the entries that every job is served, whatever its task.
    """
    norms_size = sum(norm_cost(norm) for norm in retrieval.norms)
    hits_size = sum(entry_cost(hit) for hit in retrieval.hits)
    dropped_size = sum(entry_cost(hit) for hit in retrieval.hits_dropped)
    dropped_size += sum(norm_cost(norm) for norm in retrieval.norms_dropped)
    return (
        ("for every job", norms_size),
        ("for this task", hits_size),
        ("no room", dropped_size),
    )


def _score_entry(hit: Hit, state: FoundState, why: str = "") -> ScoredEntry:
    """Return an entry with its score, and how much each factor raised or lowered the score.

    The score is the product of the factors. The difference of a factor is the product up to it,
    less the product before it; all differences together add up to the score.
    """
    score = 0.0
    differences: list[tuple[str, float]] = []
    for name, factor in hit.factors:
        product = score * factor if differences else factor
        differences.append((name, round(product - score, 4)))
        score = product
    entry = hit.located.entry
    return ScoredEntry(
        id=entry.id,
        title=name_entry(entry),
        state=state,
        score=score,
        parts=tuple((name, difference) for name, difference in differences if difference),
        why=why,
    )
