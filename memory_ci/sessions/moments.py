"""Lines of memory that are served at a moment of an agent's work, as before a commit or an edit.

A hook runs before every tool call, so it reads one small table in the git directory and neither
memory, a database nor git. The table is written when a session starts.
"""

import errno
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from memory_ci.files import hold_lock, read_regular, save_if_changed
from memory_ci.regex import Regex
from memory_ci.repetition.commands import CommandForm, list_forms

TABLE = "moments.json"
SERVED = "told"
"""The directory in `.git/memory-ci` of notes on which lines each session was served."""

RAN = "ran"
"""The directory in `.git/memory-ci` of notes on what each session ran since its last edit."""

RULES = "checks.json"
"""The checks of the default branch, in `.git/memory-ci`; `sessions.rule_table` reads it."""

MAX_TABLE = 500_000  # Bytes of the table that are read.
MAX_MOMENTS = 200  # Moments that are compared with what an agent does.
MAX_WHEN = 200  # Characters of a moment; comparing a longer pattern takes quadratic time.
MAX_NOTE = 10_000  # Bytes of a note on which lines a session was served.
MAX_SERVED = 3  # Lines that one session is served at moments of its work.
NOTE_WIDTH = 24  # Digits of the hash of a session that names its note.
NOTE = Regex(rf"[0-9a-f]{{{NOTE_WIDTH}}}")
ENTRY_ID = Regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
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

NAMING_COMMANDS = ("before:command", "after:failure")
"""Moments that name their command themselves."""


class Moment(NamedTuple):
    """A line that is served to an agent at a moment of its work.

    Attributes:
        id: the id of its entry, or the key of a request that is not agreed.
        when: the moment, as `records.entry.MOMENT`.
        line: the line.
    """

    id: str
    when: str
    line: str


class Point(NamedTuple):
    """An action of an agent, just before or just after it happens: a command or an edit.

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
    for directory in (start, *start.parents):
        if (directory / ".git").exists():
            return directory
    return start


def has_rules(common_dir: Path) -> bool:
    """Return whether the default branch has checks."""
    return (common_dir / "memory-ci" / RULES).is_file()


def load_moments(common_dir: Path) -> list[Moment]:
    """Return the lines in the table of a repository, none if it is missing or cannot be read."""
    with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
        rows = json.loads(read_regular(common_dir / "memory-ci" / TABLE, MAX_TABLE))
        return [_read_moment(row) for row in rows[:MAX_MOMENTS]]
    return []


def save_moments(common_dir: Path, moments: Iterable[Moment]) -> None:
    """Write the table of lines into the git directory, if it changes.

    Moments that are too long are left out, and lines beyond the limit.
    """
    short = [moment for moment in moments if len(moment.when) <= MAX_WHEN]
    rows = [moment._asdict() for moment in short[:MAX_MOMENTS]]
    data = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
    save_if_changed(common_dir / "memory-ci" / TABLE, data)


def _read_moment(row: Any) -> Moment:  # noqa: ANN401 - any JSON value
    """Return the line that a row of the table holds.

    Raises:
        TypeError, LookupError: it is no object with these texts.
        UnicodeEncodeError: a text holds a lone surrogate, which no file can hold.
    """
    moment = Moment(row["id"], row["when"], row["line"])
    "".join(moment).encode()  # raises for values that are no text
    return moment


def list_known_forms(moments: Iterable[Moment]) -> frozenset[str]:
    """Return the forms of the commands that are known to fail.

    >>> sorted(list_known_forms([Moment("1", "before:command gh pr diff --stat", "It fails")]))
    ['gh pr diff --stat']
    """
    forms = set()
    for moment in moments:
        name, _, form = moment.when.partition(" ")
        if name == "before:command":
            forms.add(form)
    return frozenset(forms)


def list_due(moments: Iterable[Moment], point: Point) -> list[Moment]:
    """Return the lines that are due at a point of an agent's work, in the order of the table.

    >>> moments = [Moment("1", "before:commit", "a"), Moment("2", "before:edit db/*.sql", "b")]
    >>> [moment.line for moment in list_due(moments, Point("git add . && git commit -m x"))]
    ['a']
    """
    runs = list_forms(point.command)
    return [moment for moment in moments if _is_due(moment.when, point, runs)]


def _is_due(when: str, point: Point, runs: Sequence[CommandForm]) -> bool:
    """Return whether a line of memory is to be served at this point of an agent's work.

    Args:
        when: the moment of the line, such as `before:commit` or `before:edit db/*.sql`.
        point: what the agent is about to do, or has just done.
        runs: the commands that it runs, parsed.
    """
    name, _, detail = when.partition(" ")
    if len(when) > MAX_WHEN:
        return False
    if name == "before:edit":
        return any(fnmatchcase(path, detail) for path in point.paths)
    if not runs or (name == "after:failure") != point.is_failure:
        return False
    forms = COMMANDS.get(name, ())
    if name in NAMING_COMMANDS:
        forms = tuple(list_forms(detail))
    return any(form.covers(run) for form in forms for run in runs)


def claim_due(common_dir: Path, session: str, due: Sequence[Moment]) -> list[Moment]:
    """Return the due lines that a session was not served yet, and record them as served.

    A session is served each line once, and at most `MAX_SERVED` lines. Hooks of one session run at
    the same time, so the record is locked. If it cannot be written, nothing is returned: the lines
    would be served again and again.
    """
    if not due:
        return []
    with suppress(OSError), hold_note(common_dir, session) as note:
        claimed_ids = read_regular(note, MAX_NOTE).decode("utf-8", "replace").splitlines()
        unclaimed = {moment.id: moment for moment in due if moment.id not in claimed_ids}
        free_count = max(0, MAX_SERVED - len(claimed_ids))
        claimed = list(unclaimed.values())[:free_count]
        _append(note, [moment.id for moment in claimed])
        return claimed
    return []


def mute(common_dir: Path, session: str) -> None:
    """Note that a session is served no line at any moment."""
    with suppress(OSError), hold_note(common_dir, session) as note:
        _append(note, ["-"] * MAX_SERVED)


def delete_notes(common_dir: Path, before: float) -> None:
    """Delete the notes on sessions that were last written before a time, in seconds since 1970."""
    for folder in (SERVED, RAN):
        with suppress(OSError):
            for note in _find_folder(common_dir, folder).iterdir():
                if NOTE.fullmatch(note.name) and note.lstat().st_mtime < before:
                    note.unlink()


@contextmanager
def hold_note(common_dir: Path, session: str, folder: str = SERVED) -> Iterator[Path]:
    """Lock the note of a session, which is created if it is missing, and yield its path.

    Args:
        common_dir: the git directory that all work trees share.
        session: the session.
        folder: the directory of the note, SERVED or RAN.

    Raises:
        OSError: it cannot be opened or locked, or is no regular file.
    """
    from memory_ci.digests import blake2b  # a hook with nothing to tell is spared it

    name = blake2b(session.encode("utf-8", "replace")).hexdigest()[:NOTE_WIDTH]
    path = _find_folder(common_dir, folder) / name
    with hold_lock(path):
        yield path


def _find_folder(common_dir: Path, name: str) -> Path:
    """Return a directory of notes.

    Raises:
        OSError: it is a link, which may lead to files of the person.
    """
    folder = common_dir / "memory-ci" / name
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "is a link", str(folder))
    return folder


def _append(note: Path, lines: Iterable[str]) -> None:
    with note.open("a", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def _follow(entry: Path) -> Path | None:
    """Return the git directory that work trees share, by the `.git` file of a linked work tree.

    The file is one line, `gitdir: PATH`.
    """
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
