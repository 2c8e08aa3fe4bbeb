"""The commit message of a record step."""

from __future__ import annotations

import re

from memory_ci.records.change import Change
from memory_ci.records.plan import Plan, PlannedStep
from memory_ci.text import plural, shorten

REFERENCE = re.compile(r"(?<![\w])([#!@])(?=\w)")
"""What a forge acts on in a message: `Fixes #12` closes an issue, `@name` notifies a person."""

MAX_NAMED = 3


def render_commit_message(step: PlannedStep, plan: Plan) -> str:
    """Subject, one line per entry, trailers that say what this commit is and how far the run came."""
    trailers = [f"Memory-CI-Step: {step.step}"]
    if plan.until is not None:
        trailers.append(f"Memory-CI-Source: {plan.until}")
    if step.step == "reinforce":
        trailers += [f"Memory-CI-Counted: {sha}" for sha in plan.counted]
    lines = [_line(change) for change in step.changes]
    return "\n".join([_subject(step), "", *lines, "", *trailers]) + "\n"


def _subject(step: PlannedStep) -> str:
    count = len({change.entry.id for change in step.changes})
    if step.step == "fold":
        return f"memory: fold {plural(count, 'entry')} from the inbox"
    if step.step == "extract":
        return f"memory: extract {plural(count, 'learning')}{_named(step.changes, 'from ')}"
    used_by = _named(step.changes, "used by ") if step.step == "reinforce" else ""
    return f"memory: {step.step} {plural(count, 'entry')}{used_by}"


def _named(changes: tuple[Change, ...], word: str) -> str:
    """` from #128, #129 and 2 more`: the merged changes, in order."""
    labels = list(dict.fromkeys(label for change in changes for label in change.why.removeprefix(word).split(", ")))
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    return f" {word}{', '.join(labels[:MAX_NAMED])}{more}"


def _line(change: Change) -> str:
    title = REFERENCE.sub("", shorten(change.entry.title, 80))
    return f"- {title} ({change.entry.id[:8]}, {change.path}, {change.why})"
