"""Visible: one entry, if the session and the role that ask may see it at all."""

from __future__ import annotations

from datetime import date

from memory_ci.errors import UsageError
from memory_ci.flows.edits import with_edits
from memory_ci.flows.index import synced_index
from memory_ci.flows.lookup import find_entry
from memory_ci.flows.serve.anchor_verdicts import judge_located
from memory_ci.flows.serve.options import RetrieveOptions, make_sound
from memory_ci.flows.serve.ranking import may_be_judged
from memory_ci.flows.workspace import Workspace
from memory_ci.index.search import SHOWN_STATUSES, Filters, list_entries
from memory_ci.records.entry import Located
from memory_ci.records.retrieval import Hit, Retrieval


def find_visible(workspace: Workspace, prefix: str, options: RetrieveOptions, today: date) -> Located:
    """The entry whose id starts with `prefix`, among those that `retrieve` could give to who asks: not retired, not
    withheld as unsafe. Another one is as unknown as one that does not exist.

    Raises UsageError: unknown-entry, ambiguous-entry.
    """
    filters: Filters = {**make_sound(options, workspace.config, today).filters}
    filters["scopes"] = (*(filters["scopes"] or ()), "institutional")
    filters.setdefault("statuses", SHOWN_STATUSES)
    with synced_index(workspace) as index:
        located = list_entries(index, **filters)
    try:
        return find_entry(located, prefix)
    except UsageError as error:
        if error.slug != "unknown-entry":
            raise
        raise UsageError(error.message, slug=error.slug, hint="What retrieve gives has its id.") from error


def show_visible(workspace: Workspace, prefix: str, options: RetrieveOptions, today: date) -> Retrieval:
    """That entry as an answer, marked where the code that it cites has changed.

    Raises UsageError: unknown-entry, ambiguous-entry.
    """
    place = find_visible(workspace, prefix, options, today)
    truth = judge_located(workspace, [place], None) if may_be_judged(place) else {}
    hits = with_edits(workspace, [Hit(place, 1.0, (), verdicts=truth.get(place.entry, ()))], None)
    return Retrieval(task=prefix, mode="lexical", hits=tuple(hits))
