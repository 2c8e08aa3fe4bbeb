"""The commits that last changed the code that entries cite."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain

from msgspec.structs import replace

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.edits import LastEdit, Spot, find_last_edits
from memory_ci.gitrepo.forges import find_number
from memory_ci.memory.workspace import Workspace
from memory_ci.records.anchor import STALE_KINDS, Anchor, CodeEdit, Verdict
from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Hit
from memory_ci.regex import Regex

TRIED = Regex(r"Merge [0-9a-f]{40,64} into [0-9a-f]{40,64}\s*\Z")
"""The message of a forge's trial merge of a request; its commit does not last."""

Judged = tuple[Entry, Sequence[Verdict]]
"""An entry, and the verdicts on its anchors in the order of its cites."""


def add_last_edits(
    workspace: Workspace, judged: Sequence[Judged], view: str | None
) -> list[tuple[Verdict, ...]]:
    """Add to each stale verdict the commit that last edited the cited code.

    This takes one git process for all entries, two in a work tree, and none if no verdict is
    stale. Without a commit, or in a clone with only part of the history, no edits are added.

    Args:
        workspace: the repository.
        judged: the entries with their verdicts.
        view: the commit that the verdicts are about; None for the work tree.

    Returns:
        The verdicts of each entry.
    """
    pairs_by_entry = [_pair_anchors(entry, verdicts) for entry, verdicts in judged]
    stale_pairs = [pair for pair in chain.from_iterable(pairs_by_entry) if _is_stale(*pair)]
    if not stale_pairs:
        return [tuple(verdicts) for _, verdicts in judged]

    rev = view or ("HEAD" if workspace.repo.root is None else None)
    spots = {pair: _spot(*pair) for pair in stale_pairs}
    edits: dict[Spot, LastEdit] = {}
    with suppress(RepositoryError):
        edits = find_last_edits(workspace.repo, rev, spots.values())

    edits_by_pair = {pair: edits.get(spot) for pair, spot in spots.items()}
    return [
        tuple(_add_edit(*pair, edits_by_pair.get(pair)) for pair in pairs)
        for pairs in pairs_by_entry
    ]


def _is_stale(_anchor: Anchor, verdict: Verdict) -> bool:
    return verdict.kind in STALE_KINDS


def _pair_anchors(entry: Entry, verdicts: Sequence[Verdict]) -> list[tuple[Anchor, Verdict]]:
    parsed = map(parse_anchor, entry.cites)
    anchors = [anchor for anchor in parsed if anchor is not None]
    return list(zip(anchors, verdicts, strict=False))


def with_edits(workspace: Workspace, hits: Sequence[Hit], view: str | None) -> list[Hit]:
    """Add the last edits of the code that hits cite to their verdicts."""
    judged = [(hit.located.entry, hit.verdicts) for hit in hits]
    edited = add_last_edits(workspace, judged, view)
    return [replace(hit, verdicts=verdicts) for hit, verdicts in zip(hits, edited, strict=True)]


def _spot(anchor: Anchor, verdict: Verdict) -> Spot:
    is_gone = verdict.kind == "gone" or (verdict.first is None and anchor.symbol)
    name = (anchor.symbol or "").rpartition(".")[2]
    return Spot(verdict.path, anchor.path, verdict.first, verdict.last, name if is_gone else "")


def _add_edit(anchor: Anchor, verdict: Verdict, edit: LastEdit | None) -> Verdict:
    if edit is None or (edit.sha and edit.sha.startswith(anchor.commit)):
        return verdict
    sha = None if TRIED.match(edit.message) else edit.sha
    number = find_number(edit.message)
    code_edit = CodeEdit(anchor.symbol or "", sha, number, is_removal=edit.is_removal)
    return replace(verdict, edit=code_edit)
