"""Files of the work tree, written so that a reader sees the old text or the new, never half of one."""

from __future__ import annotations

import os
from pathlib import Path

from memory_ci.errors import RepositoryError
from memory_ci.files import replacing


def write_file(path: Path, data: bytes, root: Path | None = None) -> None:
    """Write a file so that it is replaced whole or stays as it was.

    A device or a pipe (`-o /dev/null`) is written to and stays what it is.

    Args:
        path: the file.
        data: its whole content.
        root: write only inside of this directory and outside of its `.git`, symbolic links resolved: a link that came
            with a branch leads nobody out.

    Raises:
        RepositoryError: outside-repository or write-failed; the file is then as it was.
    """
    real, top = (
        Path(os.path.realpath(directory)) for directory in (path.parent, root or path.parent)
    )
    if root is not None and (not real.is_relative_to(top) or ".git" in real.relative_to(top).parts):
        hint = "A symbolic link leads there: replace it by a directory."
        raise RepositoryError(
            f"{path} is outside of the repository", slug="outside-repository", hint=hint
        )
    if root is None and path.exists() and not path.is_file() and not path.is_dir():
        _write_through(path, data)
        return
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(data)
            os.umask(mask := os.umask(0))  # it can only be read by setting it
            temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror or error}"
        raise RepositoryError(message, slug="write-failed", hint="Nothing was changed.") from error


def remove_file(path: Path) -> None:
    """Remove a file.

    Raises:
        RepositoryError: write-failed; the file is then as it was.
    """
    try:
        path.unlink()
    except OSError as error:
        message = f"cannot remove {path}: {error.strerror or error}"
        raise RepositoryError(
            message, slug="write-failed", hint="Run again when the disk can be written."
        ) from error


def _write_through(path: Path, data: bytes) -> None:
    """Not waiting for a reader that a pipe may never have; once there is one, for as long as it reads."""
    try:
        handle = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        os.set_blocking(handle, True)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
    except OSError as error:
        raise RepositoryError(
            f"cannot write {path}: {error.strerror or error}", slug="write-failed"
        ) from error
