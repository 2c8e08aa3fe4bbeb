"""The command line of `memory-ci health`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from memory_ci.cli.common import flag, json_option, option, refuse_other_parameters, show
from memory_ci.cli.plain import open_current_workspace, progress, say, today
from memory_ci.findings import printable

if TYPE_CHECKING:
    from memory_ci.commands.health.records import Health
    from memory_ci.memory.workspace import Workspace


@click.command("health")
@option("--at", metavar="REV|DATE", help="Look at this revision or day, with that day for today.")
@flag("--history", help="A line for today and for the end of each month, the newest twelve.")
@flag("--effect", help="Compare sessions that are served memory with sessions that are held out.")
@flag("--stage", help="Print the stage that each project is in.")
@json_option
@click.pass_context
def health_command(
    ctx: click.Context,
    *,
    at: str | None,
    history: bool,
    effect: bool,
    stage: bool,
    as_json: bool,
) -> None:
    """Measure the health of memory, and advise on each weak metric.

    Six metrics from 0 to 100, each with a target: truth, recency, coverage, coherence and
    reachability 75, efficiency 30. A metric without enough facts is n/a. All metrics are computed
    from the files and the git history; nothing is stored. --json also has their weighted mean.

    --stage reads INTENT.md, at the root and in each directory of projects/, of HEAD or --at:
    `stage:`, a heading or its milestones. When a stage ends, `record` retires the task entries that
    belong to it. An unclear stage does not count as a change of stage.

    \b
    Example:
      memory-ci health
      memory-ci health --at v1.0
      memory-ci health --history
      memory-ci health --effect
      memory-ci health --stage
    """
    from memory_ci.api import Memory
    from memory_ci.commands.health.health import measure_history
    from memory_ci.commands.health.text import render_effect, render_health, render_history

    if stage:
        refuse_other_parameters(ctx, "stage", ("at", "as_json"))
        _show_stages(at or "HEAD", as_json)
        return
    if effect:
        refuse_other_parameters(ctx, "effect", ("as_json",))
        from memory_ci.commands.health.effect import measure_effect

        with progress("Comparing sessions"):
            report = measure_effect(open_current_workspace(), today())
        show(report, render_effect(report), as_json)
        return
    if at is not None and history:
        raise click.UsageError("--at looks at one moment, --history at many: choose one.")
    if history:
        with progress("Measuring the past"):
            past = measure_history(open_current_workspace(), today(), None, os.environ)
        show(past, render_history(past), as_json)
        return
    with progress("Measuring"):
        current_workspace = open_current_workspace()
        health = Memory(current_workspace, at).health()
        if at is None:
            health = _add_asked_again(current_workspace, health)
    show(health, render_health(health), as_json)


def _add_asked_again(current_workspace: Workspace, health: Health) -> Health:
    """Return health with the requests that people repeated, and the outcomes of entries' checks.

    Both are counted in the history of HEAD; without a commit, health is returned unchanged.
    """
    from memory_ci.commands.health.asked_again import count_asked_again
    from memory_ci.gitrepo.repo import find_commit
    from memory_ci.memory.check_outcomes import count_check_outcomes

    head = find_commit(current_workspace.repo, "HEAD")
    if head is None:
        return health
    snapshot = current_workspace.at(head)
    return replace(
        health,
        asked_again=count_asked_again(snapshot),
        checks=tuple(count_check_outcomes(snapshot, today())),
    )


def _show_stages(revision: str, as_json: bool) -> None:
    """Print the stage that each project of a revision is in, as its INTENT.md states it."""
    from memory_ci.commands.health.text import render_stage
    from memory_ci.memory.stage import list_stages
    from memory_ci.store.layout import INTENT_FILE

    current_workspace = open_current_workspace()
    stages = list_stages(current_workspace, revision)
    if not stages and not as_json:
        say(f"There is no {INTENT_FILE}, so there is no stage.", err=True)
    records = []
    for project_stage in stages:
        stated_stage = project_stage.stated  # None if INTENT.md is unclear now.
        last_stage = project_stage.known  # The last that was clear.
        records.append(
            {
                "project": project_stage.project,
                "path": project_stage.path,
                "line": stated_stage.line if stated_stage else None,
                "stage": last_stage.phase if last_stage else None,
                "since": last_stage.commit.sha if last_stage else None,
                "is_clear": stated_stage is not None,
            }
        )
    lines = [printable(render_stage(project_stage)) for project_stage in stages]
    show(records, lines, as_json)
