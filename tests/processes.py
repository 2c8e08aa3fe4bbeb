"""Programs that go on in the background when whoever started them has ended: waited for, without a clock."""

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
"""prctl(2) of Linux: whoever has lost its parent becomes a child of this process, which can then wait for its end."""

CAN_ADOPT = sys.platform == "linux"


class Background:
    """What a block has started and left behind."""

    def __init__(self) -> None:
        self._before = set(_list_children())

    def list(self) -> list[int]:
        """Return the processes that run, whose parent has ended."""
        return [pid for pid in _list_children() if pid not in self._before]

    def wait(self, *, but_for: int | None = None) -> None:
        """Wait until all of them have ended, and what they started. Git processes that are kept are ended.

        Whoever ends hands its own children to us before we hear of its end. So when no child is left, nothing is.

        Args:
            but_for: a process that goes on.
        """
        close_all()
        while pids := [pid for pid in self.list() if pid != but_for]:
            for pid in pids:
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Background]:
    """Become the parent of what the test leaves running. All of it has ended before `tmp_path` is removed."""
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
