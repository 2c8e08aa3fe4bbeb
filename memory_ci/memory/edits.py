"""The commits that last changed the code that memory entries cite."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

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

TRIAL_MERGE = Regex(r"Merge [0-9a-f]{40,64} into [0-9a-f]{40,64}\s*\Z")
"""The message of a forge's trial merge of a request; its commit does not last."""

JudgedEntry = tuple[Entry, Sequence[Verdict]]
"""An entry, and the verdicts on its anchors in the order of its cites."""


class _JudgedAnchor(NamedTuple):
    """The code that an entry cites (an anchor), and the verdict on whether it is still the same."""

    anchor: Anchor
    verdict: Verdict


def add_last_edits(
    workspace: Workspace, judged: Sequence[JudgedEntry], view: str | None
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
    anchors_by_entry = [_pair_anchors(entry, verdicts) for entry, verdicts in judged]
    # Where git searches for the last edit of the code with a stale verdict (a Spot).
    stale_code: dict[_JudgedAnchor, Spot] = {}
    for anchors in anchors_by_entry:
        for judged_anchor in anchors:
            if judged_anchor.verdict.kind in STALE_KINDS:
                stale_code[judged_anchor] = _find_spot(judged_anchor)
    if not stale_code:
        return [tuple(verdicts) for _, verdicts in judged]

    rev = view
    if rev is None and workspace.repo.root is None:
        rev = "HEAD"  # a bare repository has no work tree
    edit_by_spot: dict[Spot, LastEdit] = {}
    with suppress(RepositoryError):
        edit_by_spot = find_last_edits(workspace.repo, rev, stale_code.values())

    verdicts_by_entry = []
    for anchors in anchors_by_entry:
        new_verdicts = []
        for judged_anchor in anchors:
            spot = stale_code.get(judged_anchor)
            last_edit = edit_by_spot.get(spot) if spot is not None else None
            new_verdicts.append(_add_edit(judged_anchor, last_edit))
        verdicts_by_entry.append(tuple(new_verdicts))
    return verdicts_by_entry


def _pair_anchors(entry: Entry, verdicts: Sequence[Verdict]) -> list[_JudgedAnchor]:
    """Return each anchor among the cites of an entry with its verdict."""
    parsed = [parse_anchor(cite) for cite in entry.cites]
    anchors = [anchor for anchor in parsed if anchor is not None]
    pairs = zip(anchors, verdicts, strict=False)
    return [_JudgedAnchor(anchor, verdict) for anchor, verdict in pairs]


def add_edits_to_hits(workspace: Workspace, hits: Sequence[Hit], view: str | None) -> list[Hit]:
    """Add the last edits of the code that search results cite to their stale verdicts.

    Args:
        workspace: the repository.
        hits: the search results, each an entry with the verdicts on its cites.
        view: the commit that the verdicts are about; None for the work tree.
    """
    judged = [(hit.located.entry, hit.verdicts) for hit in hits]
    edited = add_last_edits(workspace, judged, view)
    return [replace(hit, verdicts=verdicts) for hit, verdicts in zip(hits, edited, strict=True)]


def _find_spot(judged: _JudgedAnchor) -> Spot:
    """Return where git searches for the last edit of cited code.

    Code that is gone is searched for by its name without owners: `post` for `Client.post`.
    """
    anchor, verdict = judged
    symbol = anchor.symbol or ""
    is_gone = verdict.kind == "gone" or (verdict.first is None and symbol)
    word = symbol.rpartition(".")[2] if is_gone else ""
    return Spot(verdict.path, anchor.path, verdict.first, verdict.last, word)


def _add_edit(judged_anchor: _JudgedAnchor, last_edit: LastEdit | None) -> Verdict:
    """Return the verdict with the last edit of its code, unless that is the cited commit itself.

    A forge merges a pull request for a trial before CI runs. Such a commit does not last, so its id
    is left out.
    """
    anchor, verdict = judged_anchor
    if last_edit is None or (last_edit.sha and last_edit.sha.startswith(anchor.commit)):
        return verdict
    is_trial_merge = TRIAL_MERGE.match(last_edit.message) is not None
    sha = None if is_trial_merge else last_edit.sha
    number = find_number(last_edit.message)
    code_edit = CodeEdit(anchor.symbol or "", sha, number, is_removal=last_edit.is_removal)
    return replace(verdict, edit=code_edit)
