"""What changes touch and add: of a range, of the index, of a work tree, and of commits in a row."""

from __future__ import annotations

import codecs
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from memory_ci.gitrepo.process import decode_path, run_git, stream_git
from memory_ci.gitrepo.repo import Repository
from memory_ci.records.history import FileChange
from memory_ci.regex import Regex

RAW = ("--raw", "--no-abbrev", "-z", "-M100%", "-O/dev/null", "--ignore-submodules=none")
PATCH = (
    "-p",
    "-U0",
    "--inter-hunk-context=0",
    "--diff-filter=d",
    "-M100%",
    "-O/dev/null",
    "--no-color",
    "--text",
    "--no-ext-diff",
    "--no-textconv",
    "--no-indent-heuristic",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--ignore-submodules=none",
)
"""No context and no deleted files; no attribute hides added lines, and no program shows them."""

SETTINGS = ("-c", "core.quotePath=false", "-c", "log.showSignature=false", "-c", "diff.noprefix=no")
HUNK = Regex(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
MAX_BYTES = 16 * 1024 * 1024  # Bytes of added lines of one change that are read.
MAX_LINES = 100_000  # Added lines of one change that are read.
MAX_LINE = 65_536  # Bytes of a line that are kept: more than any pattern is searched in.
INDEX = "--cached"
"""Stands for the index in place of a commit."""

Wanted = Callable[[str], bool]
"""Whether the added lines of a file are read, by its path."""


class Addition(NamedTuple):
    """A line that a change adds to a file.

    Attributes:
        path: the path of the file.
        number: the number of the line there, from 1.
        text: the line.
        is_moved: whether the change removes a line that differs at most in white space around it.
    """

    path: str
    number: int
    text: str
    is_moved: bool = False


class Additions(NamedTuple):
    """The lines that a change adds.

    Attributes:
        is_complete: whether all of them are here.
    """

    lines: tuple[Addition, ...]
    is_complete: bool


def list_changed_files(
    repo: Repository,
    start: str,
    end: str | None,
    index_file: Path | None = None,
    *,
    pathspecs: Sequence[str] = (),
) -> tuple[FileChange, ...]:
    """Return the files that differ between a commit and another, the index or the work tree.

    Args:
        repo: the repository.
        start: the commit before the change.
        end: the commit after it, INDEX, or None for the files of the work tree that git tracks.
        index_file: the index, None for that of the work tree.
        pathspecs: the files that are compared, from the top; all with none.
    """
    args = ("diff", *RAW, *_list_ends(start, end), "--", *pathspecs)
    listing = run_git(repo.cwd, *SETTINGS, *args, env=_index_variables(index_file))
    tokens = iter(listing.split(b"\0")[:-1])
    return tuple(_read_file(status, tokens) for status in tokens)


def list_new_files(repo: Repository, pathspecs: Sequence[str] = ()) -> tuple[FileChange, ...]:
    """Return the files of the work tree that git neither tracks nor ignores, as added ones."""
    options = ("-z", "--others", "--exclude-standard", "--full-name")
    listing = run_git(repo.cwd, "ls-files", *options, "--", *pathspecs)
    return tuple(FileChange("A", path) for path in decode_path(listing).split("\0")[:-1])


def read_additions(
    repo: Repository,
    start: str,
    end: str | None,
    wanted: Wanted,
    index_file: Path | None = None,
    *,
    pathspecs: Sequence[str] = (),
) -> Additions:
    """Return the lines that a change adds to some files; see `list_changed_files`."""
    args = ("diff", *PATCH, *_list_ends(start, end), "--", *pathspecs)
    with stream_git(repo.cwd, *SETTINGS, *args, env=_index_variables(index_file)) as stream:
        additions, _ = _read_patch(stream, wanted)
        return additions


def iter_additions(
    repo: Repository, shas: Sequence[str], wanted: Wanted, pathspecs: Sequence[str] = ()
) -> Iterator[tuple[str, Additions]]:
    """Yield some commits with the lines that they add to their first parents' files.

    One process reads all of them.

    Args:
        repo: the repository.
        shas: the commits, in the order of the result.
        wanted: whether the added lines of a file are read.
        pathspecs: the files that git compares; a commit that changes none may be left out.
    """
    if not shas:
        return
    walk = ("--no-walk=unsorted", "--stdin", "--diff-merges=first-parent", "--root")
    args = ("log", *walk, "--format=%x00%H", *PATCH, "--", *pathspecs)
    names = "".join(f"{sha}\n" for sha in shas).encode()
    with stream_git(repo.cwd, *SETTINGS, *args, input=names) as stream:
        header = stream.readline()
        while header:
            sha = header[1:].strip().decode()
            additions, header = _read_patch(stream, wanted)
            yield sha, additions


def _list_ends(start: str, end: str | None) -> list[str]:
    if end == INDEX:
        return [INDEX, start]
    return [start] if end is None else [start, end]


def _index_variables(index_file: Path | None) -> dict[str, str]:
    return {"GIT_INDEX_FILE": os.fspath(index_file)} if index_file else {}


def _read_file(status: bytes, tokens: Iterator[bytes]) -> FileChange:
    """Return a file of `--raw -z`; its paths are the next tokens."""
    letter = status.rsplit(b" ", 1)[-1][:1].decode("ascii", "replace")
    path = decode_path(next(tokens))
    if letter in ("R", "C"):
        return FileChange(letter, decode_path(next(tokens)), path)
    return FileChange(letter, path)


def _read_patch(stream: IO[bytes], wanted: Wanted) -> tuple[Additions, bytes]:
    """Read the patch of one change, up to the header of the next commit, which begins with NUL.

    Returns:
        The added lines, and the header of the next commit, b"" at the end of the stream.
    """
    kept = _KeptLines()
    path = ""
    for line in _iter_lines(stream):
        if line.startswith(b"\0"):
            return kept.close(), line
        if line.startswith(b"+++ "):
            name = _read_name(line[4:].rstrip(b"\n"))
            path = name if name and wanted(name) else ""
            continue
        hunk = HUNK.match(line)
        if hunk is None:
            continue
        removed, start, added = (int(1 if number is None else number) for number in hunk.groups())
        for number, text in _read_hunk(stream, removed, added, start):
            if number is None:
                kept.remove(text)
            elif path:
                kept.add(path, number, text)
    return kept.close(), b""


class _KeptLines:
    """The added lines of one change, up to the limits."""

    def __init__(self) -> None:
        self._lines: list[Addition] = []
        self._removed: Counter[str] = Counter()
        self._size = 0
        self._is_full = False

    def add(self, path: str, number: int, text: bytes) -> None:
        self._size += len(text)
        self._is_full |= self._size > MAX_BYTES or len(self._lines) >= MAX_LINES
        if not self._is_full:
            self._lines.append(Addition(path, number, text.decode("utf-8", "replace")))

    def remove(self, text: bytes) -> None:
        """Count a removed line, up to the limit of lines."""
        stripped = text.strip()
        if stripped and len(self._removed) < MAX_LINES:
            self._removed[stripped.decode("utf-8", "replace")] += 1

    def close(self) -> Additions:
        """Return the lines, those marked as moved for which one was removed."""
        lines = self._lines
        if self._removed:
            lines = [self._mark(line) for line in lines]
        return Additions(tuple(lines), not self._is_full)

    def _mark(self, line: Addition) -> Addition:
        """Return a line, marked as moved if it takes the place of a removed one."""
        stripped = line.text.strip()
        if stripped not in self._removed:
            return line
        self._removed[stripped] -= 1
        if not self._removed[stripped]:
            del self._removed[stripped]
        return line._replace(is_moved=True)


def _read_hunk(
    stream: IO[bytes], removed: int, count: int, start: int
) -> Iterator[tuple[int | None, bytes]]:
    """Yield the changed lines of a hunk, those that are added with their numbers."""
    number = start
    while removed > 0 or count > 0:
        line = _read_line(stream)
        if line.startswith(b"+"):
            count -= 1
            yield number, line[1:].rstrip(b"\r\n")
            number += 1
        elif line.startswith(b"-"):
            removed -= 1
            yield None, line[1:]
        elif line.startswith((b" ", b"\n")):  # context, which diff.suppressBlankEmpty may empty
            removed -= 1
            count -= 1
            number += 1
        elif not line:
            return


def _iter_lines(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: _read_line(stream), b"")


def _read_line(stream: IO[bytes]) -> bytes:
    """Return the next line of a stream, cut at MAX_LINE; its rest is read and dropped."""
    line = stream.readline(MAX_LINE)
    rest = line
    while rest and not rest.endswith(b"\n"):
        rest = stream.readline(MAX_LINE)
    return line


def _read_name(name: bytes) -> str:
    """Return the path of a `+++` line, "" for a deleted file; git quotes some paths as C does."""
    if name.startswith(b'"') and name.endswith(b'"'):
        name = codecs.escape_decode(name[1:-1])[0]
    else:
        name = name.removesuffix(b"\t")
    return decode_path(name.removeprefix(b"b/")) if name.startswith(b"b/") else ""
