"""Safe access to files: reads of regular files only, atomic replacement, and locks."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

LOCKED_BYTE = 1 << 30
"""The byte to lock on Windows, where nobody else may read a locked byte; it is never written."""

MAX_LINK = 1 << 14
"""Bytes of a file `.git` that names a git directory elsewhere (gitrepository-layout(5))."""


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; a pipe or a device could block.

    Raises:
        OSError: it cannot be opened, or is a directory, a pipe, a socket or a device.
    """
    # Do not wait for the writer of a pipe; an opened terminal must not become ours.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    try:
        handle = os.open(path, flags)
    except ValueError as error:  # a NUL, or a surrogate
        raise OSError(errno.EINVAL, "no such name is possible", str(path)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def is_regular_or_absent(path: Path | str) -> bool:
    """Return whether a path does not exist or is a regular file, and no link, directory or pipe."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file for the block to write, and replace a file by it atomically.

    The temporary file is flushed to disk and renamed to `path`. If the block or the disk fails,
    `path` stays unchanged. In a repository the temporary file is below the git directory, so that
    it cannot be committed if the process is killed.

    Raises:
        OSError: `path` cannot be written.
    """
    import tempfile  # Not at the top: it takes 2 ms, and commands that only read do without it.

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
    """Return the directory for the temporary file that will be renamed into a directory.

    It is below the git directory, or else `target` itself: outside of a repository, or if the git
    directory is on another device, which a rename cannot cross.
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
    """Return the git directory of a path `.git`; None if the path does not lead to one.

    The path is the git directory itself, or, in a linked work tree and a submodule, a file with the
    path of the git directory.
    """
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
    """Lock an open file for this process until it is closed.

    Args:
        handle: the file descriptor.
        wait: wait until another process releases its lock.

    Returns:
        Whether the file is locked now.

    Raises:
        OSError: with `wait`, the file system cannot lock.
    """
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


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Lock a file for the block, after other processes have released their locks.

    A missing file is created, with its directory. It is not deleted afterwards.

    Raises:
        OSError: the file cannot be opened or locked, or is no regular file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"):
        flags |= getattr(os, name, 0)
    handle = os.open(path, flags, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if not lock_file(handle, wait=True):
            raise OSError(errno.EAGAIN, "is locked by another process", str(path))
        yield
    finally:
        os.close(handle)


def save_if_changed(path: Path, data: bytes) -> None:
    """Write a file of derived data into the git directory, unless it has that content already.

    Errors are ignored: the next run makes the data again.
    """
    with suppress(OSError):
        if read_regular(path, len(data)) == data:
            return
    with suppress(OSError), replacing(path) as temporary:
        temporary.write_bytes(data)


def read_regular(path: Path, limit: int) -> bytes:
    """Return all bytes of a regular file.

    Raises:
        OSError: it has more than `limit` bytes, or as `open_regular`.
    """
    with open_regular(path) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"is over the limit of {limit} bytes", str(path))
    return data
