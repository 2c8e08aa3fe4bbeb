"""The repository and the machine that checks of `memory-ci doctor` look at, with shared helpers."""

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


class DoctorContext(msgspec.Struct, frozen=True, dict=True):
    """What a check of `memory-ci doctor` may look at: the repository and the machine.

    Attributes:
        workspace: the repository and its configuration.
        environ: the environment.
        now: the time.
        python: the interpreter that runs.
        is_online: checks may use the network.
    """

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
        """The commit that memory is recorded on: the tip of the default branch."""
        tips = read_tips(self.workspace.repo)
        is_on_default_branch = tips.branch and not tips.work_branch
        if tips.commit is None or is_on_default_branch:
            return self.head
        return tips.commit

    @cached_property
    def hooks(self) -> Path:
        """The directory that git runs hooks from."""
        return find_hooks(self.workspace.repo)

    @cached_property
    def files(self) -> tuple[TreeFile, ...]:
        """The memory and episode files of the work tree."""
        return list_indexed_files(self.workspace, None)


DoctorCheck = Callable[[DoctorContext], Iterable[Probe]]


def peek_text(path: Path) -> str:
    """Return the text of a file, "" if it is missing or cannot be read."""
    with suppress(OSError):
        return read_regular(path, MAX_FILE).decode("utf-8", "replace")
    return ""


def find_interpreter_fault(context: DoctorContext, python: str | None, *, may_run: bool) -> str:
    """Return why an interpreter cannot run memory-ci, "" if it can or none is named.

    Args:
        context: the repository and the machine.
        python: the interpreter.
        may_run: start it to see whether it has memory-ci, as git does anyway. An interpreter that
            a file of the work tree names is not started: such a file comes with a branch.
    """
    if python is None or python == context.python:
        return ""
    if shutil.which(python) is None:
        return f"calls {python}, which is not there any more"
    if not may_run:
        return ""
    command = [python, "-B", "-P", "-c", "import memory_ci"]
    try:
        subprocess.run(command, capture_output=True, timeout=IMPORT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return f"calls {python}, which has no memory-ci"
    return ""
