"""The result of a record run as a short text, the most important first.

`text.render_plan` renders all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory_ci.cli.terminal import cut, fold
from memory_ci.commands.record.text import (
    NOTHING_TO_COMMIT,
    VERDICTS,
    WAYS_TO_LEARN,
    count_episodes,
    has_new_entries,
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
STEPS: dict[Step, str] = {
    "fold": "Folded from the inbox",
    "extract": "Learned",
    "reinforce": "Reinforced",
    "consolidate": "Consolidated",
    "promote": "Promoted",
    "retire": "Retired",
    "compact": "Compacted",
}
MORE_NOTE = "Some lines were left out: --verbose prints all, --json is for programs."


class _Section(NamedTuple):
    """A part of the text: a heading and a list, whose last items may be left out.

    Attributes:
        heading: the heading, with the number of items.
        items: the items.
        is_new: whether the items are entries that the run added.
    """

    heading: str
    items: Sequence[str] = ()
    is_new: bool = False


class _Limits(NamedTuple):
    """The number of items that a list shows.

    Attributes:
        new_items: of a list of new entries.
        other_items: of any other list.
    """

    new_items: int
    other_items: int


LIMITS = (
    _Limits(8, 5),
    _Limits(8, 3),
    _Limits(8, 1),
    _Limits(8, 0),
    _Limits(5, 0),
    _Limits(3, 0),
    _Limits(1, 0),
    _Limits(0, 0),
)
"""The limits that are tried until the text has at most `MAX_LINES`."""


def render_brief(
    plan: Plan | None, episode_paths: Sequence[str], published: Published | None, width: int = 0
) -> str:
    """Render a run and its result in about `MAX_LINES` lines.

    Lists are shortened until the text fits. Lines longer than the terminal first go on in the next
    line; if that makes the text too long, they are cut.

    Args:
        plan: the plan, None if none was made.
        episode_paths: the paths of the episode files that it writes.
        published: the commits and where they were published; None if nothing was committed.
        width: the columns of a terminal, for which items are cut; 0 elsewhere.
    """
    published_lines = list(list_published(plan, published))
    if plan is None:
        return _join_lines(published_lines, width)
    head_lines = [*list_range_lines(plan), *_list_counts(plan, episode_paths)]
    head_lines += list_engine_lines(plan.engine)
    sections = list(_list_sections(plan))

    def render(limits: _Limits, cut_width: int) -> str:
        section_lines = _list_section_lines(sections, limits, cut_width)
        return _join_lines([*head_lines, *section_lines, *published_lines], width)

    text = render(LIMITS[0], 0)
    for limits in LIMITS:
        if text.count("\n") <= MAX_LINES:
            break
        text = render(limits, width)
    return text


def list_published(plan: Plan | None, published: Published | None) -> Iterator[str]:
    """Yield lines on where the commits of a run are: the branch, the commits, the pull request."""
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


def _join_lines(lines: Sequence[str], width: int) -> str:
    """Return lines as a text, folded at a width unless it is 0."""
    text = "".join(f"{printable(line)}\n" for line in lines)
    return fold(text, width) if width else text


def _list_section_lines(sections: Sequence[_Section], limits: _Limits, width: int) -> Iterator[str]:
    """Yield the lines of sections: a heading each, and a list of items with an empty line around.

    They follow the lines on the range of the run, which count as a list.

    Args:
        sections: the sections.
        limits: how many items of each list are shown.
        width: the width at which items are cut; 0 for whole items.
    """
    has_hidden_items = False
    is_below_list = True
    for section in sections:
        item_limit = limits.new_items if section.is_new else limits.other_items
        shown_items = section.items[:item_limit]
        hidden_count = len(section.items) - len(shown_items)
        if shown_items or is_below_list:
            yield ""
        yield section.heading
        for item in shown_items:
            yield cut(f"  {item}", width) if width else f"  {item}"
        if shown_items and hidden_count:
            yield f"  … and {hidden_count} more"
        is_below_list = bool(shown_items)
        has_hidden_items = has_hidden_items or hidden_count > 0
    if has_hidden_items:
        yield from ("", MORE_NOTE)


def _list_counts(plan: Plan, episode_paths: Sequence[str]) -> Iterator[str]:
    """Yield lines with counts alone: of sources, masked credentials and episodes.

    A source (`plan.joins`) is a pull request or an agent session that belongs to a change.

    Args:
        plan: the plan. A plan without new files may combine old files of episodes (`fold_before`).
        episode_paths: the paths of the episode files that it writes.
    """
    if plan.joins:
        yield f"Read besides commits: {plural(len(plan.joins), 'source')}"
    if plan.counts.redactions:
        yield f"Masked in what was read: {plural(plan.counts.redactions, 'credential')}"
    if episode_paths:
        yield f"episodes: {count_episodes(plan)} new, {plural(len(episode_paths), 'file')}"
    elif not (plan.steps or plan.episodes or plan.fold_before):
        yield NOTHING_TO_COMMIT


def _list_sections(plan: Plan) -> Iterator[_Section]:
    """Yield the changes of entries, the candidates that were not written, then what went wrong.

    A run that read changes and learned nothing ends with commands to try.
    """
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
    if plan.counts.merged_changes and not has_new_entries(plan):
        advice = [f"{command:36} {effect}" for command, effect in WAYS_TO_LEARN]
        yield _Section("Nothing was learned from these changes.", advice)


def _describe_step(step: PlannedStep) -> _Section:
    items = [
        f"{change.entry.id[:8]}  {name_entry(change.entry)}  ({change.why})"
        for change in step.changes
    ]
    heading = f"{STEPS[step.step]}: {plural(len(items), 'entry')}"
    return _Section(heading, items, is_new=step.step in ("fold", "extract"))


def _list_judged(plan: Plan) -> Iterator[_Section]:
    """Yield a section for each verdict by which candidates for entries were not written.

    The verdict "suspected" means that a person is to decide. Of these candidates the best are
    listed, in the order in which `memory-ci review` asks about them.
    """
    for verdict, heading in VERDICTS:
        judged = [item for item in plan.judged if item.verdict == verdict]
        if not judged:
            continue
        if verdict == "suspected":
            titles = [suggestion.candidate.title for suggestion in list_suggestions(judged, ())]
            question = f"{len(titles)} for you to decide (memory-ci review)"
            yield _Section(f"{heading}: {len(judged)}, {question}", titles)
        else:
            items = [f"{item.change:8}  {item.candidate.title}  ({item.reason})" for item in judged]
            yield _Section(f"{heading}: {len(judged)}", items)


def _describe_finding(finding: Finding) -> str:
    """Return a finding as a line, without the place `.:1:` of one on the whole repository."""
    return render_finding(finding, with_level=False).removeprefix(".:1: ")
