"""Files of the work tree, written so that a reader sees the old text or the new, never half of one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from memory_ci.errors import RepositoryError


def write_file(path: Path, data: bytes, root: Path | None = None) -> None:
    """Write to a temporary file beside the target, flush it to disk, then rename it into place. With `root`, only where
    that is inside of it and outside of its `.git`, symbolic links resolved: a link that came with a branch leads nobody
    out. A device or a pipe (`-o /dev/null`) is written to and stays what it is. Raises RepositoryError
    (outside-repository, write-failed); the target is then as it was."""
    real, top = (Path(os.path.realpath(one)) for one in (path.parent, root or path.parent))
    if root is not None and (not real.is_relative_to(top) or ".git" in real.relative_to(top).parts):
        hint = "A symbolic link leads there: replace it by a directory."
        raise RepositoryError(f"{path} is outside of the repository", slug="outside-repository", hint=hint)
    if root is None and path.exists() and not path.is_file() and not path.is_dir():
        _write_through(path, data)
        return
    import tempfile  # 2 ms that only writing costs

    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.umask(mask := os.umask(0))  # it can only be read by setting it
        Path(temporary).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
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
        raise RepositoryError(message, slug="write-failed", hint="Run again when the disk can be written.") from error


def _write_through(path: Path, data: bytes) -> None:
    """Not waiting for a reader that a pipe may never have; once there is one, for as long as it reads."""
    try:
        handle = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        os.set_blocking(handle, True)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
    except OSError as error:
        raise RepositoryError(f"cannot write {path}: {error.strerror or error}", slug="write-failed") from error
