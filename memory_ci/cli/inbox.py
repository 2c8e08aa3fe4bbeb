"""Commands that put something into the inbox or beside a job: add, episode, feedback, import, checkpoint, premortem."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, get_args

import click

from memory_ci.cli import add
from memory_ci.cli.common import change_options, complete_id, engine_option, flag, option, show, table_options
from memory_ci.cli.plain import (
    echo,
    now,
    progress,
    read_input,
    read_words_or_input,
    say,
    today,
    utf8,
    warn,
    workspace,
)
from memory_ci.records.config import EngineName
from memory_ci.records.entry import NEW_IMPORTANCE
from memory_ci.records.episode import Assumption, Feedback, FeedbackKind, Outcome, Situation, State
from memory_ci.rendering.table import printable, printable_lines, render_finding

directory_option = option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="Where the job's files are, if not here.",
)


@click.command("add")
@click.argument("text", required=False)
@table_options(add.OPTIONS)
@option("--importance", type=click.FloatRange(0, 1), default=NEW_IMPORTANCE, help="0 to 1.")
def add_command(
    text: str | None,
    title: str | None,
    body: str | None,
    **arguments: Any,  # noqa: ANN401 - those of add.run, each as its option makes it
) -> None:
    """Put a learning into the inbox.

    It becomes a file of its own under .memory/inbox/, so that two branches never conflict; `record` folds it into
    its scope's file. TEXT is the same as --title. Without either the text is read from standard input, or written in
    your editor: first line the title, then the body.

    \b
    Example:
      memory-ci add "Retry a POST only with a key" --type corrective
      echo "Builds need Node 20" | memory-ci add --scope team:web
      memory-ci add "Retry in the client" --quote "never retry in the caller"
    """
    if text is not None and title is not None:
        raise click.UsageError("TEXT is the title: give it once, as an argument or with --title.")
    if body is not None and text is None and title is None:
        raise click.UsageError("--body needs a title.")
    add.run(text, title, body, **arguments)


@click.command("episode")
@click.argument("text", nargs=-1)
@option("--outcome", choices=get_args(Outcome), default="neutral", help="What came of it.")
@option("--valence", type=click.FloatRange(0, 1), default=0.5, help="How much it matters, 0 to 1.")
@option("--domain", default="", metavar="WORD", help="The part of the work it belongs to.")
@option("--topic", default="", metavar="WORDS", help="What it was about.")
@option("--file", default="", metavar="PATH", help="The file that was worked on.")
@option("--tool", default="", metavar="NAME", help="The tool that was used.")
@option("--session", metavar="JOB", help="Tell it to this session only.")
@change_options
def episode_command(
    text: tuple[str, ...],
    outcome: Outcome,
    valence: float,
    domain: str,
    topic: str,
    file: str,
    tool: str,
    session: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Note what was tried and what came of it.

    It becomes a file of its own under .memory/episodes/, which `memory-ci recall` finds. Without TEXT it is read from
    standard input. The same text again is known already.

    \b
    Example:
      memory-ci episode "Tried a queue; the worker starved" --outcome failure
    """
    from memory_ci.flows.inbox.episode import create_episode

    said = read_words_or_input(text, "Say what happened", "episode")
    context = {name: utf8(value) for name, value in (("file", file), ("tool", tool)) if value}
    situation = Situation(domain=utf8(domain), topic=utf8(topic))
    judged = (outcome, valence, session)
    noted = create_episode(workspace(), said, context, *judged, now(), situation=situation, dry_run=dry_run)
    if noted.left_out:
        say(f"Note: not kept, for it is not of this repository: {', '.join(noted.left_out)}", err=True)
    lines = [f"{'Would note' if dry_run else 'Noted'} {printable(noted.path)}", noted.episode.id]
    if not noted.is_new:
        lines = [f"Known already as {noted.episode.id} in {printable(noted.path)}; nothing written."]
    show(noted, lines, as_json, ["Commit it with your work."] if noted.is_new and not dry_run else [])


@click.command("feedback")
@click.argument("entry_id", metavar="ID", shell_complete=complete_id)
@click.argument("kind", type=click.Choice(get_args(FeedbackKind)))
@option("--ref", default="", metavar="REF", help="The work it is about: pr:128, or commit:9d0c3f2.")
@option("--by", default="", metavar="NAME", help="Who says so; default: git's user.name.")
@option("--at", "when", metavar="TIME", help="When, as ISO 8601 (UTC where it names no zone); default: now.")
@change_options
def feedback_command(
    entry_id: str, kind: FeedbackKind, ref: str, by: str, when: str | None, dry_run: bool, as_json: bool
) -> None:
    """Say whether an entry helped.

    It becomes a file of its own under .memory/episodes/, and moves the entry's utility. ID is an entry's id or the
    start of it. What was said of one entry, kind and --ref is noted once, whoever says it.

    \b
    Example:
      memory-ci feedback 0f6f1f0e confirmed --ref pr:128
      memory-ci feedback 0f6f1f0e undone --ref commit:9d0c3f2 --dry-run
    """
    from memory_ci.flows.inbox.feedback import give_feedback, parse_time

    at = parse_time(when) if when is not None else now().replace(microsecond=0)
    said = Feedback(id=utf8(entry_id), kind=kind, at=at, by=utf8(by), ref=utf8(ref))
    given = give_feedback(workspace(), said, dry_run=dry_run)
    warn(given.findings)
    utility = f"Utility of {given.feedback.id[:8]}: {given.before:.2f}"
    if not given.is_new:
        show(given, f"Noted already; nothing written. {utility}", as_json)
        return
    lines = [f"{'Would write' if dry_run else 'Wrote'} {printable(given.path)}", f"{utility} -> {given.after:.2f}"]
    is_alone = given.feedback.ref and not given.amends
    remarks = [f"Note: no episode is known of {printable(given.feedback.ref)}."] if is_alone else []
    show(given, lines, as_json, remarks + ([] if dry_run else ["Commit it, on its own or with your work."]))


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@option(
    "--from",
    "source",
    required=True,
    choices=["teaparty", "claude-code", "legacy"],
    help="Which memory wrote the files.",
)
@option("--scope", metavar="SCOPE", help="Where the entries belong [default: the file's own scope, else project].")
@flag("--replace", help="Put the entries into the files themselves, which must be memory files.")
@change_options
def import_command(
    paths: tuple[Path, ...], source: str, scope: str | None, replace: bool, dry_run: bool, as_json: bool
) -> None:
    """Take over what another memory holds.

    Each learning gets an id once and for all and becomes an entry in the inbox; the files it came from stay as they
    are. Importing again adds nothing. What must not be in memory is refused, what fits no known format is left alone,
    and both are listed with their lines. Exit status 1 means that something was refused.

    \b
    Example:
      memory-ci import --from claude-code ~/.claude/projects/-home-ada-shop/memory
      memory-ci import --from legacy --replace MEMORY.md
    """
    from memory_ci.flows.inbox.importer import ImportOptions, import_memory

    options = ImportOptions(source, scope, replace, dry_run)  # type: ignore[arg-type] # click.Choice has checked it
    with progress("Importing"):
        report = import_memory(workspace(), paths, options, today())
    verb = "would import" if dry_run else "imported"
    lines = [f"{verb} {one.path}:{one.line}: {one.title} -> {one.target}" for one in report.imported]
    for one in report.known:
        where = f"as {one.id[:8]} in {one.target}" if one.target else "and was taken out of memory before"
        lines.append(f"known {one.path}:{one.line}: {one.title} ({where})")
    left = [f"refused {render_finding(one)}" for one in report.refused]
    left += [f"left alone {render_finding(one)}" for one in report.not_understood]
    counts = map(len, (report.known, report.refused, report.not_understood))
    left.append("{} {}, {} known already, {} refused, {} not understood".format(len(report.imported), verb, *counts))
    show({"dry_run": dry_run, "report": report}, map(printable, lines), as_json, left)
    raise SystemExit(1 if report.refused else 0)


@click.command("checkpoint")
@click.argument("assumption")
@option("--milestone", default="", help="Where the work stands: planning, half way, before review.")
@option("--state", choices=get_args(State), default="open", help="Whether it held.")
@option("--because", default="", help="What showed that it held or failed.")
@directory_option
@change_options
def checkpoint_command(
    assumption: str, milestone: str, state: State, because: str, directory: Path, dry_run: bool, as_json: bool
) -> None:
    """Note an assumption at a milestone, or what became of one.

    Adds one line to .assumptions.jsonl. Commit it with the work: when that is merged, `record` looks at which
    assumptions failed. In the session of an agent the line names it: its words are not quoted as a person's.

    \b
    Example:
      memory-ci checkpoint "The gateway answers within a second"
      memory-ci checkpoint "The gateway answers within a second" --state failed
    """
    from memory_ci.flows.inbox.job import append_assumption
    from memory_ci.flows.sessions.active_session import find_sessions

    words = {"assumption": utf8(assumption), "milestone": utf8(milestone), "because": utf8(because)}
    said = Assumption(at=now(), state=state, by=next(iter(find_sessions(os.environ)), ""), **words)
    written = append_assumption(workspace(), directory, said, dry_run=dry_run)
    if dry_run and not as_json:
        echo(printable_lines(written.text))
    else:
        show(written, f"{'Added to' if written.is_new else 'Known already:'} {printable(written.path)}", as_json)


@click.command("premortem")
@click.argument("plan", type=click.Path(path_type=Path, allow_dash=True), default="-")
@directory_option
@flag("--force", help="Replace a pre-mortem that is there.")
@engine_option
@change_options
def premortem_command(
    plan: Path, directory: Path, force: bool, engine: EngineName | None, dry_run: bool, as_json: bool
) -> None:
    """Write down what may go wrong with a plan, before the work.

    Reads the plan from a file or standard input, and writes .premortem.md: what memory knows to have gone wrong with
    such work, and, where a model is configured, what it expects. Commit it with the work: when that is merged,
    `record` holds one against the other.

    \b
    Example:
      memory-ci premortem PLAN.md
      echo "Retry failed charges" | memory-ci premortem --dry-run
    """
    from memory_ci.flows.inbox.job import read_plan, write_premortem
    from memory_ci.flows.model import choose_model

    where = workspace()
    model = choose_model(where.config.engine, engine, os.environ)
    text = read_input() if str(plan) == "-" else read_plan(plan)
    written = write_premortem(where, directory, text, today(), model.engine, force=force, dry_run=dry_run)
    text = printable_lines(written.text) if dry_run else f"Written: {printable(written.path)}"
    show(written, text, as_json, [f"Warning: {printable(written.warning)}"] if written.warning else [])
