"""The journal of a move: the files of the work trees and their branch change together, also if the process is killed.

The files are written first and the branch moves last. A run that is killed in between has changed files and no commit:
nothing counts as done, whatever a person does next, and the next command takes the changes back. The journal stands in
the common git directory from before the first file is written until the branch has moved. The process that writes it
holds a lock on it, which ends with that process and the git processes that it has started: a journal that nobody has
locked is that of a killed run.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import BinaryIO

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.files import lock_file
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.checkouts import find_checkouts, sort_by_state, staged_in, write_files
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import JOURNAL, Repository, find_commit, is_ancestor

HELD = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
MAX_JOURNAL = 1 << 16  # bytes
OBJECT_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
BRANCH = re.compile(
    r"refs/heads/(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![./])"
)
"""The full name of a branch (git-check-ref-format(1))."""

PATIENCE = 10.0  # Seconds to wait for another run to move its branch; that takes a tenth of one.
PAUSE = 1.0  # Seconds that any command waits for a run that moves its branch, or for the git that is left of one.


class Move(msgspec.Struct, frozen=True):
    """A branch (a full name) goes from one commit to another, and before it the files where it is checked out."""

    ref: str
    old: str
    new: str


@contextmanager
def signals_held() -> Iterator[None]:
    """Signals that would end the process wait for the end of the block; those that are ignored stay so. A mask holds
    them from this thread and from the processes that it starts, a handler from all other threads."""
    came: list[int] = []

    def note(caught: int, frame: FrameType | None) -> None:
        came.append(caught)

    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in HELD} if is_main else {}
    held = {
        number: handler
        for number, handler in before.items()
        if handler not in (signal.SIG_IGN, None)
    }
    for number in held:
        signal.signal(number, note)
    mask = (
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        if hasattr(signal, "pthread_sigmask")
        else None
    )
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for caught in dict.fromkeys(came):
            signal.raise_signal(caught)


@contextmanager
def journaled(repo: Repository, move: Move) -> Iterator[int]:
    """Do the move in this block: first the files, then the branch.

    No signal ends the block in the middle. An error in it takes the files back; a kill leaves that to `undo_move`.

    Yields:
        The open file of the journal, for the git processes of the move to hold.

    Raises:
        RepositoryError: repository-busy, before the block.
        OSError: the journal cannot be written, before the block.
    """
    path = repo.common_dir / JOURNAL
    path.parent.mkdir(exist_ok=True)
    with signals_held(), _locked(path, PATIENCE, os.O_CREAT) as file:
        if file is None:
            message, hint = (
                "Another run is moving a branch of this repository",
                "Run again when it is done.",
            )
            raise RepositoryError(message, slug="repository-busy", hint=hint)
        if earlier := _read(file):
            _take_back(repo, earlier, file.fileno())
        _write(file, path, move)
        try:
            yield file.fileno()
        except BaseException:
            with suppress(OSError, RepositoryError):  # if not now, then the next command does it
                if not _take_back(repo, move, file.fileno()):
                    _clear(file, path)
            raise
        with suppress(OSError):  # the move is done: a journal that stays is found to be so
            _clear(file, path)


def find_unfinished(repo: Repository) -> Move | None:
    """The move of a run that was cut short, if there is one."""
    with suppress(OSError), _locked(repo.common_dir / JOURNAL) as file:
        return None if file is None else _read(file)
    return None


def undo_move(repo: Repository) -> tuple[Path, ...]:
    """Take back the files that a killed run wrote before its branch moved; return those that were changed since.

    Changed files keep the journal: they are named until they stand as in a commit. Where the branch did move, nothing
    is to be done. Nothing is raised: what cannot be done now is done another time.
    """
    path = repo.common_dir / JOURNAL
    with suppress(OSError, RepositoryError), signals_held(), _locked(path, PAUSE) as file:
        if file is None:
            return ()
        move = _read(file)
        changed = _take_back(repo, move, file.fileno()) if move else []
        if not changed:
            _clear(file, path)
        return tuple(changed)
    return ()


def _take_back(repo: Repository, move: Move, journal: int) -> list[Path]:
    """Let the files that stand as before or after the move stand as in HEAD, in each work tree.

    A person may have committed some of them since, or switched the branch: HEAD decides, not the branch of the move.

    Returns:
        The files in which something else stands, of work trees that are still where the move began.
    """
    if find_commit(repo, move.old) is None or find_commit(repo, move.new) is None:
        return []
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--end-of-options")
    listing = run_git(repo.cwd, *words, move.old, move.new)
    paths = frozenset(decode_path(listing).split("\0")[:-1])
    start, end = (staged_in(tree_at(repo, commit), paths) for commit in (move.old, move.new))
    changed: list[Path] = []
    for place in find_checkouts(repo):
        head = find_commit(place, "HEAD")
        if head is None or is_ancestor(repo, move.new, head):
            continue
        committed = staged_in(tree_at(repo, head), paths)
        behind, others = sort_by_state(place, committed, start, end)
        if behind:
            write_files(place, {path: committed[path] for path in behind}, journal)
        if head == move.old:
            changed += [place.cwd / path for path in others]
    return changed


@contextmanager
def _locked(path: Path, patience: float = 0.0, flags: int = 0) -> Iterator[BinaryIO | None]:
    """The open journal, locked; None where there is none, or another process or thread has it."""
    until = time.monotonic() + patience
    while True:
        try:
            file = _open(path, flags)
        except FileNotFoundError:
            yield None
            return
        with file:
            is_mine = lock_file(file.fileno())
            if is_mine and _stands(file, path):
                yield file
                return
        if not is_mine and time.monotonic() >= until:
            yield None
            return
        time.sleep(0.01)


def _open(path: Path, flags: int) -> BinaryIO:
    """Open the journal; whoever brought the repository may have put a link or a pipe there.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be opened, or is no regular file.
    """
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"):
        flags |= getattr(os, name, 0)
    file = os.fdopen(os.open(path, os.O_RDWR | flags, 0o666), "r+b")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def _stands(file: BinaryIO, path: Path) -> bool:
    """Whether the file that we have locked is the journal still: who had it before may have taken it away."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _clear(file: BinaryIO, path: Path) -> None:
    """Take the journal away; Windows removes no file that is open, and an empty one says the same."""
    try:
        path.unlink()
    except PermissionError:
        file.truncate(0)


def _write(file: BinaryIO, path: Path, move: Move) -> None:
    """Write the journal so that it outlasts a crash of the machine, too."""
    file.seek(0)
    file.truncate()
    file.write(b"\0".join(map(encode_path, (move.ref, move.old, move.new))))
    file.flush()
    os.fsync(file.fileno())
    with suppress(PermissionError):  # Windows opens no directory
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _read(file: BinaryIO) -> Move | None:
    """Return the move; None if the journal was not written whole (then the branch had not moved) or is not ours."""
    fields = decode_path(file.read(MAX_JOURNAL)).split("\0")
    if len(fields) < 3:
        return None
    move = Move(*fields[:3])
    # Whoever brought the repository may have written the file: only what a run of ours writes is believed.
    is_sound = (
        BRANCH.fullmatch(move.ref)
        and OBJECT_ID.fullmatch(move.old)
        and OBJECT_ID.fullmatch(move.new)
    )
    return move if is_sound else None
