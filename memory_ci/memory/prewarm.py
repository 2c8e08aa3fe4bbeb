"""Update of the search index in the background after git moved the work tree ("pre-warming").

One process does it at a time. At its end it writes the file `warmed`, from which the shims in
`hooks/` see whether memory has changed since.
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
from memory_ci.memory.index import prepare_queries
from memory_ci.memory.workspace import Workspace, index_path, open_workspace
from memory_ci.store.files import write_file
from memory_ci.store.layout import EPISODES, memory_pathspecs

MAX_SECONDS = 60
"""Time after which a background run is ended; the next retrieval completes its work."""

MAX_ROUNDS = 5
"""Number of times that a run repeats while HEAD moves, as in a rebase."""

MAX_HANDLES = 1024


def detach_process(seconds: int = MAX_SECONDS) -> None:
    """Detach this process from its terminal and its open files, and end it after `seconds`.

    Open files are closed because they may be locks of the script that started this process.

    The alarm signal ends the process at once, by its default effect. Python would call a handler
    only after the C function that it is in returns, and SQLite may wait for a lock there. A git
    process that was started by this one then writes to a closed pipe, which ends it as well.
    """
    if not hasattr(os, "setsid"):  # Windows has neither such terminals nor this alarm
        return
    with suppress(PermissionError):  # it leads its group already, as in a shell with job control
        os.setsid()
    os.closerange(3, MAX_HANDLES)  # all but standard input, output and error
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.alarm(seconds)


def prewarm(start: Path) -> bool:
    """Update the index to the work tree around `start`, unless another process is updating it.

    The update is repeated while HEAD moves, so the other process also covers a commit that was
    checked out in the meantime. Changes after its last look at HEAD, and those in other work trees
    of the clone, are left to the next retrieval. Objects that a partial clone lacks are not
    fetched, and a removed repository is not created again.

    Returns:
        Whether this process updated the index.

    Raises:
        RepositoryError: not-a-repository, write-failed.
        UsageError: bad-config.
        OSError: the lock cannot be opened.
    """
    workspace = open_workspace(start)
    with try_lock(index_path(workspace).with_name("prewarm.lock")) as has_lock:
        if not has_lock:
            return False
        for _ in range(MAX_ROUNDS):
            before = find_commit(workspace.repo, "HEAD")
            _update_index(workspace, before or "")
            if find_commit(workspace.repo, "HEAD") == before:
                break
            workspace = open_workspace(start)  # the commit may have another configuration
    return True


def warmed_path(workspace: Workspace) -> Path:
    """Return the path of the file that describes the last build of the index.

    Its lines are the commit, and then the pathspecs of the files that the index covers.
    """
    return index_path(workspace).parent / "warmed"


def _update_index(workspace: Workspace, commit: str) -> None:
    """Update the index, and note in the file `warmed` the commit and the files that it covers."""
    report = prepare_queries(workspace, None)
    if report.path != str(index_path(workspace)):
        return  # the index was built in memory: another process has it, or it cannot be written
    pathspecs = (*memory_pathspecs(workspace.config.scopes), EPISODES, CONFIG_FILE)
    data = encode_path("".join(f"{line}\n" for line in (commit, *pathspecs)))
    path = warmed_path(workspace)
    if not index_path(workspace).is_file():
        return  # the repository was removed meanwhile, and is not created again
    if not path.is_file() or path.read_bytes() != data:
        write_file(path, data)


@contextmanager
def try_lock(lock: Path) -> Iterator[bool]:
    """Take a lock without waiting, and yield whether this process has it now.

    The operating system releases the lock when the process ends. While it is taken, the file holds
    the id of the process: the shell scripts in `hooks/`, which git runs, start no Python process
    for the index while that process lives.

    Args:
        lock: the path of the lock file.
    """
    lock.parent.mkdir(exist_ok=True)  # but no directory above it
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        has_lock = lock_file(handle)
        if has_lock:
            _overwrite_lock_file(handle, f"{os.getpid()}\n")
        yield has_lock
        if has_lock:
            _overwrite_lock_file(handle, "")
    finally:
        os.close(handle)


def _overwrite_lock_file(handle: int, text: str) -> None:
    """Replace the content of the lock file."""
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, text.encode())
