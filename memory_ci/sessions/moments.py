"""What is due at a moment of an agent's work: before a command or an edit, after a failure.

A hook runs before every tool call, so it reads one small table in the git directory and neither
memory, a database nor git. The table is written when a session starts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import msgspec

from memory_ci.files import read_regular
from memory_ci.repetition.commands import CommandForm, list_forms
from memory_ci.store.files import write_file

TABLE = "moments.json"
TOLD = "told"
"""The directory of what each session was told, in `.git/memory-ci`."""

MAX_TABLE = 200_000  # Bytes of the table that are read.
MAX_TOLD = 3  # Lines that one session is told at such moments.
ENTRY_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
"""The id of an entry, not the key of a request that is not agreed."""

COMMANDS = {
    "before:commit": (CommandForm("git", ("commit",)),),
    "before:push": (CommandForm("git", ("push",)),),
    "before:pull-request": (
        CommandForm("gh", ("pr", "create")),
        CommandForm("glab", ("mr", "create")),
    ),
}
"""The commands of moments that have a name."""


class Moment(msgspec.Struct, frozen=True):
    """A line that is due at a moment.

    Attributes:
        id: the id of its entry, or the key of a request that is not agreed.
        when: the moment, as `records.entry.MOMENT`.
        line: the line.
    """

    id: str
    when: str
    line: str


class Point(NamedTuple):
    """Where an agent is in its work.

    Attributes:
        command: the command line that it runs, "" for none.
        paths: the files that it edits, relative to the repository.
        is_failure: whether the command has just failed.
    """

    command: str = ""
    paths: tuple[str, ...] = ()
    is_failure: bool = False


def find_common_dir(start: Path) -> Path | None:
    """Return the git directory that all work trees of a repository share, without running git.

    Args:
        start: a directory in a work tree.
    """
    for directory in (start, *start.parents):
        entry = directory / ".git"
        if entry.is_dir():
            return entry
        if entry.is_file():
            return _follow(entry)
    return None


def find_root(start: Path) -> Path:
    """Return the top of the work tree around a directory, the directory itself without one."""
    directories = (start, *start.parents)
    return next((directory for directory in directories if (directory / ".git").exists()), start)


def load_moments(common_dir: Path) -> list[Moment]:
    """Return the lines of the table; none if it is missing or cannot be read."""
    with suppress(OSError, ValueError, msgspec.DecodeError, msgspec.ValidationError):
        data = read_regular(common_dir / "memory-ci" / TABLE, MAX_TABLE)
        return msgspec.json.decode(data, type=list[Moment])
    return []


def save_moments(common_dir: Path, moments: Iterable[Moment]) -> None:
    """Write the table, if it changes; without it nothing is due."""
    data = msgspec.json.encode(list(moments))
    path = common_dir / "memory-ci" / TABLE
    with suppress(OSError):
        if not path.is_file() or path.read_bytes() != data:
            write_file(path, data)


def list_due(moments: Iterable[Moment], point: Point) -> list[Moment]:
    """Return the lines that are due at a point of an agent's work, in the order of the table."""
    return [moment for moment in moments if is_due(moment.when, point)]


def is_due(when: str, point: Point) -> bool:
    """Return whether a moment has come.

    >>> is_due("before:commit", Point(command="git add . && git commit -m x"))
    True
    >>> is_due("before:edit db/*.sql", Point(paths=("db/seeds.sql",)))
    True
    """
    name, _, detail = when.partition(" ")
    if name == "before:edit":
        return any(fnmatchcase(path, detail) for path in point.paths)
    if not point.command or (name == "after:failure") != point.is_failure:
        return False
    forms = COMMANDS.get(name) or tuple(list_forms(detail))
    return any(_covers(form, run) for form in forms for run in list_forms(point.command))


def claim_due(common_dir: Path, session: str, due: Sequence[Moment]) -> list[Moment]:
    """Return the lines that a session was not told yet, and note that it is told them.

    Each comes once a session, and three in all. Hooks of one session run at the same time, so
    lines are only appended.
    """
    path = _told_path(common_dir, session)
    told: list[str] = []
    with suppress(OSError):
        told = path.read_text("utf-8").splitlines()
    new = [moment for moment in due if moment.id not in told][: max(0, MAX_TOLD - len(told))]
    if new:
        _append(path, [moment.id for moment in new])
    return new


def mute(common_dir: Path, session: str) -> None:
    """Make a session be told nothing at any moment."""
    _append(_told_path(common_dir, session), ["-"] * MAX_TOLD)


def forget_told(common_dir: Path, before: float) -> None:
    """Remove the notes of sessions that ended before a time, in seconds since 1970."""
    with suppress(OSError):
        for note in (common_dir / "memory-ci" / TOLD).iterdir():
            if note.stat().st_mtime < before:
                note.unlink()


def _told_path(common_dir: Path, session: str) -> Path:
    name = hashlib.sha256(session.encode()).hexdigest()[:24]
    return common_dir / "memory-ci" / TOLD / name


def _append(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def _covers(form: CommandForm, run: CommandForm) -> bool:
    """Return whether a command has the program, the subcommands and the options of a form."""
    is_same = run.program == form.program
    is_same = is_same and run.subcommands[: len(form.subcommands)] == form.subcommands
    return is_same and set(form.options) <= set(run.options)


def _follow(entry: Path) -> Path | None:
    """Return the shared directory that a `.git` file of a linked work tree leads to."""
    text = _read_line(entry)
    if not text.startswith("gitdir: "):
        return None
    git_dir = entry.parent / text.removeprefix("gitdir: ")
    common = _read_line(git_dir / "commondir")
    return (git_dir / common).resolve() if common else git_dir


def _read_line(path: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text("utf-8").strip()
    return ""
