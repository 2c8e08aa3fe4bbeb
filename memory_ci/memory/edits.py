"""Edits: which commit last changed the code that an entry cites, for those whose code is another now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.edits import LastEdit, Spot, find_last_edits
from memory_ci.gitrepo.forges import find_number
from memory_ci.memory.workspace import Workspace
from memory_ci.records.anchor import MARKED, Anchor, CodeEdit, Verdict
from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Hit

TRIED = re.compile(r"Merge [0-9a-f]{40,64} into [0-9a-f]{40,64}\s*\Z")
"""The message of a merge that a forge makes of a request to try it; nobody has that commit later."""

Judged = tuple[
    Entry, Sequence[Verdict]
]  # An entry, and the verdicts on its anchors in the order of its cites.


def name_edits(
    workspace: Workspace, judged: Sequence[Judged], view: str | None
) -> list[tuple[Verdict, ...]]:
    """The verdicts of each entry; those that are changed or gone with the edit that made them so. One git process for
    all, two in a work tree; none where nothing is marked."""
    pairs = [
        list(zip(filter(None, map(parse_anchor, one.cites)), verdicts, strict=False))
        for one, verdicts in judged
    ]
    spots = {pair: _spot(*pair) for own in pairs for pair in own if pair[1].kind in MARKED}
    if not spots:
        return [tuple(verdicts) for _, verdicts in judged]
    rev = view or ("HEAD" if workspace.repo.root is None else None)
    found: dict[Spot, LastEdit] = {}
    with suppress(
        RepositoryError
    ):  # no commit yet, or history that this clone has only in part: the marks stay
        found = find_last_edits(workspace.repo, rev, spots.values())
    return [
        tuple(_named(pair, found.get(spots[pair]) if pair in spots else None) for pair in own)
        for own in pairs
    ]


def with_edits(workspace: Workspace, hits: Sequence[Hit], view: str | None) -> list[Hit]:
    """The hits, with what changed the code that they cite."""
    named = name_edits(workspace, [(hit.located.entry, hit.verdicts) for hit in hits], view)
    return [replace(hit, verdicts=verdicts) for hit, verdicts in zip(hits, named, strict=True)]


def _spot(anchor: Anchor, verdict: Verdict) -> Spot:
    is_gone = verdict.kind == "gone" or (verdict.first is None and anchor.symbol)
    name = (anchor.symbol or "").rpartition(".")[2]
    return Spot(verdict.path, anchor.path, verdict.first, verdict.last, name if is_gone else "")


def _named(pair: tuple[Anchor, Verdict], edit: LastEdit | None) -> Verdict:
    anchor, verdict = pair
    if edit is None or (edit.sha and edit.sha.startswith(anchor.commit)):
        return verdict
    sha = None if TRIED.match(edit.message) else edit.sha
    known = CodeEdit(
        anchor.symbol or "", sha, find_number(edit.message), is_removal=edit.is_removal
    )
    return replace(verdict, edit=known)
