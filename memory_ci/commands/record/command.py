"""Commands that turn merged work into memory: record and learn."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, get_args

import click
from msgspec.structs import replace

from memory_ci.cli.common import (
    RangeArguments,
    change_options,
    engine_option,
    flag,
    now_option,
    option,
    range_options,
    refuse_others,
    show,
    since_option,
)
from memory_ci.cli.plain import (
    committed_workspace,
    echo,
    echo_json,
    has_input,
    now,
    progress,
    say,
    today,
)
from memory_ci.commands.record.text import render_plan, render_summary
from memory_ci.errors import EngineError, UsageError
from memory_ci.findings import printable
from memory_ci.records.config import PublishMode
from memory_ci.records.names import short_branch

if TYPE_CHECKING:
    from memory_ci.commands.record.learn import Pending
    from memory_ci.commands.record.run import RecordOptions
    from memory_ci.memory.workspace import Workspace
    from memory_ci.records.plan import Plan, Published


POLL_SECONDS = 60  # Between two looks at the batches, which take minutes to hours.


@click.command("record")
@range_options
@flag("--yes", help="On a first run: write its episodes unasked, however many they are.")
@option(
    "--push",
    "mode",
    choices=get_args(PublishMode),
    help="How the commits reach the remote, instead of what the configuration says.",
)
@now_option
@option(
    "--summary",
    type=click.File("w", encoding="utf-8", lazy=True),
    metavar="FILE",
    help="Write what was learned to this file, as Markdown.",
)
@option("--fail-on", choices=["engine"], help="Exit with status 5 when the engine failed.")
@option(
    "--plan",
    "plan_path",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Write the plan of the run to this file, or for - to standard output; change nothing.",
)
@option(
    "--apply",
    "plan_file",
    type=click.File("rb"),
    metavar="FILE",
    help="Perform the plan of this file, or for - of standard input; no engine is asked.",
)
@change_options
@click.pass_context
def record_command(
    ctx: click.Context,
    /,
    mode: PublishMode | None,
    at_once: bool,
    summary: TextIO | None,
    fail_on: str | None,
    plan_path: Path | None,
    plan_file: BinaryIO | None,
    dry_run: bool,
    as_json: bool,
    yes: bool,
    **arguments: RangeArguments,
) -> None:
    """Turn merged work into committed memory.

    Reads what was merged since the last run, with the sessions and the reviews behind it, folds the inbox, extracts
    learnings, reinforces what the work used and notes an episode of it, in one commit; promotion, retirement and
    compaction are commits of their own where they change something. Running again changes nothing. Your index and your
    other files are not touched.

    The first run begins where `.memory-ci.yaml` was committed; --since takes older history, --since 99y all of it. More
    than 50 new episodes are asked about on that run, unless one of these or --yes is given. A branch that is not the default
    one is named with --branch.

    Without a model only what authors marked is written; what merely sounds like a learning is listed. With one, every
    learning cites words of a person, and code checks that they were said.

    With --push the run is made on the tip of the remote's branch and its commits are put there, or into one pull
    request: `memory-ci help publishing`.

    --plan and --apply are the two halves of a run. The plan is one JSON document: changes per step, candidates with
    their evidence, what was left out and why; a person or another job can read it before it is performed. Credentials
    are masked on standard output. It is checked again, against the tree it is applied to: the branch must still be where
    the plan was made, and no step may do more than a step of its kind.

    \b
    Example:
      memory-ci record --dry-run
      memory-ci record
      memory-ci record --since v1.0 --engine anthropic
      memory-ci record --push auto
      memory-ci record --push pr --now
      memory-ci record --plan plan.json
      memory-ci record --apply plan.json
    """
    from memory_ci.commands.record.run import RecordOptions, check_branch

    if plan_file is not None:
        refuse_others(ctx, "plan_file", ("dry_run", "as_json"))
        _apply(plan_file, dry_run, as_json)
        return
    if plan_path is not None:
        refuse_others(ctx, "plan_path", ("since", "ref", "sessions", "engine"))
        _write_plan(plan_path, RecordOptions(**arguments))  # type: ignore[arg-type] # click's own types
        return

    if mode and dry_run:
        raise click.UsageError("--push does not go with --dry-run")
    where, options = committed_workspace(), RecordOptions(**arguments)  # type: ignore[arg-type] # click's own types
    if options.ref is None:
        options = replace(options, ref=check_branch(where))
    plan, published = _record(where, options, mode, dry_run=dry_run, is_agreed=yes, at_once=at_once)
    if summary is not None and plan is not None:
        from memory_ci.commands.health.health import list_remarks
        from memory_ci.memory.apply import trim_plan
        from memory_ci.memory.workspace import workspace_at

        remarks = list_remarks(where, plan.ref, today())
        shown = trim_plan(plan, workspace_at(where.repo, plan.base).config.evidence.quotes)
        summary.write(render_summary(shown, published, remarks=remarks))
    _show_run(where, plan, published, as_json)
    if plan is not None and plan.engine.failure:
        say(f"Warning: the run stopped: {printable(plan.engine.failure)}", err=True)
        if fail_on == "engine":
            sys.exit(EngineError.exit_code)


def _record(
    where: Workspace,
    options: RecordOptions,
    mode: PublishMode | None,
    *,
    dry_run: bool,
    is_agreed: bool,
    at_once: bool,
) -> tuple[Plan | None, Published | None]:
    from memory_ci.commands.publish.publish import PublishOptions, publish
    from memory_ci.commands.record.run import (
        check_range,
        count_unasked,
        fetch_sessions,
        plan_record,
    )
    from memory_ci.memory.workspace import branch_tip

    with progress("Reading merged work") as advance:

        def make_plan(ref: str | None, accepted: frozenset[str]) -> Plan:
            ref, base = branch_tip(where, ref)
            asked = replace(options, ref=ref, base=base, accepted=accepted)
            check_range(where, asked, base)
            if not dry_run:
                asked = replace(asked, problems=fetch_sessions(where, ref, os.environ, base))
            plan = plan_record(where, asked, today(), advance, os.environ)
            if not (is_agreed or dry_run) and (count := count_unasked(where, asked, plan)):
                message, hint = (
                    f"this first run would write {count} episodes",
                    "begin later: --since REV.",
                )
                refused = UsageError(
                    message, slug="many-episodes", hint=f"Agree with --yes, or {hint}"
                )
                _confirm(f"\nThis first run writes {count} episodes. Go on?", refused)
            return plan

        if dry_run:
            return make_plan(options.ref, frozenset()), None
        is_asked = options.since is not None
        publishing = PublishOptions(mode, options.ref, at_once, is_asked)
        published = publish(where, publishing, make_plan, now(), os.environ)
    return published.plan, published


def wait_for_batches(pending: Pending) -> None:
    """Say on stderr how far the batches are, and sleep."""
    say(f"Batches: {pending.estimate.batches}, ended: {pending.ended}", err=True)
    time.sleep(POLL_SECONDS)


def _confirm(question: str, refused: UsageError) -> None:
    """Ask on a terminal. Raises `refused` where nobody can answer, click.Abort."""
    if has_input():
        raise refused
    click.confirm(question, abort=True, err=True)


def _show_run(
    where: Workspace, plan: Plan | None, published: Published | None, as_json: bool, **more: object
) -> None:
    """What was learned and where it went: in JSON `applied` is what was committed, `published` where it went, unless it
    stayed here; `more` stands there before."""
    if as_json:
        ref = plan.ref if plan else ""
        applied = (
            {"ref": ref, "tip": published.tip, "subjects": published.subjects}
            if published
            else None
        )
        found: dict[str, object] = {**more, "plan": plan, "applied": applied}
        if published is not None and published.mode != "none":
            found["published"] = replace(published, plan=None)
        echo_json(found)
        return
    if plan is not None:
        from memory_ci.memory.episode_files import list_written

        say(render_plan(plan, list_written(where, plan)))
    if published is not None and plan is not None and published.subjects:
        branch = printable(short_branch(plan.ref))
        what = "Committed on" if published.mode == "none" else f"Published by {published.mode} for"
        subjects = "".join(f"  {printable(subject)}\n" for subject in published.subjects)
        say(f"\n{what} {branch}, now at {published.tip[:10]}:\n{subjects}")
    for line in filter(None, (published.url, published.reason) if published else ()):
        say(printable(line))


def _write_plan(path: Path, options: RecordOptions) -> None:
    """Write the plan of a record run to a file, or for - to standard output."""
    from memory_ci.commands.record.run import (
        fetch_sessions,
        format_plan,
        plan_record,
        save_plan,
    )

    with progress("Reading merged work") as advance:
        where = committed_workspace()
        problems = fetch_sessions(where, options.ref, os.environ)
        plan = plan_record(where, replace(options, problems=problems), today(), advance, os.environ)
    if str(path) == "-":
        from memory_ci.secrets import mask_secrets  # patterns that a plan in a file does not need

        echo(mask_secrets(format_plan(plan).decode()))
    else:
        save_plan(plan, path)


def _apply(plan_file: BinaryIO, dry_run: bool, as_json: bool) -> None:
    """Perform a plan."""
    from memory_ci.memory.apply import apply_plan, parse_plan, preview_plan

    plan = parse_plan(plan_file.read())
    where = committed_workspace()
    applied = (
        preview_plan(where, plan, now())
        if dry_run
        else apply_plan(where, plan, now(), in_actions="GITHUB_ACTIONS" in os.environ)
    )
    branch = printable(applied.ref.removeprefix("refs/heads/"))
    done = (
        f"{'Would commit' if dry_run else 'Committed'} on {branch}:"
        if applied.subjects
        else "Nothing to commit."
    )
    show(applied, [done, *(f"  {printable(subject)}" for subject in applied.subjects)], as_json)


PERIOD = "90d"


@click.command("learn")
@since_option
@engine_option
@flag("--yes", help="Do not ask whether to go on.")
@option("--wait/--no-wait", default=True, help="Wait until the batches have ended.")
@option("--push", "mode", choices=get_args(PublishMode), help="How the commits reach the remote.")
@change_options
def learn_command(
    yes: bool,
    wait: bool,
    mode: PublishMode | None,
    dry_run: bool,
    as_json: bool,
    **arguments: RangeArguments,
) -> None:
    """Let a model read the work of the last 90 days, or since --since.

    Says first how many changes and windows there are, how many tokens they take and what that costs, and asks. With the
    Anthropic API the windows go in batches, at half the price; any other engine (--engine claude-cli: `claude -p` with
    the login that you have) is asked one by one. Replies are kept as they come: after a stop run the same command
    again, and only what is left is asked. Nothing is committed before all is answered. Where no model is set up,
    --dry-run says the price of an example.

    The learnings become local commits, or with --push pr one pull request, in which each has its quote and a box: the
    next run takes out what was unticked.

    \b
    Example:
      memory-ci learn --since 90d --dry-run
      memory-ci learn --since 90d --engine claude-cli
      memory-ci learn --since 90d --push pr --yes
    """
    from memory_ci.commands.publish.publish import PublishOptions, publish
    from memory_ci.commands.record.learn import LearnRun, keeping_answers, price_history
    from memory_ci.commands.record.run import RecordOptions, check_branch, fetch_sessions

    where, options = committed_workspace(), RecordOptions(**arguments)  # type: ignore[arg-type] # click's own types
    options = replace(options, ref=check_branch(where), since=options.since or PERIOD)
    if dry_run:
        with progress("Reading merged work") as advance:
            priced = price_history(where, options, now(), os.environ, advance)
        show({"offer": priced}, [str(priced)], as_json)
        return
    learning = LearnRun(where, options, now(), os.environ)
    learning.add_problems(fetch_sessions(where, options.ref, os.environ))
    with progress("Reading merged work") as advance, keeping_answers():
        offer = learning.offer(advance)
    say(str(offer), err=True)
    if offer.windows and not (yes or offer.is_sent):
        message = f"{offer.windows} windows would be sent to {offer.engine}, and nobody agreed"
        hint = "Agree with --yes; --dry-run says what it costs."
        _confirm("Go on?", UsageError(message, slug="learn-unasked", hint=hint))
    with progress("Asking") as advance, keeping_answers():
        pending = learning.send(advance, wait_for_batches if wait else None)
        if pending is not None:
            show({"offer": offer, "pending": pending}, [str(pending)], as_json)
            return

        def make_plan(ref: str, accepted: frozenset[str]) -> Plan:
            return learning.plan(ref, accepted, advance)

        asked = PublishOptions(mode, options.ref, at_once=True, is_asked=True)
        published = publish(where, asked, make_plan, now(), os.environ)
    plan = published.plan
    if plan is not None:
        learning.finish(plan)
    _show_run(where, plan, published, as_json, offer=offer)
