"""The message of a commit that a record run makes in memory files."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory_ci.findings import printable
from memory_ci.records.entry import name_entry
from memory_ci.records.plan import COMMITTED_ALONE, Change, Plan, PlannedStep
from memory_ci.regex import Regex
from memory_ci.secrets import find_secrets
from memory_ci.store.episodes import list_ids
from memory_ci.text import plural, shorten

REFERENCE = Regex(
    r"[#!@](?=\w)|(?<=\bGH)-(?=\d)|https?://\S*/(?:issues|pull|pulls|merge_requests|work_items)/(?=\d)",
    re.I,
)
"""Text in a message that a forge acts on.

`Fixes #12`, `Closes owner/name#12`, `GH-12` or an address closes an issue, and `@name` notifies a
person (docs.github.com, "Linking a pull request to an issue"; docs.gitlab.com, crosslinking).
"""

MENTION = Regex(r"(?<![\w])[!@](?=\w)")
"""The references that a reason does not need."""

LABEL_WIDTH = 40  # Characters of the name of a merged change.
TITLE_WIDTH = 80  # Characters of the title of an entry.
WHY_WIDTH = 200  # Characters of the reason of a change.
MAX_NAMED = 3  # Merged changes that the subject names.
MAX_LISTED = 50  # Episodes that the message lists.


def render_commit_message(
    steps: Sequence[PlannedStep],
    plan: Plan,
    episode_file_count: int = 0,
    *,
    records_range: bool = False,
) -> str:
    """Render the message of a commit of a run.

    It has a subject, one line per entry and new episode, and trailers with the steps and the
    cursor of the run. Nothing else in it can be read as a cursor, acts on a forge, or is a
    credential. A line with a credential is replaced by the id of its entry.

    Args:
        steps: the steps of the commit.
        plan: the plan.
        episode_file_count: the number of episode files that the commit changes.
        records_range: whether the commit notes the range that the run has read.
    """
    episode_names: list[str] = []
    if episode_file_count:
        for file in plan.episodes:
            episode_names += list_ids(file.path, file.text.encode())

    parts = [_describe_step(step) for step in steps]
    if episode_names:
        parts.append(f"note {plural(len(episode_names), 'episode')}")
    if not parts and episode_file_count:
        parts.append(f"fold {plural(episode_file_count, 'file')} of episodes")
    if not parts:
        parts.append(f"read {plural(plan.unwritten.changes, 'merged change')}")
    subject = printable(f"memory: {', '.join(parts)}")

    lines = []
    for step in steps:
        lines += [_describe_change(change) for change in step.changes]
    lines += [f"- {name}" for name in episode_names[:MAX_LISTED]]
    if len(episode_names) > MAX_LISTED:
        lines.append(f"- and {len(episode_names) - MAX_LISTED} more")
    if lines:
        lines.append("")

    has_episodes = episode_file_count > 0
    trailers = _list_trailers(steps, plan, has_episodes=has_episodes, records_range=records_range)
    message = "\n".join([subject, "", *lines, *trailers])
    return f"{message}\n"


def _list_trailers(
    steps: Sequence[PlannedStep], plan: Plan, *, has_episodes: bool, records_range: bool
) -> list[str]:
    """Return the trailers of a commit of a run: its steps, its last commit read, and its cost.

    Args:
        steps: the steps of the commit.
        plan: the plan of the run.
        has_episodes: whether the commit changes episode files.
        records_range: whether the commit notes the range that the run has read.
    """
    step_names = [planned_step.step for planned_step in steps]
    trailers = [f"Memory-CI-Step: {name}" for name in step_names]
    if has_episodes:
        trailers.append("Memory-CI-Step: episode")
    if records_range:
        trailers.append("Memory-CI-Step: read")
    if plan.until is not None:
        trailers.append(f"Memory-CI-Source: {plan.until}")

    # The steps in COMMITTED_ALONE have commits of their own, after the first commit of the run.
    # Only the first commit says that a person asked for the range, and what the run cost: its own
    # requests to a model, and those of earlier runs whose commits were not merged.
    has_joint_step = any(name not in COMMITTED_ALONE for name in step_names)
    is_first_commit = has_episodes or records_range or has_joint_step
    if is_first_commit and plan.is_asked:
        trailers.append("Memory-CI-Range: asked")
    if is_first_commit and (plan.engine.cost_usd or plan.engine.unlanded_usd):
        cost_usd = (plan.engine.cost_usd or 0) + plan.engine.unlanded_usd
        trailers.append(f"Memory-CI-Cost: {cost_usd:.6f} USD")
    if "reinforce" in step_names:
        trailers += [f"Memory-CI-Counted: {sha}" for sha in plan.counted]
    return trailers


def _describe_step(planned_step: PlannedStep) -> str:
    """Return a step as part of a subject: `extract 2 learnings from 128, 129 and 2 more`.

    The signs `#` and `@` are removed: a forge would link the request, and notify people.
    """
    step_name = planned_step.step
    entry_count = len({change.entry.id for change in planned_step.changes})
    if step_name == "fold":
        return f"fold {plural(entry_count, 'entry')} from the inbox"

    noun = "learning" if step_name == "extract" else "entry"
    description = f"{step_name} {plural(entry_count, noun)}"
    prefix = {"extract": "from ", "reinforce": "for "}.get(step_name)
    labels = _list_labels(planned_step, prefix) if prefix else []
    if not labels:
        return description
    named_changes = f" {prefix}{', '.join(labels[:MAX_NAMED])}"
    if len(labels) > MAX_NAMED:
        named_changes += f" and {len(labels) - MAX_NAMED} more"
    return description + MENTION.sub("", named_changes)


def _list_labels(step: PlannedStep, prefix: str) -> list[str]:
    """Return the merged changes that the reasons of a step name: `#128` of `from #128`.

    Args:
        step: the step.
        prefix: the start of each reason.
    """
    labels: dict[str, None] = {}
    for change in step.changes:
        if not find_secrets(change.why):
            names = change.why.removeprefix(prefix).split(", ")
            labels |= dict.fromkeys(shorten(name, LABEL_WIDTH) for name in names)
    return list(labels)


def _describe_change(change: Change) -> str:
    """Return a changed entry as a list item in one line: title, short id, path and reason.

    It may name pull requests, but it notifies nobody and closes no issue on a forge. An entry with
    a credential is named by its id alone.
    """
    entry = change.entry
    if find_secrets("\n".join((entry.title, entry.body, change.path, change.why))):
        return f"- {entry.id[:8]}"
    title = REFERENCE.sub("", shorten(name_entry(entry), TITLE_WIDTH))
    reason = MENTION.sub("", shorten(change.why, WHY_WIDTH))
    return printable(f"- {title} ({entry.id[:8]}, {change.path}, {reason})")
