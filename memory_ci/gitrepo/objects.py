"""Read git objects from one long-running `git cat-file`: starting one per query costs more.

Where that process is unavailable (git before 2.36; Windows, where it would lock the directory) or
ends early, `ask_objects` returns None. The caller then starts a git of its own, which also reports
errors.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal, TypeVar, cast

import msgspec

from memory_ci.gitrepo.process import clean_environment, encode_path

Answer = TypeVar("Answer")
MAX_OPEN = 2  # Processes that stay open, for the newest repositories and environments.
MAX_BATCH = 4_096  # Bytes of queries that are sent at once: one page, the smallest pipe (pipe(7)).
LOCK = threading.Lock()


class ProcessKey(msgspec.Struct, frozen=True):
    """The git directory and environment that an open process was started for."""

    git_dir: str
    device: int
    inode: int
    environ: tuple[tuple[str, str], ...]


_processes: dict[ProcessKey, subprocess.Popen[bytes]] = {}


def ask_objects(
    git_dir: Path,
    command: Literal["info", "contents"],
    names: Sequence[str],
    read_answer: Callable[[IO[bytes]], Answer],
) -> list[Answer] | None:
    """Ask a `git cat-file --batch-command` about objects; it stays open for later calls.

    Args:
        git_dir: the git directory.
        command: the command for each name (git-cat-file(1)).
        names: names of objects.
        read_answer: reads one whole answer from the stream; raises EOFError if the stream has
            ended.

    Returns:
        One answer per name; None if git is unavailable or ends early.
    """
    if os.name == "nt" or any("\n" in name for name in names):
        return None
    with LOCK:
        environ = clean_environment({"GIT_DIR": str(git_dir)}, git_dir)
        try:
            status = git_dir.stat()
        except OSError:
            return None
        key = ProcessKey(str(git_dir), status.st_dev, status.st_ino, tuple(environ.items()))
        process = _processes.pop(key, None) or _start_process(git_dir, environ)
        if process is None:
            return None

        try:
            answers = _send_queries(process, command, names, read_answer)
        except (OSError, EOFError):
            _close_process(process)
            return None
        except BaseException:  # An unread answer would be taken for the answer to the next query.
            _close_process(process)
            raise

        _keep_open(key, process)
        return answers


def _keep_open(key: ProcessKey, process: subprocess.Popen[bytes]) -> None:
    """Keep a git process open for later calls; of too many, close the least recently used."""
    _processes[key] = process
    while len(_processes) > MAX_OPEN:
        oldest_key = next(iter(_processes))
        _close_process(_processes.pop(oldest_key))


def _start_process(git_dir: Path, environ: dict[str, str]) -> subprocess.Popen[bytes] | None:
    """Start a `git cat-file` that waits for queries; None if there is no git."""
    args = ("git", "-c", "core.warnAmbiguousRefs=false", "cat-file", "--batch-command")
    pipe = subprocess.PIPE
    with suppress(OSError):
        return subprocess.Popen(
            args, cwd=git_dir, env=environ, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )
    return None


def _send_queries(
    process: subprocess.Popen[bytes],
    command: str,
    names: Sequence[str],
    read_answer: Callable[[IO[bytes]], Answer],
) -> list[Answer]:
    """Send one query per name to `git cat-file`, and return its answers in the same order.

    The answers to a batch are read before the next is sent: with both pipes full, git and we would
    wait for each other for ever.

    Raises:
        OSError: git does not read any more.
        EOFError: git has ended.
    """
    queries = cast(IO[bytes], process.stdin)
    output = cast(IO[bytes], process.stdout)
    answers: list[Answer] = []
    for batch in _iter_batches(command, names):
        queries.write(b"".join(batch))
        queries.flush()
        for _ in batch:
            answers.append(read_answer(output))
    return answers


def _iter_batches(command: str, names: Sequence[str]) -> Iterator[list[bytes]]:
    """Yield lines `<command> <name>` in batches of at most MAX_BATCH bytes.

    A longer line is a batch of its own.
    """
    batch: list[bytes] = []
    size = 0
    for name in names:
        line = encode_path(f"{command} {name}\n")
        if batch and size + len(line) > MAX_BATCH:
            yield batch
            batch = []
            size = 0
        batch.append(line)
        size += len(line)
    yield batch


def _close_process(process: subprocess.Popen[bytes]) -> None:
    """End a process and close its pipes."""
    process.kill()  # A process that fetches a missing object would make us wait for its end.
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            cast(IO[bytes], pipe).close()
    process.wait()


@atexit.register
def close_all() -> None:
    """End the open processes."""
    while _processes:
        _, process = _processes.popitem()
        _close_process(process)
