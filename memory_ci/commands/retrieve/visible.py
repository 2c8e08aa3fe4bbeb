"""Lookup of an entry by its id, if `retrieve` could serve it to the caller."""

from __future__ import annotations

from datetime import date

from memory_ci.commands.retrieve.anchor_verdicts import VerdictsByEntry, judge_cites
from memory_ci.commands.retrieve.options import RetrieveOptions, bound_options
from memory_ci.commands.retrieve.ranking import can_be_compared_with_code
from memory_ci.errors import UsageError
from memory_ci.memory.edits import add_edits_to_hits
from memory_ci.memory.index import synced_index
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.workspace import Workspace
from memory_ci.records.entry import Located
from memory_ci.records.retrieval import Hit, Retrieval
from memory_ci.search.search import SEARCHED_STATUSES, Filters, list_entries


def find_visible(
    workspace: Workspace, prefix: str, options: RetrieveOptions, today: date
) -> Located:
    """Return the entry whose id starts with a prefix, if `retrieve` could serve it to the caller.

    An entry that is retired or withheld as unsafe is reported as unknown.

    Args:
        workspace: the repository and its configuration.
        prefix: the first characters of the id.
        options: the session and the role of the caller.
        today: the day on which an entry must be valid.

    Raises:
        UsageError: unknown-entry, ambiguous-entry.
    """
    filters: Filters = {**bound_options(options, workspace.config, today).filters}
    # `retrieve` serves institutional entries to everyone, as norms that are not searched for.
    filters["scopes"] = (*(filters["scopes"] or ()), "institutional")
    filters.setdefault("statuses", SEARCHED_STATUSES)
    with synced_index(workspace) as index:
        located_entries = list_entries(index, **filters)
    try:
        return find_entry(located_entries, prefix)
    except UsageError as error:
        if error.slug != "unknown-entry":
            raise
        hint = "What retrieve gives has its id."
        raise UsageError(error.message, slug=error.slug, hint=hint) from error


def show_visible(
    workspace: Workspace, prefix: str, options: RetrieveOptions, today: date
) -> Retrieval:
    """Return an entry as a retrieval, with a mark if the code that it cites has changed.

    Args:
        workspace: the repository and its configuration.
        prefix: the first characters of the id.
        options: the session and the role of the caller.
        today: the day on which an entry must be valid.

    Raises:
        UsageError: unknown-entry, ambiguous-entry.
    """
    located = find_visible(workspace, prefix, options, today)
    verdicts_by_entry: VerdictsByEntry = {}
    if can_be_compared_with_code(located):
        verdicts_by_entry = judge_cites(workspace, [located], tree=None)
    hit = Hit(located, score=1.0, factors=(), verdicts=verdicts_by_entry.get(located.entry, ()))
    # If the code changed, the hit names the commit that changed it last.
    hits = add_edits_to_hits(workspace, [hit], None)
    return Retrieval(task=prefix, mode="lexical", hits=tuple(hits))
