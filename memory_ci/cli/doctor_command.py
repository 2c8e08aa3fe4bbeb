"""memory-ci doctor"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from memory_ci.cli.common import echo_json, json_option, now


@click.command()
@click.option("--online", is_flag=True, help="Also ask the forge and the embedder whether they answer.")
@json_option
def command(online: bool, as_json: bool) -> None:
    """Say what is set up here, what works, and what to do about the rest.

    Nothing is written, and without --online nobody is asked over the network. A fake key and an injection are planted
    in a scratch repository, and must be refused. Exit status: 0 all is well, 1 something to do, 2 something is broken.

    \b
    Example:
      memory-ci doctor
    """
    from memory_ci.flows.doctor.doctor import diagnose
    from memory_ci.rendering.health import render_diagnosis

    diagnosis = diagnose(Path.cwd(), os.environ, now(), sys.executable, is_online=online)
    if as_json:
        echo_json(diagnosis)
    else:
        click.echo(render_diagnosis(diagnosis), nl=False)
    raise SystemExit(diagnosis.exit_status)
