"""The command learn: a stretch of the past, read by a model. Its price comes first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, get_args

import click
from msgspec.structs import replace

from memory_ci.cli.common import RangeArguments, dry_run_option, flag, json_option, option, range_options, show
from memory_ci.cli.plain import committed_workspace, echo_json, has_input, now, progress, say
from memory_ci.cli.record import as_json_of, show_run, wait_for_batches
from memory_ci.errors import UsageError
from memory_ci.records.config import PublishMode

if TYPE_CHECKING:
    from memory_ci.flows.record.learn import Offer
    from memory_ci.records.plan import Plan


PERIOD = "90d"


@click.command("learn")
@range_options
@flag("--yes", help="Do not ask whether to go on.")
@option("--wait/--no-wait", default=True, help="Wait until the batches have ended.")
@option("--push", "mode", choices=get_args(PublishMode), help="How the commits reach the remote.")
@dry_run_option
@json_option
def learn_command(
    yes: bool,
    wait: bool,
    mode: PublishMode | None,
    fetch: bool,
    dry_run: bool,
    as_json: bool,
    **arguments: RangeArguments,
) -> None:
    """Let a model read the work of the last 90 days, or since --since.

    Says first how many changes and windows there are, how many tokens they take and what that costs, and asks. With the
    Anthropic API the windows go in batches, at half the price; any other engine (--engine claude-cli: `claude -p` with
    the login that you have) is asked one by one. Replies are kept as they come: after a stop run the same command
    again, and only what is left is asked. Nothing is committed before all is answered.

    The learnings become local commits, or with --push pr one pull request, in which each has its quote and a box: the
    next run takes out what was unticked.

    \b
    Example:
      memory-ci learn --since 90d --dry-run
      memory-ci learn --since 90d --engine claude-cli
      memory-ci learn --since 90d --push pr --yes
    """
    from memory_ci.flows.publish.publish import PublishOptions, publish
    from memory_ci.flows.record.episode_files import list_written
    from memory_ci.flows.record.learn import LearnRun, keeping_answers
    from memory_ci.flows.record.run import RecordOptions, check_branch, fetch_sessions

    where, options = committed_workspace(), RecordOptions(**arguments)  # type: ignore[arg-type] # click's own types
    options = replace(options, ref=options.ref or check_branch(where), since=options.since or PERIOD)
    learning = LearnRun(where, options, now(), os.environ)
    if fetch and not dry_run:
        learning.add_problems(fetch_sessions(where, options.ref, os.environ))
    with progress("Reading merged work") as advance, keeping_answers():
        offer = learning.offer(advance)
    if dry_run:
        show({"offer": offer}, [str(offer)], as_json)
        return
    say(str(offer), err=True)
    if offer.windows and not (yes or offer.is_sent):
        _ask(offer)
    with progress("Asking") as advance, keeping_answers():
        pending = learning.send(advance, wait_for_batches if wait else None)
        if pending is not None:
            show({"offer": offer, "pending": pending}, [str(pending)], as_json)
            return

        def make_plan(ref: str, accepted: frozenset[str]) -> Plan:
            return learning.plan(ref, accepted, advance)

        published = publish(
            where, PublishOptions(mode, options.ref, at_once=True, is_asked=True), make_plan, now(), os.environ
        )
    plan = published.plan
    if plan is not None:
        learning.finish(plan)
    if as_json:
        echo_json({"offer": offer, **as_json_of(plan, published)})
    else:
        show_run(plan, published, list_written(where, plan) if plan is not None else ())


def _ask(offer: Offer) -> None:
    """Ask on a terminal whether that may be spent. Raises UsageError (learn-unasked), click.Abort."""
    if has_input():
        message = f"{offer.windows} windows would be sent to {offer.engine}, and nobody agreed"
        raise UsageError(message, slug="learn-unasked", hint="Agree with --yes; --dry-run says what it costs.")
    click.confirm("Go on?", abort=True, err=True)
