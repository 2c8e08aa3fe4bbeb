"""The commits that last changed places of files, by one walk back along the first parents; those that brought lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from itertools import groupby, takewhile
from typing import NamedTuple

from memory_ci.gitrepo.log import MAX_WALK, SIMILAR
from memory_ci.gitrepo.process import decode_path, run_git, stream_git
from memory_ci.gitrepo.repo import Repository

PATCH = (
    "-U0",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    *SIMILAR,
)
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class Spot(NamedTuple):
    """A place as a view shows it: lines of a file, or all of it; `was` is an older path of the file. Of what is gone
    `word` is its name: the commit is sought that took the last line with it away."""

    path: str
    was: str
    first: int | None = None
    last: int | None = None
    word: str = ""


class LastEdit(NamedTuple):
    """The commit that changed a place, and its message; sha "" for what is not committed."""

    sha: str = ""
    message: str = ""
    is_removal: bool = False


class _Hunk(NamedTuple):
    start: int
    size: int
    there: int
    there_size: int
    removed: Sequence[str]


class _FileDiff(NamedTuple):
    """What became of one file: its paths before and after ("" for none), and its hunks."""

    old: str
    new: str
    hunks: Sequence[_Hunk]


def find_last_edits(
    repo: Repository, rev: str | None, spots: Iterable[Spot]
) -> dict[Spot, LastEdit]:
    """What changed each spot last, as the work tree (None) or a commit shows it: by one process, two for a work tree. A
    merge stands for all that it brought. The walk ends as soon as all are found."""
    trails = {spot: _Trail(spot) for spot in spots}
    found: dict[Spot, LastEdit] = {}
    paths = sorted({path for spot in trails for path in (spot.path, spot.was)})
    for edit, files in _iter_edits(repo, rev, paths):
        for spot, trail in trails.items():
            if spot not in found and trail.is_changed_by(files):
                is_removed = any(trail.path == file.old and not file.new for file in files)
                found[spot] = edit._replace(is_removal=is_removed or bool(spot.word))
        if len(found) == len(trails):
            break
    return found


def _iter_edits(
    repo: Repository, rev: str | None, paths: Sequence[str]
) -> Iterator[tuple[LastEdit, list[_FileDiff]]]:
    """What is not committed, then the commits, newest first. A root is none: nothing is anchored before it."""
    limited = ("--", *(f":(top,literal){path}" for path in paths))
    plain = ("-c", "core.quotePath=false", "-c", "log.showSignature=false")
    if rev is None:
        with stream_git(repo.cwd, *plain, "diff", *PATCH, "HEAD", *limited) as stream:
            yield LastEdit(), list(_parse_files(map(_text, stream)))
    walk = ("--first-parent", "--diff-merges=first-parent", f"-n{MAX_WALK}", "--encoding=UTF-8")
    asked = (*walk, "-p", *PATCH, "--format=%x00%H %P%n%B%n%x00", "--end-of-options", rev or "HEAD")
    with stream_git(repo.cwd, *plain, "log", *asked, *limited) as stream:
        lines = map(_text, stream)
        opening = next(lines, "")
        while opening.startswith("\0"):
            sha, *parents = opening[1:].split()
            message = "\n".join(takewhile(lambda line: line != "\0", lines))
            patch = _Until(lines)
            files = list(_parse_files(patch))
            opening = patch.stop
            if parents:
                yield LastEdit(sha, message), files


class _Until:
    """The lines up to one that begins with NUL, which no line of a patch does; that one is `stop`."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self.stop = lines, ""

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            if line.startswith("\0"):
                self.stop = line
                return
            yield line


def _parse_files(lines: Iterable[str]) -> Iterator[_FileDiff]:
    old = new = ""
    hunks: list[_Hunk] = []
    told = iter(lines)
    for line in told:
        if line.startswith("diff --git "):
            if old or new:
                yield _FileDiff(old, new, hunks)
            old, new, hunks = "", "", []
        elif line.startswith(("--- a/", "rename from ")):
            old = line.partition("/" if line[0] == "-" else "from ")[2].rstrip("\t")
        elif line.startswith(("+++ b/", "rename to ")):
            new = line.partition("/" if line[0] == "+" else "to ")[2].rstrip("\t")
        elif match := HUNK.match(line):
            start, count, there, there_size = (
                1 if number is None else int(number) for number in match.groups()
            )
            body = [
                line for _, line in zip(range(count + there_size), _contents(told), strict=False)
            ]
            hunks.append(
                _Hunk(
                    start, count, there, there_size, [text[1:] for text in body if text[:1] == "-"]
                )
            )
    if old or new:
        yield _FileDiff(old, new, hunks)


def _contents(lines: Iterator[str]) -> Iterator[str]:
    """The lines of a hunk, without the remark that a file ends without a line feed."""
    return (line for line in lines if not line.startswith("\\"))


def _text(line: bytes) -> str:
    return decode_path(line.rstrip(b"\n"))


class _Trail:
    """A spot on the way back through history: its path and lines before all that was met so far."""

    def __init__(self, spot: Spot) -> None:
        self.path, self.first, self.last = spot.path, spot.first, spot.last
        self.word = re.compile(rf"(?<!\w){re.escape(spot.word)}(?!\w)") if spot.word else None

    def is_changed_by(self, files: Iterable[_FileDiff]) -> bool:
        """Whether the diff of a commit changes the spot; if not, the spot is where it was before that commit."""
        for file in files:
            if self.path not in (file.new, "" if file.new else file.old):
                continue
            if not file.old or (not file.new and self.word is None):
                return True
            if any(map(self._is_touched, file.hunks)):
                return True
            self._step_back(file)
            return False
        return False

    def _is_touched(self, hunk: _Hunk) -> bool:
        if self.word is not None:
            return any(map(self.word.search, hunk.removed))
        if self.first is None or self.last is None:
            return True
        if hunk.there_size:
            return hunk.there <= self.last and hunk.there + hunk.there_size > self.first
        # Lines were taken out behind line `there`. At an edge those count that were not set off by a blank line.
        is_inside = self.first <= hunk.there < self.last
        is_tail = hunk.there == self.last and bool(hunk.removed[0].strip())
        return (
            is_inside
            or is_tail
            or (hunk.there == self.first - 1 and bool(hunk.removed[-1].strip()))
        )

    def _step_back(self, file: _FileDiff) -> None:
        if self.first is not None and self.last is not None:
            above = [hunk for hunk in file.hunks if hunk.there < self.first]
            shift = sum(hunk.size - hunk.there_size for hunk in above)
            self.first, self.last = self.first + shift, self.last + shift
        self.path = file.old


HEADER = re.compile(r"(?P<sha>[0-9a-f]{40,64}) \d+ (?P<line>\d+)(?: \d+)?")


class Brought(NamedTuple):
    """Lines of a file that one commit brought, a merge for all that it merged. `sha`: "" for what is not committed."""

    first: int
    last: int
    sha: str
    day: date
    subject: str


def blame_lines(
    repo: Repository, path: str, lines: tuple[int, int] | None, rev: str | None
) -> tuple[Brought, ...]:
    """What brought the lines (None: all) of a file at a revision, or as the work tree has it. A change of white space
    alone brings nothing. Raises RepositoryError (git-failed)."""
    asked = (
        "blame",
        "--porcelain",
        "--first-parent",
        "-w",
        *(["-L", f"{lines[0]},{lines[1]}"] if lines else []),
    )
    said = run_git(repo.cwd, *asked, *([rev] if rev else []), "--", path)
    shas: list[tuple[int, str]] = []
    facts: dict[str, dict[str, str]] = {}
    for line in said.decode("utf-8", "replace").splitlines():
        if header := HEADER.fullmatch(line):
            shas.append((int(header["line"]), header["sha"]))
        elif not line.startswith("\t"):
            key, _, value = line.partition(" ")
            facts.setdefault(shas[-1][1], {}).setdefault(key, value)
    return tuple(_united(shas, facts))


def _united(shas: list[tuple[int, str]], facts: dict[str, dict[str, str]]) -> Iterator[Brought]:
    for sha, group in groupby(shas, key=lambda pair: pair[1]):
        numbers = [number for number, _ in group]
        fact = facts[sha]
        day = datetime.fromtimestamp(int(fact["committer-time"]), UTC).date()
        is_committed = bool(sha.strip("0"))
        subject = fact["summary"] if is_committed else ""
        yield Brought(numbers[0], numbers[-1], sha if is_committed else "", day, subject)
