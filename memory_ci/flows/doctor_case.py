"""What every check of doctor is given, and what several of them ask."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from memory_ci.files import read_regular
from memory_ci.flows.workspace import Workspace
from memory_ci.gitrepo.merges import find_default_branch
from memory_ci.gitrepo.repo import find_commit, head_branch
from memory_ci.records.doctor import Probe

MAX_FILE = 1_000_000
"""Bytes of a hook, a workflow or a settings file that are read."""

IMPORT_SECONDS = 20


class Case(msgspec.Struct, frozen=True):
    """A repository, the environment, the time, and the interpreter that runs. `is_online`: the network may be asked."""

    workspace: Workspace
    environ: Mapping[str, str]
    now: datetime
    python: str
    is_online: bool = False


Check = Callable[[Case], Iterable[Probe]]


def find_tip(case: Case) -> str | None:
    """The commit that memory is recorded on: HEAD where it is on the default branch, else the tip of that branch."""
    repo = case.workspace.repo
    ref = find_default_branch(repo)
    name = (ref or "").removeprefix("refs/remotes/origin/").removeprefix("refs/heads/")
    if ref is None or head_branch(repo) == f"refs/heads/{name}":
        ref = "HEAD"
    return find_commit(repo, ref)


def peek_text(path: Path) -> str:
    """The text of a file; empty where there is none, or none that may be read."""
    with suppress(OSError):
        return read_regular(path, MAX_FILE).decode("utf-8", "replace")
    return ""


def interpreter_fault(case: Case, python: str | None, *, may_run: bool) -> str:
    """Why an interpreter cannot do its work, "" if it can or none is named.

    `may_run`: git starts it anyway, so it is asked whether it has memory-ci. What a file of the work tree names is not
    started: such a file comes with a branch.
    """
    if python is None or python == case.python:
        return ""
    if shutil.which(python) is None:
        return f"calls {python}, which is not there any more"
    if may_run and not _has_memory_ci(python):
        return f"calls {python}, which has no memory-ci"
    return ""


def _has_memory_ci(python: str) -> bool:
    try:
        done = subprocess.run(
            [python, "-B", "-P", "-c", "import memory_ci"], capture_output=True, timeout=IMPORT_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
