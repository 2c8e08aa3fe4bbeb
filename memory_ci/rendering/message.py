"""The commit message of a record step."""

from __future__ import annotations

import re

from memory_ci.records.plan import Change, Plan, PlannedStep
from memory_ci.rendering.table import printable
from memory_ci.secrets import find_secrets
from memory_ci.text import plural, shorten

REFERENCE = re.compile(r"(?<![\w])([#!@])(?=\w)")
"""What a forge acts on in a message: `Fixes #12` closes an issue, `@name` notifies a person."""

MENTION = re.compile(r"(?<![\w])[!@](?=\w)")  # Of these, what the reason of a change has no use for.
LABEL_WIDTH = 40
MAX_NAMED = 3
MAX_LISTED = 50
WHY_WIDTH = 200


def render_commit_message(step: PlannedStep, plan: Plan) -> str:
    """Subject, one line per entry, trailers that say what this commit is and how far the run came.

    Nothing in it moves a cursor, acts on a forge or is a credential: a line that holds one is only the entry's id.
    """
    trailers = [f"Memory-CI-Step: {step.step}"]
    if plan.until is not None:
        trailers.append(f"Memory-CI-Source: {plan.until}")
    if step.step == "reinforce":
        trailers += [f"Memory-CI-Counted: {sha}" for sha in plan.counted]
    lines = [_line(change) for change in step.changes]
    return "\n".join([printable(_subject(step)), "", *lines, "", *trailers]) + "\n"


def render_episode_message(plan: Plan, count: int) -> str:
    """The message of the commit that notes the episodes of a run; `count` is how many files it changes."""
    new = len(plan.episodes)
    subject = f"memory: note {plural(new, 'episode')}" if new else f"memory: fold {plural(count, 'file')} of episodes"
    trailers = ["Memory-CI-Step: episode", *([f"Memory-CI-Source: {plan.until}"] if plan.until is not None else [])]
    names = [file.path.rpartition("/")[2].removesuffix(".md") for file in plan.episodes]
    lines = [f"- {name}" for name in names[:MAX_LISTED]]
    if new > MAX_LISTED:
        lines.append(f"- and {new - MAX_LISTED} more")
    return "\n".join([subject, "", *lines, *([""] if lines else []), *trailers]) + "\n"


def _subject(step: PlannedStep) -> str:
    count = len({change.entry.id for change in step.changes})
    if step.step == "fold":
        return f"memory: fold {plural(count, 'entry')} from the inbox"
    if step.step == "extract":
        return f"memory: extract {plural(count, 'learning')}{_named(step.changes, 'from ')}"
    used_by = _named(step.changes, "for ") if step.step == "reinforce" else ""
    return f"memory: {step.step} {plural(count, 'entry')}{used_by}"


def _named(changes: tuple[Change, ...], word: str) -> str:
    """` from #128, #129 and 2 more`: the merged changes, in order."""
    reasons = [change.why.removeprefix(word) for change in changes if not find_secrets(change.why)]
    labels = list(dict.fromkeys(shorten(label, LABEL_WIDTH) for why in reasons for label in why.split(", ")))
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    return MENTION.sub("", f" {word}{', '.join(labels[:MAX_NAMED])}{more}") if labels else ""


def _line(change: Change) -> str:
    entry = change.entry
    if find_secrets("\n".join((entry.title, entry.body, change.path, change.why))):
        return f"- {entry.id[:8]}"
    title = REFERENCE.sub("", shorten(entry.title, 80))
    return printable(f"- {title} ({entry.id[:8]}, {change.path}, {_why(change)})")


def _why(change: Change) -> str:
    """The reason in one line. It names pull requests, but notifies nobody."""
    return MENTION.sub("", shorten(change.why, WHY_WIDTH))
