"""The command line of `memory-ci doctor`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from memory_ci.cli.common import flag, json_option, show
from memory_ci.cli.plain import now, progress


@click.command("doctor")
@flag("--online", help="Also ask the forge and the embedder whether they answer.")
@flag("--privacy", help="Say what leaves this machine, where to, and since when.")
@json_option
def doctor_command(online: bool, privacy: bool, as_json: bool) -> None:
    """Say what is set up here, what works, and what to do about the rest.

    Nothing is written, and without --online nobody is asked over the network. A fake key and an
    injection are planted in a scratch repository, and must be refused. Exit status: 0 all is well,
    1 something to do, 2 something is broken. With --privacy only what leaves this machine is looked
    at: the model, the embedder, pushed sessions, memory, agents.

    \b
    Example:
      memory-ci doctor
      memory-ci doctor --privacy
    """
    from memory_ci.commands.doctor.doctor import CHECKS, diagnose
    from memory_ci.commands.doctor.machine import PRIVACY
    from memory_ci.commands.doctor.text import render_diagnosis

    with progress("Looking"):
        diagnosis = diagnose(
            Path.cwd(),
            os.environ,
            now(),
            sys.executable,
            is_online=online,
            checks=PRIVACY if privacy else CHECKS,
        )
    show(diagnosis, render_diagnosis(diagnosis), as_json)
    raise SystemExit(diagnosis.exit_status)
