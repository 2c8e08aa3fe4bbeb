"""Functions for repositories with all native hooks installed."""

from __future__ import annotations

import sys
from pathlib import Path

from memory_ci.commands.setup.install import install
from memory_ci.memory.prewarm import warmed_path
from memory_ci.store.edits import format_entry
from tests.integration.git_in_background import run_git
from tests.make import make_entry
from tests.processes import Background
from tests.project import Project

NOTING = '#!/bin/sh\necho "${0##*/}" >>"$FIRED"\n'
"""An existing hook that writes its name to a file, so that a test sees which hooks git ran."""


def note(number: int) -> str:
    return format_entry(make_entry(number, title=f"Zebra {number}"))


def warmed(project: Project) -> str:
    return warmed_path(project.workspace).read_text().splitlines()[0]


def count_starts(
    project: Project, tmp_path: Path, background: Background, *commands: str
) -> list[str]:
    """Return the hook runs for which a Python interpreter was started."""
    started = tmp_path / "started"
    started.write_text("")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$5" >>{started}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    install(project.workspace, str(python))
    for command in commands:
        assert run_git(project.path, command).status == 0
        background.wait()
    return started.read_text().split()
