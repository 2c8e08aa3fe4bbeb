"""The history of a branch: its merged changes, versions of files, and commits by their content."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date, datetime
from itertools import chain, groupby, islice

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.forges import describe_change
from memory_ci.gitrepo.log import FILE_OPTIONS, LOG_SETTINGS, parse_date, read_log
from memory_ci.gitrepo.process import run_git, stream_git
from memory_ci.gitrepo.repo import (
    Repository,
    find_commit,
    is_ancestor,
    is_shallow,
    list_cut,
    resolve_commit,
)
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import SERVED_TRAILER

SURFACE = "Memory-Surface"
MAX_READERS = 5_000  # Newest commits with served memory that are searched for agents.
NO_COLOR_OR_PROGRAMS = ("--no-color", "--no-ext-diff", "--no-textconv")
AS_TEXT = ("--text", "--no-ext-diff", "--no-textconv")
"""An attribute of the repository (`MEMORY.md -diff`) must not hide written lines."""

FETCH_HINT = "Fetch all of it: `git fetch --unshallow`, or `fetch-depth: 0` for actions/checkout."


class HistoryRange(msgspec.Struct, frozen=True):
    """The commits after one commit up to another, grouped by first-parent commit.

    Attributes:
        since: the id of the commit before the range; None where it begins with the first commit.
        until: the id of the last commit.
        groups: for each first-parent commit the ids that it merged, oldest first, itself last.
    """

    since: str | None
    until: str
    groups: tuple[tuple[str, ...], ...]

    @property
    def change_count(self) -> int:
        """An upper bound: when messages are read, several groups of a rebase are one change."""
        return len(self.groups)


class FileVersion(msgspec.Struct, frozen=True):
    """A file as a commit left it; `oid` is None where the commit deleted it."""

    commit: Commit
    path: str
    oid: str | None


class LineCount(msgspec.Struct, frozen=True):
    """Counts of the lines with each prefix that a commit added, less those that it removed."""

    sha: str
    committed_at: datetime
    added: dict[str, int]


# -- ranges and merged changes


def plan_range(repo: Repository, since: str | None, until: str) -> HistoryRange:
    """Return the range since..until, grouped along the first parents of `until`.

    Each commit of the range is in one group.

    Raises:
        RepositoryError: unknown-revision for `until`, unreachable-cursor when `since` is not in its
            history, shallow-clone when history is cut off inside the range.
    """
    tip = resolve_commit(repo, until)
    start = None if since is None else _resolve_range_start(repo, since, tip)
    parents = list_parents(repo, start, tip)
    if not list_cut(repo).isdisjoint(parents):
        raise _shallow_range(repo)
    return HistoryRange(start, tip, group_commits(parents, tip))


def group_commits(parents: Mapping[str, tuple[str, ...]], tip: str) -> tuple[tuple[str, ...], ...]:
    """Group commits by the first-parent commit that merged them, oldest first.

    A merge has the commits that no older merge has, and itself as the last.

    Args:
        parents: the parents of each commit, children before parents. A parent that is no key is
            outside of the range.
        tip: the newest commit.
    """
    first_parents = walk_first_parents(parents, tip)
    positions = {commit: position for position, commit in enumerate(parents)}
    ungrouped = set(parents).difference(first_parents)

    groups: list[tuple[str, ...]] = []
    for commit in reversed(first_parents):
        merged = _take_merged(parents, commit, ungrouped)
        merged.sort(key=positions.__getitem__, reverse=True)
        groups.append((*merged, commit))
    return tuple(groups)


def iter_merged_changes(repo: Repository, history: HistoryRange) -> Iterator[MergedChange]:
    """Yield the changes of a range, oldest first, from one stream in constant memory.

    Neighbouring commits that name the same pull request are one change, merged by rebase.
    """
    shas = "".join(f"{sha}\n" for sha in chain.from_iterable(history.groups)).encode()
    # Without commits git would read HEAD. With no group nothing is read, so git is never started.
    with closing(read_log(repo, *FILE_OPTIONS, "--no-walk=unsorted", "--stdin", input=shas)) as log:
        commits = (commit for commit, _ in log)
        changes = (describe_change(tuple(islice(commits, len(group)))) for group in history.groups)
        for _, neighbours in groupby(changes, _rebase_key):
            yield _join_rebased(list(neighbours))


def _resolve_range_start(repo: Repository, since: str, tip: str) -> str:
    start = find_commit(repo, since)
    if start is not None and is_ancestor(repo, start, tip):
        return start
    if is_shallow(repo):
        raise _shallow_range(repo)
    message = (
        f"{since} is not in the history of {tip}: "
        "the branch was rewritten, or the cursor is of another branch"
    )
    hint = "Name the commit to start from with --since."
    raise RepositoryError(message, slug="unreachable-cursor", hint=hint)


def _shallow_range(repo: Repository) -> RepositoryError:
    message = f"The clone at {repo.cwd} is shallow, and its history ends inside the range"
    return RepositoryError(message, slug="shallow-clone", hint=FETCH_HINT)


def list_parents(repo: Repository, since: str | None, tip: str) -> dict[str, tuple[str, ...]]:
    """Return the parents of each commit of a range, children before parents."""
    exclusions = [f"^{since}"] if since else []
    listing = run_git(repo.cwd, "rev-list", "--topo-order", "--parents", tip, *exclusions, "--")

    parents: dict[str, tuple[str, ...]] = {}
    for line in listing.decode().splitlines():
        # Each id comes again as a parent: interned, a long history takes half the memory.
        commit, *commit_parents = [sys.intern(sha) for sha in line.split(" ")]
        parents[commit] = tuple(commit_parents)
    return parents


def walk_first_parents(parents: Mapping[str, tuple[str, ...]], tip: str) -> list[str]:
    """Return the commits on the first-parent line of `tip`, newest first."""
    commits: list[str] = []
    commit = tip
    while commit in parents:
        commits.append(commit)
        commit = next(iter(parents[commit]), "")
    return commits


def _take_merged(
    parents: Mapping[str, tuple[str, ...]], merge: str, ungrouped: set[str]
) -> list[str]:
    """Remove from `ungrouped` the commits behind the other parents of a merge, and return them."""
    merged: list[str] = []
    pending = list(parents[merge][1:])
    while pending:
        commit = pending.pop()
        if commit in ungrouped:
            ungrouped.remove(commit)
            merged.append(commit)
            pending.extend(parents[commit])
    return merged


def _rebase_key(change: MergedChange) -> int | str | None:
    """Return a key that the commits of one rebase share and other changes do not."""
    return change.number if change.kind == "squash" else change.tip.sha


def _join_rebased(changes: Sequence[MergedChange]) -> MergedChange:
    newest = changes[-1]
    if len(changes) == 1:
        return newest
    commits = chain.from_iterable(change.commits for change in changes)
    return replace(newest, kind="rebase", commits=tuple(commits))


def list_first_parents(repo: Repository, since: str | None, until: str) -> list[str]:
    """Return the commits of a range on the first-parent line of its end, newest first."""
    exclusions = [f"^{since}"] if since else []
    listing = run_git(repo.cwd, "rev-list", "--first-parent", until, *exclusions, "--")
    return listing.decode().split()


# -- commits by message and content


def read_authorship(repo: Repository, sha: str) -> tuple[str, datetime] | None:
    """Return the author's address and date of a commit, which a cherry-pick or rebase keeps.

    None where the repository does not hold the commit.
    """
    if find_commit(repo, sha) is None:
        return None
    ((commit, _),) = read_log(repo, "--no-walk", "--end-of-options", sha)
    return commit.email, commit.authored_at


def find_addition(repo: Repository, rev: str, path: str) -> str | None:
    """Return the first-parent commit of `rev` that first added `path`."""
    options = (
        "--first-parent",
        *FILE_OPTIONS,
        "--no-renames",
        "--diff-filter=A",
        "--end-of-options",
        rev,
    )
    log = read_log(repo, *options, "--", f":(top,literal){path}")
    shas = [commit.sha for commit, _ in log]
    return shas[-1] if shas else None


def list_versions(repo: Repository, rev: str, pathspecs: Sequence[str]) -> Iterator[FileVersion]:
    """Yield every version of the files along the first parents of `rev`, newest first.

    A renamed file counts as two files.
    """
    options = (
        "--first-parent",
        *FILE_OPTIONS,
        "--no-renames",
        "--end-of-options",
        rev,
        "--",
        *pathspecs,
    )
    for commit, oids in read_log(repo, *options):
        for file, oid in zip(commit.files, oids, strict=True):
            is_deleted = not oid.strip("0")
            yield FileVersion(commit, file.path, None if is_deleted else oid)


def has_version(repo: Repository, since: str, until: str, pathspecs: Sequence[str]) -> bool:
    """Return whether a first-parent commit of since..until changed one of the files."""
    args = ("rev-list", "--first-parent", "--max-count=1", "--diff-merges=first-parent")
    revisions = ("--end-of-options", until, f"^{since}", "--", *pathspecs)
    return bool(run_git(repo.cwd, *args, *revisions))


def list_reverting_commits(repo: Repository, rev: str) -> list[Commit]:
    """Return the commits that say that they revert another, oldest first, without files."""
    grep = (
        "--regexp-ignore-case",
        "--grep=^This reverts",
        "--grep=^Reverts ",
        '--grep=^Revert "',
        '--grep=^Reapply "',
    )
    log = read_log(repo, *grep, "--topo-order", "--reverse", "--end-of-options", rev, "--")
    return [commit for commit, _ in log]


def list_added_lines(
    repo: Repository, rev: str, pathspecs: Sequence[str], start: str
) -> frozenset[str]:
    """Return every line beginning with `start` that a first-parent commit of `rev` added to files.

    Lines that were removed later are among them.
    """
    shown = ("-p", "-U0", "-m", "--format=", "--no-renames", "--no-color", *AS_TEXT)
    args = ("log", "--first-parent", *shown, "--end-of-options", rev, "--", *pathspecs)
    prefix = f"+{start}".encode()

    added: set[str] = set()
    with stream_git(repo.cwd, *args) as stream:
        for line in stream:
            if line.startswith(prefix):
                added.add(line[1:].decode("utf-8", "replace").rstrip())
    return frozenset(added)


def list_commits_mentioning(
    repo: Repository, rev: str, words: Sequence[str], pathspecs: Sequence[str]
) -> list[str]:
    """Return the first-parent commits that added or removed a line with one of `words`.

    Only lines of the files count. The newest commit comes first; roots are left out.
    """
    pattern = "|".join(re.sub(r"([^\w-])", r"\\\1", word) for word in words)
    walk = ("--first-parent", "--diff-merges=first-parent", "--min-parents=1")
    shown = ("-s", "--no-renames", *AS_TEXT, "--format=%H")
    args = ("log", "--extended-regexp", f"-G{pattern}", *walk, *shown)
    revision = ("--end-of-options", rev, "--", *pathspecs)
    return run_git(repo.cwd, *LOG_SETTINGS, *args, *revision).decode().split()


def list_commits_replacing(repo: Repository, rev: str, path: str, text: str) -> list[str]:
    """Return the commits that changed how often `text` occurs in a file.

    Commits of merged branches are among them; merges and commits without parents are not.
    """
    walk = ("--min-parents=1", "--max-parents=1", f"-S{text}", *AS_TEXT, "--format=%H")
    revision = ("--end-of-options", rev, "--", f":(top,literal){path}")
    return run_git(repo.cwd, *LOG_SETTINGS, "log", *walk, *revision).decode().split()


def list_readers(repo: Repository, rev: str) -> dict[str, datetime]:
    """Return when each agent, local or in the cloud, last committed work that was served memory.

    The latest comes first.
    """
    keys = (SURFACE, "Memory-Session")
    values = "".join(f"%x00%(trailers:key={key},valueonly,separator=%x2C)" for key in keys)
    options = (
        f"-n{MAX_READERS}",
        f"--grep=^{SERVED_TRAILER}:",
        "--date=raw",
        f"--format=%cd{values}",
    )
    args = ("log", *options, "--end-of-options", rev, "--")
    listing = run_git(repo.cwd, *LOG_SETTINGS, *args).decode("utf-8", "replace")

    latest: dict[str, datetime] = {}
    for line in listing.splitlines():
        raw_date, surface, sessions = line.split("\0")
        committed_at = parse_date(raw_date)
        for agent in _list_agents(surface, sessions):
            latest[agent] = max(committed_at, latest.get(agent, committed_at))
    return dict(sorted(latest.items(), key=lambda item: item[1], reverse=True))


def _list_agents(surface: str, sessions: str) -> set[str]:
    """Return the surface of a commit, else the agents of its sessions (`<agent>:<id>,…`)."""
    if surface:
        return {surface}
    agents = {session.strip().partition(":")[0] for session in sessions.split(",")}
    return agents - {""}


def find_unmerged_mention(repo: Repository, words: str) -> datetime | None:
    """Return when the newest commit with `words` in its message was made on a branch ahead of HEAD.

    Only commits of local branches that descend from HEAD are searched.
    """
    walk = ("--branches", "--not", "HEAD", "--ancestry-path")
    options = ("--fixed-strings", f"--grep={words}", "--max-count=1", "--format=%ct")
    seconds = run_git(repo.cwd, "log", *walk, *options, "--").decode().strip()
    return parse_date(f"{seconds} +0000") if seconds else None


def count_added_lines(
    repo: Repository, rev: str, since: date, pathspecs: Sequence[str], starts: Sequence[str]
) -> Iterator[LineCount]:
    """Yield how each first-parent commit of `rev` changed the number of certain lines in files.

    Args:
        repo: the repository.
        rev: the revision.
        since: commits since the start of this day, UTC.
        pathspecs: the files.
        starts: lines that begin with one of these are counted.
    """
    shown = ("-p", "-U0", "-m", "--no-renames", "--no-color", "--date=raw", "--format=%x00%H %cd")
    options = ("--first-parent", *shown, *AS_TEXT, f"--since={since}T00:00:00Z")
    args = ("log", *options, "--end-of-options", rev, "--", *pathspecs)

    count: LineCount | None = None
    with stream_git(repo.cwd, *LOG_SETTINGS, *args) as stream:
        for line in stream:
            if line.startswith(b"\0"):
                if count is not None:
                    yield count
                sha, raw_date = line[1:].decode().strip().split(" ", 1)
                count = LineCount(sha, parse_date(raw_date), dict.fromkeys(starts, 0))
            elif count is not None:
                _count_line(count.added, line)
    if count is not None:
        yield count


def _count_line(added: dict[str, int], line: bytes) -> None:
    for start in added:
        if line.startswith(f"+{start}".encode()):
            added[start] += 1
        elif line.startswith(f"-{start}".encode()):
            added[start] -= 1


def list_releases(repo: Repository, since: str, rev: str, limit: int) -> list[str]:
    """Return the newest tags between two commits that name a version, oldest first.

    Args:
        repo: the repository.
        since: the older commit.
        rev: the newer commit.
        limit: how many tags to return at most.
    """
    names = ("[vV][0-9]*", "[0-9]*.[0-9]*")
    args = ("--contains", since, "--merged", rev, "--sort=creatordate", "--list", *names)
    return run_git(repo.cwd, "tag", *args).decode("utf-8", "replace").splitlines()[-limit:]


# -- differences between two commits


def read_added_lines(repo: Repository, base: str, tip: str, limit: int = 1 << 20) -> str:
    """Return the lines that `tip` has and `base` has not, without changes of white space.

    At most `limit` bytes of the diff are read.
    """
    shown = ("-U0", "-w", "--no-renames", *NO_COLOR_OR_PROGRAMS)
    with stream_git(repo.cwd, "diff", *shown, "--end-of-options", base, tip, "--") as stream:
        lines = stream.read(limit).splitlines()
    added = [line for line in lines if line[:1] == b"+" and not line.startswith(b"+++ ")]
    return "\n".join(line[1:].decode("utf-8", "replace") for line in added)


def read_hunks(
    repo: Repository, base: str, tip: str, paths: Sequence[str], limit: int = 1 << 16
) -> dict[str, str]:
    """Return by file the hunks by which `tip` differs from `base`, for people to read.

    A hunk has one line of context. At most `limit` bytes of the diff are read.
    """
    shown = ("-U1", "-w", "--no-renames", *NO_COLOR_OR_PROGRAMS, "--no-prefix")
    literal_paths = [f":(top,literal){path}" for path in paths]
    args = ("diff", *shown, "--end-of-options", base, tip, "--", *literal_paths)
    with stream_git(repo.cwd, *LOG_SETTINGS, *args) as stream:
        text = "\n" + stream.read(limit).decode("utf-8", "replace")

    hunks_by_path: dict[str, str] = {}
    for file_diff in text.split("\ndiff --git ")[1:]:
        header, *hunks = file_diff.split("\n@@ ")
        if hunks:
            path = header.partition("\n")[0].split(" ")[-1]
            hunks_by_path[path] = "\n".join(f"@@ {hunk.rstrip()}" for hunk in hunks)
    return hunks_by_path
