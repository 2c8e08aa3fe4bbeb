"""The command lines of episode, feedback, checkpoint, premortem and recall."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from memory_ci.cli.common import (
    change_options,
    complete_id,
    flag,
    json_option,
    option,
    refuse_other_parameters,
    show,
)
from memory_ci.cli.plain import (
    decode_argument,
    echo,
    now,
    open_current_workspace,
    progress,
    read_input,
    read_words_or_input,
    say,
    today,
    warn,
)
from memory_ci.findings import printable, printable_lines
from memory_ci.records.episode import (
    Assumption,
    Feedback,
    FeedbackKind,
    Outcome,
    State,
)

if TYPE_CHECKING:
    from memory_ci.commands.episodes.recall import RecallQuery

DEFAULT_EPISODES = 10
DEFAULT_TASKS = 2
MAX_TASKS = 100
NEUTRAL_VALENCE = 0.5


@click.command("episode")
@click.argument("text", nargs=-1)
@option("--outcome", choices=get_args(Outcome), default="neutral", help="What came of it.")
@option("--file", default="", metavar="PATH", help="The file that was worked on.")
@option("--session", metavar="JOB", help="Tell it to this session only.")
@change_options
def episode_command(
    *,
    text: tuple[str, ...],
    outcome: Outcome,
    file: str,
    session: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Record an attempt and its outcome as an episode.

    The episode is a new file under .memory/episodes/, which `memory-ci recall` finds. Without TEXT,
    the text is read from standard input. The same text is recorded only once.

    \b
    Example:
      memory-ci episode "Tried a queue; the worker starved" --outcome failure
    """
    from memory_ci.commands.episodes.episode import create_episode

    content = read_words_or_input(text, "Say what happened", "episode")
    context = {}
    if file:
        context["file"] = decode_argument(file)
    noted = create_episode(
        open_current_workspace(),
        content,
        context,
        outcome=outcome,
        valence=NEUTRAL_VALENCE,
        session=session,
        now=now(),
        dry_run=dry_run,
    )
    if noted.dropped_keys:
        keys = ", ".join(noted.dropped_keys)
        say(f"Note: left out, because it is not in this repository: {keys}", err=True)
    path = printable(noted.path)
    if not noted.is_new:
        show(noted, [f"Known already as {noted.episode.id} in {path}; nothing written."], as_json)
        return
    verb = "Would note" if dry_run else "Noted"
    remarks = [] if dry_run else ["Commit it with your work."]
    show(noted, [f"{verb} {path}", noted.episode.id], as_json, remarks)


@click.command("feedback")
@click.argument("entry_id", metavar="ID", shell_complete=complete_id)
@click.argument("kind", type=click.Choice(get_args(FeedbackKind)))
@option("--ref", default="", metavar="REF", help="The work it is about: pr:128, or commit:9d0c3f2.")
@change_options
def feedback_command(
    entry_id: str,
    kind: FeedbackKind,
    ref: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Record whether an entry helped.

    The feedback is a new file under .memory/episodes/, and raises or lowers the entry's utility. ID
    is an entry's id or the start of it. Feedback of the same kind on the same entry and --ref is
    recorded once, even if several people give it.

    \b
    Example:
      memory-ci feedback 0f6f1f0e confirmed --ref pr:128
      memory-ci feedback 0f6f1f0e undone --ref commit:9d0c3f2 --dry-run
    """
    from memory_ci.commands.episodes.feedback import give_feedback

    at = now().replace(microsecond=0)
    feedback = Feedback(id=decode_argument(entry_id), kind=kind, at=at, ref=decode_argument(ref))
    result = give_feedback(open_current_workspace(), feedback, dry_run=dry_run)
    warn(result.findings)
    utility = f"Utility of {result.feedback.id[:8]}: {result.before:.2f}"
    if not result.is_new:
        show(result, f"Noted already; nothing written. {utility}", as_json)
        return
    verb = "Would write" if dry_run else "Wrote"
    lines = [f"{verb} {printable(result.path)}", f"{utility} -> {result.after:.2f}"]
    remarks = []
    if result.feedback.ref and not result.amends:
        remarks.append(f"Note: no episode is known of {printable(result.feedback.ref)}.")
    if not dry_run:
        remarks.append("Commit it, on its own or with your work.")
    show(result, lines, as_json, remarks)


@click.command("checkpoint")
@click.argument("assumption")
@option("--milestone", default="", help="Milestone of the work: planning, half way, before review.")
@option("--state", choices=get_args(State), default="open", help="Whether it held.")
@option("--because", default="", help="Evidence that it held or failed.")
@change_options
def checkpoint_command(
    *,
    assumption: str,
    milestone: str,
    state: State,
    because: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Record an assumption at a milestone, or whether it held.

    Adds one line to .assumptions.jsonl. Commit the file with the work: when the work is merged,
    `record` reads which assumptions failed. In an agent's session, the line names the session, so
    that its words are not quoted as a person's.

    \b
    Example:
      memory-ci checkpoint "The gateway answers within a second"
      memory-ci checkpoint "The gateway answers within a second" --state failed
    """
    from memory_ci.commands.episodes.job import append_assumption
    from memory_ci.sessions.active_session import find_sessions

    session_ids = list(find_sessions(os.environ))
    noted_assumption = Assumption(
        at=now(),
        assumption=decode_argument(assumption),
        state=state,
        milestone=decode_argument(milestone),
        because=decode_argument(because),
        by=session_ids[0] if session_ids else "",
    )
    written = append_assumption(open_current_workspace(), Path(), noted_assumption, dry_run=dry_run)
    if dry_run and not as_json:
        echo(printable_lines(written.text))
        return
    verb = "Added to" if written.is_new else "Known already:"
    show(written, f"{verb} {printable(written.path)}", as_json)


@click.command("premortem")
@click.argument("plan", type=click.Path(path_type=Path, allow_dash=True), default="-")
@change_options
def premortem_command(
    plan: Path,
    dry_run: bool,
    as_json: bool,
) -> None:
    """List the risks of a plan, before the work.

    Reads the plan from a file or standard input, and writes .premortem.md: failures of similar
    earlier work, and, where a model is configured, the risks that it expects. Commit the file with
    the work: when the work is merged, `record` compares the listed risks with the outcome.

    \b
    Example:
      memory-ci premortem PLAN.md
      echo "Retry failed charges" | memory-ci premortem --dry-run
    """
    from memory_ci.commands.episodes.job import read_plan, write_premortem
    from memory_ci.memory.model import choose_model

    current_workspace = open_current_workspace()
    model = choose_model(current_workspace.config.engine, None, os.environ)
    plan_text = read_input() if str(plan) == "-" else read_plan(plan)
    written = write_premortem(
        current_workspace,
        Path(),
        plan_text,
        today(),
        model.engine,
        dry_run=dry_run,
    )
    text = printable_lines(written.text) if dry_run else f"Written: {printable(written.path)}"
    remarks = [f"Warning: {printable(written.warning)}"] if written.warning else []
    show(written, text, as_json, remarks)


@click.command("recall")
@click.argument("question", nargs=-1)
@flag("--tasks", help="Print similar earlier tasks with their outcomes.")
@option(
    "--limit",
    type=int,
    metavar="N",
    help=f"At most this many; default: {DEFAULT_EPISODES}, of tasks {DEFAULT_TASKS}.",
)
@option(
    "--outcome",
    "outcomes",
    choices=get_args(Outcome),
    multiple=True,
    help="Only what ended like this.",
)
@option(
    "--session",
    metavar="JOB",
    help="The job that asks: it sees the episodes of its own session too.",
)
@flag("--explain", help="Print the factors of each score.")
@json_option
@click.pass_context
def recall_command(
    ctx: click.Context,
    *,
    question: tuple[str, ...],
    tasks: bool,
    limit: int | None,
    outcomes: tuple[Outcome, ...],
    session: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Print the episodes (earlier work with its outcome) that answer a question.

    Below them it lists merged changes from git's history that match the question and have no
    episode among those printed. Episodes are noted by `record` for merged and declined changes, and
    by hand with `memory-ci episode`. Without QUESTION the text is read from standard input. If
    nothing matches, a message on standard error reports it.

    With --tasks, the changes that were merged into the default branch are compared with QUESTION: a
    task, or the number of one of them ("#128"). If no change is similar, nothing is printed.

    \b
    Example:
      memory-ci recall "retry failed payments"
      memory-ci recall "what did we try for retries" --outcome failure --explain
      gh issue view 128 | memory-ci recall --tasks --limit 5 --explain
    """
    if tasks:
        refuse_other_parameters(ctx, "tasks", ("question", "limit", "explain", "as_json"))
        text = read_words_or_input(question, "Name the task", "recall --tasks")
        task_limit = DEFAULT_TASKS if limit is None else limit
        task_limit = min(max(task_limit, 1), MAX_TASKS)
        _recall_tasks(text, task_limit, as_json, explain=explain)
        return
    from memory_ci.commands.episodes.recall import RecallQuery

    query = RecallQuery(
        query=read_words_or_input(question, "Give the question", "recall"),
        now=now(),
        limit=DEFAULT_EPISODES if limit is None else limit,
        session=session,
        outcomes=outcomes,
    )
    _recall_episodes(query, as_json, explain=explain)


def _recall_episodes(query: RecallQuery, as_json: bool, *, explain: bool) -> None:
    """Print the episodes that answer a question, and notes on the search to standard error."""
    from memory_ci.commands.episodes.recall import recall_episodes
    from memory_ci.commands.episodes.text import quote_for_agent

    current_workspace = open_current_workspace()
    with progress("Recalling"):
        recalled = recall_episodes(current_workspace, query, os.environ)
    for note in recalled.notes:
        say(f"Note: {printable(note)}", err=True)

    text = quote_for_agent(recalled, explain=explain)
    show(recalled, text, as_json)
    if not text:
        say("No episode and no merged change answers that.", err=True)


def _recall_tasks(text: str, limit: int, as_json: bool, *, explain: bool) -> None:
    """Print earlier tasks that are like a task."""
    from memory_ci.commands.retrieve.similar import list_similar_tasks
    from memory_ci.commands.retrieve.text import render_similar

    with progress("Comparing tasks"):
        tasks = list_similar_tasks(open_current_workspace(), text, top=limit)
    show(tasks, render_similar(tasks, explain=explain), as_json)
