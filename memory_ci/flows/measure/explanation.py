"""Explanation: one task, all that it finds, and why each entry is given or left out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from memory_ci.flows.serve.options import RetrieveOptions
from memory_ci.flows.serve.retrieve import retrieve
from memory_ci.flows.workspace import Workspace
from memory_ci.records.overview import ExplainedTask, FoundState, ScoredEntry
from memory_ci.records.retrieval import Hit
from memory_ci.rendering.context import entry_cost, norm_cost
from memory_ci.retrieval.verdict import LEAST_SHARE

MAX_FOUND, MAX_WITHHELD = 14, 3


def explain_task(workspace: Workspace, task: str, today: date, environ: Mapping[str, str]) -> ExplainedTask:
    """What a job with this task is given, and the best of what it is not. Raises what `retrieve` raises."""
    answer = retrieve(workspace, task, RetrieveOptions(), today, environ)
    every = retrieve(workspace, task, RetrieveOptions(all_matches=True), today, environ)
    given = {hit.located.entry.id for hit in answer.hits}
    late = {hit.located.entry.id for hit in answer.hits_dropped}
    hits = sorted((*every.hits, *every.hits_dropped), key=lambda hit: -hit.score)
    floor = LEAST_SHARE * max(hit.score for hit in hits) if given | late else None

    def state_of(hit: Hit) -> FoundState:
        if (id_ := hit.located.entry.id) in given | late:
            return "given" if id_ in given else "no room"
        return "too far" if floor is None or hit.score < floor else "too many"

    found = [_score(hit, state_of(hit)) for hit in hits[:MAX_FOUND]]
    found += [_score(one.hit, "withheld", one.why) for one in answer.withheld[:MAX_WITHHELD]]
    budget = (
        ("for every job", sum(map(norm_cost, answer.norms))),
        ("for this task", sum(map(entry_cost, answer.hits))),
        ("no room", sum(map(entry_cost, answer.hits_dropped)) + sum(map(norm_cost, answer.norms_dropped))),
    )
    return ExplainedTask(
        task=answer.task,
        found=tuple(found),
        floor=floor,
        more=len(hits[MAX_FOUND:]),
        budget=budget,
        room=workspace.config.retrieve.max_chars,
    )


def _score(hit: Hit, state: FoundState, why: str = "") -> ScoredEntry:
    score, parts = 0.0, list[tuple[str, float]]()
    for name, value in hit.factors:
        after = score * value if parts else value
        parts.append((name, round(after - score, 4)))
        score = after
    entry = hit.located.entry
    return ScoredEntry(
        id=entry.id,
        title=entry.title,
        state=state,
        score=score,
        parts=tuple(p for p in parts if p[1]),
        why=why,
    )
