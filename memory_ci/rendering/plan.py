"""A plan for a person, and the commit message of a step: what was learned, from where, what was left out and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memory_ci.records.candidate import Judged
from memory_ci.records.plan import ALONE, Change, EngineUse, Join, Plan, PlannedStep
from memory_ci.rendering.table import printable, render_finding
from memory_ci.secrets import find_secrets
from memory_ci.text import plural, shorten

SHOWN = 20  # How many candidates of each verdict are named; all of them are in the JSON.
EPISODES = 5  # How many files of episodes are: they say what happened, and nobody has to judge them.
VERDICTS = (
    ("quarantined", "Quarantined, not written"),
    ("over_limit", "Over the limit of entries per merged change, not written"),
    ("suspected", "Candidates, not written"),
)


LEFT_OUT = {
    "own-commit": "commits of memory-ci itself", "vetoed": "what its author ruled out", "merge-commit": "bare merges",
    "dependency-bump": "updates by bots", "lockfile-only": "lock files", "format-only": "formatting",
    "generated-docs": "generated pages", "subject-only": "commits with a subject alone",
    "too-long": "the ends of long texts", "no-content": "mere assent", "low-severity": "remarks of an agent",
    "tool-output": "output of tools", "injected": "text of an agent's program", "bot-chatter": "comments of bots",
    "ci-output": "checks", "duplicate": "what was said twice",
}  # fmt: skip
"""What is left out of evidence (docs/extraction.md), in words of those who read of it."""


WAYS = (
    ("memory-ci learn --since 90d", "lets a model read older work; says what it costs first"),
    ("memory-ci candidates", "lists sentences that may be worth keeping, to accept or to decline"),
    ("memory-ci install --agent NAME", "lets an agent see memory, and keeps what is said to it for the next run"),
)


def render_plan(plan: Plan, written: Sequence[str] = ()) -> str:
    """The plan in sections, with the episode files that it writes; its JSON form is the record itself."""
    return "".join(f"{printable(line)}\n" for line in _lines(plan, written))


def _lines(plan: Plan, written: Sequence[str]) -> Iterator[str]:
    yield from _heading(plan)
    yield from _engine_lines(plan.engine)
    yield from _join_lines(plan.joins)
    for step in plan.steps:
        yield ""
        yield f"{step.step}: {plural(len(step.changes), 'change')}"
        yield from (_change_line(change) for change in step.changes)
    if plan.episodes or plan.fold_before is not None:
        yield ""
        yield from _episode_lines(plan, written)
    elif not plan.steps:
        yield "Nothing to commit."
    if plan.until is not None and not plan.counts.merged_changes:
        yield "Nothing was merged in this range; to learn from older history, name its start: --since REV"
    for verdict, heading in VERDICTS:
        yield from _candidates(heading, [item for item in plan.judged if item.verdict == verdict])
    yield from _left_out(plan)
    yield from (f"Could not be read: {problem}" for problem in plan.problems[:SHOWN])
    if len(plan.problems) > SHOWN:
        yield f"  … and {len(plan.problems) - SHOWN} more that could not be read: --json"
    yield from (f"Warning: {render_finding(finding, with_level=False)}" for finding in plan.findings)
    yield from _ways(plan)


def _ways(plan: Plan) -> Iterator[str]:
    """What else can be done where a run read changes and learned nothing of them."""
    if plan.counts.merged_changes and not any(step.step in ("fold", "extract") for step in plan.steps):
        yield ""
        yield "Nothing was learned from these changes."
        yield from (f"  {command:32} {what}" for command, what in WAYS)


def _episode_lines(plan: Plan, written: Sequence[str]) -> Iterator[str]:
    """What is noted of the work itself; the files say the rest."""
    if written:
        yield f"episodes: {len(plan.episodes)} new, {plural(len(written), 'file')}"
    yield from (f"  {path}" for path in written[:EPISODES])
    if len(written) > EPISODES:
        yield f"  … and {len(written) - EPISODES} more"
    if plan.fold_before is not None:
        yield f"episodes of months before {plan.fold_before.isoformat()[:7]} become one file each"


def _heading(plan: Plan) -> Iterator[str]:
    """What the plan covers; one of upkeep alone covers nothing."""
    if plan.until is not None:
        since, counts = plan.since[:10] if plan.since else "the beginning", plan.counts
        merged, commits = plural(counts.merged_changes, "merged change"), plural(counts.commits, "commit")
        declined = f", {plural(counts.declined_changes, 'declined request')}" if counts.declined_changes else ""
        engine = f"engine {plan.engine.name}: {plan.engine.reason}"
        yield f"{merged} ({commits}){declined} from {since} to {plan.until[:10]}, {engine}"


def _left_out(plan: Plan) -> Iterator[str]:
    """What was not read, not shown, or could not be: counts, never a silent drop."""
    if plan.counts.left_out:
        yield ""
        told = (f"{LEFT_OUT.get(reason, reason)} ({count})" for reason, count in plan.counts.left_out.items())
        yield f"Nothing was learned from {', '.join(told)}"
    for notice in plan.windows:
        yield f"Not shown to the model: {notice}"
    if plan.dropped:
        yield "Learnings that could not be read: " + ", ".join(f"{n} {why}" for why, n in plan.dropped.items())
    if plan.counts.redactions:
        yield f"Masked in what was read: {plural(plan.counts.redactions, 'credential')}"


def _engine_lines(use: EngineUse) -> Iterator[str]:
    """What the model took, and what stopped it."""
    if use.answers:
        read = use.input_tokens + use.cache_read_tokens + use.cache_write_tokens
        cost = "cost unknown" if use.cost_usd is None else f"{use.cost_usd:.4f} USD"
        answers = f"{plural(use.answers, 'answer')} in {plural(use.tries, 'call')}"
        name = f"Model {use.model}" if use.model else f"Engine {use.name}"
        yield f"{name}: {answers}, {read} tokens in, {use.output_tokens} out, {cost}"
    if use.failure:
        yield f"The run stopped: {use.failure}"
        yield from [f"Hint: {use.hint}"] if use.hint else []
        yield "What it did not reach is not covered: the next run takes it up. Nothing is lost."


def _join_lines(joins: Sequence[Join]) -> Iterator[str]:
    """The sessions and reviews that were read, by merged change."""
    if joins:
        yield ""
        yield f"Read besides commits: {plural(len(joins), 'source')}"
    for join in joins[:SHOWN]:
        events = plural(join.events, "event") if join.events else "read with an earlier change"
        yield f"  {join.change:8}  {join.kind} {join.id}  {events}  ({join.how})"
    if len(joins) > SHOWN:
        yield f"  … and {len(joins) - SHOWN} more: --json"


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


REFERENCE = re.compile(r"(?<![\w])([#!@])(?=\w)")
"""What a forge acts on in a message: `Fixes #12` closes an issue, `@name` notifies a person."""

MENTION = re.compile(r"(?<![\w])[!@](?=\w)")  # Of these, what the reason of a change has no use for.
LABEL_WIDTH = 40
MAX_NAMED = 3
MAX_LISTED = 50
WHY_WIDTH = 200


def render_commit_message(steps: Sequence[PlannedStep], plan: Plan, noted: int = 0) -> str:
    """Subject, one line per entry and new episode, trailers that say what this commit is and how far the run came.

    `noted` is how many files of episodes it changes. Nothing in it moves a cursor, acts on a forge or is a credential:
    a line that holds one is only the entry's id.
    """
    names = [file.path.rpartition("/")[2].removesuffix(".md") for file in plan.episodes] if noted else []
    done = [_subject(step) for step in steps]
    if not done:
        done = [f"note {plural(len(names), 'episode')}" if names else f"fold {plural(noted, 'file')} of episodes"]
    lines = [_line(change) for step in steps for change in step.changes]
    lines += [f"- {name}" for name in names[:MAX_LISTED]]
    lines += [f"- and {len(names) - MAX_LISTED} more"] if len(names) > MAX_LISTED else []
    trailers = [f"Memory-CI-Step: {name}" for name in (*(step.step for step in steps), *(["episode"] if noted else []))]
    trailers += [f"Memory-CI-Source: {plan.until}"] if plan.until is not None else []
    is_first = noted or any(step.step not in ALONE for step in steps)
    trailers += ["Memory-CI-Range: asked"] if is_first and plan.is_asked else []
    if is_first and (plan.engine.cost_usd or plan.engine.unlanded_usd):
        trailers.append(f"Memory-CI-Cost: {(plan.engine.cost_usd or 0) + plan.engine.unlanded_usd:.6f} USD")
    if any(step.step == "reinforce" for step in steps):
        trailers += [f"Memory-CI-Counted: {sha}" for sha in plan.counted]
    return "\n".join([printable(f"memory: {', '.join(done)}"), "", *lines, *([""] if lines else []), *trailers]) + "\n"


def _subject(step: PlannedStep) -> str:
    count = len({change.entry.id for change in step.changes})
    if step.step == "fold":
        return f"fold {plural(count, 'entry')} from the inbox"
    if step.step == "extract":
        return f"extract {plural(count, 'learning')}{_named(step.changes, 'from ')}"
    used_by = _named(step.changes, "for ") if step.step == "reinforce" else ""
    return f"{step.step} {plural(count, 'entry')}{used_by}"


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
