"""Truth: what became of the code that ranked entries cite, in the tree of the caller (docs/anchors.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from memory_ci.anchors.anchors import may_hide, parse_anchor
from memory_ci.anchors.verdicts import judge_entry, truth_factor
from memory_ci.memory.cites import JudgedView, judge_views
from memory_ci.memory.dead_names import find_dead_names
from memory_ci.memory.workspace import Workspace
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry, Located
from memory_ci.records.retrieval import Hit, Withheld

STALE_FACTOR = 0.5
"""What an entry whose code is gone counts when it is asked for all the same: as much as one whose code changed."""

Truth = Mapping[Entry, tuple[Verdict, ...]]  # The verdicts on what each entry cites.


def judge_located(workspace: Workspace, located: Sequence[Located], view: str | None) -> Truth:
    """The verdicts on entries. Two git processes while nothing changed. Raises RepositoryError (unknown-revision)."""
    shown = JudgedView(workspace, view)
    (verdicts,) = judge_views(located, shown)
    dead = find_dead_names(shown, [place.entry for place in located])
    judged = {place.entry: tuple(soften(place.entry, verdicts)) for place in located}
    return judged | {entry: (*judged[entry], verdict) for entry, verdict in dead.items()}


def weigh_truth(truth: Truth, entry: Entry, *, stale: bool) -> float:
    """The factor of an entry in ranking; 0, so that it is withheld, if all its code is gone, unless `stale`."""
    factor = truth_factor(truth.get(entry, ()))
    return factor or (STALE_FACTOR if stale else 0.0)


def list_gone(hits: Sequence[Hit], truth: Truth) -> tuple[Withheld, ...]:
    """The hits of which none of the code they cite is there any more."""
    gone = []
    for hit in hits:
        verdicts = truth.get(hit.located.entry, ())
        if judge_entry(verdicts) == "gone":
            why = "; ".join(
                dict.fromkeys(f"{verdict.path} ({verdict.note})" for verdict in verdicts)
            )
            gone.append(Withheld(hit, f"gone: {why}"))
    return tuple(gone)


def soften(entry: Entry, verdicts: Mapping[tuple[str, str], Verdict]) -> list[Verdict]:
    """The verdicts on an entry. Any edit changes a file that is cited whole: the entry fades with the share of it."""
    softened = []
    for cite in entry.cites:
        anchor, verdict = parse_anchor(cite), verdicts.get((entry.id, cite))
        if anchor is None or verdict is None:
            continue
        if verdict.kind == "changed" and verdict.edited:
            verdict = replace(verdict, kind="fresh")
        elif verdict.kind == "gone" and not may_hide(anchor, entry):
            verdict = replace(verdict, kind="changed")
        softened.append(verdict)
    return softened
