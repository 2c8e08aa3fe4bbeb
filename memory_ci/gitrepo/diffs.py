"""Read with `git diff` and `git log` which files a change touches and which lines it adds."""

from __future__ import annotations

import codecs
import os
from collections import defaultdict
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

# The head of a hunk, `@@ -3,2 +4 @@`: the count of removed lines, the first added line, its count.
HUNK = Regex(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
SETTINGS = ("-c", "core.quotePath=false", "-c", "log.showSignature=false", "-c", "diff.noprefix=no")
MAX_BYTES = 16 * 1024 * 1024  # Bytes of added lines of one change that are read.
MAX_LINES = 100_000  # Added lines of one change that are read.
MAX_LINE = 65_536  # Bytes of a line that are kept: more than any pattern is searched in.
INDEX = "--cached"
"""Takes the place of a commit id where the index is compared."""

PathFilter = Callable[[str], bool]
"""Returns whether the added lines of the file at a path are read."""


class Addition(NamedTuple):
    """A line that a change adds to a file.

    Attributes:
        path: the path of the file.
        number: the number of the line there, from 1.
        text: the line.
        moved_from: the file from which the change removes the same line, white space around it
            aside; "" if it removes no such line.
    """

    path: str
    number: int
    text: str
    moved_from: str = ""


class Additions(NamedTuple):
    """The lines that a change adds.

    Attributes:
        is_complete: whether `lines` has all of them; it has not where they exceed a limit.
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
        index_file: the index; None for the index of the work tree.
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
    is_wanted: PathFilter,
    index_file: Path | None = None,
    *,
    pathspecs: Sequence[str] = (),
) -> Additions:
    """Return the lines that a change adds to the files that `is_wanted` selects.

    Args:
        repo: the repository.
        start: the commit before the change.
        end: the commit after it, INDEX, or None for the files of the work tree that git tracks.
        is_wanted: whether the added lines of the file at a path are read.
        index_file: the index; None for the index of the work tree.
        pathspecs: the files that are compared, from the top; all with none.
    """
    args = ("diff", *PATCH, *_list_ends(start, end), "--", *pathspecs)
    with stream_git(repo.cwd, *SETTINGS, *args, env=_index_variables(index_file)) as stream:
        additions, _ = read_patch(stream, is_wanted)
        return additions


def iter_additions(
    repo: Repository, shas: Sequence[str], is_wanted: PathFilter, pathspecs: Sequence[str] = ()
) -> Iterator[tuple[str, Additions]]:
    """Yield (commit id, added lines) for commits, compared with their first parents.

    One process reads all of them.

    Args:
        repo: the repository.
        shas: the commits, in the order of the result.
        is_wanted: whether the added lines of the file at a path are read.
        pathspecs: the files that git compares; a commit that changes none may be left out.
    """
    if not shas:
        return
    walk = ("--no-walk=unsorted", "--stdin", "--diff-merges=first-parent", "--root")
    args = ("log", *walk, "--format=%x00%H", *PATCH, "--", *pathspecs)
    names = "".join(f"{sha}\n" for sha in shas).encode()
    with stream_git(repo.cwd, *SETTINGS, *args, input=names) as stream:
        header = stream.readline()  # NUL and the id of a commit.
        while header:
            sha = header.removeprefix(b"\0").strip().decode()
            additions, header = read_patch(stream, is_wanted)
            yield sha, additions


def _list_ends(start: str, end: str | None) -> list[str]:
    """Return the arguments of `git diff` for the two ends of a change (`list_changed_files`)."""
    if end == INDEX:
        return [INDEX, start]
    if end is None:
        return [start]
    return [start, end]


def _index_variables(index_file: Path | None) -> dict[str, str]:
    return {"GIT_INDEX_FILE": os.fspath(index_file)} if index_file else {}


def _read_file(status: bytes, tokens: Iterator[bytes]) -> FileChange:
    """Parse a changed file that `git diff --raw -z` printed.

    Args:
        status: `:<mode> <mode> <old id> <new id> <letter and score>`.
        tokens: its path; for a renamed or copied file the old and the new one.
    """
    letter_and_score = status.rsplit(b" ", 1)[-1]
    letter = letter_and_score[:1].decode("ascii", "replace")
    path = decode_path(next(tokens))
    if letter in ("R", "C"):
        new_path = decode_path(next(tokens))
        return FileChange(letter, new_path, path)
    return FileChange(letter, path)


def read_patch(stream: IO[bytes], is_wanted: PathFilter) -> tuple[Additions, bytes]:
    """Read the patch of one change, up to the header of the next commit, which begins with NUL.

    Returns:
        The added lines, and the header of the next commit, b"" at the end of the stream.
    """
    collector = _AdditionCollector()
    path = ""  # Of the current file; "" if its lines are not wanted.
    for line in _iter_lines(stream):
        if line.startswith(b"\0"):
            return collector.build_additions(), line
        if line.startswith(b"+++ "):
            name = _read_name(line.removeprefix(b"+++ ").rstrip(b"\n"))
            path = name if name and is_wanted(name) else ""
            continue
        hunk = HUNK.match(line)
        if hunk is None:
            continue
        # Git leaves out a count of 1.
        removed_count, start, added_count = (int(number or 1) for number in hunk.groups())
        for number, text in _read_hunk(stream, removed_count, added_count, start):
            if path and number is None:
                collector.note_removed(path, text)
            elif path and number is not None:
                collector.add(path, number, text)
    return collector.build_additions(), b""


class _AdditionCollector:
    """Collects the added lines of one change, up to the limits, and finds those that it moved."""

    def __init__(self) -> None:
        self._lines: list[Addition] = []
        self._removed_from: defaultdict[str, list[str]] = defaultdict(list)  # Paths by line.
        self._removed_size = 0
        self._size = 0
        self._is_full = False

    def add(self, path: str, number: int, text: bytes) -> None:
        """Keep an added line, unless a limit is reached."""
        self._size += len(text)
        if self._size > MAX_BYTES or len(self._lines) >= MAX_LINES:
            self._is_full = True
        if not self._is_full:
            self._lines.append(Addition(path, number, text.decode("utf-8", "replace")))

    def note_removed(self, path: str, text: bytes) -> None:
        """Remember that a line was removed from a file, unless a limit is reached."""
        stripped = text.decode("utf-8", "replace").strip()
        self._removed_size += len(text)
        if stripped and self._removed_size <= MAX_BYTES:
            self._removed_from[stripped].append(path)

    def build_additions(self) -> Additions:
        """Return the added lines; a line that was also removed is marked as moved."""
        lines = self._lines
        if self._removed_from:
            lines = [self._mark_moved(line) for line in lines]
        return Additions(tuple(lines), not self._is_full)

    def _mark_moved(self, line: Addition) -> Addition:
        """Return a line, marked as moved if the same line was removed, preferably from its file.

        A removed line counts for one added line only.
        """
        paths = self._removed_from.get(line.text.strip())
        if not paths:
            return line
        moved_from = line.path if line.path in paths else paths[0]
        paths.remove(moved_from)
        return line._replace(moved_from=moved_from)


def _read_hunk(
    stream: IO[bytes], removed_count: int, added_count: int, start: int
) -> Iterator[tuple[int | None, bytes]]:
    """Yield the changed lines of a hunk, each as (line number, text).

    The number of a removed line is None.

    Args:
        stream: the patch after the head of the hunk.
        removed_count: the number of lines of the old file in the hunk.
        added_count: the number of lines of the new file in the hunk.
        start: the number of the first line of the new file.
    """
    number = start
    while removed_count > 0 or added_count > 0:
        line = _read_line(stream)
        if line.startswith(b"+"):
            added_count -= 1
            yield number, line[1:].rstrip(b"\r\n")
            number += 1
        elif line.startswith(b"-"):
            removed_count -= 1
            yield None, line[1:]
        elif line.startswith((b" ", b"\n")):  # context, which diff.suppressBlankEmpty may empty
            removed_count -= 1
            added_count -= 1
            number += 1
        elif not line:
            return


def _iter_lines(stream: IO[bytes]) -> Iterator[bytes]:
    while line := _read_line(stream):
        yield line


def _read_line(stream: IO[bytes]) -> bytes:
    """Return the next line of a stream, cut at MAX_LINE bytes; its rest is read and dropped."""
    line = stream.readline(MAX_LINE)
    part = line
    while part and not part.endswith(b"\n"):
        part = stream.readline(MAX_LINE)
    return line


def _read_name(name: bytes) -> str:
    """Return the path of a `+++` line, such as `b/src/a.py`; "" for a deleted file.

    Git quotes some paths as C does.
    """
    if name.startswith(b'"') and name.endswith(b'"'):
        name = codecs.escape_decode(name[1:-1])[0]
    else:
        name = name.removesuffix(b"\t")
    if not name.startswith(b"b/"):
        return ""
    return decode_path(name.removeprefix(b"b/"))
