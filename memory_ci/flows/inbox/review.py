"""Review: what a person answers of the entries whose code has changed, as commits and notes in the inbox."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import date, datetime

import msgspec
from msgspec.structs import replace

from memory_ci.flows.anchors import anchor_entries
from memory_ci.flows.draft import Draft
from memory_ci.flows.edits import name_edits
from memory_ci.flows.inbox.add import Added, add_entry, draft_entry, split_text
from memory_ci.flows.lookup import find_entry
from memory_ci.flows.record.apply import Applied, apply_plan, preview_plan
from memory_ci.flows.serve.anchor_verdicts import judge_located
from memory_ci.flows.workspace import Workspace, branch_tip, workspace_at
from memory_ci.lifecycle.anchors import format_anchor, parse_anchor
from memory_ci.lifecycle.verdicts import judge_entry
from memory_ci.records.anchor import MARKED, Anchor, Verdict
from memory_ci.records.entry import Located
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.plan import PLAN_VERSION, Change, Counts, EngineUse, Plan, PlannedStep, Step

KEPT, RETIRED = "kept in a review: it holds for the code as it is", "retired in a review: its code has changed"


class StaleEntry(msgspec.Struct, frozen=True):
    """An entry that retrieval marks or withholds, and what became of each place that it cites."""

    located: Located
    verdicts: tuple[Verdict, ...]


class StaleReview(msgspec.Struct, frozen=True):
    """The stale entries of a branch as one commit has them."""

    ref: str
    base: str
    stale: tuple[StaleEntry, ...]


def list_stale(workspace: Workspace, branch: str | None) -> StaleReview:
    """The entries of the tip of a branch whose code changed or is gone there, in the order of the files."""
    ref, base = branch_tip(workspace, branch)
    workspace = workspace_at(workspace.repo, base)
    kept = [place for place in Draft(workspace.at(base)).kept if place.entry.status != "retired"]
    truth = judge_located(workspace, kept, base)
    marked = [(place, found) for place in kept if judge_entry(found := truth.get(place.entry, ())) in MARKED]
    named = name_edits(workspace, [(place.entry, found) for place, found in marked], base)
    return StaleReview(ref, base, tuple(StaleEntry(place, one) for (place, _), one in zip(marked, named, strict=True)))


def plan_review(
    workspace: Workspace, review: StaleReview, keep: Sequence[str], retire: Sequence[str], today: date
) -> Plan:
    """The entries that hold, anchored anew in the code as it is, and those that do not, retired; by the starts of ids.

    A cite whose code is gone is taken out. What has no cites is confirmed `today`: names that are dead by then say
    nothing against it. Raises UsageError (unknown-entry, ambiguous-entry) for what is not stale.
    """
    located = [one.located for one in review.stale]
    known = {one.located.entry.id: one for one in review.stale}
    kept = [known[find_entry(located, prefix).entry.id] for prefix in dict.fromkeys(keep)]
    ended = [find_entry(located, prefix) for prefix in dict.fromkeys(retire)]
    there = workspace_at(workspace.repo, review.base)
    paths = there.at(review.base).tree.files.keys()
    bare = [replace(one.located.entry, cites=tuple(_recite(one, review.base, paths))) for one in kept]
    anchored = anchor_entries(there, bare)
    pairs = list(zip(kept, anchored, strict=True))
    steps: dict[Step, tuple[Change, ...]] = {
        "reinforce": tuple(
            Change(
                step="reinforce",
                kind="update",
                path=one.located.path,
                entry=replace(one.located.entry, last_reinforced=max(today, one.located.entry.last_reinforced)),
                why=KEPT,
            )
            for one, entry in pairs
            if entry == one.located.entry
        ),
        "consolidate": tuple(
            Change(step="consolidate", kind="update", path=one.located.path, entry=entry, why=KEPT)
            for one, entry in pairs
            if entry != one.located.entry
        ),
        "retire": tuple(
            Change(step="retire", kind="update", path=one.path, entry=replace(one.entry, status="retired"), why=RETIRED)
            for one in ended
        ),
    }
    return Plan(
        schema_version=PLAN_VERSION,
        ref=review.ref,
        base=review.base,
        since=None,
        until=None,
        engine=EngineUse("none", "a person answered"),
        counts=Counts(),
        steps=tuple(PlannedStep(step=name, changes=changes) for name, changes in steps.items() if changes),
    )


def answer_review(workspace: Workspace, plan: Plan, now: datetime, *, dry_run: bool, in_actions: bool) -> Applied:
    """A commit for what is kept and one for what is retired, as `apply_plan` makes them."""
    return preview_plan(workspace, plan, now) if dry_run else apply_plan(workspace, plan, now, in_actions=in_actions)


def reword(
    workspace: Workspace, place: Located, new_id: str, text: str, today: date, *, dry_run: bool = False
) -> Added:
    """A note in the inbox that says what holds now, and takes the place of the entry once it is folded.

    Raises UsageError (empty-entry), and what `add_entry` raises.
    """
    entry = place.entry
    fields = {"type": entry.type, "domain": entry.domain, "importance": entry.importance, "supersedes": (entry.id,)}
    note = draft_entry(new_id, today, split_text(text), **fields, scope=place.scope.target)
    return add_entry(workspace, note, dry_run=dry_run)


def _recite(one: StaleEntry, commit: str, paths: Container[str]) -> Iterator[str]:
    """The cites of an entry that is kept: those that stand as they are, the others bare at the commit."""
    found = iter(one.verdicts)
    for cite in one.located.entry.cites:
        verdict = next(found, None) if parse_anchor(cite) else None
        if verdict is None or verdict.kind not in MARKED:
            yield cite
        elif verdict.path in paths and not (verdict.edit and verdict.edit.is_removal):
            anchor = Anchor(path=verdict.path, commit=commit[:SHA_WIDTH], first=verdict.first, last=verdict.last)
            yield format_anchor(anchor)
