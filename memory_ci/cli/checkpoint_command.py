"""memory-ci checkpoint"""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import click

from memory_ci.cli.common import dry_run_option, echo_json, json_option, now, utf8, workspace
from memory_ci.records.episode import Assumption, State
from memory_ci.rendering.table import printable, printable_lines


@click.command()
@click.argument("assumption")
@click.option("--milestone", default="", help="Where the work stands: planning, half way, before review.")
@click.option("--state", type=click.Choice(get_args(State)), default="open", show_default=True, help="Whether it held.")
@click.option("--because", default="", help="What showed that it held or failed.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="Where the job's files are, if not here.",
)
@dry_run_option
@json_option
def command(
    assumption: str, milestone: str, state: State, because: str, directory: Path, dry_run: bool, as_json: bool
) -> None:
    """Note an assumption at a milestone, or what became of one.

    Adds one line to .assumptions.jsonl. Commit it with the work: when that is merged, `record` looks at which
    assumptions failed. In the session of an agent the line names it: its words are not quoted as a person's.

    \b
    Example:
      memory-ci checkpoint "The gateway answers within a second" --milestone planning
      memory-ci checkpoint "The gateway answers within a second" --state failed --because "it took eight"
    """
    from memory_ci.flows.inbox.job import append_assumption
    from memory_ci.flows.sessions.active_session import find_sessions

    said = Assumption(
        at=now(),
        assumption=utf8(assumption),
        state=state,
        milestone=utf8(milestone),
        because=utf8(because),
        by=next(iter(find_sessions(os.environ)), ""),
    )
    written = append_assumption(workspace(), directory, said, dry_run=dry_run)
    if as_json:
        echo_json(written)
    elif dry_run:
        click.echo(printable_lines(written.text), nl=False)
    else:
        click.echo(f"{'Added to' if written.is_new else 'Known already:'} {printable(written.path)}")
