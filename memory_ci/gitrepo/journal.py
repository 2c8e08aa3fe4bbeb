"""The journal of a move: a branch and the files of its work trees go on together, also if the process is ended between.

It stands in the common git directory from before the branch moves until the files have followed. Who writes it holds a
lock on it, which ends with the process and the git that it has started: a journal that nobody holds is that of a run
that was cut short.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import BinaryIO, NamedTuple

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.files import lock_file
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.checkouts import bring_along, find_checkouts, sort_by_state, staged_in
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import JOURNAL, Repository, find_commit, is_ancestor

HELD = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
MAX_JOURNAL = 1 << 16  # bytes
OBJECT_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
BRANCH = re.compile(r"refs/heads/(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![./])")
"""The full name of a branch (git-check-ref-format(1))."""

PATIENCE = 10.0  # Seconds to wait for another run to move its branch; that takes a tenth of one.
PAUSE = 1.0  # Seconds that any command waits for a run that moves its branch, or for the git that is left of one.


class Move(msgspec.Struct, frozen=True):
    """A branch (a full name) goes from one commit to another, and with it the files where it is checked out."""

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
    held = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in held:
        signal.signal(number, note)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, HELD) if hasattr(signal, "pthread_sigmask") else None
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
    """Do the move in this block. No signal ends it in the middle; what else might is mended by `finish_move`.

    Gives the open file of the journal, for the git processes of the move to hold.
    Raises RepositoryError (repository-busy) and OSError, both before the block.
    """
    path = repo.common_dir / JOURNAL
    path.parent.mkdir(exist_ok=True)
    with signals_held(), _locked(path, PATIENCE, os.O_CREAT) as file:
        if file is None:
            message, hint = "Another run is moving a branch of this repository", "Run again when it is done."
            raise RepositoryError(message, slug="repository-busy", hint=hint)
        _finish(repo, file)
        _write(file, path, move)
        try:
            yield file.fileno()
        except BaseException as error:
            if getattr(error, "slug", "") != "checkout-behind":  # the files may follow yet
                _clear(file, path)
            raise
        with suppress(OSError):  # the move is done: a journal that stays is found to be so
            _clear(file, path)


def find_unfinished(repo: Repository) -> Move | None:
    """The move of a run that was cut short, if there is one."""
    with suppress(OSError), _locked(repo.common_dir / JOURNAL) as file:
        return None if file is None else _read(file)
    return None


class LeftFile(NamedTuple):
    """A file that a run which was cut short could not bring along."""

    path: str
    is_undone: bool
    """A later commit took out what the run wrote: the file is staged again as the run left it, for a person to commit.
    Otherwise it was changed since and left alone."""


def finish_move(repo: Repository) -> tuple[LeftFile, ...]:
    """Bring the files along of a run that was cut short, where they stand as before; return what needs a person.

    Changed files keep the journal: they are named until they stand as in a commit. Where the branch did not move, or
    went elsewhere, nothing is to be done. Nothing is raised: what cannot be done now is done another time.
    """
    path = repo.common_dir / JOURNAL
    with suppress(OSError, RepositoryError), signals_held(), _locked(path, PAUSE) as file:
        if file is None:
            return ()
        left = _finish(repo, file)
        if all(one.is_undone for one in left):
            _clear(file, path)
        return left
    return ()


def _finish(repo: Repository, file: BinaryIO) -> tuple[LeftFile, ...]:
    move = _read(file)
    return tuple(_follow(repo, move, file.fileno())) if move else ()


def _follow(repo: Repository, move: Move, journal: int) -> Iterator[LeftFile]:
    """Bring along what stands as before the move; yield what does not, and what a later commit took out."""
    tip = find_commit(repo, move.ref)
    if tip is None or find_commit(repo, move.new) is None or not is_ancestor(repo, move.new, tip):
        return
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--end-of-options")
    listing = run_git(repo.cwd, *words, move.old, move.new)
    paths = frozenset(decode_path(listing).split("\0")[:-1])
    old, new, now = (staged_in(tree_at(repo, commit), paths) for commit in (move.old, move.new, tip))
    # Who committed the files as they stood has undone the run unawares.
    undone = {path for path in paths if now[path] == old[path]}
    wanted = {path: new[path] if path in undone else now[path] for path in paths}
    for place in find_checkouts(repo, move.ref):
        behind, changed = sort_by_state(place, old, wanted)
        if behind:
            bring_along(place, {path: wanted[path] for path in behind}, journal)
        yield from (LeftFile(str(place.cwd / path), is_undone=False) for path in changed)
        yield from (LeftFile(str(place.cwd / path), is_undone=True) for path in behind if path in undone)


@contextmanager
def _locked(path: Path, patience: float = 0.0, flags: int = 0) -> Iterator[BinaryIO | None]:
    """The open journal, locked; None where there is none, or another process or thread has it."""
    until = time.monotonic() + patience
    while True:
        try:
            file = os.fdopen(os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | flags, 0o666), "r+b")
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
    is_sound = BRANCH.fullmatch(move.ref) and OBJECT_ID.fullmatch(move.old) and OBJECT_ID.fullmatch(move.new)
    return move if is_sound else None
