"""Commands that turn merged work into memory: record and learn."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, get_args

import click
from msgspec.structs import replace

from memory_ci.cli.common import (
    RangeArguments,
    change_options,
    confirm,
    engine_option,
    flag,
    now_option,
    option,
    range_options,
    refuse_other_parameters,
    show,
    since_option,
)
from memory_ci.cli.plain import (
    echo,
    echo_json,
    has_input,
    now,
    open_committed_workspace,
    progress,
    say,
    terminal_width,
    today,
)
from memory_ci.commands.record.text import render_plan, render_summary
from memory_ci.errors import EngineError, UsageError
from memory_ci.findings import printable
from memory_ci.records.config import PublishMode

if TYPE_CHECKING:
    from memory_ci.commands.publish.publish import PublishOptions
    from memory_ci.commands.record.batches import Pending
    from memory_ci.commands.record.learn import Offer
    from memory_ci.commands.record.learner import OnProgress
    from memory_ci.commands.record.run_options import RecordOptions
    from memory_ci.memory.workspace import Workspace
    from memory_ci.records.plan import Plan, Published

POLL_SECONDS = 60
"""Time between two polls of the batches, which take minutes to hours."""

LEARN_PERIOD = "90d"
"""The range of `learn` without --since."""

READING_TITLE = "Reading merged work"

verbose_option = flag("--verbose", help="Print all of it, not the most important 30 lines.")


@click.command("record")
@range_options
@flag("--yes", help="On a first run: write its episodes unasked, however many they are.")
@option(
    "--push",
    choices=get_args(PublishMode),
    help="How the commits reach the remote; overrides the configuration.",
)
@now_option
@option(
    "--summary",
    type=click.File("w", encoding="utf-8", lazy=True),
    metavar="FILE",
    help="Write the learnings to this file, as Markdown.",
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
    help="Apply the plan in this file, or for - on standard input, without an engine.",
)
@verbose_option
@change_options
@click.pass_context
def record_command(
    ctx: click.Context,
    /,
    *,
    push: PublishMode | None,
    at_once: bool,
    summary: TextIO | None,
    fail_on: str | None,
    plan_path: Path | None,
    plan_file: BinaryIO | None,
    dry_run: bool,
    as_json: bool,
    yes: bool,
    verbose: bool,
    **arguments: RangeArguments,
) -> None:
    """Turn merged work into committed memory.

    Reads the changes that were merged since the last run, with their agent sessions and reviews. It
    folds the inbox, extracts learnings, reinforces the entries that the work used and writes an
    episode for each change, all in one commit. Promotion, retirement and compaction are further
    commits, if they change something. Running again changes nothing. Your index and your other
    files are not touched.

    The first run begins where `.memory-ci.yaml` was committed; --since takes older history, --since
    99y all of it. If that run would write more than 50 episode files, it asks first, unless --since
    or --yes is given. --branch names another branch than the default branch.

    Without a model, only sentences that authors marked are written; sentences that merely look like
    a learning are listed. With a model, every learning quotes a person, and memory-ci checks that
    the quote is in the source.

    With --push the run is made on the tip of the remote's branch and its commits are put there, or
    into one pull request: `memory-ci help platform`.

    --plan and --apply are the two halves of a run. The plan is one JSON document: changes per step,
    candidates with their evidence, and omissions with reasons; a person or another job can read it
    before it is applied. Credentials are masked on standard output. --apply checks the plan again,
    against the tree that it is applied to: the branch must still be where the plan was made, and no
    step may do more than a step of its kind.

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
    from memory_ci.commands.publish.publish import PublishOptions
    from memory_ci.commands.record.run_checks import check_branch

    if plan_file is not None:
        refuse_other_parameters(ctx, "plan_file", ("dry_run", "as_json"))
        _apply_plan_file(plan_file, dry_run, as_json)
        return
    if plan_path is not None:
        refuse_other_parameters(ctx, "plan_path", ("since", "ref", "sessions", "engine"))
        _write_plan(plan_path, _parse_range(arguments))
        return
    if push and dry_run:
        raise click.UsageError("--push does not go with --dry-run")

    workspace = open_committed_workspace()
    options = _parse_range(arguments)
    if options.ref is None:
        options = replace(options, ref=check_branch(workspace))

    plan: Plan | None
    published: Published | None = None
    if dry_run:
        plan = _preview_plan(workspace, options)
    else:
        publishing = PublishOptions(push, options.ref, at_once, options.is_range_named)
        published = _record_and_publish(workspace, options, publishing, yes=yes)
        plan = published.plan
    if summary is not None and plan is not None:
        _write_summary(summary, workspace, plan, published)
    if as_json:
        echo_json(_list_run_fields(plan, published, None))
    else:
        _show_run(workspace, plan, published, verbose=verbose)
    if plan is not None and plan.engine.failure:
        say(f"Warning: the run stopped: {printable(plan.engine.failure)}", err=True)
        if fail_on == "engine":
            sys.exit(EngineError.exit_code)


def _parse_range(arguments: dict[str, RangeArguments]) -> RecordOptions:
    """Return the options of the command line that name a range, as `RecordOptions`."""
    from memory_ci.commands.record.run_options import RecordOptions

    return RecordOptions(**arguments)  # type: ignore[arg-type] # click checked the types


def _preview_plan(workspace: Workspace, options: RecordOptions) -> Plan:
    """Return the plan of a run without committing it."""
    with progress(READING_TITLE) as advance:
        return _RunPlanner(workspace, options, advance).plan(options.ref, frozenset())


def _record_and_publish(
    workspace: Workspace,
    options: RecordOptions,
    publishing: PublishOptions,
    *,
    yes: bool,
) -> Published:
    """Plan a run, commit the plan, and put the commits where `publishing` says.

    Unless `yes` is set, a person is asked whether a first run may write many episodes.
    """
    from memory_ci.commands.publish.publish import publish

    with progress(READING_TITLE) as advance:
        planner = _RunPlanner(
            workspace, options, advance, fetch_sessions=True, confirm_episodes=not yes
        )
        return publish(workspace, publishing, planner.plan, now(), os.environ)


class _RunPlanner:
    """A planner of one run, which is planned again whenever the branch moves before the push.

    `publish` calls its method `plan` for each try.
    """

    def __init__(
        self,
        workspace: Workspace,
        options: RecordOptions,
        advance: OnProgress,
        *,
        fetch_sessions: bool = False,
        confirm_episodes: bool = False,
    ) -> None:
        """Keep what every try to plan needs; nothing is read yet.

        Args:
            workspace: the repository.
            options: the range of the run.
            advance: called as merged work is read.
            fetch_sessions: fetch captured sessions before planning.
            confirm_episodes: ask a person whether a first run may write many episodes.
        """
        self._workspace = workspace
        self._options = options
        self._advance = advance
        self._must_fetch_sessions = fetch_sessions
        self._must_confirm_episodes = confirm_episodes

    def plan(self, ref: str | None, accepted_keys: frozenset[str]) -> Plan:
        """Return the plan of the run on the tip of a branch.

        Args:
            ref: the branch; None for the checked-out branch.
            accepted_keys: content keys of the candidates that a person accepted.

        Raises:
            UsageError: nothing-committed, many-episodes.
        """
        from memory_ci.api import Memory
        from memory_ci.commands.record.run import fetch_sessions
        from memory_ci.commands.record.run_checks import check_range
        from memory_ci.memory.workspace import find_branch_tip

        workspace = self._workspace
        ref, base = find_branch_tip(workspace, ref)
        options = replace(self._options, ref=ref, base=base, accepted_keys=accepted_keys)
        check_range(workspace, options, base)
        if self._must_fetch_sessions:
            problems = fetch_sessions(workspace, ref, os.environ, base)
            options = replace(options, problems=problems)
        plan = Memory(workspace).record(options=options, on_progress=self._advance)
        if self._must_confirm_episodes:
            _confirm_episodes(workspace, options, plan)
        return plan


def _confirm_episodes(workspace: Workspace, options: RecordOptions, plan: Plan) -> None:
    """Ask whether a first run may write as many episode files as it planned.

    Raises:
        UsageError: many-episodes if nobody can answer.
    """
    from memory_ci.commands.record.run_checks import count_episodes_to_confirm

    count = count_episodes_to_confirm(workspace, options, plan)
    if count:
        error = UsageError(
            f"this first run would write {count} episodes",
            slug="many-episodes",
            hint="Agree with --yes, or begin later: --since REV.",
        )
        _confirm_or_abort(f"This first run writes {count} episodes. Go on?", error)


def wait_for_batches(pending: Pending) -> None:
    """Print the progress of the batches on stderr, and sleep until the next poll."""
    say(f"Batches: {pending.estimate.batches}, ended: {pending.ended}", err=True)
    time.sleep(POLL_SECONDS)


def _confirm_or_abort(question: str, refusal: UsageError) -> None:
    """Ask a person at the terminal whether to go on.

    Args:
        question: the question.
        refusal: the error to raise if nobody can answer, as in CI.

    Raises:
        UsageError: `refusal`.
        click.Abort: if the answer is no.
    """
    is_piped = has_input()  # A file or a program is standard input, and nobody can answer.
    if is_piped:
        raise refusal
    if not confirm(question, default=False):
        raise click.Abort


def _write_summary(
    file: TextIO, workspace: Workspace, plan: Plan, published: Published | None
) -> None:
    """Write the learnings of a run as Markdown, for the summary page of a CI job.

    Quotes are shortened as in memory files.
    """
    from memory_ci.commands.health.health import list_health_remarks
    from memory_ci.memory.apply import trim_plan_quotes
    from memory_ci.memory.workspace import workspace_at

    remarks = list_health_remarks(workspace, plan.ref, today())
    settings = workspace_at(workspace.repo, plan.base).config
    trimmed_plan = trim_plan_quotes(plan, settings.evidence.quotes)
    file.write(render_summary(trimmed_plan, published, remarks=remarks))


def _show_run(
    workspace: Workspace, plan: Plan | None, published: Published | None, *, verbose: bool = False
) -> None:
    """Print the learnings and where they were published, in about 30 lines unless verbose."""
    from memory_ci.commands.record.brief import list_published, render_brief
    from memory_ci.memory.episode_files import list_written

    episode_paths = list_written(workspace, plan) if plan is not None else ()
    if verbose:
        text = render_plan(plan, episode_paths) if plan is not None else ""
        published_lines = list_published(plan, published)
        say(text + "".join(f"{printable(line)}\n" for line in published_lines))
    else:
        width = terminal_width(sys.stdout, os.environ)
        say(render_brief(plan, episode_paths, published, width))


def _list_run_fields(
    plan: Plan | None, published: Published | None, offer: Offer | None
) -> dict[str, object]:
    """Return the JSON fields of a run of `record` or `learn`.

    - `offer`: the price of a run of `learn`; missing for `record`;
    - `plan`: the learnings;
    - `applied`: the commits, null if nothing was committed;
    - `published`: the pull request or push; missing if the commits stay in this repository.
    """
    fields: dict[str, object] = {}
    if offer is not None:
        fields["offer"] = offer
    fields["plan"] = plan
    fields["applied"] = None
    if published is not None:
        ref = plan.ref if plan else ""
        fields["applied"] = {"ref": ref, "tip": published.tip, "subjects": published.subjects}
        if published.mode != "none":
            fields["published"] = replace(published, plan=None)
    return fields


def _write_plan(path: Path, options: RecordOptions) -> None:
    """Write the plan of a run as JSON to a file, or for `-` to standard output.

    On standard output, which CI logs may keep, credentials are masked.
    """
    from memory_ci.api import Memory
    from memory_ci.commands.record.run import fetch_sessions, format_plan, save_plan

    with progress(READING_TITLE) as advance:
        workspace = open_committed_workspace()
        problems = fetch_sessions(workspace, options.ref, os.environ)
        options = replace(options, problems=problems)
        plan = Memory(workspace).record(options=options, on_progress=advance)
    if str(path) == "-":
        # The patterns take time to compile, and a plan in a file does not need them.
        from memory_ci.secrets import mask_secrets

        echo(mask_secrets(format_plan(plan).decode()))
    else:
        save_plan(plan, path)


def _apply_plan_file(plan_file: BinaryIO, dry_run: bool, as_json: bool) -> None:
    """Commit the plan that a file holds, and print the subjects of the commits."""
    from memory_ci.api import Memory
    from memory_ci.memory.apply import parse_plan

    plan = parse_plan(plan_file.read())
    applied = Memory(open_committed_workspace()).apply(plan, dry_run=dry_run)

    lines = ["Nothing to commit."]
    if applied.subjects:
        action = "Would commit" if dry_run else "Committed"
        branch = printable(applied.ref.removeprefix("refs/heads/"))
        subjects = [f"  {printable(subject)}" for subject in applied.subjects]
        lines = [f"{action} on {branch}:", *subjects]
    show(applied, lines, as_json)


@click.command("learn")
@since_option
@engine_option
@flag("--yes", help="Do not ask whether to go on.")
@option("--wait/--no-wait", default=True, help="Wait until the batches have ended.")
@option("--push", choices=get_args(PublishMode), help="How the commits reach the remote.")
@verbose_option
@change_options
def learn_command(
    *,
    yes: bool,
    wait: bool,
    push: PublishMode | None,
    dry_run: bool,
    as_json: bool,
    verbose: bool,
    **arguments: RangeArguments,
) -> None:
    """Let a model read the work of the last 90 days, or since --since.

    It first prints the number of changes, windows and tokens with their price, and asks for
    confirmation. With the Anthropic API the windows go in batches, at half the price; any other
    engine (--engine claude-cli: `claude -p` with the login that you have) is asked one by one.
    Replies are stored as they arrive: after an interruption run the same command again, and only
    unanswered windows are sent. Nothing is committed before all windows are answered. Where no
    model is set up, --dry-run prints the price of an example model.

    The learnings become local commits, or with --push pr one pull request, in which each learning
    has its quote and a box: the next run removes learnings whose box was unticked.

    \b
    Example:
      memory-ci learn --since 90d --dry-run
      memory-ci learn --since 90d --engine claude-cli
      memory-ci learn --since 90d --push pr --yes
    """
    from memory_ci.commands.publish.publish import PublishOptions, publish
    from memory_ci.commands.record.learn import LearnRun, hint_to_resume, price_history
    from memory_ci.commands.record.run import fetch_sessions
    from memory_ci.commands.record.run_checks import check_branch

    workspace = open_committed_workspace()
    options = _parse_range(arguments)
    options = replace(options, ref=check_branch(workspace), since=options.since or LEARN_PERIOD)
    if dry_run:
        with progress(READING_TITLE) as advance:
            offer = price_history(workspace, options, now(), os.environ, advance)
        show({"offer": offer}, [str(offer)], as_json)
        return

    run = LearnRun(workspace, options, now(), os.environ)
    run.add_problems(fetch_sessions(workspace, options.ref, os.environ))
    with progress(READING_TITLE) as advance, hint_to_resume():
        offer = run.offer(advance)
    say(str(offer), err=True)
    if not yes:
        _confirm_offer(offer)

    with progress("Asking") as advance, hint_to_resume():
        pending = run.send(advance, wait_for_batches if wait else None)
        if pending is not None:
            show({"offer": offer, "pending": pending}, [str(pending)], as_json)
            return
        publishing = PublishOptions(push, options.ref, at_once=True, is_range_named=True)
        make_plan = partial(run.plan, progress=advance)
        published = publish(workspace, publishing, make_plan, now(), os.environ)
    if published.plan is not None:
        run.finish(published.plan)
    if as_json:
        echo_json(_list_run_fields(published.plan, published, offer))
    else:
        _show_run(workspace, published.plan, published, verbose=verbose)


def _confirm_offer(offer: Offer) -> None:
    """Ask whether to send the requests at their price.

    Nobody is asked if there is nothing to pay: there are no requests, or an earlier run sent them.

    Raises:
        UsageError: `learn-unasked` if nobody can answer.
    """
    if offer.request_count and not offer.is_sent:
        message = (
            f"{offer.request_count} windows would be sent to {offer.engine}, "
            "and nobody confirmed it"
        )
        hint = "Confirm with --yes; --dry-run prints the price."
        _confirm_or_abort("Go on?", UsageError(message, slug="learn-unasked", hint=hint))
