"""What a run learned, from where, what it left out and why: for a person, in a commit message, on the page of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory_ci.cli.markdown import describe_cost, escape_markdown, fit
from memory_ci.findings import printable, render_finding
from memory_ci.memory.commit_message import WHY_WIDTH
from memory_ci.records.entry import name_entry
from memory_ci.records.plan import Change, EngineUse, Plan, Published
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import IndexUse
from memory_ci.text import plural, shorten

SHOWN = 20  # How many candidates of each verdict are named; all of them are in the JSON.
EPISODES = (
    5  # How many files of episodes are: they say what happened, and nobody has to judge them.
)
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
    (
        "memory-ci install --agent NAME",
        "lets an agent see memory, and keeps what is said to it for the next run",
    ),
)
"""What else can be done where a run read changes and learned nothing of them."""


def render_plan(plan: Plan, written: Sequence[str] = ()) -> str:
    """The plan in sections, with the episode files that it writes; its JSON form is the record itself."""
    return "".join(f"{printable(line)}\n" for line in _lines(plan, written))


def _lines(plan: Plan, written: Sequence[str]) -> Iterator[str]:
    if plan.until is not None:  # a plan of upkeep alone covers nothing
        since = plan.since[:10] if plan.since else "the beginning"
        merged, commits, declined = _count_read(plan)
        engine = f"engine {plan.engine.name}: {plan.engine.reason}"
        yield f"{merged} ({commits}){declined} from {since} to {plan.until[:10]}, {engine}"
    yield from _engine_lines(plan.engine)
    joins = [
        f"  {one.change:8}  {one.kind} {one.id}  "
        f"{plural(one.events, 'event') if one.events else 'read with an earlier change'}  ({one.how})"
        for one in plan.joins
    ]
    yield from _items(f"Read besides commits: {plural(len(joins), 'source')}", joins)
    for step in plan.steps:
        yield from ("", f"{step.step}: {plural(len(step.changes), 'change')}")
        for one in step.changes:
            yield f"  {one.entry.id[:8]}  {one.path}  {shorten(name_entry(one.entry), 90)}  ({one.why})"
    yield from _episode_lines(plan, written)
    if plan.until is not None and not plan.counts.merged_changes:
        yield "Nothing was merged in this range; to learn from older history, name its start: --since REV"
    for verdict, heading in VERDICTS:
        judged = [one for one in plan.judged if one.verdict == verdict]
        lines = [
            f"  {one.change:8}  {shorten(one.candidate.title, 90)}  ({one.reason})"
            for one in judged
        ]
        yield from _items(f"{heading}: {len(lines)}", lines)
    yield from _left_out(plan)
    if plan.counts.merged_changes and not any(
        step.step in ("fold", "extract") for step in plan.steps
    ):
        yield from ("", "Nothing was learned from these changes.")
        yield from (f"  {command:32} {what}" for command, what in WAYS)


def _count_read(plan: Plan) -> tuple[str, str, str]:
    counts = plan.counts
    declined = (
        f", {plural(counts.declined_changes, 'declined request')}"
        if counts.declined_changes
        else ""
    )
    return (
        plural(counts.merged_changes, "merged change"),
        plural(counts.commits, "commit"),
        declined,
    )


def _items(heading: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from ("", heading, *lines[:SHOWN])
    if len(lines) > SHOWN:
        yield f"  … and {len(lines) - SHOWN} more: --json"


def _episode_lines(plan: Plan, written: Sequence[str]) -> Iterator[str]:
    """What is noted of the work itself; the files say the rest."""
    if plan.episodes or plan.fold_before is not None:
        yield ""
        if written:
            yield f"episodes: {len(plan.episodes)} new, {plural(len(written), 'file')}"
        yield from (f"  {path}" for path in written[:EPISODES])
        if len(written) > EPISODES:
            yield f"  … and {len(written) - EPISODES} more"
        if plan.fold_before is not None:
            yield f"episodes of months before {plan.fold_before.isoformat()[:7]} become one file each"
    elif not plan.steps:
        yield "Nothing to commit."


def _left_out(plan: Plan) -> Iterator[str]:
    """What was not read, not shown, or could not be: counts, never a silent drop."""
    if plan.counts.left_out:
        told = (
            f"{LEFT_OUT.get(reason, reason)} ({count})"
            for reason, count in plan.counts.left_out.items()
        )
        yield from ("", f"Nothing was learned from {', '.join(told)}")
    yield from (f"Not shown to the model: {notice}" for notice in plan.windows)
    if plan.dropped:
        yield "Learnings that could not be read: " + ", ".join(
            f"{n} {why}" for why, n in plan.dropped.items()
        )
    if plan.counts.redactions:
        yield f"Masked in what was read: {plural(plan.counts.redactions, 'credential')}"
    yield from (f"Could not be read: {problem}" for problem in plan.problems[:SHOWN])
    if len(plan.problems) > SHOWN:
        yield f"  … and {len(plan.problems) - SHOWN} more that could not be read: --json"
    yield from (
        f"Warning: {render_finding(finding, with_level=False)}" for finding in plan.findings
    )


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


MAX_BYTES = 900_000  # GitHub refuses a summary of more than 1 MiB, and shows nothing of it.
CUT = "_The rest does not fit here: `memory-ci record --dry-run --json` has all of it._"
TITLE_WIDTH = 200
QUOTE_WIDTH = 600
ROWS = 50  # Of one table.
HEADINGS = {
    "fold": "Folded from the inbox",
    "extract": "Learned",
    "reinforce": "Reinforced: work used these, or says them again",
    "consolidate": "Consolidated",
    "promote": "Promoted",
    "retire": "Retired",
    "compact": "Compacted",
    "over_limit": "Over the limit of one change, not written",
}


def render_summary(
    plan: Plan,
    published: Published | None,
    index: IndexUse | None = None,
    remarks: Sequence[str] = (),
) -> str:
    """The plan of a run as Markdown, and what became of it; `remarks` are lines about memory as a whole. Nothing in it
    is acted upon by a forge or breaks its tables, and it is never larger than a forge takes."""
    return fit(_page(plan, published, index, remarks), MAX_BYTES, CUT)


def list_outcome(published: Published | None) -> tuple[str, ...]:
    """What was committed, and how it went, in lines."""
    return (
        (*published.subjects, *filter(None, (published.reason, published.url))) if published else ()
    )


def render_findings(title: str, findings: Sequence[Finding], limit: int = MAX_BYTES) -> str:
    """What a check found as Markdown: a table, or one sentence."""
    rows = [
        (f"{one.path}:{one.line}", one.level, one.code, f"{one.message}. {one.hint}")
        for one in findings
    ]
    table = _table(("where", "level", "code", "what"), rows) if rows else ["Nothing found."]
    return fit([f"## {escape_markdown(title, TITLE_WIDTH)}", "", *table], limit, CUT)


def _page(
    plan: Plan, published: Published | None, index: IndexUse | None, remarks: Sequence[str]
) -> Iterator[str]:
    learned, use = (
        sum(len(step.changes) for step in plan.steps if step.step == "extract"),
        plan.engine,
    )
    found = plural(learned, "learning") if learned else "nothing new"
    yield from (f"## Memory: {'the run stopped, ' if use.failure else ''}{found}", "")
    if use.failure:
        yield f"**The run stopped:** {escape_markdown(use.failure, QUOTE_WIDTH)} The next run takes up the rest."
        yield from (escape_markdown(use.hint, QUOTE_WIDTH), "")
    merged, commits, declined = _count_read(plan)
    yield f"{merged}, {commits}{declined} read."
    yield from (f"- {escape_markdown(line, TITLE_WIDTH)}" for line in list_outcome(published))
    yield from (f"- {escape_markdown(line, QUOTE_WIDTH)}" for line in remarks)
    for step in plan.steps:
        yield from ("", f"### {HEADINGS[step.step]}: {len(step.changes)}", "")
        yield from (line for change in step.changes for line in _page_lines(change))
    if plan.episodes:
        yield from (
            "",
            f"Noted: {plural(len(plan.episodes), 'episode')}, under `.memory/episodes/`.",
        )
    for verdict, heading in VERDICTS:
        judged = [
            (i.change, i.candidate.title, i.reason) for i in plan.judged if i.verdict == verdict
        ]
        yield from _rows(
            f"{HEADINGS.get(verdict, heading)}: {len(judged)}", ("from", "what", "why"), judged
        )
    joins = [
        (join.change, f"{join.kind} {join.id}", str(join.events), join.how) for join in plan.joins
    ]
    read = f"Read besides commits: {plural(len(joins), 'source')}"
    yield from _rows(read, ("for", "what", "events", "how it was found"), joins)
    problems = [*plan.problems, *(f"{one.path}:{one.line}: {one.message}" for one in plan.findings)]
    yield from _rows(
        f"Could not be read or taken: {len(problems)}",
        ("what",),
        [(problem,) for problem in problems],
    )
    yield from (
        "",
        "### Cost",
        "",
        f"{describe_cost(use)} ({escape_markdown(use.reason, WHY_WIDTH)}).",
    )
    if index is not None:
        how = "rebuilt" if index.was_rebuilt else "brought up to date"
        yield from ("", "### Index", "", f"{how}, {index.size} bytes, key `{index.key}`")


def _page_lines(change: Change) -> Iterator[str]:
    entry = change.entry
    title, path = (
        escape_markdown(name_entry(entry), TITLE_WIDTH),
        escape_markdown(change.path, TITLE_WIDTH),
    )
    key, why = escape_markdown(entry.id[:8], 8), escape_markdown(change.why, WHY_WIDTH)
    yield f"- **{title}** ({entry.type}, {key} in {path}; {why})"
    if change.kind == "add":
        yield from (f"  > {escape_markdown(quote, QUOTE_WIDTH)}" for quote in entry.evidence)


def _rows(heading: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield from ("", f"### {heading}", "", *_table(head, rows))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows[:ROWS]:
        yield f"| {' | '.join(escape_markdown(cell, TITLE_WIDTH) for cell in row)} |"
    if len(rows) > ROWS:
        yield f"\n… and {len(rows) - ROWS} more."
