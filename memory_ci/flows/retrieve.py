"""Retrieve: what an agent's job is given, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import msgspec

from memory_ci.errors import UsageError
from memory_ci.flows.asked import Asked, RetrieveOptions, make_sound
from memory_ci.flows.index import index_path, synced_index
from memory_ci.flows.truth import judge_located, part_gone, weigh_truth
from memory_ci.flows.workspace import Workspace
from memory_ci.index.database import Index
from memory_ci.index.search import list_entries, list_findings, list_prose, search
from memory_ci.lifecycle.prominence import prominence, ranking_prominence
from memory_ci.lifecycle.relations import relations_of
from memory_ci.records.config import Config, Decay
from memory_ci.records.entry import Entry
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import Hit, Norm, Retrieval, Withheld
from memory_ci.rendering.context import context_cost, entry_cost
from memory_ci.retrieval.budget import fit, fit_norms
from memory_ci.retrieval.corrections import put_corrections_first
from memory_ci.retrieval.diversify import diversify
from memory_ci.retrieval.query import build_terms
from memory_ci.retrieval.rank import rank
from memory_ci.text import plural

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)

LEAST_JUDGED = 100
"""So many of the best candidates are judged and diversified at least, and twice as many as are asked for."""


class View(msgspec.Struct, frozen=True):
    """The memory that is asked: whose, of which commit (None: the work tree), on which day, and what to say of it."""

    workspace: Workspace
    today: date
    index: Index
    commit: str | None = None
    note: str = ""


def retrieve(workspace: Workspace, task: str, options: RetrieveOptions, today: date) -> Retrieval:
    """Institutional memory, then the entries that the task's words find, ranked, true and within the budget.

    Raises RepositoryError: unknown-revision, shallow-clone, unrelated-histories; UsageError: option-conflict.
    """
    with open_view(workspace, options, today) as view:
        config = view.workspace.config
        asked = make_sound(options, config, view.today)
        norms, norms_dropped = fit_norms(
            _norms(view.index, view.today, config.prominence.decay), config.retrieve.institutional_max_chars
        )
        found = find_hits(view.index, config, task, asked, options, view.today)
        findings = (*_degraded(view.index, view), *list_findings(view.index))
    judged = _judge(view, found, options)
    served, withheld = part_gone(judged) if not options.stale else (judged, ())
    best, superseded = arrange(served, asked.limit)
    answer = Retrieval(task=task, mode="lexical", norms=norms, norms_dropped=norms_dropped)
    room = asked.max_chars if options.total_chars is None else options.total_chars - context_cost(answer)
    kept, dropped = fit(best, min(asked.max_chars, room), entry_cost, config.retrieve.type_max_chars)
    return msgspec.structs.replace(
        answer,
        hits=kept,
        hits_dropped=dropped,
        withheld=(*withheld, *superseded),
        notes=tuple(filter(None, (view.note, *asked.notes, *_explain_silence(task, kept, dropped, withheld)))),
        findings=findings,
    )


@contextmanager
def open_view(workspace: Workspace, options: RetrieveOptions, today: date) -> Iterator[View]:
    """The memory that the options ask for: of the work tree, of an earlier moment, or of where a fork began."""
    if options.at is not None and options.base is not None:
        hint = "--at names an earlier state of this branch, --base what a fork's branch was started from."
        raise UsageError("--at and --base exclude each other", slug="option-conflict", hint=hint)
    if options.at is None and options.base is None:
        with synced_index(workspace) as index:
            yield View(workspace, today, index)
        return
    from memory_ci.flows.past import Past, find_fork_point, find_moment  # 15 ms of codec that the present spares

    moment = find_moment(workspace, options.at) if options.at else find_fork_point(workspace, options.base or "", today)
    with Past(moment.workspace).index(moment.commit) as index:
        yield View(moment.workspace, moment.today, index, moment.commit if options.at else None, moment.note)


def find_hits(
    index: Index, config: Config, task: str, asked: Asked, options: RetrieveOptions, today: date
) -> list[Hit]:
    """The best candidates for a task, ranked as if all they say were still true."""
    depth = max(LEAST_JUDGED, 2 * asked.limit)
    matches = search(index, build_terms(task), depth=max(200, 2 * depth), **asked.filters)
    raw = {match.located: (("lexical", match.lexical),) for match in matches}

    def weigh(entry: Entry) -> float:
        # Who asks for retired entries gets them ranked by what they counted before.
        alive = msgspec.structs.replace(entry, status="active") if "retired" in options.statuses else entry
        return ranking_prominence(alive, today, config.prominence.decay)

    ranked = rank(matches, weigh, session=options.session)[:depth]
    return [msgspec.structs.replace(hit, lanes=raw[hit.located]) for hit in ranked]


def arrange(hits: list[Hit], limit: int) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """(the best `limit`, what others of them supersede): diversified, corrections first."""
    ordered = diversify(sorted(hits, key=lambda hit: -hit.score))
    served, superseded = put_corrections_first(ordered, _contradicted)
    return served[:limit], superseded


def _contradicted(entry: Entry) -> list[str]:
    return [relation.id for relation in relations_of(entry) if relation.kind == "contradicts"]


def _judge(view: View, hits: list[Hit], options: RetrieveOptions) -> list[Hit]:
    """The hits weighed by the truth of what they cite, in the tree that the options name, else in that of the view."""
    tree = view.commit if options.tree is None else options.tree
    truth = judge_located(view.workspace, [hit.located for hit in hits], tree)
    return [weigh_truth(hit, truth) for hit in hits]


def _explain_silence(
    task: str, kept: tuple[Hit, ...], dropped: tuple[Hit, ...], gone: tuple[Withheld, ...]
) -> Iterator[str]:
    """What the caller should know of what is not shown."""
    if task.strip() and not build_terms(task):
        yield "The task has no words to search for."
    if dropped and not kept:
        least = min(map(entry_cost, dropped))
        yield f"{plural(len(dropped), 'entry')} found, but the smallest takes {least} characters: there is no room."
    if gone:
        yield f"Withheld, because the code cited is gone: {plural(len(gone), 'entry')}. --stale shows them."


def _degraded(index: Index, view: View) -> tuple[Finding, ...]:
    """A warning when the index could not be kept: the answer is whole, but the next one costs as much again."""
    if not index.is_temporary or not index.reason:
        return ()
    path: Path = index_path(view.workspace)
    message = f"the index could not be kept: {index.reason}"
    return (Finding(str(path), 1, "index-not-kept", message, "Check the rights and the space there.", "warning"),)


def _norms(index: Index, today: date, decay: Decay) -> list[Norm]:
    """Institutional memory in file order: entries without their front matter, and prose that says something."""
    entries = [
        Norm(p.path, p.line, _norm_text(p.entry), p.entry.id, prominence(p.entry, today, decay))
        for p in list_entries(index, scopes=("institutional",), statuses=("active", "compacted"))
    ]
    prose = [
        msgspec.structs.replace(norm, text=_said(norm.text), prominence=1.0)
        for norm in list_prose(index, "institutional")
    ]
    return sorted([*entries, *(norm for norm in prose if norm.text)], key=lambda norm: (norm.path, norm.line))


def _norm_text(entry: Entry) -> str:
    """Title and body; what was declined is worded so that nobody follows it."""
    declined = "Tried and rejected: " if entry.adoption == "rejected" else ""
    instead = f"\n\nDone instead: {entry.instead}" if entry.instead else ""
    return f"## {declined}{entry.title}\n\n{entry.body}".rstrip() + instead


def _said(prose: str) -> str:
    """Prose without comments, "" if only headings are left: an introduction is not a norm."""
    text = COMMENT.sub("", prose).strip()
    return text if any(line.strip() and not line.startswith("#") for line in text.splitlines()) else ""


def injected_ids(answer: Retrieval) -> tuple[str, ...]:
    """The ids of what the answer holds after its budget, norms and ranked entries alike."""
    norms = [norm.entry_id for norm in answer.norms if norm.entry_id]
    return tuple(dict.fromkeys([*norms, *(hit.located.entry.id for hit in answer.hits)]))
