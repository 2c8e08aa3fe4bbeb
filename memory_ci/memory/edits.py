"""The commits that last changed the code that entries cite."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

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


def name_edits(
    workspace: Workspace, judged: Sequence[Judged], view: str | None
) -> list[tuple[Verdict, ...]]:
    """Add the last edit of the code to verdicts that are changed or gone.

    This takes one git process for all entries, two in a work tree, and none if no verdict is
    marked. Without a commit, or in a clone with only part of the history, no edits are added.

    Returns:
        The verdicts of each entry.
    """
    pairs_by_entry = [_pair_anchors(entry, verdicts) for entry, verdicts in judged]
    spots = {}
    for pairs in pairs_by_entry:
        for anchor, verdict in pairs:
            if verdict.kind in STALE_KINDS:
                spots[anchor, verdict] = _spot(anchor, verdict)
    if not spots:
        return [tuple(verdicts) for _, verdicts in judged]

    rev = view or ("HEAD" if workspace.repo.root is None else None)
    edits: dict[Spot, LastEdit] = {}
    with suppress(RepositoryError):
        edits = find_last_edits(workspace.repo, rev, spots.values())

    named = []
    for pairs in pairs_by_entry:
        verdicts = []
        for anchor, verdict in pairs:
            spot = spots.get((anchor, verdict))
            edit = edits.get(spot) if spot is not None else None
            verdicts.append(_add_edit(anchor, verdict, edit))
        named.append(tuple(verdicts))
    return named


def _pair_anchors(entry: Entry, verdicts: Sequence[Verdict]) -> list[tuple[Anchor, Verdict]]:
    parsed = map(parse_anchor, entry.cites)
    anchors = [anchor for anchor in parsed if anchor is not None]
    return list(zip(anchors, verdicts, strict=False))


def with_edits(workspace: Workspace, hits: Sequence[Hit], view: str | None) -> list[Hit]:
    """Add the last edits of the code that hits cite to their verdicts."""
    judged = [(hit.located.entry, hit.verdicts) for hit in hits]
    named = name_edits(workspace, judged, view)
    return [replace(hit, verdicts=verdicts) for hit, verdicts in zip(hits, named, strict=True)]


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
