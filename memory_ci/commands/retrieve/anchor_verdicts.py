"""The verdicts on the code that ranked entries cite, in the caller's tree (docs/anchors.md)."""

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
"""The factor of an entry whose code is gone, if the caller wants it all the same: that of changed code."""

Truth = Mapping[Entry, tuple[Verdict, ...]]
"""The verdicts on the cites of each entry."""


def judge_located(workspace: Workspace, located: Sequence[Located], view: str | None) -> Truth:
    """Return the verdicts on entries; it takes two git processes if nothing changed.

    Raises:
        RepositoryError: unknown-revision.
    """
    judged_view = JudgedView(workspace, view)
    (verdicts,) = judge_views(located, judged_view)
    truth = {place.entry: tuple(soften(place.entry, verdicts)) for place in located}
    dead_names = find_dead_names(judged_view, [place.entry for place in located])
    for entry, verdict in dead_names.items():
        truth[entry] = (*truth[entry], verdict)
    return truth


def weigh_truth(truth: Truth, entry: Entry, *, stale: bool) -> float:
    """Return the factor of an entry in ranking; 0 withholds it.

    Args:
        truth: the verdicts on entries.
        entry: the entry.
        stale: withhold no entry.
    """
    factor = truth_factor(truth.get(entry, ()))
    return factor or (STALE_FACTOR if stale else 0.0)


def list_gone(hits: Sequence[Hit], truth: Truth) -> tuple[Withheld, ...]:
    """Return the hits whose cited code is gone altogether."""
    gone: list[Withheld] = []
    for hit in hits:
        verdicts = truth.get(hit.located.entry, ())
        if judge_entry(verdicts) == "gone":
            notes = dict.fromkeys(f"{verdict.path} ({verdict.note})" for verdict in verdicts)
            gone.append(Withheld(hit, f"gone: {'; '.join(notes)}"))
    return tuple(gone)


def soften(entry: Entry, verdicts: Mapping[tuple[str, str], Verdict]) -> list[Verdict]:
    """Return the verdicts on an entry for ranking.

    Any edit changes a file that is cited whole, so such a cite stays fresh and its entry loses rank
    with the share of the file that was edited.
    """
    softened: list[Verdict] = []
    for cite in entry.cites:
        anchor = parse_anchor(cite)
        verdict = verdicts.get((entry.id, cite))
        if anchor is None or verdict is None:
            continue
        if verdict.kind == "changed" and verdict.edited:
            verdict = replace(verdict, kind="fresh")
        elif verdict.kind == "gone" and not may_hide(anchor, entry):
            verdict = replace(verdict, kind="changed")
        softened.append(verdict)
    return softened
