"""A plan for a person: what would be or was learned, from where, and what was left out and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory_ci.records.candidate import Judged
from memory_ci.records.change import Change
from memory_ci.records.plan import Plan
from memory_ci.rendering.table import printable, render_finding
from memory_ci.text import plural, shorten

SHOWN = 20
"""How many candidates of each verdict are named; all of them are in the JSON."""

VERDICTS = (
    ("quarantined", "Quarantined, not written"),
    ("over_limit", "Over the limit of entries per merged change, not written"),
    ("suspected", "Candidates, not written"),
)


def render_plan(plan: Plan) -> str:
    """The plan in sections; the JSON form of a plan is the record itself."""
    return "".join(f"{printable(line)}\n" for line in _lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    since = plan.since[:10] if plan.since else "the beginning"
    counts = plan.counts
    merged, commits = plural(counts.merged_changes, "merged change"), plural(counts.commits, "commit")
    if plan.until is not None:
        yield f"{merged} ({commits}) from {since} to {plan.until[:10]}, engine {plan.engine.name}: {plan.engine.reason}"
    for step in plan.steps:
        yield ""
        yield f"{step.step}: {plural(len(step.changes), 'change')}"
        yield from (_change_line(change) for change in step.changes)
    if not plan.steps:
        yield "Nothing to commit."
    if plan.until is not None and not counts.merged_changes:
        yield "Nothing was merged in this range; to learn from older history, name its start: --since REV"
    for verdict, heading in VERDICTS:
        yield from _candidates(heading, [item for item in plan.judged if item.verdict == verdict])
    if counts.left_out:
        yield ""
        yield "Not evidence: " + ", ".join(f"{count} {reason}" for reason, count in counts.left_out.items())
    if counts.redactions:
        yield f"Masked in what was read: {plural(counts.redactions, 'credential')}"
    for finding in plan.findings:
        yield f"Warning: {render_finding(finding, with_level=False)}"


def _change_line(change: Change) -> str:
    return f"  {change.entry.id[:8]}  {change.path}  {shorten(change.entry.title, 90)}  ({change.why})"


def _candidates(heading: str, items: Sequence[Judged]) -> Iterator[str]:
    if not items:
        return
    yield ""
    yield f"{heading}: {len(items)}"
    for item in items[:SHOWN]:
        yield f"  {item.change:8}  {shorten(item.candidate.title, 90)}  ({item.reason})"
    if len(items) > SHOWN:
        yield f"  … and {len(items) - SHOWN} more: --json"
