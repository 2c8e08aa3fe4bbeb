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
SERVED_DIRECTORY = "told"
"""The directory in `.git/memory-ci` of notes on which lines each session was served."""

RUNS_DIRECTORY = "ran"
"""The directory in `.git/memory-ci` of notes on what each session ran since its last edit."""

RULES = "checks.json"
"""The checks of the default branch, in `.git/memory-ci`; `sessions.rule_table` reads it."""

MAX_TABLE = 500_000  # Bytes of the table that are read.
MAX_LINES = 200  # Moments that are compared with what an agent does.
MAX_WHEN = 200  # Characters of a moment; comparing a longer pattern takes quadratic time.
MAX_NOTE = 10_000  # Bytes of a note on which lines a session was served.
MAX_SERVED = 3  # Lines that one session is served at moments of its work.
NOTE_WIDTH = 24  # Digits of the hash of a session that names its note.
NOTE = Regex(rf"[0-9a-f]{{{NOTE_WIDTH}}}")
ENTRY_ID = Regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
"""The id of an entry, not the key of a request that is not agreed."""

FORMS_BY_MOMENT = {
    "before:commit": (CommandForm("git", ("commit",)),),
    "before:push": (CommandForm("git", ("push",)),),
    "before:pull-request": (
        CommandForm("gh", ("pr", "create")),
        CommandForm("glab", ("mr", "create")),
    ),
}
"""The commands that reach a moment which is named after its purpose."""

MOMENTS_WITH_COMMAND = ("before:command", "after:failure")
"""Moments that name their command behind a blank: `before:command gh pr diff`."""


class TimedLine(NamedTuple):
    """A line of memory that is served to an agent at a moment of its work.

    Attributes:
        id: the id of its entry, or the key of a request that is not agreed.
        when: the moment, such as `before:commit` (`records.entry.MOMENT`).
        line: the line.
    """

    id: str
    when: str
    line: str


class AgentAction(NamedTuple):
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
            return _read_shared_git_dir(entry)
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


def load_timed_lines(common_dir: Path) -> list[TimedLine]:
    """Return the lines in the table of a repository, none if it is missing or cannot be read."""
    with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
        rows = json.loads(read_regular(common_dir / "memory-ci" / TABLE, MAX_TABLE))
        return [_parse_line(row) for row in rows[:MAX_LINES]]
    return []


def save_timed_lines(common_dir: Path, timed_lines: Iterable[TimedLine]) -> None:
    """Write the table of lines into the git directory, if it changes.

    Lines with a moment that is too long are left out, and lines beyond the limit.
    """
    short = [timed_line for timed_line in timed_lines if len(timed_line.when) <= MAX_WHEN]
    rows = [timed_line._asdict() for timed_line in short[:MAX_LINES]]
    data = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
    save_if_changed(common_dir / "memory-ci" / TABLE, data)


def _parse_line(row: Any) -> TimedLine:  # noqa: ANN401 - any JSON value
    """Return the line of memory that a row of the table, a JSON object, holds.

    Raises:
        TypeError, LookupError: it is no object with these texts.
        UnicodeEncodeError: a text holds a lone surrogate, which no file can hold.
    """
    timed_line = TimedLine(row["id"], row["when"], row["line"])
    for text in timed_line:
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is no text")
        text.encode()  # raises for a lone surrogate
    return timed_line


def list_failing_commands(timed_lines: Iterable[TimedLine]) -> frozenset[str]:
    """Return the commands that are known to fail, for memory has a line to serve before them.

    Each has its program, its subcommands and the options that matter.

    >>> sorted(list_failing_commands([TimedLine("1", "before:command gh pr diff --stat", "Fails")]))
    ['gh pr diff --stat']
    """
    commands = set()
    for timed_line in timed_lines:
        name, _, command = timed_line.when.partition(" ")
        if name == "before:command":
            commands.add(command)
    return frozenset(commands)


def select_due_lines(timed_lines: Iterable[TimedLine], action: AgentAction) -> list[TimedLine]:
    """Return the lines whose moment an action of an agent reaches, in their order.

    >>> table = [TimedLine("1", "before:commit", "a"), TimedLine("2", "before:edit *.sql", "b")]
    >>> [due.line for due in select_due_lines(table, AgentAction("git add . && git commit -m x"))]
    ['a']
    """
    runs = list_forms(action.command)
    return [timed_line for timed_line in timed_lines if _is_due(timed_line.when, action, runs)]


def _is_due(when: str, action: AgentAction, runs: Sequence[CommandForm]) -> bool:
    """Return whether an action of an agent reaches the moment of a line of memory.

    Args:
        when: the moment, such as `before:commit` or `before:edit db/*.sql`.
        action: what the agent is about to do, or has just done.
        runs: the commands that it runs, parsed.
    """
    name, _, detail = when.partition(" ")
    if len(when) > MAX_WHEN:
        return False
    if name == "before:edit":
        return any(fnmatchcase(path, detail) for path in action.paths)
    is_for_failures = name == "after:failure"
    if not runs or is_for_failures != action.is_failure:
        return False
    if name in MOMENTS_WITH_COMMAND:
        forms = tuple(list_forms(detail))
    else:
        forms = FORMS_BY_MOMENT.get(name, ())
    return any(form.covers(run) for form in forms for run in runs)


def claim_due_lines(common_dir: Path, session: str, due: Sequence[TimedLine]) -> list[TimedLine]:
    """Return the due lines that a session was not served yet, and record them as served.

    A session is served each line once, and at most `MAX_SERVED` lines. Hooks of one session run at
    the same time, so the record is locked. If it cannot be written, nothing is returned: the lines
    would be served again and again.
    """
    if not due:
        return []
    with suppress(OSError), hold_note(common_dir, session) as note:
        served_ids = read_regular(note, MAX_NOTE).decode("utf-8", "replace").splitlines()
        new_lines = {
            timed_line.id: timed_line for timed_line in due if timed_line.id not in served_ids
        }
        free_count = max(0, MAX_SERVED - len(served_ids))
        claimed = list(new_lines.values())[:free_count]
        _append(note, [timed_line.id for timed_line in claimed])
        return claimed
    return []


def mute(common_dir: Path, session: str) -> None:
    """Note that a session is served no line at any moment."""
    with suppress(OSError), hold_note(common_dir, session) as note:
        _append(note, ["-"] * MAX_SERVED)


def delete_notes(common_dir: Path, before: float) -> None:
    """Delete the notes on sessions that were last written before a time, in seconds since 1970."""
    for folder in (SERVED_DIRECTORY, RUNS_DIRECTORY):
        with suppress(OSError):
            for note in _get_notes_directory(common_dir, folder).iterdir():
                if NOTE.fullmatch(note.name) and note.lstat().st_mtime < before:
                    note.unlink()


@contextmanager
def hold_note(common_dir: Path, session: str, folder: str = SERVED_DIRECTORY) -> Iterator[Path]:
    """Lock the note of a session, which is created if it is missing, and yield its path.

    Args:
        common_dir: the git directory that all work trees share.
        session: the session.
        folder: the directory of the note, SERVED_DIRECTORY or RUNS_DIRECTORY.

    Raises:
        OSError: it cannot be opened or locked, or is no regular file.
    """
    from memory_ci.digests import blake2b  # a hook with nothing to tell is spared it

    name = blake2b(session.encode("utf-8", "replace")).hexdigest()[:NOTE_WIDTH]
    path = _get_notes_directory(common_dir, folder) / name
    with hold_lock(path):
        yield path


def _get_notes_directory(common_dir: Path, name: str) -> Path:
    """Return the path of a directory of notes on sessions, which must not be a link.

    Raises:
        OSError: it is a link, which may lead to files of the person.
    """
    directory = common_dir / "memory-ci" / name
    if directory.is_symlink():
        raise OSError(errno.ELOOP, "is a link", str(directory))
    return directory


def _append(note: Path, lines: Iterable[str]) -> None:
    with note.open("a", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def _read_shared_git_dir(git_file: Path) -> Path | None:
    """Return the git directory that all work trees share, None if it cannot be found.

    Args:
        git_file: the file `.git` of a linked work tree, one line `gitdir: PATH`.
    """
    text = _read_line(git_file)
    if not text.startswith("gitdir: "):
        return None
    git_dir = git_file.parent / text.removeprefix("gitdir: ")
    common_dir = _read_line(git_dir / "commondir")
    return (git_dir / common_dir).resolve() if common_dir else git_dir


def _read_line(path: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text("utf-8").strip()
    return ""
