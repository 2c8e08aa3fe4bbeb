"""What a session was given: lines in the git directory, so that nothing comes twice before it changed.

One file for each session. Lines are only appended, for hooks of one session run at the same time. A line is a
fingerprint of what was given, CLEARED where the agent forgot it (compaction), HELD_OUT, or a `Sign` as JSON.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.files import lock_file, read_regular
from memory_ci.gitrepo.repo import find_repository
from memory_ci.memory.workspace import Workspace, repository_path
from memory_ci.records.config import Config
from memory_ci.records.retrieval import Hit, Norm, Retrieval, SimilarTask

Given = Hit | Norm | SimilarTask | str
"""What a session is given; str: a line of hints, or the path of a file of which it was told all that is known."""

CLEARED = "-"
HELD_OUT = "held-out"  # The session is given nothing, so that it can be compared with others (`retrieve.holdout`).
MAX_BYTES = 1 << 20  # Some 60,000 lines; what is longer is not one session's.
DAYS_KEPT = 30
LIVE = timedelta(hours=8)
"""How long after its last prompt a session that did not say that it ended may still be at work."""


class Sign(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt of a session, whether a person steers by it, and how many notes there were; files that it edited; ids of
    entries that it was given; or its end. `branch` is what HEAD stood for (a full name, or a commit), `head` the commit
    that it was at."""

    agent: str
    session: str
    at: datetime
    transcript: str = ""
    notes: int = 0
    steers: bool = False
    branch: str = ""
    head: str = ""
    edited: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    is_over: bool = False

    @property
    def is_prompt(self) -> bool:
        return not (self.edited or self.given or self.is_over)

    @property
    def key(self) -> str:
        """`<agent>:<id>`, as the `Memory-Session:` trailer names it."""
        return f"{self.agent}:{self.session}"


def list_given(workspace: Workspace, session: str) -> frozenset[str]:
    """The fingerprints of what a session was given since its context was last cleared."""
    lines = _read(note_path(workspace, session))
    cleared = len(lines) - lines[::-1].index(CLEARED) if CLEARED in lines else 0
    return frozenset(lines[cleared:])


def list_untold(bare: Workspace, session: str, files: Iterable[Path]) -> list[Path]:
    """The files that a session was not told of."""
    given = list_given(bare, session)
    return [file for file in files if fingerprint(repository_path(bare, file)) not in given]


def bare_workspace(start: Path) -> Workspace:
    """The repository around `start` without its configuration, which the note of a session does not need."""
    return Workspace(find_repository(start), Config())


def read_head(workspace: Workspace) -> str:
    """What HEAD stands for: the full name of a branch, or a commit. No git is asked: an edit waits for it."""
    with suppress(OSError):
        return (
            (workspace.repo.git_dir / "HEAD")
            .read_text("utf-8", "replace")
            .strip()
            .removeprefix("ref: ")
        )
    return ""


def note_given(
    workspace: Workspace, session: str, answer: Retrieval, now: datetime, about: str | None = None
) -> None:
    """Note what an answer gives to a session, and the file it is about. Raises RepositoryError (write-failed)."""
    if answer.held_out:
        _append(workspace, session, {HELD_OUT} - list_given(workspace, session), now)
        return
    entries = (*answer.norms, *answer.hits, *answer.organisation)
    hints = (*answer.hints.changes, *answer.hints.habits, *([about] if about is not None else ()))
    _append(workspace, session, map(fingerprint, (*entries, *hints)), now)


def note_cleared(workspace: Workspace, session: str, now: datetime) -> None:
    """Note that a session has lost what it was given. Raises RepositoryError (write-failed)."""
    if note_path(workspace, session).exists():
        _append(workspace, session, [CLEARED], now)


def claim(workspace: Workspace, session: str, event: str, now: datetime) -> bool:
    """Whether this is the first of the hooks that are run for one event of a session. Raises RepositoryError."""
    mark = _hash("event", event)
    _append(workspace, session, [own := f"{mark}:{os.urandom(6).hex()}"], now)
    lines = _read(note_path(workspace, session))
    return next((line for line in lines if line.startswith(mark)), own) == own


@contextmanager
def alone(workspace: Workspace) -> Iterator[None]:
    """Meanwhile no other hook of this work tree gives memory: of hooks that an agent runs at once each would give all.
    Where a directory cannot be locked, nothing waits."""
    handle = None
    try:
        with suppress(OSError):
            handle = os.open(workspace.repo.git_dir, os.O_RDONLY)
            lock_file(handle, wait=True)  # until this process ends, at the latest
        yield
    finally:
        if handle is not None:
            os.close(handle)


def note_sign(workspace: Workspace, sign: Sign) -> None:
    """Note that a session lives, or ended; of one that did very much its prompts alone. Raises RepositoryError
    (write-failed)."""
    with suppress(OSError):
        if (sign.edited or sign.given) and note_path(
            workspace, sign.session
        ).stat().st_size > MAX_BYTES // 2:
            return
    _append(workspace, sign.session, [msgspec.json.encode(sign).decode()], sign.at)


def note_end(workspace: Workspace, agent: str, session: str, now: datetime) -> None:
    """Note that a session is over. Raises RepositoryError (write-failed)."""
    if note_path(workspace, session).exists():
        note_sign(workspace, Sign(agent=agent, session=session, at=now, is_over=True))


def list_signs(workspace: Workspace, session: str) -> list[Sign]:
    """The signs of life of a session, the first first."""
    return _parse_signs(note_path(workspace, session))


def list_recent(workspace: Workspace, now: datetime) -> list[list[Sign]]:
    """The signs of each session of this work tree that gave one within the last hours."""
    told = map(_parse_signs, sorted(note_path(workspace, "").parent.glob("*")))
    return [signs for signs in told if signs and now - LIVE <= signs[-1].at]


def list_live(workspace: Workspace, now: datetime) -> list[Sign]:
    """The last sign of each session of this work tree that is at work, with the transcript that was told last."""
    live = [signs for signs in list_recent(workspace, now) if not signs[-1].is_over]
    told = (
        next((sign.transcript for sign in reversed(signs) if sign.transcript), "") for signs in live
    )
    return [
        replace(signs[-1], transcript=transcript)
        for signs, transcript in zip(live, told, strict=True)
    ]


def list_heard(workspace: Workspace) -> dict[str, datetime]:
    """By agent, when a session of this work tree last gave a sign; notes are kept for DAYS_KEPT days."""
    signs = (
        sign for path in note_path(workspace, "").parent.glob("*") for sign in _parse_signs(path)
    )
    return {sign.agent: sign.at for sign in sorted(signs, key=lambda sign: sign.at)}


def _parse_signs(path: Path) -> list[Sign]:
    signs = []
    for line in _read(path):
        if line.startswith("{"):
            with suppress(msgspec.DecodeError):
                signs.append(msgspec.json.decode(line, type=Sign))
    return signs


def _read(path: Path) -> list[str]:
    try:
        return read_regular(path, MAX_BYTES).decode("utf-8", "replace").split("\n")[:-1]
    except OSError:
        return []


def fingerprint(given: Given) -> str:
    """Of a norm's text; of an entry's and of what became of the code that it cites; of a task; of a file's path."""
    if isinstance(given, str):
        return _hash("text", given)
    if isinstance(given, SimilarTask):
        return _hash("task", given.task.label, given.task.outcome)
    if isinstance(given, Norm):
        return _hash(given.entry_id or given.path, given.text)
    entry, kinds = (
        given.located.entry,
        sorted(f"{verdict.kind} {verdict.path}" for verdict in given.verdicts),
    )
    return _hash(
        entry.id,
        entry.title,
        entry.body,
        entry.adoption or "",
        entry.instead or "",
        entry.status,
        *kinds,
    )


def mark_session(session: str) -> str:
    """The mark of a session, by which it is held out or not and which tells nothing else of it: `a:ID` is as `ID`."""
    name = session.rpartition(":")[2].encode("utf-8", "replace")
    return hashlib.blake2b(name, digest_size=8, person=b"memory-ci-arm").hexdigest()


def is_held_out(mark: str, share: float) -> bool:
    """Whether the session of a mark is in that share of all: its digits as a number in [0, 1) are below it."""
    return int(mark, 16) / 2**64 < share


def note_path(workspace: Workspace, session: str) -> Path:
    """The note of a session, in the git directory of this work tree; its name tells nothing of the session's."""
    return workspace.repo.git_dir / "memory-ci" / "given" / _hash(session)


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _append(workspace: Workspace, session: str, lines: Iterable[str], now: datetime) -> None:
    data, path = "".join(f"{line}\n" for line in lines).encode(), note_path(workspace, session)
    if not data:
        return
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            oldest = now.timestamp() - DAYS_KEPT * 86_400
            for other in path.parent.iterdir():
                with suppress(OSError):
                    if other.stat().st_mtime < oldest:
                        other.unlink()
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(handle, data)  # in one piece, whatever other hooks write
        finally:
            os.close(handle)
    except OSError as error:
        raise RepositoryError(
            f"cannot write {path}: {error.strerror}", slug="write-failed"
        ) from error
