"""Verdicts on the code that ranked entries cite, in the caller's tree (docs/serving.md#anchors)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from memory_ci.memory.dead_names import find_dead_names
from memory_ci.memory.judged_view import JudgedView
from memory_ci.memory.workspace import Workspace
from memory_ci.records.anchor import Anchor, Verdict
from memory_ci.records.entry import Entry, Located
from memory_ci.records.retrieval import Hit, Withheld

STALE_FACTOR = 0.5
"""Truth factor with `--stale` of an entry whose code is gone: that of changed code."""

# The functions import what they judge cites with: 10 ms that entries without cites are spared.
Truth = Mapping[Entry, tuple[Verdict, ...]]  # Verdicts on the cites of each entry.


def judge_cites(workspace: Workspace, located: Sequence[Located], view: str | None) -> Truth:
    """Return the verdicts on the cites of entries.

    It takes two git processes while nothing has changed.

    Args:
        view: the revision to compare with; None is the work tree.

    Raises:
        RepositoryError: unknown-revision.
    """
    judged_view = JudgedView(workspace, view)
    truth = _judge_anchors(located, judged_view)

    entries = [located_entry.entry for located_entry in located]
    for entry, verdict in find_dead_names(judged_view, entries).items():
        truth[entry] = (*truth[entry], verdict)
    return truth


def _judge_anchors(
    located: Sequence[Located], view: JudgedView
) -> dict[Entry, tuple[Verdict, ...]]:
    truth: dict[Entry, tuple[Verdict, ...]] = {place.entry: () for place in located}
    citing = [place for place in located if place.entry.cites]
    if citing:
        from memory_ci.memory.cites import judge_views

        (verdicts,) = judge_views(citing, view)
        for place in citing:
            truth[place.entry] = tuple(soften_verdicts(place.entry, verdicts))
    return truth


def weigh_truth(truth: Truth, entry: Entry, *, stale: bool) -> float:
    """Return the truth factor of an entry in ranking.

    It is 0, which withholds the entry, if all its code is gone and `stale` is not set.
    """
    verdicts = truth.get(entry, ())
    if not verdicts:
        return 1.0
    from memory_ci.anchors.verdicts import truth_factor

    factor = truth_factor(verdicts)
    if not factor and stale:
        return STALE_FACTOR
    return factor


def list_gone(hits: Sequence[Hit], truth: Truth) -> tuple[Withheld, ...]:
    """Return the hits whose cited code is all gone, each with the reason."""
    withheld = []
    for hit in hits:
        verdicts = truth.get(hit.located.entry, ())
        if _is_gone(verdicts):
            reasons = dict.fromkeys(f"{verdict.path} ({verdict.note})" for verdict in verdicts)
            withheld.append(Withheld(hit, f"gone: {'; '.join(reasons)}"))
    return tuple(withheld)


def _is_gone(verdicts: Sequence[Verdict]) -> bool:
    if not verdicts:
        return False
    from memory_ci.anchors.verdicts import judge_entry

    return judge_entry(verdicts) == "gone"


def soften_verdicts(entry: Entry, verdicts: Mapping[tuple[str, str], Verdict]) -> list[Verdict]:
    """Return the verdicts on an entry, with those that say too much softened.

    Any edit changes a file that is cited whole. Such an entry fades with the edited share of the
    file instead.

    Args:
        verdicts: verdicts by the id of the entry and the cite.
    """
    from memory_ci.anchors.anchors import parse_anchor

    softened = []
    for cite in entry.cites:
        anchor = parse_anchor(cite)
        verdict = verdicts.get((entry.id, cite))
        if anchor is not None and verdict is not None:
            softened.append(_soften_verdict(verdict, anchor, entry))
    return softened


def _soften_verdict(verdict: Verdict, anchor: Anchor, entry: Entry) -> Verdict:
    if verdict.kind == "changed" and verdict.edited:
        return replace(verdict, kind="fresh")
    from memory_ci.anchors.anchors import may_hide

    if verdict.kind == "gone" and not may_hide(anchor, entry):
        return replace(verdict, kind="changed")
    return verdict
