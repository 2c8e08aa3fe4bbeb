"""Files: read only where they are regular files, so that no pipe or device holds a run up; replaced whole; locked."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

LOCKED_BYTE = (
    1 << 30
)  # Windows locks bytes, and nobody else may read those: so one that is never written.

MAX_LINK = 1 << 14
"""Bytes of a file `.git` that names a git directory elsewhere (gitrepository-layout(5))."""


def open_regular(path: Path) -> BinaryIO:
    """The open file. Raises OSError: it cannot be opened, or is a directory, a pipe, a socket or a device."""
    try:
        # Not to wait for who writes into a pipe; a terminal that is opened must not become ours.
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
        )
    except ValueError as error:  # a NUL, or half a character
        raise OSError(errno.EINVAL, "no such name is possible", str(path)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def is_regular_or_absent(path: Path | str) -> bool:
    """Whether a path can be opened as a file: no link, directory, pipe or device stands there."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Replace a file whole: what the block writes to the temporary file is flushed to disk and renamed to `path`.

    Where the block or the disk fails, `path` is as it was. Inside of a repository the temporary file stands below the
    git directory, so that one that a kill leaves behind is never committed.

    Raises:
        OSError: `path` cannot be written.
    """
    import tempfile  # 2 ms that only writing costs

    path.parent.mkdir(parents=True, exist_ok=True)
    directory = _scratch_directory(Path(os.path.realpath(path.parent)))
    handle, name = tempfile.mkstemp(dir=directory, prefix=f".{path.name[:60]}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _scratch_directory(target: Path) -> Path:
    """Return where a temporary file for the directory `target` belongs: below its git directory, else in itself.

    Only a directory on the same device will do: a rename does not cross devices.
    """
    for directory in (target, *target.parents):
        git_dir = _find_git_directory(directory / ".git")
        if git_dir is None:
            continue
        scratch = git_dir / "memory-ci"
        try:
            scratch.mkdir(exist_ok=True)
            return scratch if scratch.stat().st_dev == target.stat().st_dev else target
        except OSError:
            return target
    return target


def _find_git_directory(path: Path) -> Path | None:
    """Return the git directory that `.git` is, or names as that of a linked work tree or a submodule."""
    try:
        text = read_regular(path, MAX_LINK).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError:
        git_dir = path
    else:
        git_dir = path.parent / text.removeprefix("gitdir:").strip()
    return git_dir if (git_dir / "HEAD").is_file() else None


def lock_file(handle: int, *, wait: bool = False) -> bool:
    """Lock an open file for this process until it is closed; whether that was done, at once or after the wait. With
    `wait`, raises OSError where the file system cannot lock."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
        mode = msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK  # type: ignore[attr-defined,unused-ignore]
        try:
            msvcrt.locking(handle, mode, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def read_regular(path: Path, limit: int) -> bytes:
    """All bytes of a file of at most `limit`. Raises OSError as `open_regular`, and for a larger file."""
    with open_regular(path) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"is over the limit of {limit} bytes", str(path))
    return data
