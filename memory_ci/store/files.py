"""Write and remove files of the work tree; a reader sees the old content or the new."""

from __future__ import annotations

import os
from pathlib import Path

from memory_ci.errors import RepositoryError
from memory_ci.files import replacing


def write_file(path: Path, data: bytes, root: Path | None = None) -> None:
    """Replace the content of a file atomically.

    A device or a pipe (`-o /dev/null`) is written to and not replaced.

    Args:
        path: the file.
        data: its whole content.
        root: the directory that the file must be in, outside of its `.git`, after symbolic
            links are resolved: a link on a branch must not lead out of it.

    Raises:
        RepositoryError: outside-repository or write-failed; the file is then unchanged.
    """
    if root is None:
        if path.exists() and not path.is_file() and not path.is_dir():
            _write_through(path, data)
            return
    elif not _is_inside(path.parent, root):
        message = f"{path} is outside of the repository"
        hint = "A symbolic link leads there: replace it by a directory."
        raise RepositoryError(message, slug="outside-repository", hint=hint)
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(data)
            temporary.chmod(_find_mode(path))
    except OSError as error:
        message = f"cannot write {path}: {error.strerror or error}"
        raise RepositoryError(message, slug="write-failed", hint="Nothing was changed.") from error


def _is_inside(directory: Path, root: Path) -> bool:
    """Return whether a directory is in `root` and outside of its `.git`, with links resolved."""
    real_directory = Path(os.path.realpath(directory))
    real_root = Path(os.path.realpath(root))
    if not real_directory.is_relative_to(real_root):
        return False
    return ".git" not in real_directory.relative_to(real_root).parts


def _find_mode(path: Path) -> int:
    """Return the permissions of a file, or those that a new one gets."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)  # The mask can only be read by setting it.
    os.umask(mask)
    return 0o666 & ~mask


def remove_file(path: Path) -> None:
    """Remove a file.

    Raises:
        RepositoryError: write-failed; the file is then unchanged.
    """
    try:
        path.unlink()
    except OSError as error:
        message = f"cannot remove {path}: {error.strerror or error}"
        hint = "Run again when the disk can be written."
        raise RepositoryError(message, slug="write-failed", hint=hint) from error


def _write_through(path: Path, data: bytes) -> None:
    """Write to a device or a pipe.

    It fails at once if nobody has opened the pipe for reading, but waits while somebody reads.

    Raises:
        RepositoryError: write-failed.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror or error}"
        raise RepositoryError(message, slug="write-failed") from error
