"""Background processes whose parent has ended: tests wait for their end without a clock."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from memory_ci.gitrepo.objects import close_all

PR_SET_CHILD_SUBREAPER = 36
"""prctl(2) of Linux: orphaned processes become children of this process, which can then wait for their end."""

CAN_ADOPT = sys.platform == "linux"


class Background:
    """The orphaned processes of a test."""

    def __init__(self) -> None:
        self._before = set(_list_children())

    def list(self) -> list[int]:
        """Return the ids of running processes whose parent has ended."""
        return [pid for pid in _list_children() if pid not in self._before]

    def wait(self, *, but_for: int | None = None) -> None:
        """Wait until all of them and their children have ended; end our own long-lived git processes first.

        A process that ends passes its children to this process before `waitpid` returns. So when no
        child is left, no process is.

        Args:
            but_for: the id of a process that is not waited for.
        """
        close_all()
        while pids := [pid for pid in self.list() if pid != but_for]:
            for pid in pids:
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Background]:
    """Adopt the background processes of a test, and wait for their end before `tmp_path` is removed."""
    close_all()
    background = Background()
    adopt(True)
    yield background
    background.wait()
    adopt(False)


def adopt(is_wanted: bool) -> None:
    if CAN_ADOPT:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(is_wanted), 0, 0, 0)


def _list_children() -> list[int]:
    """Return the ids of the child processes of this process."""
    children: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):  # it has ended meanwhile
            # proc(5): "pid (name) state ppid ..."; a name may hold spaces and parentheses.
            parent = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                children.append(int(entry.name))
    return children
