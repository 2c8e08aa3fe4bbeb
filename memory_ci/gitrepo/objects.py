"""Objects by name, from one git process that a run keeps: to start one for each question costs more than the answers.

Where it cannot be had (git before 2.36, Windows, where it would hold the directory) or breaks off, `ask_objects` says
so, and the caller starts a git of its own, which also says what is wrong.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal, NamedTuple, TypeVar, cast

from memory_ci.gitrepo.process import clean_environment, encode_path

T = TypeVar("T")
MAX_OPEN = 2  # Processes that are kept: of the newest repositories and environments.
MAX_SENT = 4_096  # Bytes of questions before the answers are read: what the smallest pipe holds, one page (pipe(7)).
LOCK = threading.Lock()


class Asked(NamedTuple):
    """What a kept process was started for: another directory or environment needs another process."""

    place: tuple[str, int, int]
    environ: tuple[tuple[str, str], ...]


_kept: dict[Asked, subprocess.Popen[bytes]] = {}


def ask_objects(
    git_dir: Path,
    command: Literal["info", "contents"],
    names: Sequence[str],
    read: Callable[[IO[bytes]], T],
) -> list[T] | None:
    """What `read` makes of the answer to each name (git-cat-file(1), --batch-command); None where git breaks off.
    `read` takes one whole answer from the stream, and raises EOFError where there is none."""
    if os.name == "nt" or any("\n" in name for name in names):
        return None
    with LOCK:
        environ = clean_environment({"GIT_DIR": str(git_dir)}, git_dir)
        try:
            at = git_dir.stat()
        except OSError:
            return None
        asked = Asked((str(git_dir), at.st_dev, at.st_ino), tuple(environ.items()))
        process = _kept.pop(asked, None) or _start(git_dir, environ)
        if process is None:
            return None
        try:
            stdin, stdout = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
            answers: list[T] = []
            for lines in _parts(command, names):
                stdin.write(b"".join(lines))
                stdin.flush()
                answers += [read(stdout) for _ in lines]
        except (OSError, EOFError):
            _close(process)
            return None
        except BaseException:  # what was not read would answer the next question
            _close(process)
            raise
        _kept[asked] = process
        while len(_kept) > MAX_OPEN:
            _close(_kept.pop(next(iter(_kept))))
        return answers


def _start(git_dir: Path, environ: dict[str, str]) -> subprocess.Popen[bytes] | None:
    asked, pipe = (
        ("git", "-c", "core.warnAmbiguousRefs=false", "cat-file", "--batch-command"),
        subprocess.PIPE,
    )
    with suppress(OSError):
        return subprocess.Popen(
            asked, cwd=git_dir, env=environ, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )
    return None


def _parts(command: str, names: Sequence[str]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for name in names:
        line = encode_path(f"{command} {name}\n")
        if part and size + len(line) > MAX_SENT:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    yield part


def _close(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # one that fetches what is missing here would end when it likes, and we with it
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            cast(IO[bytes], pipe).close()
    process.wait()


@atexit.register
def close_all() -> None:
    """End the processes that are kept."""
    while _kept:
        _close(_kept.popitem()[1])
