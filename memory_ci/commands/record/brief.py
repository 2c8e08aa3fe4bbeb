"""What a run did in a few lines, the most important first; `text.render_plan` has all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory_ci.cli.terminal import cut, fold
from memory_ci.commands.record.text import (
    NOTHING,
    VERDICTS,
    WAYS,
    count_episodes,
    list_engine_lines,
    list_range_lines,
)
from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.findings import printable, render_finding
from memory_ci.records.entry import name_entry
from memory_ci.records.names import short_branch
from memory_ci.records.plan import Plan, PlannedStep, Published, Step
from memory_ci.records.report import Finding
from memory_ci.text import plural

MAX_LINES = 30
LIMITS = ((8, 5), (8, 3), (8, 1), (8, 0), (5, 0), (3, 0), (1, 0), (0, 0))
"""Items of a list of new entries, and of any other list.

The first pair with which the text has at most `MAX_LINES` is taken.
"""

STEPS: dict[Step, str] = {
    "fold": "Folded from the inbox",
    "extract": "Learned",
    "reinforce": "Reinforced",
    "consolidate": "Consolidated",
    "promote": "Promoted",
    "retire": "Retired",
    "compact": "Compacted",
}
MORE = "Some lines were left out: --verbose prints all, --json is for programs."


class _Section(NamedTuple):
    """A heading with a list, of which a short text has the first items or none.

    Attributes:
        heading: the heading, with the number of items.
        items: the items.
        is_new: the items are entries that the run brought.
    """

    heading: str
    items: Sequence[str] = ()
    is_new: bool = False


def render_brief(
    plan: Plan | None, written: Sequence[str], published: Published | None, width: int = 0
) -> str:
    """Render a run and what became of it in about `MAX_LINES` lines.

    Args:
        plan: the plan, None if none was made.
        written: the paths of the episode files that it writes.
        published: what was committed and published; None if nothing was.
        width: the columns of a terminal, for which items are cut; 0 elsewhere.
    """
    outcome = list(list_published(plan, published))
    if plan is None:
        return _join(outcome, width)
    head = [*list_range_lines(plan), *_list_counts(plan, written)]
    head += list_engine_lines(plan.engine)
    sections = list(_list_sections(plan))
    text = ""
    # Items are folded if there is room for it, else cut.
    attempts = [(LIMITS[0], 0), *((limits, width) for limits in LIMITS)]
    for limits, cut_width in attempts:
        text = _join([*head, *_list_lines(sections, limits, cut_width), *outcome], width)
        if text.count("\n") <= MAX_LINES:
            break
    return text


def list_published(plan: Plan | None, published: Published | None) -> Iterator[str]:
    """Yield lines on where the commits of a run are."""
    if published is None:
        return
    if plan is not None and published.subjects:
        action = f"Published by {published.mode} for"
        if published.mode == "none":
            action = "Committed on"
        yield ""
        yield f"{action} {short_branch(plan.ref)}, now at {published.tip[:10]}:"
        yield from (f"  {subject}" for subject in published.subjects)
    yield from filter(None, (published.url, published.reason))


def _join(lines: Sequence[str], width: int) -> str:
    text = "".join(f"{printable(line)}\n" for line in lines)
    return fold(text, width) if width else text


def _list_lines(sections: Sequence[_Section], limits: tuple[int, int], width: int) -> Iterator[str]:
    """Yield the lines of sections, with an empty line around each list of items."""
    is_cut = False
    was_list = True  # An empty line is below the range, too.
    for section in sections:
        shown = section.items[: limits[0] if section.is_new else limits[1]]
        hidden = len(section.items) - len(shown)
        if shown or was_list:
            yield ""
        yield section.heading
        yield from (cut(f"  {item}", width) if width else f"  {item}" for item in shown)
        if shown and hidden:
            yield f"  … and {hidden} more"
        was_list = bool(shown)
        is_cut = is_cut or hidden > 0
    if is_cut:
        yield from ("", MORE)


def _list_counts(plan: Plan, written: Sequence[str]) -> Iterator[str]:
    """Yield the lines of what is counted and not listed."""
    if plan.joins:
        yield f"Read besides commits: {plural(len(plan.joins), 'source')}"
    if plan.counts.redactions:
        yield f"Masked in what was read: {plural(plan.counts.redactions, 'credential')}"
    if written:
        yield f"episodes: {count_episodes(plan)} new, {plural(len(written), 'file')}"
    elif not (plan.steps or plan.episodes or plan.fold_before):
        yield NOTHING


def _list_sections(plan: Plan) -> Iterator[_Section]:
    for step in plan.steps:
        yield _describe_step(step)
    yield from _list_judged(plan)
    problems = [*plan.problems, *plan.windows]
    problems += [f"{count} learnings: {reason}" for reason, count in plan.dropped.items()]
    if problems:
        yield _Section(f"Could not be read: {len(problems)}", problems)
    if plan.findings:
        warnings = list(map(_describe_finding, plan.findings))
        yield _Section(f"Warnings: {len(warnings)}", warnings)
    has_learned = any(step.step in ("fold", "extract") for step in plan.steps)
    if plan.counts.merged_changes and not has_learned:
        ways = [f"{command:36} {effect}" for command, effect in WAYS]
        yield _Section("Nothing was learned from these changes.", ways)


def _describe_step(step: PlannedStep) -> _Section:
    items = [
        f"{change.entry.id[:8]}  {name_entry(change.entry)}  ({change.why})"
        for change in step.changes
    ]
    heading = f"{STEPS[step.step]}: {plural(len(items), 'entry')}"
    return _Section(heading, items, is_new=step.step in ("fold", "extract"))


def _list_judged(plan: Plan) -> Iterator[_Section]:
    """Yield the candidates that were not written; those that a person is asked about by rank."""
    for verdict, heading in VERDICTS:
        judged = [item for item in plan.judged if item.verdict == verdict]
        if not judged:
            continue
        if verdict == "suspected":
            best = [suggestion.candidate.title for suggestion in list_suggestions(judged, ())]
            question = f"{len(best)} for you to decide (memory-ci review)"
            yield _Section(f"{heading}: {len(judged)}, {question}", best)
            continue
        items = [f"{item.change:8}  {item.candidate.title}  ({item.reason})" for item in judged]
        yield _Section(f"{heading}: {len(judged)}", items)


def _describe_finding(finding: Finding) -> str:
    """Return a finding without the place if it is about the repository as a whole."""
    return render_finding(finding, with_level=False).removeprefix(".:1: ")
