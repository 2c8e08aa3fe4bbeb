"""Pre-warming: the index brought up to the work tree after git moved it, so that the next retrieval is quick.

One process at a time. At its end it writes what the shims in `hooks/` read to see whether memory has changed since.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memory_ci.config import CONFIG_FILE
from memory_ci.files import lock_file
from memory_ci.gitrepo.process import encode_path
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.index import build_index
from memory_ci.memory.workspace import Workspace, index_path, open_workspace
from memory_ci.store.files import write_file
from memory_ci.store.layout import EPISODES, memory_pathspecs

SECONDS = 60  # after which a run in the background ends, whatever it is at; the next retrieval does what is left
ROUNDS = 5  # a run goes on while HEAD moves under it, as in a rebase, at most so many times
MAX_HANDLES = 1024


def detach(seconds: int = SECONDS) -> None:
    """Let go of who started us: of the terminal, of files held open such as a lock of a script; end after `seconds`.

    The signal has its default effect, for a handler of Python's would wait for SQLite. A git that is then left alone
    finds its pipes closed and ends by itself.
    """
    if not hasattr(os, "setsid"):  # Windows has neither terminals to let go of nor this alarm
        return
    with suppress(
        PermissionError
    ):  # the first of its group already, as in a shell with job control
        os.setsid()
    os.closerange(3, MAX_HANDLES)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.alarm(seconds)


def prewarm(start: Path) -> bool:
    """Bring the index up to the work tree around `start`; whether we did, and not another process that is at it.

    Who comes while another works goes at once: that one looks again where HEAD is before it ends. What slips through
    between its last look and its end, and what another work tree of the clone wants, the next retrieval makes good.
    Nobody is asked over the network for what a partial clone lacks, and a repository that is removed stays removed.

    Raises RepositoryError: not-a-repository, write-failed; UsageError (bad-config); OSError.
    """
    workspace = open_workspace(start)
    with alone(index_path(workspace).with_name("prewarm.lock")) as is_alone:
        for _ in range(ROUNDS if is_alone else 0):
            before = find_commit(workspace.repo, "HEAD")
            _warm(workspace, before or "")
            if find_commit(workspace.repo, "HEAD") == before:
                break
            workspace = open_workspace(start)  # the commit may have another configuration
    return is_alone


def warmed_path(workspace: Workspace) -> Path:
    """What the index was last built for: the commit, then the pathspecs of what it covers, each on a line."""
    return index_path(workspace).parent / "warmed"


def _warm(workspace: Workspace, commit: str) -> None:
    report = build_index(workspace, None)
    if report.path != str(index_path(workspace)):
        return  # another process holds the index, or it cannot be written: it was built in memory, for nobody
    specs = (*memory_pathspecs(workspace.config.scopes), EPISODES, CONFIG_FILE)
    text = encode_path("".join(f"{line}\n" for line in (commit, *specs)))
    path = warmed_path(workspace)
    is_here = index_path(
        workspace
    ).is_file()  # a repository that was removed meanwhile is not begun again
    if is_here and (not path.is_file() or path.read_bytes() != text):
        write_file(path, text)


@contextmanager
def alone(lock: Path) -> Iterator[bool]:
    """Whether no other process is inside; the lock goes with the process, so that none is ever left behind. Meanwhile
    it holds our number: the shims start no Python while that process lives."""
    lock.parent.mkdir(exist_ok=True)  # and no directory above it
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        is_alone = lock_file(handle)
        if is_alone:
            _say(handle, f"{os.getpid()}\n")
        yield is_alone
        if is_alone:
            _say(handle, "")
    finally:
        os.close(handle)


def _say(handle: int, text: str) -> None:
    """Make this all that the file of the lock holds."""
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, text.encode())
