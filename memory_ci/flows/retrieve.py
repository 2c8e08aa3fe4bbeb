"""Retrieve: what an agent's job is given, and the record of what it was given."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import msgspec

from memory_ci.flows.index import index_path, synced_index
from memory_ci.flows.workspace import Workspace
from memory_ci.index.database import Index
from memory_ci.index.search import list_entries, list_findings, list_prose, search
from memory_ci.lifecycle.prominence import prominence, ranking_prominence
from memory_ci.records.config import Decay
from memory_ci.records.entry import Entry, EntryType
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import Norm, Retrieval
from memory_ci.rendering.context import entry_cost
from memory_ci.retrieval.budget import fit, fit_norms
from memory_ci.retrieval.diversify import diversify
from memory_ci.retrieval.query import build_terms
from memory_ci.retrieval.rank import rank

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class RetrieveOptions(msgspec.Struct, frozen=True):
    """What is asked for. None leaves a value to the configuration, or a filter open."""

    max_chars: int | None = None
    paths: tuple[str, ...] | None = None
    types: tuple[EntryType, ...] = ()
    session: str | None = None
    limit: int = 50


def retrieve(workspace: Workspace, task: str, options: RetrieveOptions, today: date) -> Retrieval:
    """Institutional memory, then the entries that the task's words find, ranked and within the budget."""
    settings = workspace.config.retrieve
    max_chars = settings.max_chars if options.max_chars is None else options.max_chars
    with synced_index(workspace) as index:
        norms, norms_dropped = fit_norms(
            _norms(index, today, workspace.config.prominence.decay), settings.institutional_max_chars
        )
        matches = search(
            index,
            build_terms(task),
            paths=options.paths,
            types=options.types or None,
            depth=max(200, 4 * options.limit),
        )
        findings = (*_degraded(index, index_path(workspace)), *list_findings(index))
    decay = workspace.config.prominence.decay
    ranked = diversify(rank(matches, lambda entry: ranking_prominence(entry, today, decay), session=options.session))
    hits, hits_dropped = fit(ranked[: max(0, options.limit)], max_chars, entry_cost)
    return Retrieval(
        task=task,
        mode="lexical",
        norms=tuple(norms),
        norms_dropped=tuple(norms_dropped),
        hits=tuple(hits),
        hits_dropped=tuple(hits_dropped),
        findings=findings,
    )


def _degraded(index: Index, path: Path) -> tuple[Finding, ...]:
    """A warning when the index could not be kept: the answer is whole, but the next one costs as much again."""
    if not index.is_temporary:
        return ()
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
