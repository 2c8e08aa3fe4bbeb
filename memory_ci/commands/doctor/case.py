"""What every check of doctor is given, and what several of them ask."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path

import msgspec

from memory_ci.commands.doctor.records import Probe
from memory_ci.files import read_regular
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.gitrepo.repo import find_commit, find_hooks, read_tips
from memory_ci.memory.workspace import Workspace, list_indexed_files

MAX_FILE = 1_000_000  # bytes of a hook, a workflow or a settings file that are read
IMPORT_SECONDS = 20


class Surroundings(msgspec.Struct, frozen=True, dict=True):
    """A repository, the environment, the time, and the interpreter that runs. `is_online`: the network may be asked."""

    workspace: Workspace
    environ: Mapping[str, str]
    now: datetime
    python: str
    is_online: bool = False

    @cached_property
    def head(self) -> str | None:
        """The commit that is checked out."""
        return find_commit(self.workspace.repo, "HEAD")

    @cached_property
    def tip(self) -> str | None:
        """The commit that memory is recorded on: HEAD on the default branch, else the tip of that branch."""
        tips = read_tips(self.workspace.repo)
        return self.head if tips.commit is None or (tips.branch and not tips.work) else tips.commit

    @cached_property
    def hooks(self) -> Path:
        """Where git looks for hooks."""
        return find_hooks(self.workspace.repo)

    @cached_property
    def files(self) -> tuple[TreeFile, ...]:
        """The memory and episode files of the work tree."""
        return list_indexed_files(self.workspace, None)


DoctorCheck = Callable[[Surroundings], Iterable[Probe]]


def peek_text(path: Path) -> str:
    """The text of a file; empty where there is none, or none that may be read."""
    with suppress(OSError):
        return read_regular(path, MAX_FILE).decode("utf-8", "replace")
    return ""


def interpreter_fault(case: Surroundings, python: str | None, *, may_run: bool) -> str:
    """Why an interpreter cannot do its work, "" if it can or none is named.

    `may_run`: git starts it anyway, so it is asked whether it has memory-ci. What a file of the work tree names is not
    started: such a file comes with a branch.
    """
    if python is None or python == case.python:
        return ""
    if shutil.which(python) is None:
        return f"calls {python}, which is not there any more"
    if may_run:
        command = [python, "-B", "-P", "-c", "import memory_ci"]
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(command, capture_output=True, timeout=IMPORT_SECONDS, check=True)
            return ""
        return f"calls {python}, which has no memory-ci"
    return ""
