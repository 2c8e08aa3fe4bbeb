"""The page of a CI job: what a run learned, from which change and by which words, and what it left out and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory_ci.records.candidate import Judged
from memory_ci.records.plan import Change, EngineUse, Join, Plan, PlannedStep, Published
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import IndexUse
from memory_ci.rendering.markdown import escape_markdown, fit
from memory_ci.rendering.pull_request import describe_cost
from memory_ci.text import plural

MAX_BYTES = 900_000  # GitHub refuses a summary of more than 1 MiB, and shows nothing of it.
CUT = "_The rest does not fit here: `memory-ci record --dry-run --json` has all of it._"
TITLE_WIDTH = 200
QUOTE_WIDTH = 600
WHY_WIDTH = 200
SHOWN = 50  # Rows of one table.
HEADINGS = {
    "fold": "Folded from the inbox",
    "extract": "Learned",
    "reinforce": "Reinforced: work used these, or says them again",
    "consolidate": "Consolidated",
    "promote": "Promoted",
    "retire": "Retired",
    "compact": "Compacted",
}

LEFT_OUT = (
    ("quarantined", "Quarantined, not written"),
    ("over_limit", "Over the limit of one change, not written"),
    ("suspected", "Candidates, not written"),
)


def render_summary(
    plan: Plan, published: Published | None, index: IndexUse | None = None, remarks: Sequence[str] = ()
) -> str:
    """The plan of a run as Markdown, and what became of it; `remarks` are lines about memory as a whole.

    Nothing in it is acted upon by a forge or breaks its tables, and it is never larger than a forge takes.
    """
    return fit(_lines(plan, published, index, remarks), MAX_BYTES, CUT)


def list_outcome(published: Published | None) -> tuple[str, ...]:
    """What was committed, and how it went, in lines."""
    if published is None:
        return ()
    return (*published.subjects, *filter(None, (published.reason, published.url)))


def render_findings(title: str, findings: Sequence[Finding], limit: int = MAX_BYTES) -> str:
    """What a check found as Markdown: a table, or one sentence."""
    rows = [(f"{one.path}:{one.line}", one.level, one.code, f"{one.message}. {one.hint}") for one in findings]
    table = _table(("where", "level", "code", "what"), rows) if rows else ["Nothing found."]
    return fit([f"## {escape_markdown(title, TITLE_WIDTH)}", "", *table], limit, CUT)


def _lines(plan: Plan, published: Published | None, index: IndexUse | None, remarks: Sequence[str]) -> Iterator[str]:
    learned = sum(len(step.changes) for step in plan.steps if step.step == "extract")
    found = plural(learned, "learning") if learned else "nothing new"
    yield f"## Memory: {'the run stopped, ' if plan.engine.failure else ''}{found}"
    yield ""
    yield from _stop(plan.engine)
    counts = plan.counts
    declined = f", {plural(counts.declined_changes, 'declined request')}" if counts.declined_changes else ""
    yield f"{plural(counts.merged_changes, 'merged change')}, {plural(counts.commits, 'commit')}{declined} read."
    yield from (f"- {escape_markdown(line, TITLE_WIDTH)}" for line in list_outcome(published))
    yield from (f"- {escape_markdown(line, QUOTE_WIDTH)}" for line in remarks)
    for step in plan.steps:
        yield from _section(step)
    if plan.episodes:
        yield ""
        yield f"Noted: {plural(len(plan.episodes), 'episode')}, under `.memory/episodes/`."
    for verdict, heading in LEFT_OUT:
        yield from _judged(heading, [item for item in plan.judged if item.verdict == verdict])
    yield from _joins(plan.joins)
    yield from _problems(plan)
    yield from _engine(plan.engine)
    yield from _index(index)


def _stop(use: EngineUse) -> Iterator[str]:
    if use.failure:
        yield f"**The run stopped:** {escape_markdown(use.failure, QUOTE_WIDTH)} The next run takes up the rest."
        yield from (escape_markdown(use.hint, QUOTE_WIDTH), "")


def _section(step: PlannedStep) -> Iterator[str]:
    yield from ("", f"### {HEADINGS[step.step]}: {len(step.changes)}", "")
    for change in step.changes:
        yield f"- {_change(change)}"
        if change.kind == "add":
            yield from (f"  > {escape_markdown(quote, QUOTE_WIDTH)}" for quote in change.entry.evidence)


def _change(change: Change) -> str:
    entry = change.entry
    title, path = escape_markdown(entry.title, TITLE_WIDTH), escape_markdown(change.path, TITLE_WIDTH)
    key, why = escape_markdown(entry.id[:8], 8), escape_markdown(change.why, WHY_WIDTH)
    return f"**{title}** ({entry.type}, {key} in {path}; {why})"


def _judged(heading: str, items: Sequence[Judged]) -> Iterator[str]:
    if items:
        yield from ("", f"### {heading}: {len(items)}", "")
        yield from _table(("from", "what", "why"), [(i.change, i.candidate.title, i.reason) for i in items])


def _joins(joins: Sequence[Join]) -> Iterator[str]:
    if joins:
        yield from ("", f"### Read besides commits: {plural(len(joins), 'source')}", "")
        rows = [(join.change, f"{join.kind} {join.id}", str(join.events), join.how) for join in joins]
        yield from _table(("for", "what", "events", "how it was found"), rows)


def _problems(plan: Plan) -> Iterator[str]:
    """What could not be read: never a silent drop."""
    problems = [*plan.problems, *(f"{one.path}:{one.line}: {one.message}" for one in plan.findings)]
    if problems:
        yield from ("", f"### Could not be read or taken: {len(problems)}", "")
        yield from _table(("what",), [(problem,) for problem in problems])


def _engine(use: EngineUse) -> Iterator[str]:
    yield from ("", "### Cost", "", f"{describe_cost(use)} ({escape_markdown(use.reason, WHY_WIDTH)}).")


def _index(index: IndexUse | None) -> Iterator[str]:
    if index is not None:
        how = "rebuilt" if index.was_rebuilt else "brought up to date"
        yield from ("", "### Index", "", f"{how}, {index.size} bytes, key `{index.key}`")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows[:SHOWN]:
        yield f"| {' | '.join(escape_markdown(cell, TITLE_WIDTH) for cell in row)} |"
    if len(rows) > SHOWN:
        yield f"\n… and {len(rows) - SHOWN} more."
