"""The commits that last changed places in files, and those that added lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from itertools import groupby, islice, takewhile
from typing import NamedTuple

from memory_ci.gitrepo.log import MAX_WALK, SIMILAR
from memory_ci.gitrepo.process import decode_path, run_git, stream_git
from memory_ci.gitrepo.repo import Repository
from memory_ci.regex import Regex

PATCH = (
    "-U0",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    *SIMILAR,
)
SETTINGS = ("-c", "core.quotePath=false", "-c", "log.showSignature=false")
HUNK = Regex(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
BLAMED_LINE = Regex(r"(?P<sha>[0-9a-f]{40,64}) \d+ (?P<line>\d+)(?: \d+)?")


class Spot(NamedTuple):
    """A place in a commit or work tree: lines of a file, or all of it.

    Attributes:
        path: the path of the file.
        old_path: an older path of the file.
        first: the first line; None for the whole file.
        last: the last line; None for the whole file.
        word: the name of code that is gone. Then the commit is searched that removed the last line
            with it.
    """

    path: str
    old_path: str
    first: int | None = None
    last: int | None = None
    word: str = ""


class LastEdit(NamedTuple):
    """The commit that changed a place, and its message; sha "" for an uncommitted change."""

    sha: str = ""
    message: str = ""
    is_removal: bool = False


class Brought(NamedTuple):
    """Neighbouring lines of a file that one commit added; a merge counts for all that it merged.

    The sha is "" for lines that are not committed; the time is that of the commit, in UTC.
    """

    first: int
    last: int
    sha: str
    at: datetime
    subject: str

    @property
    def day(self) -> date:
        """The day of the commit, in UTC."""
        return self.at.date()


class _Hunk(NamedTuple):
    """A hunk of a diff: its first line and size before and after, and the removed lines."""

    old_start: int
    old_size: int
    new_start: int
    new_size: int
    removed: Sequence[str]


class _FileDiff(NamedTuple):
    """The diff of one file: its paths before and after ("" for none), and its hunks."""

    old: str
    new: str
    hunks: Sequence[_Hunk]


# -- last edits


def find_last_edits(
    repo: Repository, rev: str | None, spots: Iterable[Spot]
) -> dict[Spot, LastEdit]:
    """Return the last edit of each spot, by one walk back along the first parents.

    A merge counts for all that it merged. The walk ends as soon as all spots have an edit. It takes
    one process, and two for a work tree.

    Args:
        repo: the repository.
        rev: the commit that has the spots; None for the work tree.
        spots: the spots; without an edit that was found they are not in the result.
    """
    trails = {spot: _Trail(spot) for spot in spots}
    paths = {spot.path for spot in trails} | {spot.old_path for spot in trails}

    edits: dict[Spot, LastEdit] = {}
    for edit, files in _iter_edits(repo, rev, sorted(paths)):
        for spot, trail in trails.items():
            if spot not in edits and trail.is_changed_by(files):
                is_deleted = any(trail.path == file.old and not file.new for file in files)
                edits[spot] = edit._replace(is_removal=is_deleted or bool(spot.word))
        if len(edits) == len(trails):
            break
    return edits


def _iter_edits(
    repo: Repository, rev: str | None, paths: Sequence[str]
) -> Iterator[tuple[LastEdit, list[_FileDiff]]]:
    """Yield the uncommitted changes of a work tree, then the commits, newest first.

    A commit without parents is left out, for no spot has an anchor before it.
    """
    pathspecs = ("--", *(f":(top,literal){path}" for path in paths))
    if rev is None:
        with stream_git(repo.cwd, *SETTINGS, "diff", *PATCH, "HEAD", *pathspecs) as stream:
            yield LastEdit(), list(_parse_files(map(_decode_line, stream)))

    walk = ("--first-parent", "--diff-merges=first-parent", f"-n{MAX_WALK}", "--encoding=UTF-8")
    shown = ("-p", *PATCH, "--format=%x00%H %P%n%B%n%x00")
    args = ("log", *walk, *shown, "--end-of-options", rev or "HEAD", *pathspecs)
    with stream_git(repo.cwd, *SETTINGS, *args) as stream:
        lines = map(_decode_line, stream)
        header = next(lines, "")
        while header.startswith("\0"):
            sha, *parents = header[1:].split()
            message = "\n".join(takewhile(lambda line: line != "\0", lines))
            patch = _Patch(lines)
            files = list(_parse_files(patch))
            header = patch.next_header
            if parents:
                yield LastEdit(sha, message), files


class _Patch:
    """The lines of one patch, before the header of the next commit, which begins with NUL.

    No line of a patch does. `next_header` is set when all lines were read.
    """

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.next_header = ""

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            if line.startswith("\0"):
                self.next_header = line
                return
            yield line


def _parse_files(lines: Iterable[str]) -> Iterator[_FileDiff]:
    old = ""
    new = ""
    hunks: list[_Hunk] = []
    remaining = iter(lines)
    for line in remaining:
        if line.startswith("diff --git "):
            if old or new:
                yield _FileDiff(old, new, hunks)
            old = ""
            new = ""
            hunks = []
        elif line.startswith("--- a/"):
            old = line.removeprefix("--- a/").rstrip("\t")
        elif line.startswith("rename from "):
            old = line.removeprefix("rename from ").rstrip("\t")
        elif line.startswith("+++ b/"):
            new = line.removeprefix("+++ b/").rstrip("\t")
        elif line.startswith("rename to "):
            new = line.removeprefix("rename to ").rstrip("\t")
        elif match := HUNK.match(line):
            hunks.append(_parse_hunk(match, remaining))
    if old or new:
        yield _FileDiff(old, new, hunks)


def _parse_hunk(header: re.Match[str], lines: Iterator[str]) -> _Hunk:
    """Parse a hunk, and consume its lines."""
    old_start, old_size, new_start, new_size = [
        1 if number is None else int(number) for number in header.groups()
    ]
    # A remark that a file ends without a line feed is no line of the hunk.
    content = (line for line in lines if not line.startswith("\\"))
    body = islice(content, old_size + new_size)
    removed = [line[1:] for line in body if line[:1] == "-"]
    return _Hunk(old_start, old_size, new_start, new_size, removed)


def _decode_line(line: bytes) -> str:
    return decode_path(line.rstrip(b"\n"))


class _Trail:
    """A spot on the way back through history: its path and lines before the commits so far."""

    def __init__(self, spot: Spot) -> None:
        self.path = spot.path
        self._first = spot.first
        self._last = spot.last
        self._word = re.compile(rf"(?<!\w){re.escape(spot.word)}(?!\w)") if spot.word else None

    def is_changed_by(self, files: Iterable[_FileDiff]) -> bool:
        """Return whether the diff of a commit changes the spot; if not, go back before it."""
        for file in files:
            if self.path != (file.new or file.old):
                continue
            is_added = not file.old
            is_deleted = not file.new
            if is_added or (is_deleted and self._word is None):
                return True
            if any(self._is_touched(hunk) for hunk in file.hunks):
                return True
            self._step_back(file)
            return False
        return False

    def _is_touched(self, hunk: _Hunk) -> bool:
        if self._word is not None:
            return any(self._word.search(line) for line in hunk.removed)
        if self._first is None or self._last is None:
            return True
        if hunk.new_size:
            return hunk.new_start <= self._last and hunk.new_start + hunk.new_size > self._first
        # Lines were removed after the line `new_start`. At an edge of the spot they count unless a
        # blank line separated them from it.
        if self._first <= hunk.new_start < self._last:
            return True
        if hunk.new_start == self._last and hunk.removed[0].strip():
            return True
        return hunk.new_start == self._first - 1 and bool(hunk.removed[-1].strip())

    def _step_back(self, file: _FileDiff) -> None:
        if self._first is not None and self._last is not None:
            above = [hunk for hunk in file.hunks if hunk.new_start < self._first]
            shift = sum(hunk.old_size - hunk.new_size for hunk in above)
            self._first += shift
            self._last += shift
        self.path = file.old


# -- blame


def blame_lines(
    repo: Repository, path: str, lines: tuple[int, int] | None, rev: str | None
) -> tuple[Brought, ...]:
    """Return the commits that added the lines of a file; changes of white space do not count.

    Args:
        repo: the repository.
        path: the path of the file.
        lines: the first and the last line; None for all.
        rev: the revision that has the file; None for the work tree.

    Raises:
        RepositoryError: git-failed.
    """
    line_range = ["-L", f"{lines[0]},{lines[1]}"] if lines else []
    revisions = [rev] if rev else []
    args = ("blame", "--porcelain", "--first-parent", "-w", *line_range, *revisions, "--", path)
    output = run_git(repo.cwd, *args).decode("utf-8", "replace")

    shas: list[tuple[int, str]] = []  # By number of the line.
    facts: dict[str, dict[str, str]] = {}  # The fields of each commit, by name.
    for line in output.splitlines():
        header = BLAMED_LINE.fullmatch(line)
        if header:
            shas.append((int(header["line"]), header["sha"]))
        elif not line.startswith("\t"):
            key, _, value = line.partition(" ")
            _, sha = shas[-1]
            facts.setdefault(sha, {}).setdefault(key, value)
    return tuple(_join_lines(shas, facts))


def _join_lines(shas: list[tuple[int, str]], facts: dict[str, dict[str, str]]) -> Iterator[Brought]:
    """Yield each run of neighbouring lines of one commit."""
    for sha, group in groupby(shas, key=lambda numbered: numbered[1]):
        numbers = [number for number, _ in group]
        commit = facts[sha]
        at = datetime.fromtimestamp(int(commit["committer-time"]), UTC)
        is_committed = bool(sha.strip("0"))
        if is_committed:
            yield Brought(numbers[0], numbers[-1], sha, at, commit["summary"])
        else:
            yield Brought(numbers[0], numbers[-1], "", at, "")
