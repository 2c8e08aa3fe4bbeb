"""The result of a record run as text: all of it for a terminal, and as the page of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from memory_ci.cli.markdown import cut_lines, describe_cost, escape_markdown
from memory_ci.findings import printable, render_finding
from memory_ci.memory.commit_message import WHY_WIDTH
from memory_ci.records.entry import name_entry
from memory_ci.records.plan import Change, EngineUse, Join, Plan, PlannedStep, Published
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import IndexUse
from memory_ci.store.episodes import list_ids
from memory_ci.text import plural

MAX_SHOWN = 20
"""Number of items of one list that a terminal shows; the JSON has all of them."""

MAX_EPISODES = 5
"""Number of episode files that a terminal shows; nobody has to judge them."""

NOTHING_TO_COMMIT = "Nothing to commit."

VERDICTS = (
    ("quarantined", "Quarantined, not written"),
    ("over_limit", "Over the limit of entries per merged change, not written"),
    ("suspected", "Candidates, not written"),
)

LEFT_OUT = {
    "own-commit": "commits of memory-ci itself",
    "vetoed": "what its author ruled out",
    "merge-commit": "bare merges",
    "dependency-bump": "updates by bots",
    "lockfile-only": "lock files",
    "format-only": "formatting",
    "generated-docs": "generated pages",
    "subject-only": "commits with a subject alone",
    "too-long": "the ends of long texts",
    "no-content": "mere assent",
    "low-severity": "remarks of an agent",
    "tool-output": "output of tools",
    "injected": "text of an agent's program",
    "bot-chatter": "comments of bots",
    "ci-output": "checks",
    "duplicate": "repeated text",
}
"""What is left out of evidence, in plain words (docs/learning.md)."""

WAYS_TO_LEARN = (
    ("memory-ci learn --since 90d", "a model reads it, after showing the price"),
    ("memory-ci review --candidates", "sentences to accept or to decline"),
    (
        "memory-ci init --clone --agent NAME",
        "an agent is served entries of memory",
    ),
)
"""Commands to try if a run read changes and learned nothing."""

# -- a terminal


def render_plan(plan: Plan, episode_paths: Sequence[str] = ()) -> str:
    """Render a plan for a terminal: the range read, the changes, and the candidates not written.

    Args:
        plan: the plan.
        episode_paths: the paths of the episode files that it writes.
    """
    return "".join(f"{printable(line)}\n" for line in _list_plan_lines(plan, episode_paths))


def _list_plan_lines(plan: Plan, episode_paths: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a plan, section by section."""
    yield from list_range_lines(plan)
    yield from list_engine_lines(plan.engine)
    sources = [_render_source(source) for source in plan.joins]
    yield from _list_section(f"Read besides commits: {plural(len(sources), 'source')}", sources)
    for step in plan.steps:
        yield from _list_step_lines(step)
    yield from _list_episode_lines(plan, episode_paths)
    for verdict, heading in VERDICTS:
        judged = [item for item in plan.judged if item.verdict == verdict]
        lines = [f"  {item.change:8}  {item.candidate.title}  ({item.reason})" for item in judged]
        yield from _list_section(f"{heading}: {len(lines)}", lines)
    yield from _list_left_out(plan)
    if plan.counts.merged_changes and not has_new_entries(plan):
        yield from ("", "Nothing was learned from these changes.")
        yield from (f"  {command:36} {effect}" for command, effect in WAYS_TO_LEARN)


def has_new_entries(plan: Plan) -> bool:
    """Return whether a plan adds entries, from notes of the inbox or from merged changes."""
    return any(step.step in ("fold", "extract") for step in plan.steps)


def list_range_lines(plan: Plan) -> Iterator[str]:
    """Yield lines on the range that was read, and on the engine: `2 merged changes from …`."""
    if plan.until is None:  # A plan of upkeep alone covers no work.
        return
    since = plan.since[:10] if plan.since else "the beginning"
    counts = _count_read(plan)
    read = f"{counts.merged} ({counts.commits}){counts.declined}"
    engine = f"engine {plan.engine.name}: {plan.engine.reason}"
    yield f"{read} from {since} to {plan.until[:10]}, {engine}"
    if not plan.counts.merged_changes:
        advice = "to learn from older history, name its start: --since REV"
        yield f"Nothing was merged in this range; {advice}"


class _ReadCounts(NamedTuple):
    """The numbers of merged changes, commits and declined requests that were read, in words."""

    merged: str
    commits: str
    declined: str


def _count_read(plan: Plan) -> _ReadCounts:
    """Return how much was read, in words."""
    counts = plan.counts
    declined = ""
    if counts.declined_changes:
        declined = f", {plural(counts.declined_changes, 'declined request')}"
    merged = plural(counts.merged_changes, "merged change")
    return _ReadCounts(merged, plural(counts.commits, "commit"), declined)


def _render_source(source: Join) -> str:
    """Return a line on a pull request or session whose events belong to a change."""
    events = "read with an earlier change"
    if source.events:
        events = plural(source.events, "event")
    return f"  {source.change:8}  {source.kind} {source.id}  {events}  ({source.how})"


def _list_section(heading: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a heading and at most `MAX_SHOWN` lines, or nothing if there are no lines."""
    if lines:
        yield from ("", heading, *lines[:MAX_SHOWN])
    if len(lines) > MAX_SHOWN:
        yield f"  … and {len(lines) - MAX_SHOWN} more: --json"


def _list_step_lines(step: PlannedStep) -> Iterator[str]:
    yield from ("", f"{step.step}: {plural(len(step.changes), 'change')}")
    for change in step.changes:
        title = name_entry(change.entry)
        yield f"  {change.entry.id[:8]}  {change.path}  {title}  ({change.why})"


def count_episodes(plan: Plan) -> int:
    """Return the number of episodes and amendments; those of a run may share a file."""
    return sum(len(list_ids(file.path, file.text.encode())) for file in plan.episodes)


def _list_episode_lines(plan: Plan, episode_paths: Sequence[str]) -> Iterator[str]:
    """Yield how many episodes are written, and the first of their files.

    Args:
        plan: the plan.
        episode_paths: the paths of the episode files that it writes.
    """
    counts = list(_list_episode_counts(plan, episode_paths))
    if counts != [NOTHING_TO_COMMIT]:
        yield ""
    yield from counts
    yield from (f"  {path}" for path in episode_paths[:MAX_EPISODES])
    if len(episode_paths) > MAX_EPISODES:
        yield f"  … and {len(episode_paths) - MAX_EPISODES} more"


def _list_episode_counts(plan: Plan, episode_paths: Sequence[str]) -> Iterator[str]:
    """Yield how many episodes are in files and how many in git's history alone.

    A plan may also combine the files of old months (`fold_before`). If it does none of this and
    changes no entries, the line says that there is nothing to commit.

    Args:
        plan: the plan.
        episode_paths: the paths of the episode files that it writes.
    """
    unwritten_count = plan.unwritten.changes
    if not plan.episodes and plan.fold_before is None and not unwritten_count:
        if not plan.steps:
            yield NOTHING_TO_COMMIT
        return
    if unwritten_count:
        changes = plural(unwritten_count, "merged change")
        yield f"episodes of {changes} are in git's history, without a file"
    if episode_paths:
        new_count = count_episodes(plan)
        yield f"episodes: {new_count} new, {plural(len(episode_paths), 'file')}"
    if plan.fold_before is not None:
        month = plan.fold_before.isoformat()[:7]
        yield f"episodes of months before {month} become one file each"


def _list_left_out(plan: Plan) -> Iterator[str]:
    """Yield lines on evidence that was skipped, unreadable or not shown to the model."""
    if plan.counts.left_out:
        reasons: list[str] = []
        for reason, count in plan.counts.left_out.items():
            reasons.append(f"{LEFT_OUT.get(reason, reason)} ({count})")
        yield from ("", f"Nothing was learned from {', '.join(reasons)}")
    yield from (f"Not shown to the model: {notice}" for notice in plan.windows)
    if plan.dropped:
        reasons = [f"{count} {reason}" for reason, count in plan.dropped.items()]
        yield f"Learnings that could not be read: {', '.join(reasons)}"
    if plan.counts.redactions:
        yield f"Masked in what was read: {plural(plan.counts.redactions, 'credential')}"
    yield from (f"Could not be read: {problem}" for problem in plan.problems[:MAX_SHOWN])
    if len(plan.problems) > MAX_SHOWN:
        count = len(plan.problems) - MAX_SHOWN
        yield f"  … and {count} more that could not be read: --json"
    for finding in plan.findings:
        yield f"Warning: {render_finding(finding, with_level=False)}"


def list_engine_lines(use: EngineUse) -> Iterator[str]:
    """Yield lines on the use of the model, and on the error that stopped it."""
    if use.answers:
        input_tokens = use.input_tokens + use.cache_read_tokens + use.cache_write_tokens
        cost = "cost unknown" if use.cost_usd is None else f"{use.cost_usd:.4f} USD"
        answers = f"{plural(use.answers, 'answer')} in {plural(use.tries, 'call')}"
        name = f"Model {use.model}" if use.model else f"Engine {use.name}"
        yield f"{name}: {answers}, {input_tokens} tokens in, {use.output_tokens} out, {cost}"
    if use.failure:
        yield f"The run stopped: {use.failure}"
        if use.hint:
            yield f"Hint: {use.hint}"
        yield "What it did not reach is not covered: the next run takes it up. Nothing is lost."


# -- the summary page of a job

MAX_BYTES = 900_000  # GitHub shows nothing of a summary of more than 1 MiB.
CUT_NOTE = "_The rest does not fit here: `memory-ci record --dry-run --json` has all of it._"
TITLE_WIDTH = 200
QUOTE_WIDTH = 600
MAX_ROWS = 50  # Of one table.
HEADINGS = {
    "fold": "Folded from the inbox",
    "extract": "Learned",
    "reinforce": "Reinforced: entries that work used or repeated",
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
    """Render a run as Markdown, for the summary page of a CI job.

    A forge finds no mention or link in it, and it is never longer than a forge accepts.

    Args:
        plan: the plan of the run.
        published: the commits and their publication; None if nothing was committed.
        index: the index that was built, if any.
        remarks: lines about memory as a whole.
    """
    return cut_lines(_list_page_lines(plan, published, index, remarks), MAX_BYTES, CUT_NOTE)


def list_outcome(published: Published | None) -> tuple[str, ...]:
    """Return lines on the commits and their publication."""
    if published is None:
        return ()
    return (*published.subjects, *filter(None, (published.reason, published.url)))


def render_findings(title: str, findings: Sequence[Finding], limit: int = MAX_BYTES) -> str:
    """Render findings as a Markdown table of at most `limit` bytes, or as one sentence for none."""
    rows: list[tuple[str, str, str, str]] = []
    for finding in findings:
        place = f"{finding.path}:{finding.line}"
        advice = f"{finding.message}. {finding.hint}"
        rows.append((place, finding.level, finding.code, advice))
    lines: Iterable[str] = ["Nothing found."]
    if rows:
        lines = _list_table_lines(("where", "level", "code", "what"), rows)
    return cut_lines([f"## {escape_markdown(title, TITLE_WIDTH)}", "", *lines], limit, CUT_NOTE)


def _list_page_lines(
    plan: Plan, published: Published | None, index: IndexUse | None, remarks: Sequence[str]
) -> Iterator[str]:
    """Yield the lines of the summary page, section by section.

    Args:
        plan: the plan. The episodes of some of its changes need no file (`unwritten`), because
            git's history holds all of their data.
        published: where the commits were published, None if nothing was committed.
        index: how the search index was brought up to date, None if it was not.
        remarks: remarks on the health of memory.
    """
    yield from _list_head_lines(plan)
    counts = _count_read(plan)
    yield f"{counts.merged}, {counts.commits}{counts.declined} read."
    yield from (f"- {escape_markdown(line, TITLE_WIDTH)}" for line in list_outcome(published))
    yield from (f"- {escape_markdown(line, QUOTE_WIDTH)}" for line in remarks)
    for step in plan.steps:
        yield from ("", f"### {HEADINGS[step.step]}: {len(step.changes)}", "")
        for change in step.changes:
            yield from _list_change_lines(change)
    if plan.episodes:
        count = plural(count_episodes(plan), "episode")
        yield from ("", f"Noted: {count}, under `.memory/episodes/`.")
    if plan.unwritten.changes:
        count = plural(plan.unwritten.changes, "merged change")
        yield from ("", f"Read: {count} that git's history fully describes.")
    yield from _list_page_tables(plan)
    cost = describe_cost(plan.engine)
    reason = escape_markdown(plan.engine.reason, WHY_WIDTH)
    yield from ("", "### Cost", "", f"{cost} ({reason}).")
    if index is not None:
        state = "rebuilt" if index.was_rebuilt else "brought up to date"
        yield from ("", "### Index", "", f"{state}, {index.size} bytes, key `{index.key}`")


def _list_head_lines(plan: Plan) -> Iterator[str]:
    """Yield the heading with the number of new entries, and why the run stopped if it did."""
    learned = sum(len(step.changes) for step in plan.steps if step.step == "extract")
    news = plural(learned, "learning") if learned else "nothing new"
    failure = plan.engine.failure
    if not failure:
        yield from (f"## Memory: {news}", "")
        return
    yield from (f"## Memory: the run stopped, {news}", "")
    reason = escape_markdown(failure, QUOTE_WIDTH)
    yield f"**The run stopped:** {reason} The next run takes up the rest."
    yield from (escape_markdown(plan.engine.hint, QUOTE_WIDTH), "")


def _list_page_tables(plan: Plan) -> Iterator[str]:
    """Yield tables of candidates that were not written, of sources, and of problems.

    The sources are the pull requests and sessions that were read in addition to commits.
    """
    for verdict, heading in VERDICTS:
        judged = [item for item in plan.judged if item.verdict == verdict]
        rows = [(item.change, item.candidate.title, item.reason) for item in judged]
        title = f"{HEADINGS.get(verdict, heading)}: {len(rows)}"
        yield from _list_titled_table(title, ("from", "what", "why"), rows)
    source_rows = [
        (source.change, f"{source.kind} {source.id}", str(source.events), source.how)
        for source in plan.joins
    ]
    title = f"Read besides commits: {plural(len(source_rows), 'source')}"
    yield from _list_titled_table(title, ("for", "what", "events", "how it was found"), source_rows)
    problems = [(problem,) for problem in plan.problems]
    problems += [
        (f"{finding.path}:{finding.line}: {finding.message}",) for finding in plan.findings
    ]
    title = f"Could not be read or taken: {len(problems)}"
    yield from _list_titled_table(title, ("what",), problems)


def _list_change_lines(change: Change) -> Iterator[str]:
    """Yield the list item of a change of an entry, and the quotes of a new entry."""
    entry = change.entry
    title = escape_markdown(name_entry(entry), TITLE_WIDTH)
    path = escape_markdown(change.path, TITLE_WIDTH)
    id_ = escape_markdown(entry.id[:8], 8)
    why = escape_markdown(change.why, WHY_WIDTH)
    yield f"- **{title}** ({entry.type}, {id_} in {path}; {why})"
    if change.kind == "add":
        yield from (f"  > {escape_markdown(quote, QUOTE_WIDTH)}" for quote in entry.evidence)


def _list_titled_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> Iterator[str]:
    if rows:
        yield from ("", f"### {title}", "", *_list_table_lines(columns, rows))


def _list_table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a Markdown table with at most `MAX_ROWS` rows."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for row in rows[:MAX_ROWS]:
        cells = [escape_markdown(cell, TITLE_WIDTH) for cell in row]
        yield f"| {' | '.join(cells)} |"
    if len(rows) > MAX_ROWS:
        yield f"\n… and {len(rows) - MAX_ROWS} more."
