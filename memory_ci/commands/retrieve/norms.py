"""Norms: the institutional memory that every job is served whole, within half of the budget."""

from __future__ import annotations

from datetime import date

import msgspec
from msgspec.structs import replace

from memory_ci.commands.retrieve.options import RetrieveOptions, SearchRequest
from memory_ci.commands.retrieve.text import norm_cost
from memory_ci.commands.retrieve.view import CallerSession, MemoryView
from memory_ci.lifecycle.prominence import prominence
from memory_ci.records.config import Config
from memory_ci.records.retrieval import Norm
from memory_ci.search.database import Index
from memory_ci.search.rank import fit_norms
from memory_ci.search.search import Filters, list_entries, list_prose
from memory_ci.text import strip_comments

MAX_NORM_CHARS = 4000  # Characters of institutional memory, at most half of the whole budget.


class ChosenNorms(msgspec.Struct, frozen=True):
    """Institutional memory: all of it, and the part that fits its share of the budget.

    Attributes:
        all: all norms.
        served: the norms that are served.
        dropped: the norms that do not fit the budget.
        served_before_count: how many norms the session was served before.
    """

    all: tuple[Norm, ...] = ()
    served: tuple[Norm, ...] = ()
    dropped: tuple[Norm, ...] = ()
    served_before_count: int = 0

    @property
    def dropped_ids(self) -> frozenset[str]:
        """The ids of entries that do not fit; they are found by their words instead."""
        return frozenset(norm.entry_id for norm in self.dropped if norm.entry_id)


def select_norms(
    view: MemoryView, options: RetrieveOptions, request: SearchRequest, session: CallerSession
) -> ChosenNorms:
    """Choose the norms that fit half of the budget.

    Norms are institutional memory: rules for the whole repository, which are served whatever the
    task. The answer on a file (`options.about`) has none, because the session has them already.

    Args:
        view: the memory.
        options: the options of the retrieval.
        request: the options within their ranges.
        session: which norms the session was served before.
    """
    if options.about:
        return ChosenNorms()
    norms = _list_norms(view.index, view.today)
    new_norms = [norm for norm in norms if session.is_new(norm)]
    budget = min(MAX_NORM_CHARS, request.max_chars // 2)
    served_norms, dropped_norms = fit_norms(new_norms, budget, norm_cost)
    return ChosenNorms(
        all=tuple(norms),
        served=served_norms,
        dropped=dropped_norms,
        served_before_count=len(norms) - len(new_norms),
    )


def include_institutional(request: SearchRequest) -> SearchRequest:
    """Return a request that also searches institutional memory.

    Institutional entries are norms, which are served without a search. But if norms do not fit
    their budget, the search finds those among them that match the task.
    """
    searched_scopes = request.filters["scopes"] or ()
    filters: Filters = {**request.filters, "scopes": (*searched_scopes, "institutional")}
    return replace(request, filters=filters)


def list_dropped_norms(index: Index, config: Config, today: date) -> tuple[Norm, ...]:
    """Return the norms that do not fit the budget of institutional memory."""
    norms = _list_norms(index, today)
    budget = min(MAX_NORM_CHARS, config.retrieve.max_chars // 2)
    _, dropped_norms = fit_norms(norms, budget, norm_cost)
    return dropped_norms


def _list_norms(index: Index, today: date) -> list[Norm]:
    """Return institutional memory in the order of files: entries, and the text between them."""
    norms = []
    for located in list_entries(index, scopes=("institutional",), statuses=("active", "compacted")):
        entry = located.entry
        # A rejected entry is worded so that nobody follows it.
        prefix = "[tried and rejected] " if entry.adoption == "rejected" else ""
        text = f"## {prefix}{entry.title}\n\n{entry.body}".rstrip()
        if entry.instead:
            text += f"\n\nDone instead: {entry.instead}"
        entry_prominence = prominence(entry, today)
        norms.append(Norm(located.path, located.line, text, entry.id, entry_prominence))
    for prose in list_prose(index, "institutional"):
        text = strip_comments(prose.text).strip()
        if _has_prose(text):
            norms.append(replace(prose, text=text, prominence=1.0))
    return sorted(norms, key=lambda norm: (norm.path, norm.line))


def _has_prose(text: str) -> bool:
    """Return whether a text has more than headings."""
    return any(line.strip() and not line.startswith("#") for line in text.splitlines())
