"""Verdicts on ranked entries: whether the code that they cite is unchanged (docs/serving.md)."""

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
"""VerdictsByEntry factor with `--stale` of an entry whose code is gone: that of changed code."""

# What cites are judged with is imported in functions: it takes 10 ms, and many entries have none.
VerdictsByEntry = Mapping[Entry, tuple[Verdict, ...]]  # A verdict for each cite of an entry.


def judge_cites(
    workspace: Workspace, located_entries: Sequence[Located], tree: str | None
) -> VerdictsByEntry:
    """Return the verdicts on the cites of entries: whether the cited code is unchanged.

    A name in the text of an entry that the code no longer has gives a verdict as well. The answers
    are cached: if nothing has changed since the last call, it takes two git processes.

    Args:
        workspace: the repository and its configuration.
        located_entries: the entries.
        tree: the revision to compare with; None is the work tree.

    Raises:
        RepositoryError: unknown-revision.
    """
    judged_view = JudgedView(workspace, tree)
    verdicts_by_entry = _judge_anchors(located_entries, judged_view)

    entries = [located.entry for located in located_entries]
    for entry, verdict in find_dead_names(judged_view, entries).items():
        verdicts_by_entry[entry] = (*verdicts_by_entry[entry], verdict)
    return verdicts_by_entry


def _judge_anchors(
    located_entries: Sequence[Located], view: JudgedView
) -> dict[Entry, tuple[Verdict, ...]]:
    """Return the verdicts on the cites of each entry; names in its text are not judged here.

    An entry without cites has no verdicts.
    """
    verdicts_by_entry: dict[Entry, tuple[Verdict, ...]] = {
        located.entry: () for located in located_entries
    }
    citing = [located for located in located_entries if located.entry.cites]
    if citing:
        from memory_ci.memory.cite_verdicts import judge_views

        (verdicts_by_cite,) = judge_views(citing, view)
        for located in citing:
            verdicts = soften_verdicts(located.entry, verdicts_by_cite)
            verdicts_by_entry[located.entry] = tuple(verdicts)
    return verdicts_by_entry


def weigh_truth(verdicts_by_entry: VerdictsByEntry, entry: Entry, *, serves_stale: bool) -> float:
    """Return the factor of an entry's score for the state of the code that it cites.

    Args:
        verdicts_by_entry: the verdicts on the cites of each entry.
        entry: the entry.
        serves_stale: whether an entry whose code is all gone is served; if not, its factor is 0.
    """
    verdicts = verdicts_by_entry.get(entry, ())
    if not verdicts:
        return 1.0
    from memory_ci.anchors.verdicts import truth_factor

    factor = truth_factor(verdicts)
    if not factor and serves_stale:
        return STALE_FACTOR
    return factor


def list_gone(hits: Sequence[Hit], verdicts_by_entry: VerdictsByEntry) -> tuple[Withheld, ...]:
    """Return the hits whose cited code is all gone, each with the reason."""
    withheld_hits = []
    for hit in hits:
        verdicts = verdicts_by_entry.get(hit.located.entry, ())
        if _is_gone(verdicts):
            reasons = dict.fromkeys(f"{verdict.path} ({verdict.note})" for verdict in verdicts)
            withheld_hits.append(Withheld(hit, f"gone: {'; '.join(reasons)}"))
    return tuple(withheld_hits)


def _is_gone(verdicts: Sequence[Verdict]) -> bool:
    if not verdicts:
        return False
    from memory_ci.anchors.verdicts import judge_entry

    return judge_entry(verdicts) == "gone"


def soften_verdicts(entry: Entry, verdicts: Mapping[tuple[str, str], Verdict]) -> list[Verdict]:
    """Return the verdicts on an entry's cites, milder where they are no proof against it.

    A file that is cited whole is changed by any edit. Its verdict becomes `fresh`, and the entry
    loses weight by the edited share of the file instead.

    Args:
        entry: the entry.
        verdicts: verdicts by the id of the entry and the cite.
    """
    from memory_ci.anchors.anchors import parse_anchor

    softened_verdicts = []
    for cite in entry.cites:
        anchor = parse_anchor(cite)
        verdict = verdicts.get((entry.id, cite))
        if anchor is not None and verdict is not None:
            softened_verdicts.append(_soften_verdict(verdict, anchor, entry))
    return softened_verdicts


def _soften_verdict(verdict: Verdict, anchor: Anchor, entry: Entry) -> Verdict:
    """Return a verdict on a cite, or a milder one.

    - "changed" becomes "fresh" for a file that is cited whole: any edit changes it. The verdict has
      the edited share of the file (`edited`), by which the entry loses weight instead.
    - "gone" would hide the entry. It becomes "changed" if the cite is too weak to hide it
      (`may_hide`).
    """
    is_whole_file = bool(verdict.edited)
    if verdict.kind == "changed" and is_whole_file:
        return replace(verdict, kind="fresh")
    from memory_ci.anchors.anchors import may_hide

    if verdict.kind == "gone" and not may_hide(anchor, entry):
        return replace(verdict, kind="changed")
    return verdict
