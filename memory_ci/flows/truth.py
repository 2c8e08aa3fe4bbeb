"""Truth: what became of the code that ranked entries cite, in the tree of the caller (docs/anchors.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from memory_ci.flows.anchors import judge_anchors
from memory_ci.flows.workspace import Workspace
from memory_ci.lifecycle.anchors import parse_anchor
from memory_ci.lifecycle.verdicts import judge_entry, truth_factor
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry, Located
from memory_ci.records.retrieval import Hit, Withheld

EDITED = "edited since"

STALE_FACTOR = 0.5
"""What an entry whose code is gone counts when it is asked for all the same: as much as one whose code changed."""

Truth = Mapping[Located, tuple[Verdict, ...]]


def judge_located(workspace: Workspace, located: Sequence[Located], view: str | None) -> Truth:
    """The verdicts on each entry that cites code. Global memory is of other repositories: it is not judged here.

    Two git processes while nothing changed, none where nothing is cited. Raises RepositoryError (unknown-revision).
    """
    own = [place for place in located if place.scope.name != "global" and place.entry.cites]
    if not own:
        return {}
    verdicts = judge_anchors(workspace, own, view)
    return {place: tuple(_softened(place.entry, verdicts)) for place in own}


def part_gone(hits: Sequence[Hit]) -> tuple[list[Hit], tuple[Withheld, ...]]:
    """(what is served, what is withheld because none of the code it cites is there any more)."""
    gone = {hit.located for hit in hits if judge_entry(hit.verdicts) == "gone"}
    served = [hit for hit in hits if hit.located not in gone]
    return served, tuple(Withheld(hit, _why(hit.verdicts)) for hit in hits if hit.located in gone)


def weigh_truth(hit: Hit, truth: Truth) -> Hit:
    """The hit with its verdicts, and with its score lowered if one of them lowers it."""
    verdicts = truth.get(hit.located, ())
    factor = truth_factor(verdicts) or STALE_FACTOR
    return msgspec.structs.replace(
        hit, score=hit.score * factor, factors=(*hit.factors, ("truth", factor)), verdicts=verdicts
    )


def _softened(entry: Entry, verdicts: Mapping[tuple[str, str], Verdict]) -> list[Verdict]:
    """The verdicts on an entry. Any edit changes a file that is cited whole: that is worth a word, not a demotion."""
    found = [(parse_anchor(cite), verdicts.get((entry.id, cite))) for cite in entry.cites]
    return [
        msgspec.structs.replace(verdict, kind="fresh", note=EDITED)
        if verdict.kind == "changed" and anchor.first is None and anchor.symbol is None
        else verdict
        for anchor, verdict in found
        if anchor is not None and verdict is not None
    ]


def _why(verdicts: Sequence[Verdict]) -> str:
    return "gone: " + "; ".join(dict.fromkeys(f"{verdict.path} ({verdict.note})" for verdict in verdicts))
