"""Functions that run git commands, and pause runs in the background."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from memory_ci.commands.setup.install import install
from tests.project import Project


class Done(NamedTuple):
    """The result of a git command: exit status and output."""

    status: int
    printed: str


def run_git(place: Path, command: str, **options: object) -> Done:
    """Run a git command and return its result."""
    completed = subprocess.run(
        ["git", *command.split()],
        cwd=place,
        capture_output=True,
        check=False,
        **options,  # type: ignore[call-overload] # named by the test
    )
    return Done(completed.returncode, (completed.stdout + completed.stderr).decode())


PAUSING = """#!{python}
import os, sys
if "sync" not in sys.argv:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
with open({started!r}, "a") as log:
    log.write("sync\\n")
from memory_ci.memory import prewarm
from memory_ci.search import database
connect = database.connect

def pause(*args):
    database.connect = connect
    connection = connect(*args)
    with open({ready!r}, "w") as ready:
        ready.write(str(os.getpid()))
    with open({go!r}) as go:
        go.read()
    return connection

database.connect = pause
prewarm.detach_process.__defaults__ = (3600,)
sys.argv = ["memory-ci", *sys.argv[4:]]
from memory_ci.__main__ import main
main()
"""
"""A Python that pauses the first background run at the index: one named pipe reports it, another continues it."""


class Paused(NamedTuple):
    """A run that is paused; `await_run` returns its process id once it is paused."""

    started: Path
    ready: Path
    go: Path

    def await_run(self) -> int:
        return int(self.ready.read_text())

    def count_starts(self) -> int:
        return len(self.started.read_text().split())


@contextmanager
def pausing(project: Project, tmp_path: Path) -> Iterator[Paused]:
    """Pause the next background run at the index until the end of the block."""
    paused = Paused(*(tmp_path / name for name in Paused._fields))
    os.mkfifo(paused.ready)
    os.mkfifo(paused.go)
    names = {name: str(path) for name, path in paused._asdict().items()}
    python = tmp_path / "python"
    python.write_text(PAUSING.format(python=sys.executable, **names))
    python.chmod(0o755)
    install(project.workspace, str(python))
    try:
        yield paused
    finally:
        paused.go.write_text("")
