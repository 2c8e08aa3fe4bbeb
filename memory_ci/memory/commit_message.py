"""The commit message of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory_ci.findings import printable
from memory_ci.records.plan import ALONE, Change, Plan, PlannedStep
from memory_ci.secrets import find_secrets
from memory_ci.text import plural, shorten

REFERENCE = re.compile(
    r"[#!@](?=\w)|(?<=\bGH)-(?=\d)|https?://\S*/(?:issues|pull|pulls|merge_requests|work_items)/(?=\d)",
    re.I,
)
MENTION = re.compile(
    r"(?<![\w])[!@](?=\w)"
)  # Of these, what the reason of a change has no use for.
LABEL_WIDTH = 40
MAX_NAMED = 3
MAX_LISTED = 50
WHY_WIDTH = 200


def render_commit_message(steps: Sequence[PlannedStep], plan: Plan, noted: int = 0) -> str:
    """Subject, one line per entry and new episode, trailers that say what this commit is and how far the run came.

    `noted` is how many files of episodes it changes. Nothing in it moves a cursor, acts on a forge or is a credential:
    a line that holds one is only the entry's id.
    """
    names = (
        [file.path.rpartition("/")[2].removesuffix(".md") for file in plan.episodes]
        if noted
        else []
    )
    done = [_subject(step) for step in steps]
    if not done:
        done = [
            f"note {plural(len(names), 'episode')}"
            if names
            else f"fold {plural(noted, 'file')} of episodes"
        ]
    lines = [_message_line(change) for step in steps for change in step.changes]
    lines += [f"- {name}" for name in names[:MAX_LISTED]]
    lines += [f"- and {len(names) - MAX_LISTED} more"] if len(names) > MAX_LISTED else []
    trailers = [
        f"Memory-CI-Step: {name}"
        for name in (*(step.step for step in steps), *(["episode"] if noted else []))
    ]
    trailers += [f"Memory-CI-Source: {plan.until}"] if plan.until is not None else []
    is_first = noted or any(step.step not in ALONE for step in steps)
    trailers += ["Memory-CI-Range: asked"] if is_first and plan.is_asked else []
    if is_first and (plan.engine.cost_usd or plan.engine.unlanded_usd):
        trailers.append(
            f"Memory-CI-Cost: {(plan.engine.cost_usd or 0) + plan.engine.unlanded_usd:.6f} USD"
        )
    if any(step.step == "reinforce" for step in steps):
        trailers += [f"Memory-CI-Counted: {sha}" for sha in plan.counted]
    return (
        "\n".join(
            [
                printable(f"memory: {', '.join(done)}"),
                "",
                *lines,
                *([""] if lines else []),
                *trailers,
            ]
        )
        + "\n"
    )


def _subject(step: PlannedStep) -> str:
    """What a step did and, ` from #128, #129 and 2 more`, the merged changes, in order."""
    count, what = len({change.entry.id for change in step.changes}), step.step
    if what == "fold":
        return f"fold {plural(count, 'entry')} from the inbox"
    did = f"{what} {plural(count, 'learning' if what == 'extract' else 'entry')}"
    word = {"extract": "from ", "reinforce": "for "}.get(what, "")
    reasons = (
        [one.why.removeprefix(word) for one in step.changes if not find_secrets(one.why)]
        if word
        else []
    )
    labels = list(
        dict.fromkeys(shorten(label, LABEL_WIDTH) for why in reasons for label in why.split(", "))
    )
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    return did + (
        MENTION.sub("", f" {word}{', '.join(labels[:MAX_NAMED])}{more}") if labels else ""
    )


def _message_line(change: Change) -> str:
    """An entry in one line. It names pull requests, but notifies nobody."""
    entry = change.entry
    if find_secrets("\n".join((entry.title, entry.body, change.path, change.why))):
        return f"- {entry.id[:8]}"
    title, why = (
        REFERENCE.sub("", shorten(entry.title, 80)),
        MENTION.sub("", shorten(change.why, WHY_WIDTH)),
    )
    return printable(f"- {title} ({entry.id[:8]}, {change.path}, {why})")


"""What a forge acts on in a message: `Fixes #12`, `Closes owner/name#12`, `GH-12` or an address closes an issue, and
`@name` notifies a person (docs.github.com, "Linking a pull request to an issue"; docs.gitlab.com, crosslinking)."""
