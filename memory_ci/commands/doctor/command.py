"""The command line of `memory-ci doctor`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from memory_ci.cli.common import flag, json_option, show
from memory_ci.cli.plain import now, progress


@click.command("doctor")
@flag("--online", help="Also test whether the forge and the embedder answer.")
@flag("--privacy", help="Print which data leaves this machine, to whom, and since when.")
@json_option
def doctor_command(online: bool, privacy: bool, as_json: bool) -> None:
    """Check the set-up of memory here, and print what to do about each fault.

    Nothing is written, and without --online the network is not used. A fake key and an injection
    are put into a scratch repository, and must be refused. With --privacy only data that leaves
    this machine is reported: to the model, the embedder, remotes and agents. Exit status: 0 all is
    well, 1 something is to do, 2 something is broken.

    \b
    Example:
      memory-ci doctor
      memory-ci doctor --privacy
    """
    from memory_ci.commands.doctor.doctor import CHECKS, diagnose
    from memory_ci.commands.doctor.machine import PRIVACY_CHECKS
    from memory_ci.commands.doctor.text import render_diagnosis

    with progress("Looking"):
        diagnosis = diagnose(
            Path.cwd(),
            os.environ,
            now(),
            sys.executable,
            is_online=online,
            checks=PRIVACY_CHECKS if privacy else CHECKS,
        )
    show(diagnosis, render_diagnosis(diagnosis), as_json)
    raise SystemExit(diagnosis.exit_status)
