"""Choice of a transcript's reader by the file's content, and where agents keep their transcripts.

The name or label of a file never counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from memory_ci.errors import UsageError
from memory_ci.files import open_regular
from memory_ci.records.event import Session

READERS = (
    "digest",
    "neutral",
    "claude_code",
    "codex",
    "gemini",
    "copilot",
    "opencode",
    "cursor",
    "openhands",
    "git_ai",
    "specstory",
    "aider",
)
"""The modules of this folder that read a format, each with `sniff(head)` and `read(stream, name)`.

The first that recognises a file reads it: exact formats come before Markdown, which is guessed.
"""

GROUP = "memory_ci.transcripts"
"""Entry points of this group name a module or object of other packages with `sniff` and `read`."""

HEAD_BYTES = 65_536
SQLITE_MAGIC = b"SQLite format 3\0"
OPENCODE = ".local/share/opencode/opencode.db"  # The database of all sessions in a home.

MAX_FILE_BYTES = 200_000_000
"""Bytes of a file in a directory that may be a transcript; a file that is named has no limit."""


def read_transcript(
    path: Path, name: str | None = None, roots: Sequence[Path] = (), session_id: str = ""
) -> tuple[Session, ...]:
    """Return the agent sessions that a transcript holds; none if no reader knows its format.

    Args:
        path: the file.
        name: the path that the sessions get as theirs; the file's name by default.
        roots: work trees; of a database, only sessions made in these are read, and paths that
            Cursor wrote are made relative to them.
        session_id: an id; if not empty, only this session of a database is read.

    Raises:
        UsageError: transcript-unreadable.
    """
    try:
        with open_regular(path) as stream:
            if stream.read(len(SQLITE_MAGIC)) != SQLITE_MAGIC:
                stream.seek(0)
                return read_stream(stream, name or path.name, roots)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error

    # By its path, because sqlite also reads rows that are not yet in the file itself.
    from memory_ci.sources.transcripts.opencode import read_database

    return tuple(read_database(path, name or path.name, roots, session_id))


def is_database(path: Path) -> bool:
    """Return whether a file is an SQLite database, which holds sessions of several projects.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        return stream.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC


def read_stream(data: BinaryIO, name: str, roots: Sequence[Path] = ()) -> tuple[Session, ...]:
    """Return the sessions of a seekable stream; none if no reader knows its format.

    Args:
        data: the stream.
        name: the path that the sessions get.
        roots: work trees, for the readers that make paths relative to them.
    """
    head = data.read(HEAD_BYTES)
    for reader in _iter_readers():
        if not reader.sniff(head):
            continue
        data.seek(0)
        if getattr(reader, "TAKES_ROOTS", False):
            return tuple(reader.read(data, name, roots))
        return tuple(reader.read(data, name))
    return ()


def _iter_readers() -> Iterator[Any]:
    """Yield our reader modules, each imported when its turn comes, then readers of other packages.

    A reader module has the functions `sniff` and `read`. Installed packages name theirs by an entry
    point.
    """
    for name in READERS:
        yield import_module(f"memory_ci.sources.transcripts.{name}")
    # Imported here because it takes 8 ms, which most hooks do not need.
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        yield point.load()


def find_transcripts(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that may be transcripts: those named, and all in the directories named.

    In a directory, links are not followed, and git's own directory is left out.

    Raises:
        UsageError: transcript-unreadable.
    """
    for path in paths:
        if path.is_dir():
            yield from _walk(path)
        elif path.exists():
            yield path
        else:
            raise _unreadable(path, "no such file or directory")


def _walk(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory, in the order of their names, that are not too large."""
    for parent, folders, files in os.walk(directory):
        folders[:] = sorted(set(folders) - {".git"})
        for name in sorted(files):
            path = Path(parent, name)
            if not path.is_file() or path.is_symlink():
                continue
            if 0 < path.stat().st_size <= MAX_FILE_BYTES:
                yield path


def default_places(home: Path, project: Path) -> tuple[Path, ...]:
    """Return those of `usual_places` that exist."""
    return tuple(place for place in usual_places(home, project) if place.exists())


def usual_places(home: Path, project: Path) -> tuple[Path, ...]:
    """Return the paths where agents keep the sessions of a project, whether these exist or not.

    Claude Code names a directory after the project's path, with a hyphen for each character that is
    no letter or digit. Codex, Copilot and opencode keep all projects in one directory, Gemini CLI
    names one after a hash. Cursor keeps the sessions of sub-agents below their session.
    """
    escaped = re.sub(r"[^A-Za-z0-9]", "-", str(project))
    copilot = home / ".copilot" / "session-state"
    gemini = home / ".gemini" / "tmp"
    cursor = _cursor_directory(home, project)
    cursor_files = [*cursor.glob("*.txt"), *cursor.glob("*.jsonl"), *cursor.glob("*/*.jsonl")]
    return (
        home / ".claude" / "projects" / escaped,
        home / ".codex" / "sessions",
        *(sorted(copilot.glob("*/events.jsonl")) or [copilot / "*" / "events.jsonl"]),
        *(sorted(gemini.glob("*/chats")) or [gemini / "*" / "chats"]),
        home / OPENCODE,
        *(sorted(cursor_files) or [cursor / "*"]),
        project / ".specstory" / "history",
        project / ".aider.chat.history.md",
    )


def find_cursor_session(home: Path, project: Path, session: str) -> Path | None:
    """Return the transcript of one session of Cursor in a project, None if it is missing.

    Cursor's CLI keeps a file in the directory of the project, its IDE one in a directory below it.

    Args:
        home: the home of the user.
        project: the directory that Cursor works in.
        session: the id of the session, which must be the name of a file.
    """
    directory = _cursor_directory(home, project)
    places = (
        directory / f"{session}.jsonl",
        directory / session / f"{session}.jsonl",
        directory / f"{session}.txt",
    )
    return next((place for place in places if place.is_file()), None)


def _cursor_directory(home: Path, project: Path) -> Path:
    """Return the directory that Cursor names after a project's path: `/home/x` is `home-x`."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", str(project)).strip("-")
    return home / ".cursor" / "projects" / slug / "agent-transcripts"


def _unreadable(path: Path, reason: str) -> UsageError:
    hint = "Name a transcript, or a directory of transcripts."
    return UsageError(f"{path} cannot be read: {reason}", slug="transcript-unreadable", hint=hint)
