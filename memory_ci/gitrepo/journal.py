"""Move a branch and change the files of its work trees together, also if the process is killed.

A journal of the move makes that possible. The files are written first and the branch moves last. A
run that is killed in between has changed files and no commit: nothing counts as done, whatever a
person does next, and the next command restores the files. The journal is in the common git
directory from before the first file is written until the branch has moved. The process that writes
it holds a lock on it, which ends with that process and the git processes that it has started. Thus
an unlocked journal was left by a killed run.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.files import lock_file
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.checkouts import (
    find_checkouts,
    find_differing_files,
    read_staged_files,
    write_files,
)
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import JOURNAL, Repository, find_commit, is_ancestor
from memory_ci.regex import Regex

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
Handler = Callable[[int, FrameType | None], Any] | int | None  # Of a signal.
MAX_JOURNAL = 1 << 16  # Bytes.
# The id of an object by SHA-1 or SHA-256.
OBJECT_ID = Regex("[0-9a-f]{40}|[0-9a-f]{64}")
BRANCH = Regex(
    r"refs/heads/(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![./])"
)
"""The full name of a branch (git-check-ref-format(1))."""

MAX_MOVE_WAIT = 10.0
"""Seconds that a move waits for the move of another run, which takes a tenth of a second."""

MAX_UNDO_WAIT = 1.0
"""Seconds that any other command waits for a running move, or for the last git of a killed one."""


class Move(msgspec.Struct, frozen=True):
    """The move of a branch (a full name) from one commit to another.

    The files change before it in the work trees where the branch is checked out.
    """

    ref: str
    old_commit: str
    new_commit: str


@contextmanager
def signals_held() -> Iterator[None]:
    """Delay signals that would end the process (Ctrl-C, for example) until the end of the block.

    Signals that the process ignores stay ignored. A mask delays them for this thread and the
    processes that it starts, a handler for all other threads.
    """
    received: list[int] = []

    def note_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    replaced_handlers: dict[int, Handler] = {}
    if threading.current_thread() is threading.main_thread():  # No other may set handlers.
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if handler not in (signal.SIG_IGN, None):
                replaced_handlers[number] = handler
                signal.signal(number, note_signal)
    old_mask = None
    if hasattr(signal, "pthread_sigmask"):
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    try:
        yield
    finally:
        for number, handler in replaced_handlers.items():
            signal.signal(number, handler)
        if old_mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        for number in dict.fromkeys(received):
            signal.raise_signal(number)


@contextmanager
def journaled(repo: Repository, move: Move) -> Iterator[int]:
    """Keep a journal while the block does the move: it writes the files, then moves the branch.

    The journal is a file that names the move. While it exists, the files may be those of a commit
    to which the branch has not moved. No signal ends the block in the middle. After an error in it
    the files are restored here; if the process is killed, the next command restores them, by
    `undo_move`.

    Yields:
        The open file of the journal, for the git processes of the move to share.

    Raises:
        RepositoryError: repository-busy, before the block.
        OSError: the journal cannot be written, before the block.
    """
    path = repo.common_dir / JOURNAL
    path.parent.mkdir(exist_ok=True)
    with signals_held(), _open_locked(path, MAX_MOVE_WAIT, os.O_CREAT) as file:
        if file is None:
            message = "Another run is moving a branch of this repository"
            hint = "Run again when it is done."
            raise RepositoryError(message, slug="repository-busy", hint=hint)

        earlier_move = _read_journal(file)
        if earlier_move:
            _restore_files(repo, earlier_move, file.fileno())
        _write_journal(file, path, move)
        try:
            yield file.fileno()
        except BaseException:
            # If this fails, the journal stays, and the next command restores the files.
            with suppress(OSError, RepositoryError):
                if not _restore_files(repo, move, file.fileno()):
                    _clear_journal(file, path)
            raise
        # If this fails, the journal stays, and `undo_move` finds that the branch has moved.
        with suppress(OSError):
            _clear_journal(file, path)


def find_unfinished(repo: Repository) -> Move | None:
    """Return the move of a killed run, if there is one."""
    with suppress(OSError), _open_locked(repo.common_dir / JOURNAL) as file:
        return None if file is None else _read_journal(file)
    return None


def undo_move(repo: Repository) -> tuple[Path, ...]:
    """Restore the files that a killed run wrote before its branch moved.

    `_restore_files` restores the content of HEAD, so it changes nothing if the branch did move. No
    error is raised: if it fails, the journal stays, and a later call tries again.

    Returns:
        The files that a person changed since, which are not restored. The journal stays until
        their content is committed, so that they are named until then.
    """
    path = repo.common_dir / JOURNAL
    with (
        suppress(OSError, RepositoryError),
        signals_held(),
        _open_locked(path, MAX_UNDO_WAIT) as file,
    ):
        if file is None:
            return ()
        move = _read_journal(file)
        changed_paths = _restore_files(repo, move, file.fileno()) if move else []
        if not changed_paths:
            _clear_journal(file, path)
        return tuple(changed_paths)
    return ()


def _restore_files(repo: Repository, move: Move, journal_fd: int) -> list[Path]:
    """Restore the content of HEAD to files that a killed move may have written, in each work tree.

    Only files with the content before or after the move are restored; others a person has changed.
    A person may have committed some of them since, or switched the branch: HEAD decides, not the
    branch of the move.

    Args:
        repo: the repository.
        move: the move.
        journal_fd: the file descriptor of the open journal.

    Returns:
        The files that a person has changed, of work trees that are still where the move began.
    """
    if find_commit(repo, move.old_commit) is None or find_commit(repo, move.new_commit) is None:
        return []
    args = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--end-of-options")
    listing = run_git(repo.cwd, *args, move.old_commit, move.new_commit)
    paths = frozenset(decode_path(listing).split("\0")[:-1])
    before = read_staged_files(tree_at(repo, move.old_commit), paths)
    after = read_staged_files(tree_at(repo, move.new_commit), paths)

    changed_paths: list[Path] = []
    for worktree in find_checkouts(repo):
        head = find_commit(worktree, "HEAD")
        if head is None or is_ancestor(repo, move.new_commit, head):
            continue
        committed = read_staged_files(tree_at(repo, head), paths)
        differing = find_differing_files(worktree, committed, before, after)
        if differing.known_paths:
            restored = {path: committed[path] for path in differing.known_paths}
            write_files(worktree, restored, journal_fd)
        if head == move.old_commit:
            changed_paths += [worktree.cwd / path for path in differing.unknown_paths]
    return changed_paths


@contextmanager
def _open_locked(path: Path, patience: float = 0.0, flags: int = 0) -> Iterator[BinaryIO | None]:
    """Lock the journal for the block; yield the open file, None if it is missing or locked.

    Args:
        path: the journal.
        patience: seconds to wait for the process or thread that has locked it.
        flags: additional flags to open the file with.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            file = _open_journal(path, flags)
        except FileNotFoundError:
            yield None
            return
        with file:
            is_locked = lock_file(file.fileno())
            if is_locked and _is_current(file, path):
                yield file
                return
        if not is_locked and time.monotonic() >= deadline:
            yield None
            return
        time.sleep(0.01)


def _open_journal(path: Path, flags: int) -> BinaryIO:
    """Open the journal if it is a regular file.

    The repository may have come with a link or a pipe in its place.

    Raises:
        FileNotFoundError: the journal is missing.
        OSError: it cannot be opened, or is no regular file.
    """
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"):
        flags |= getattr(os, name, 0)
    file = os.fdopen(os.open(path, os.O_RDWR | flags, 0o666), "r+b")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def _is_current(file: BinaryIO, path: Path) -> bool:
    """Return whether the locked file is still the journal: its last owner may have deleted it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _clear_journal(file: BinaryIO, path: Path) -> None:
    """Delete the journal; empty it on Windows, which deletes no open file."""
    try:
        path.unlink()
    except PermissionError:
        file.truncate(0)


def _write_journal(file: BinaryIO, path: Path, move: Move) -> None:
    """Write the journal so that it outlasts a crash of the machine, too."""
    file.seek(0)
    file.truncate()
    file.write(b"\0".join(map(encode_path, (move.ref, move.old_commit, move.new_commit))))
    file.flush()
    os.fsync(file.fileno())
    with suppress(PermissionError):  # Windows opens no directory.
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _read_journal(file: BinaryIO) -> Move | None:
    """Read the move from the journal.

    None if the journal was not written whole (then the branch had not moved), or was not written
    by memory-ci.
    """
    fields = decode_path(file.read(MAX_JOURNAL)).split("\0")
    if len(fields) < 3:
        return None
    move = Move(*fields[:3])
    # The repository may have come with this file: only records as written by our runs are valid.
    is_valid = (
        BRANCH.fullmatch(move.ref)
        and OBJECT_ID.fullmatch(move.old_commit)
        and OBJECT_ID.fullmatch(move.new_commit)
    )
    return move if is_valid else None
