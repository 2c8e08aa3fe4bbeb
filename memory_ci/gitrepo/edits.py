"""Find the commits that last changed given lines of files, and blame lines on commits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import groupby, islice, takewhile
from typing import NamedTuple

from memory_ci.gitrepo.log import MAX_WALK, SIMILAR, parse_date
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
# The head of a hunk, `@@ -3,2 +4 @@`: the first line and count before, then those after.
HUNK = Regex(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
# The header of a line in `git blame --porcelain`: `<id> <old line> <line> <lines of the group>`.
BLAMED_LINE = Regex(r"(?P<sha>[0-9a-f]{40,64}) \d+ (?P<line>\d+)(?: \d+)?")


class Spot(NamedTuple):
    """A place in a commit or work tree: lines of a file, or all of it.

    Attributes:
        path: the path of the file.
        old_path: an older path of the file.
        first: the first line; None for the whole file.
        last: the last line; None for the whole file.
        word: the name of code that is gone. Then the spot stands for the file's lines with this
            word, and its last edit is the commit that removed such a line.
    """

    path: str
    old_path: str
    first: int | None = None
    last: int | None = None
    word: str = ""


class LastEdit(NamedTuple):
    """The commit that changed a place, and its message; sha "" for an uncommitted change.

    Attributes:
        is_removal: whether it deleted the file, or the last line with the word of the spot.
    """

    sha: str = ""
    message: str = ""
    is_removal: bool = False


class BlamedRange(NamedTuple):
    """Neighbouring lines of a file that one commit added; a merge counts for all that it merged.

    Attributes:
        first: the first line, from 1.
        last: the last line, included.
        sha: the commit; "" for lines that are not committed.
        committed_at: the time of the commit, in UTC.
        subject: the first line of its message.
    """

    first: int
    last: int
    sha: str
    committed_at: datetime
    subject: str

    @property
    def day(self) -> date:
        """The day of the commit, in UTC."""
        return self.committed_at.date()


class _Hunk(NamedTuple):
    """A hunk of a diff: its first line and size before and after, and the removed lines."""

    old_start: int
    old_size: int
    new_start: int
    new_size: int
    removed_lines: Sequence[str]


class _FileDiff(NamedTuple):
    """The diff of one file: its paths before and after ("" for none), and its hunks."""

    old_path: str
    new_path: str
    hunks: Sequence[_Hunk]


# -- last edits


def find_last_edits(
    repo: Repository, rev: str | None, spots: Iterable[Spot]
) -> dict[Spot, LastEdit]:
    """Return the commit that last changed each spot, by one walk back along the first parents.

    A merge is one commit of this walk: it counts for all commits that it merged. The walk ends as
    soon as all spots have an edit. It takes one process, and two for a work tree.

    Args:
        repo: the repository.
        rev: the commit that has the spots; None for the work tree.
        spots: lines of files, or whole files.

    Returns:
        The last edit by spot. A spot that no commit of the walk changed is missing.
    """
    trackers = {spot: _SpotTracker(spot) for spot in spots}
    paths = {spot.path for spot in trackers} | {spot.old_path for spot in trackers}

    edits: dict[Spot, LastEdit] = {}
    for edit, file_diffs in _iter_edits(repo, rev, sorted(paths)):
        for spot, tracker in trackers.items():
            if spot in edits:
                continue
            if tracker.is_changed_by(file_diffs):
                is_deleted = any(
                    tracker.path == diff.old_path and not diff.new_path for diff in file_diffs
                )
                # The edit of a spot with a word is the removal of that word.
                edits[spot] = edit._replace(is_removal=is_deleted or bool(spot.word))
            else:
                tracker.step_back(file_diffs)
        if len(edits) == len(trackers):
            break
    return edits


def _iter_edits(
    repo: Repository, rev: str | None, paths: Sequence[str]
) -> Iterator[tuple[LastEdit, list[_FileDiff]]]:
    """Yield the uncommitted changes of a work tree, then each commit with its diffs, newest first.

    A commit without parents is left out: it changed nothing that was there before.

    Args:
        repo: the repository.
        rev: the newest commit; None for the work tree.
        paths: the files that are compared.
    """
    pathspecs = ("--", *(f":(top,literal){path}" for path in paths))
    if rev is None:
        with stream_git(repo.cwd, *SETTINGS, "diff", *PATCH, "HEAD", *pathspecs) as stream:
            yield LastEdit(), list(_parse_files(map(_decode_line, stream)))

    walk_options = (
        "--first-parent",
        "--diff-merges=first-parent",
        f"-n{MAX_WALK}",
        "--encoding=UTF-8",
    )
    output_options = ("-p", *PATCH, "--format=%x00%H %P%n%B%n%x00")
    args = ("log", *walk_options, *output_options, "--end-of-options", rev or "HEAD", *pathspecs)
    with stream_git(repo.cwd, *SETTINGS, *args) as stream:
        lines = map(_decode_line, stream)
        header = next(lines, "")
        while header.startswith("\0"):
            sha, *parents = header.removeprefix("\0").split()
            message = "\n".join(takewhile(lambda line: line != "\0", lines))
            patch = _Patch(lines)
            file_diffs = list(_parse_files(patch))
            header = patch.next_header
            if parents:
                yield LastEdit(sha, message), file_diffs


class _Patch:
    """Iterates over the lines of one patch, up to the header of the next commit.

    The header begins with NUL, as no line of a patch does. It is in `next_header` when all lines
    were read.
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
    """Parse the lines of a patch into the diffs of its files."""
    old_path = ""
    new_path = ""
    hunks: list[_Hunk] = []
    remaining_lines = iter(lines)
    for line in remaining_lines:
        if line.startswith("diff --git "):
            if old_path or new_path:
                yield _FileDiff(old_path, new_path, hunks)
            old_path = ""
            new_path = ""
            hunks = []
        elif line.startswith("--- a/"):
            old_path = line.removeprefix("--- a/").rstrip("\t")
        elif line.startswith("rename from "):
            old_path = line.removeprefix("rename from ").rstrip("\t")
        elif line.startswith("+++ b/"):
            new_path = line.removeprefix("+++ b/").rstrip("\t")
        elif line.startswith("rename to "):
            new_path = line.removeprefix("rename to ").rstrip("\t")
        elif match := HUNK.match(line):
            hunks.append(_parse_hunk(match, remaining_lines))
    if old_path or new_path:
        yield _FileDiff(old_path, new_path, hunks)


def _parse_hunk(header: re.Match[str], lines: Iterator[str]) -> _Hunk:
    """Parse a hunk, and consume its lines.

    Args:
        header: the match of HUNK.
        lines: the lines of the patch after the header.
    """
    # Git leaves out a size of 1.
    old_start, old_size, new_start, new_size = [int(number or 1) for number in header.groups()]
    # A remark that a file ends without a line feed is no line of the hunk.
    content = (line for line in lines if not line.startswith("\\"))
    body = islice(content, old_size + new_size)
    removed_lines = [line.removeprefix("-") for line in body if line.startswith("-")]
    return _Hunk(old_start, old_size, new_start, new_size, removed_lines)


def _decode_line(line: bytes) -> str:
    return decode_path(line.rstrip(b"\n"))


class _SpotTracker:
    """Follows a spot back through history: its path and its lines before the commits so far.

    Attributes:
        path: the path of its file, before the commits so far.
    """

    def __init__(self, spot: Spot) -> None:
        self.path = spot.path
        self._first = spot.first
        self._last = spot.last
        self._word = re.compile(rf"(?<!\w){re.escape(spot.word)}(?!\w)") if spot.word else None

    def is_changed_by(self, file_diffs: Iterable[_FileDiff]) -> bool:
        """Return whether a commit changes the spot.

        A commit that adds the file changes it. So does one that deletes the file, unless the spot
        is a word: then a removed line must have the word.

        Args:
            file_diffs: the diffs of the commit.
        """
        diff = self._find_own_diff(file_diffs)
        if diff is None:
            return False
        is_added = not diff.old_path
        is_deleted = not diff.new_path
        if is_added or (is_deleted and self._word is None):
            return True
        return any(self._is_touched(hunk) for hunk in diff.hunks)

    def step_back(self, file_diffs: Iterable[_FileDiff]) -> None:
        """Set path and lines to those before a commit that does not change the spot.

        Args:
            file_diffs: the diffs of the commit.
        """
        diff = self._find_own_diff(file_diffs)
        if diff is None:
            return
        if self._first is not None and self._last is not None:
            hunks_above = [hunk for hunk in diff.hunks if hunk.new_start < self._first]
            shift = sum(hunk.old_size - hunk.new_size for hunk in hunks_above)
            self._first += shift
            self._last += shift
        self.path = diff.old_path

    def _find_own_diff(self, file_diffs: Iterable[_FileDiff]) -> _FileDiff | None:
        """Return the diff of the spot's file; None if the commit does not touch the file."""
        for diff in file_diffs:
            path_after = diff.new_path or diff.old_path  # A deleted file has no new path.
            if path_after == self.path:
                return diff
        return None

    def _is_touched(self, hunk: _Hunk) -> bool:
        """Return whether a hunk changes the lines of the spot, or removes a line with its word."""
        if self._word is not None:
            return any(self._word.search(line) for line in hunk.removed_lines)
        if self._first is None or self._last is None:
            return True
        if hunk.new_size > 0:
            hunk_end = hunk.new_start + hunk.new_size
            return hunk.new_start <= self._last and hunk_end > self._first

        # Lines were only removed, after the line `new_start`. If that is directly above or below
        # the spot, they were part of its block unless a blank line separated them from it.
        if self._first <= hunk.new_start < self._last:
            return True
        if hunk.new_start == self._last and hunk.removed_lines[0].strip():
            return True
        return hunk.new_start == self._first - 1 and bool(hunk.removed_lines[-1].strip())


# -- blame


def blame_lines(
    repo: Repository, path: str, lines: tuple[int, int] | None, rev: str | None
) -> tuple[BlamedRange, ...]:
    """Return by `git blame` which commits added the lines of a file, ignoring white space.

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

    line_shas: list[tuple[int, str]] = []  # The number of each line, and its commit.
    commit_fields: dict[str, dict[str, str]] = {}  # By commit: `summary`, `committer-time` …
    for line in output.split("\n"):
        header = BLAMED_LINE.fullmatch(line)
        is_content = line.startswith("\t")
        if header:
            line_shas.append((int(header["line"]), header["sha"]))
        elif not is_content:
            key, _, value = line.partition(" ")
            _, sha = line_shas[-1]
            commit_fields.setdefault(sha, {}).setdefault(key, value)
    return tuple(_join_lines(line_shas, commit_fields))


def _join_lines(
    line_shas: list[tuple[int, str]], commit_fields: dict[str, dict[str, str]]
) -> Iterator[BlamedRange]:
    """Yield a range for each run of neighbouring lines that are of one commit.

    Args:
        line_shas: the number of each line, and its commit, in order.
        commit_fields: the fields of each commit as `git blame --porcelain` prints them, by name.
    """
    for sha, group in groupby(line_shas, key=lambda line_sha: line_sha[1]):
        numbers = [number for number, _ in group]
        fields = commit_fields[sha]
        committed_at = parse_date(f"{fields['committer-time']} +0000")
        is_committed = bool(sha.strip("0"))
        if is_committed:
            yield BlamedRange(numbers[0], numbers[-1], sha, committed_at, fields["summary"])
        else:
            yield BlamedRange(numbers[0], numbers[-1], "", committed_at, "")
