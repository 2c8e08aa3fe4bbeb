"""Commands that answer a task or a question: retrieve, similar, recall."""

from __future__ import annotations

import os
from datetime import date, datetime
from typing import Any, get_args

import click

from memory_ci.cli import retrieve
from memory_ci.cli.common import flag, format_option, json_option, option, show_rows, table_options
from memory_ci.cli.plain import now, progress, read_words_or_input, say, workspace
from memory_ci.records.episode import Outcome, Ranking
from memory_ci.rendering.table import printable


def _read_days(
    context: click.Context, option: click.Parameter, between: tuple[datetime, datetime] | None
) -> tuple[date, date] | None:
    if between is None:
        return None
    first, last = between[0].date(), between[1].date()
    if last < first:
        raise click.UsageError("--occurred-between: the first day is after the last one.")
    return first, last


between_option = option(
    "--occurred-between",
    nargs=2,
    type=click.DateTime(["%Y-%m-%d"]),
    callback=_read_days,
    metavar="DAY DAY",
    help="Only what happened then, both included.",
)


@click.command("retrieve")
@click.argument("task", nargs=-1)
@table_options(retrieve.OPTIONS)
@between_option
def retrieve_command(**arguments: Any) -> None:  # noqa: ANN401 - those of retrieve.run, each as its option makes it
    """Print what memory knows about a task.

    institutional.md always, then the entries that the task's words find, ranked, within a budget, in a wrapper that
    says what they are: untrusted hints. Nothing known: nothing printed. Without TASK the text is read from standard
    input.

    \b
    Example:
      memory-ci retrieve "retry failed payments"
      gh issue view 128 | memory-ci retrieve --max-chars 4000
    """
    retrieve.run(**arguments)


@click.command("similar")
@click.argument("task", nargs=-1)
@option("--top", type=click.IntRange(1, 100), default=2, metavar="K", help="At most this many tasks.")
@flag("--all-history", help="Look at all merged changes, not only at the last 2,000.")
@flag("--explain", help="Print the factors of each score.")
@format_option
@json_option
def similar_command(
    task: tuple[str, ...], top: int, all_history: bool, explain: bool, form: str, as_json: bool
) -> None:
    """Print earlier tasks that are like a task, and what became of them.

    The tasks are the changes that were merged into the default branch. TASK is a text, or the number of one of them
    ("#128"); without it the text is read from standard input. Nothing like it: nothing printed.

    \b
    Example:
      memory-ci similar "retry failed payments"
      gh issue view 128 | memory-ci similar --top 5 --explain
    """
    from memory_ci.flows.serve.similar import similar_tasks
    from memory_ci.rendering.context import render_similar

    text = read_words_or_input(task, "Say what the task is", "similar")
    with progress("Comparing tasks"):
        found = similar_tasks(workspace(), text, top=top, all_history=all_history)
    rows = [(one.task.label, one.task.title, one.task.merged_on, one.task.outcome, one.score) for one in found]
    text, head = render_similar(found, explain=explain), ("id", "title", "merged_on", "outcome", "score")
    show_rows("json" if as_json else form, found, text, head, rows)


@click.command("recall")
@click.argument("query", nargs=-1)
@option("--ranking", choices=get_args(Ranking), help="Instead of `episodes.ranking`.")
@option("--limit", type=int, default=10, metavar="N", help="At most this many episodes.")
@option("--at", metavar="REV|DAY", help="The episodes of a commit, or of the end of a day (UTC), ranked as then.")
@between_option
@option("--outcome", "outcomes", choices=get_args(Outcome), multiple=True, help="Only what ended like this.")
@option("--session", metavar="JOB", help="The job that asks: it sees the episodes of its own session too.")
@flag("--all-sessions", help="See the episodes of all sessions.")
@flag("--explain", help="Print the factors of each score.")
@format_option
@json_option
def recall_command(
    query: tuple[str, ...],
    ranking: Ranking | None,
    limit: int,
    at: str | None,
    occurred_between: tuple[date, date] | None,
    outcomes: tuple[Outcome, ...],
    session: str | None,
    all_sessions: bool,
    explain: bool,
    form: str,
    as_json: bool,
) -> None:
    """Print the episodes that answer a question: what was done, and what came of it.

    Below them stand merged changes of git's history that answer it and have no episode there. Episodes are noted by
    `record` for merged and declined changes, and by hand with `memory-ci episode`. Without
    QUERY the text is read from standard input. Where nothing answers, standard error says so.

    \b
    Example:
      memory-ci recall "retry failed payments"
      memory-ci recall "what did we try for retries" --outcome failure --explain
    """
    from memory_ci.flows.serve.recall import RecallQuery, recall_episodes
    from memory_ci.rendering.context import render_recall

    text, where = read_words_or_input(query, "Say what is asked", "recall"), workspace()
    asked = RecallQuery(text, now(), ranking, limit, session, all_sessions, outcomes, occurred_between, at)
    with progress("Recalling"):
        recalled = recall_episodes(where, asked, os.environ)
    for note in recalled.notes:
        say(f"Note: {printable(note)}", err=True)
    rows = [
        (hit.episode.id, hit.episode.situation.summary, hit.episode.occurred_at.date(), hit.episode.outcome, hit.score)
        for hit in recalled.hits
    ]
    text, head = render_recall(recalled, explain=explain), ("id", "title", "occurred_on", "outcome", "score")
    show_rows("json" if as_json else form, recalled, text, head, rows)
    if not text:
        say("No episode and no merged change answers that.", err=True)
