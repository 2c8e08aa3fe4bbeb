"""memory-ci stage"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import echo_json, json_option, workspace
from memory_ci.rendering.table import printable

if TYPE_CHECKING:
    from memory_ci.flows.stage import ProjectStage


@click.command()
@click.option("--at", "view", metavar="REV", default="HEAD", show_default=True, help="Look at this revision.")
@json_option
def command(view: str, as_json: bool) -> None:
    """Print the stage each project is in.

    It is read from INTENT.md, at the root and in each directory of projects/: `stage:`, a heading or its milestones.
    When a stage ends, `record` retires the task entries that belong to it. A stage that is unclear is not a change.

    \b
    Example:
      memory-ci stage
      memory-ci stage --at v1.2 --json
    """
    from memory_ci.flows.stage import list_stages

    place = workspace()
    stages = list_stages(place, view)
    if as_json:
        echo_json([_summary(stage) for stage in stages])
    elif not stages:
        click.echo(f"There is no {place.config.stage.file}, so there is no stage.", err=True)
    for stage in stages if not as_json else ():
        click.echo(printable(_line(stage)))


def _line(stage: ProjectStage) -> str:
    point = stage.known
    known = f"{point.phase} since {point.commit.sha[:7]} ({point.commit.committed_at:%Y-%m-%d})" if point else ""
    if stage.stated is not None:
        return f"{stage.path}:{stage.stated.line}: {known}"
    return f"{stage.path}: states no stage clearly" + (f"; {known}, the last that it did" if known else "")


def _summary(stage: ProjectStage) -> dict[str, object]:
    return {
        "project": stage.project,
        "path": stage.path,
        "line": stage.stated.line if stage.stated else None,
        "stage": stage.known.phase if stage.known else None,
        "since": stage.known.commit.sha if stage.known else None,
        "is_clear": stage.stated is not None,
    }
