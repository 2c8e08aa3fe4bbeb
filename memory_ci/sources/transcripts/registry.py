"""Which reader knows a file: asked of its content, never of its name or label; and where agents keep their sessions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, BinaryIO

from memory_ci.errors import UsageError
from memory_ci.files import open_regular
from memory_ci.records.event import Session

READERS = """
    digest neutral claude_code codex gemini copilot opencode cursor openhands git_ai specstory aider
""".split()
"""The modules of this folder that read a format, each with `sniff(head)` and `read(stream, name)`.

The first that knows a file reads it: exact formats stand before Markdown, which is guessed.
"""

# The group of entry points under which a package names a module or object with `sniff` and `read`.
GROUP = "memory_ci.transcripts"
HEAD_BYTES = 65_536
DATABASE = b"SQLite format 3\0"
OPENCODE = ".local/share/opencode/opencode.db"  # Where opencode keeps all sessions in a home.
MAX_FILE_BYTES = 200_000_000  # A larger file in a directory is no transcript; one that is named is read all the same.


def read_transcript(
    path: Path, name: str | None = None, roots: Sequence[Path] = (), own: str = ""
) -> tuple[Session, ...]:
    """The sessions of a file; none if no reader knows it. `name` is what they say they were read from.

    Of a database those made in `roots` alone, and the one called `own`, where named; files that Cursor names are
    named from these roots.
    Raises UsageError transcript-unreadable.
    """
    try:
        with open_regular(path) as stream:
            if stream.read(len(DATABASE)) != DATABASE:
                stream.seek(0)
                return read_stream(stream, name or path.name, roots)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    from memory_ci.sources.transcripts.opencode import (
        read_database,
    )  # What is not yet in the file itself counts, too.

    return tuple(read_database(path, name or path.name, roots, own))


def is_database(path: Path) -> bool:
    """Whether a regular file holds sessions of several projects as a database. Raises OSError."""
    with path.open("rb") as stream:
        return stream.read(len(DATABASE)) == DATABASE


def read_stream(data: BinaryIO, name: str, roots: Sequence[Path] = ()) -> tuple[Session, ...]:
    """The sessions of a stream that can be read again from its start; none if no reader knows it."""
    head = data.read(HEAD_BYTES)
    for module in _readers():
        if module.sniff(head):
            data.seek(0)
            known = (roots,) if getattr(module, "TAKES_ROOTS", False) else ()
            return tuple(module.read(data, name, *known))
    return ()


def _readers() -> Iterator[Any]:
    """Ours, imported when their turn comes, then those that installed packages bring."""
    yield from (import_module(f"memory_ci.sources.transcripts.{reader}") for reader in READERS)
    yield from (point.load() for point in entry_points(group=GROUP))


def find_transcripts(paths: Iterable[Path]) -> Iterator[Path]:
    """Files that may be transcripts: those named, and all in the directories named, in order. Links are not followed
    inside a directory, nor is git's own. Raises UsageError transcript-unreadable."""
    for path in paths:
        if path.is_dir():
            yield from _walk(path)
        elif path.exists():
            yield path
        else:
            raise _unreadable(path, "no such file or directory")


def _walk(directory: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(directory):
        folders[:] = sorted(set(folders) - {".git"})
        for path in (Path(parent, name) for name in sorted(files)):
            if (
                path.is_file()
                and not path.is_symlink()
                and 0 < path.stat().st_size <= MAX_FILE_BYTES
            ):
                yield path


def default_places(home: Path, project: Path) -> tuple[Path, ...]:
    """Those of `usual_places` that exist."""
    return tuple(place for place in usual_places(home, project) if place.exists())


def usual_places(home: Path, project: Path) -> tuple[Path, ...]:
    """Where agents keep the sessions of `project`, whether they do or not.

    Claude Code names a directory after the project's path, Codex, Copilot and opencode keep all projects in one,
    Gemini under a hash. Cursor names a directory after the path, each run of other characters one hyphen, and keeps
    those of sub-agents below the session.
    """
    escaped = re.sub(r"[^A-Za-z0-9]", "-", str(project))
    cursor = _cursor_directory(home, project)
    asked = sorted((*cursor.glob("*.txt"), *cursor.glob("*.jsonl"), *cursor.glob("*/*.jsonl")))
    chats, states = home / ".gemini" / "tmp", home / ".copilot" / "session-state"
    return (
        home / ".claude" / "projects" / escaped,
        home / ".codex" / "sessions",
        *(sorted(states.glob("*/events.jsonl")) or [states / "*" / "events.jsonl"]),
        *(sorted(chats.glob("*/chats")) or [chats / "*" / "chats"]),
        home / OPENCODE,
        *(asked or [cursor / "*"]),
        project / ".specstory" / "history",
        project / ".aider.chat.history.md",
    )


def find_cursor_session(home: Path, project: Path, session: str) -> Path | None:
    """Return the transcript of one session of Cursor in a project: of its CLI a file, of its IDE one in a directory.

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
    slug = re.sub(r"[^A-Za-z0-9]+", "-", str(project)).strip("-")
    return home / ".cursor" / "projects" / slug / "agent-transcripts"


def _unreadable(path: Path, why: str) -> UsageError:
    hint = "Name a transcript, or a directory of transcripts."
    return UsageError(f"{path} cannot be read: {why}", slug="transcript-unreadable", hint=hint)
