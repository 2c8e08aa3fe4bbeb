"""Tasks in the report: what `retrieve` serves for each, and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from memory_ci import progress
from memory_ci.commands.report.inputs import ReportInputs, note_failure
from memory_ci.commands.report.records import ExplainedTask, FoundState, ScoredEntry
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import retrieve
from memory_ci.commands.retrieve.text import entry_cost, norm_cost
from memory_ci.memory.past_tasks import load_tasks
from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import name_entry
from memory_ci.records.retrieval import Hit
from memory_ci.search.strength import score_alone

MAX_TASKS = 5
MAX_TRIED = 8  # Tasks that are explained to choose from them.
MAX_FOUND = 14  # Entries that one task finds.
MAX_WITHHELD = 3  # Entries that are withheld from one task.


def explain_tasks(
    inputs: ReportInputs, task: str | None, environ: Mapping[str, str], notes: list[str]
) -> tuple[ExplainedTask, ...]:
    """Explain the task of the user, then tasks of jobs in CI, then those of the newest merges."""
    with note_failure(notes, "Tasks"):
        past_tasks = load_tasks(inputs.workspace, inputs.tip).tasks
        served = [episode.situation.summary for episode in inputs.episodes if episode.retrieved]
        merged = [past_task.title for past_task in past_tasks if past_task.is_merged]
        candidates = dict.fromkeys((task or "", *reversed(served), *reversed(merged)))
        tasks = [candidate for candidate in candidates if candidate]

        explained = [
            _explain_task(inputs.workspace, tried, inputs.today, environ)
            for tried in progress.count("Explaining tasks", tasks[:MAX_TRIED])
        ]
        # A task that finds nothing explains little; the user's stays the first.
        explained.sort(key=lambda one: (one.task != task, not _is_served(one)))
        return tuple(explained[:MAX_TASKS])
    return ()


def _is_served(task: ExplainedTask) -> bool:
    return any(entry.state == "given" for entry in task.found)


def _explain_task(
    workspace: Workspace, task: str, today: date, environ: Mapping[str, str]
) -> ExplainedTask:
    """Return the entries that a task finds, first those that `retrieve` serves, in its order.

    Raises:
        RepositoryError: as `retrieve`.
    """
    served = retrieve(workspace, task, RetrieveOptions(), today, environ)
    matches = retrieve(workspace, task, RetrieveOptions(all_matches=True), today, environ)
    strong_ids = {hit.located.entry.id for hit in (*served.hits, *served.hits_dropped)}
    unserved_hits = [
        hit
        for hit in (*matches.hits, *matches.hits_dropped)
        if hit.located.entry.id not in strong_ids
    ]
    # Whether a hit is strong enough is judged without its novelty, its place with it.
    unserved_hits.sort(key=lambda hit: -score_alone(hit))
    over_limit = unserved_hits[: served.over_limit]
    weak = unserved_hits[served.over_limit :]
    for hits in (over_limit, weak):
        hits.sort(key=lambda hit: -hit.score)
    room = max(0, MAX_FOUND - len(strong_ids))
    over_limit = over_limit[:room]
    weak = weak[: room - len(over_limit)]

    entries = [_score_entry(hit, "given") for hit in served.hits]
    entries += [_score_entry(hit, "no room") for hit in served.hits_dropped]
    entries += [_score_entry(hit, "over limit") for hit in over_limit]
    entries += [_score_entry(hit, "weak") for hit in weak]
    entries += [
        _score_entry(withheld.hit, "withheld", withheld.why)
        for withheld in served.withheld[:MAX_WITHHELD]
    ]
    norms_size = sum(norm_cost(norm) for norm in served.norms)
    hits_size = sum(entry_cost(hit) for hit in served.hits)
    dropped_size = sum(entry_cost(hit) for hit in served.hits_dropped)
    dropped_size += sum(norm_cost(norm) for norm in served.norms_dropped)
    return ExplainedTask(
        task=served.task,
        found=tuple(entries),
        more=len(unserved_hits) - len(over_limit) - len(weak),
        budget=(
            ("for every job", norms_size),
            ("for this task", hits_size),
            ("no room", dropped_size),
        ),
        room=workspace.config.retrieve.max_chars,
    )


def _score_entry(hit: Hit, state: FoundState, why: str = "") -> ScoredEntry:
    """Split the product of the factors into the differences that each factor made."""
    score = 0.0
    parts: list[tuple[str, float]] = []
    for name, value in hit.factors:
        product = score * value if parts else value
        parts.append((name, round(product - score, 4)))
        score = product
    entry = hit.located.entry
    return ScoredEntry(
        id=entry.id,
        title=name_entry(entry),
        state=state,
        score=score,
        parts=tuple((name, difference) for name, difference in parts if difference),
        why=why,
    )
