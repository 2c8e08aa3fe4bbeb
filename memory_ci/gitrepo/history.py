"""The history of a branch: its merged changes, versions of files, and commits by their content."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from itertools import chain, groupby, islice

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.blobs import matches_pathspecs
from memory_ci.gitrepo.forges import describe_change
from memory_ci.gitrepo.history_cache import HistoryCache, Parents
from memory_ci.gitrepo.log import FILE_OPTIONS, LOG_SETTINGS, parse_date, read_commit, read_log
from memory_ci.gitrepo.process import run_git, stream_git
from memory_ci.gitrepo.repo import (
    Repository,
    cache_ancestor,
    find_commit,
    is_ancestor,
    is_shallow,
    list_cut,
    resolve_commit,
)
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import SERVED_TRAILER

SURFACE_TRAILER = "Memory-Surface"
MAX_USES = 5_000  # Newest commits with served memory that are searched for agents.
NO_COLOR_OR_PROGRAMS = ("--no-color", "--no-ext-diff", "--no-textconv")
AS_TEXT = ("--text", "--no-ext-diff", "--no-textconv")
"""An attribute of the repository (`MEMORY.md -diff`) must not hide written lines."""

FETCH_HINT = "Fetch all of it: `git fetch --unshallow`, or `fetch-depth: 0` for actions/checkout."


class HistoryRange(msgspec.Struct, frozen=True):
    """The commits of `since..until`, grouped by the first-parent commit that merged them.

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
        """The number of merged changes, at most: several groups of a rebase are one change."""
        return len(self.groups)


class FileVersion(msgspec.Struct, frozen=True):
    """A file as a commit left it; `oid` is None where the commit deleted it."""

    commit: Commit
    path: str
    oid: str | None


class LineCount(msgspec.Struct, frozen=True):
    """How a commit changed the number of lines with certain beginnings.

    Attributes:
        added_counts: for each beginning the number of lines that the commit added, less the number
            of those that it removed.
    """

    sha: str
    committed_at: datetime
    added_counts: dict[str, int]


# -- ranges and merged changes


def plan_range(repo: Repository, since: str | None, until: str) -> HistoryRange:
    """Return the commits of `since..until`, grouped along the first parents of `until`.

    Args:
        repo: the repository.
        since: a revision; None for all of history.
        until: a revision.

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
    """Group the commits of a range by the first-parent commit that merged them, oldest first.

    Args:
        parents: the parents of each commit of the range, children before parents. A parent that is
            no key is outside of the range.
        tip: the newest commit.

    Returns:
        For each first-parent commit of the range, oldest first: the commits that it merged and no
        older one did, oldest first, then itself. Each commit of the range is in one group.
    """
    first_parents = walk_first_parents(parents, tip)
    newest_first_positions = {commit: position for position, commit in enumerate(parents)}
    ungrouped = set(parents).difference(first_parents)

    groups: list[tuple[str, ...]] = []
    for commit in reversed(first_parents):
        merged_commits = _take_merged(parents, commit, ungrouped)
        merged_commits.sort(key=newest_first_positions.__getitem__, reverse=True)
        groups.append((*merged_commits, commit))
    return tuple(groups)


def iter_merged_changes(repo: Repository, history: HistoryRange) -> Iterator[MergedChange]:
    """Yield the changes of a range, oldest first, from one `git log` in constant memory.

    A change is a merge with its commits, a squash, a direct push, or a rebase: neighbouring commits
    that name the same pull request.
    """
    with closing(_iter_group_changes(repo, history)) as changes:
        for _, neighbours in groupby(changes, _rebase_key):
            yield _join_rebased(list(neighbours))


def _iter_group_changes(
    repo: Repository, history: HistoryRange
) -> Generator[MergedChange, None, None]:
    """Yield a change for each group of a range, oldest first.

    A group is a commit on the first-parent line with the commits that it merged. The commits of a
    rebased pull request are all on that line: each of them is a change of its own here, and
    `iter_merged_changes` joins them.
    """
    shas = list(chain.from_iterable(history.groups))
    with closing(_iter_commits(repo, shas)) as commits:
        for group in history.groups:
            commits_of_group = tuple(islice(commits, len(group)))
            yield describe_change(commits_of_group)


def _iter_commits(repo: Repository, shas: Sequence[str]) -> Generator[Commit, None, None]:
    """Yield commits with their files, in the order of their full ids, in constant memory.

    Those that were read before come from the cache of the repository, all others from one `git
    log`. A record run reads most commits several times: to learn from them, to try checks on them,
    and to verify its quotes of them.
    """
    cache = _open_cache(repo)
    cached_commits: dict[str, Commit] = {}  # Kept here, for the cache may drop them meanwhile.
    missing_shas: list[str] = []
    for sha in shas:
        cached_commit = cache.find_commit(sha)
        if cached_commit is None:
            missing_shas.append(sha)
        else:
            cached_commits[sha] = cached_commit
    if not missing_shas:  # Without revisions git would read HEAD.
        yield from cached_commits.values()
        return

    lines = "".join(f"{sha}\n" for sha in missing_shas).encode()
    options = (*FILE_OPTIONS, "--no-walk=unsorted", "--stdin")
    with closing(read_log(repo, *options, input=lines)) as log:
        for sha in shas:
            commit = cached_commits.get(sha)
            if commit is None:
                commit, _ = next(log)
                cache.add_commit(commit)
            yield commit


def _open_cache(repo: Repository) -> HistoryCache:
    """Return the cache of history, a new one if a shallow clone was cut off elsewhere before."""
    cut = list_cut(repo)
    cache = repo.history_caches.get(cut)
    if cache is None:
        cache = HistoryCache()
        repo.history_caches.clear()
        repo.history_caches[cut] = cache
    return cache


def _resolve_range_start(repo: Repository, since: str, tip: str) -> str:
    """Return the id of the commit `since`, which must be in the history of `tip`.

    Raises:
        RepositoryError: unreachable-cursor, or shallow-clone if it may be cut off.
    """
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


def list_parents(repo: Repository, since: str | None, tip: str) -> Parents:
    """Return the parents of each commit of `since..tip`, children before parents.

    The answer about full ids of commits is cached.
    """
    if since == tip:
        return {}
    cache = _open_cache(repo)
    cached_parents = cache.find_parents(since, tip)
    if cached_parents is not None:
        return cached_parents
    longer_parents = cache.find_covering(since, tip)
    if since is None or longer_parents is None:
        parents = _read_parents(repo, since, tip)
    else:
        parents = _exclude_history(longer_parents, since)
    are_full_ids = tip in repo.commits and (since is None or since in repo.commits)
    if are_full_ids:
        cache.add_parents(since, tip, parents)
    return parents


def _exclude_history(parents: Parents, since: str) -> dict[str, tuple[str, ...]]:
    """Return the commits of a range that are not in the history of one of them, `since`.

    They remain in the order in which git lists them: `--topo-order` is the order of a depth-first
    search from a commit to its parents, and commits that are left out do not change it.
    """
    history: set[str] = set()
    pending_commits = [since]
    while pending_commits:
        commit = pending_commits.pop()
        if commit in parents and commit not in history:
            history.add(commit)
            pending_commits.extend(parents[commit])
    return {
        commit: commit_parents
        for commit, commit_parents in parents.items()
        if commit not in history
    }


def _read_parents(repo: Repository, since: str | None, tip: str) -> dict[str, tuple[str, ...]]:
    """Ask git for the parents of each commit of `since..tip`, children before parents."""
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
    merged_commits: list[str] = []
    pending_commits = list(parents[merge][1:])
    while pending_commits:
        commit = pending_commits.pop()
        if commit in ungrouped:
            ungrouped.remove(commit)
            merged_commits.append(commit)
            pending_commits.extend(parents[commit])
    return merged_commits


def _rebase_key(change: MergedChange) -> int | str | None:
    """Return a key that is equal for the commits of one rebase, and for no other changes.

    Each commit of a rebase looks like a squash: it is on the first-parent line and names the number
    of the pull request.
    """
    return change.number if change.kind == "squash" else change.tip.sha


def _join_rebased(changes: Sequence[MergedChange]) -> MergedChange:
    """Join changes with the same rebase key, oldest first, to one; a single one stays as it is."""
    newest = changes[-1]
    if len(changes) == 1:
        return newest
    commits = chain.from_iterable(change.commits for change in changes)
    return replace(newest, kind="rebase", commits=tuple(commits))


def list_first_parents(repo: Repository, since: str | None, until: str) -> list[str]:
    """Return the commits of `since..until` on the first-parent line of `until`, newest first."""
    parents = _open_cache(repo).find_parents(since, until)
    if parents is not None:
        return walk_first_parents(parents, until)
    exclusions = [f"^{since}"] if since else []
    listing = run_git(repo.cwd, "rev-list", "--first-parent", until, *exclusions, "--")
    return listing.decode().split()


def find_cached_commits(repo: Repository, since: str | None, until: str) -> list[Commit] | None:
    """Return the commits of a range if all of them were read; it takes no git process.

    Git need not search a range for what none of its commits has.

    Args:
        repo: the repository.
        since: the full id of the commit before the range; None for all of history.
        until: the full id of the last commit.

    Returns:
        The commits with their files, as FILE_OPTIONS list them, children before parents; None if
        one is not cached.
    """
    cache = _open_cache(repo)
    if cache.find_covering(since, until) is None:
        return None
    return _find_all(cache, list_parents(repo, since, until))


def list_cached_first_parents(repo: Repository, tip: str) -> list[Commit]:
    """Return the commits on the first-parent line of `tip`, up to the first that was not read.

    Args:
        repo: the repository.
        tip: the full id of the newest commit.

    Returns:
        The commits with their files, newest first; none if `tip` itself was not read.
    """
    cache = _open_cache(repo)
    commits: list[Commit] = []
    commit = cache.find_commit(tip)
    while commit is not None:
        commits.append(commit)
        commit = cache.find_commit(next(iter(commit.parents), ""))
    return commits


def _find_all(cache: HistoryCache, shas: Iterable[str]) -> list[Commit] | None:
    """Return the commits with these full ids, in their order; None if one is not cached."""
    commits: list[Commit] = []
    for sha in shas:
        commit = cache.find_commit(sha)
        if commit is None:
            return None
        commits.append(commit)
    return commits


def find_cached_first_parents(
    repo: Repository, since: str | None, until: str
) -> list[Commit] | None:
    """Return the commits of a range on the first-parent line, newest first, if all were read.

    The parameters are those of `find_cached_commits`.
    """
    cache = _open_cache(repo)
    if cache.find_covering(since, until) is None:
        return None
    parents = list_parents(repo, since, until)
    return _find_all(cache, walk_first_parents(parents, until))


# -- commits by message and content


def read_commit_once(repo: Repository, sha: str) -> Commit:
    """Return a commit, without a git process if it was read with its range; ignore its files."""
    return _open_cache(repo).find_commit(sha) or read_commit(repo, sha)


def read_time_once(repo: Repository, sha: str) -> datetime:
    """Return when a commit was made, in UTC, as `read_commit_once` reads it."""
    return read_commit_once(repo, sha).committed_at.astimezone(UTC)


def read_authorship(repo: Repository, sha: str) -> tuple[str, datetime] | None:
    """Return the author's e-mail address and date of a commit, which a rebase does not change.

    None where the repository does not hold the commit.
    """
    full_sha = find_commit(repo, sha)
    if full_sha is None:
        return None
    commit = read_commit_once(repo, full_sha)
    return commit.email, commit.authored_at


def find_addition(repo: Repository, rev: str, path: str) -> str | None:
    """Return the oldest first-parent commit of `rev` that added a file at `path`, if there is one.

    That it is in the history of `rev` is cached: callers ask for that next.
    """
    cached_commits = find_cached_first_parents(repo, None, rev)
    if cached_commits is not None:
        newest_first = [commit.sha for commit in cached_commits if _adds(commit, path)]
    else:
        file_options = (*FILE_OPTIONS, "--no-renames", "--diff-filter=A")
        revision = ("--end-of-options", rev, "--", f":(top,literal){path}")
        log = read_log(repo, "--first-parent", *file_options, *revision)
        newest_first = [commit.sha for commit, _ in log]
    if not newest_first:
        return None
    oldest = newest_first[-1]
    cache_ancestor(repo, oldest, rev)
    return oldest


def _adds(commit: Commit, path: str) -> bool:
    """Return whether a commit added a file, or renamed another one to its path."""
    return any(file.path == path and file.status in ("A", "R") for file in commit.files)


def list_versions(repo: Repository, rev: str, pathspecs: Sequence[str]) -> Iterator[FileVersion]:
    """Yield every version of the files along the first parents of `rev`, newest first.

    A renamed file counts as two files.
    """
    files = ("--first-parent", *FILE_OPTIONS, "--no-renames")
    for commit, oids in read_log(repo, *files, "--end-of-options", rev, "--", *pathspecs):
        for file, oid in zip(commit.files, oids, strict=True):
            is_deleted = not oid.strip("0")
            yield FileVersion(commit, file.path, None if is_deleted else oid)


def has_version(repo: Repository, since: str, until: str, pathspecs: Sequence[str]) -> bool:
    """Return whether a first-parent commit of since..until changed one of the files."""
    cached_commits = find_cached_first_parents(repo, since, until)
    if cached_commits is not None:
        return any(_touches(commit, pathspecs) for commit in cached_commits)
    args = ("rev-list", "--first-parent", "--max-count=1", "--diff-merges=first-parent")
    revisions = ("--end-of-options", until, f"^{since}", "--", *pathspecs)
    return bool(run_git(repo.cwd, *args, *revisions))


def _touches(commit: Commit, pathspecs: Sequence[str]) -> bool:
    """Return whether a commit changed a file that matches one of the pathspecs.

    A renamed file counts at both of its paths.
    """
    for file in commit.files:
        for path in (file.path, file.old_path):
            if path is not None and matches_pathspecs(path, pathspecs):
                return True
    return False


def list_reverting_commits(repo: Repository, rev: str) -> list[Commit]:
    """Return the commits whose message says that they revert another, oldest first.

    Their `files` are not read.
    """
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
    repo: Repository, rev: str, pathspecs: Sequence[str], start: str, since: date | None = None
) -> frozenset[str]:
    """Return the lines beginning with `start` that first-parent commits of `rev` added to files.

    Lines that a later commit removed are among them.

    Args:
        repo: the repository.
        rev: the revision.
        pathspecs: the files.
        start: the beginning of the lines.
        since: only commits since the start of this day, UTC, are read; None for all of history.
    """
    diff_options = ("-p", "-U0", "-m", "--format=", "--no-renames", "--no-color", *AS_TEXT)
    limit = (f"--since={since}T00:00:00Z",) if since else ()
    args = (
        "log",
        "--first-parent",
        *diff_options,
        *limit,
        "--end-of-options",
        rev,
        "--",
        *pathspecs,
    )
    prefix = f"+{start}".encode()

    added_lines: set[str] = set()
    with stream_git(repo.cwd, *args) as stream:
        for line in stream:
            if line.startswith(prefix):
                added_lines.add(line[1:].decode("utf-8", "replace").rstrip())
    return frozenset(added_lines)


def list_commits_mentioning(
    repo: Repository, rev: str, words: Sequence[str], pathspecs: Sequence[str]
) -> list[str]:
    """Return the first-parent commits that added or removed a line with one of `words`.

    The newest commit comes first; those without parents are left out.

    Args:
        repo: the repository.
        rev: the newest commit.
        words: a line with one of them counts.
        pathspecs: only lines of these files count.
    """
    escaped_words = [re.sub(r"([^\w-])", r"\\\1", word) for word in words]
    pattern = "|".join(escaped_words)
    walk = ("--first-parent", "--diff-merges=first-parent", "--min-parents=1")
    output_options = ("-s", "--no-renames", *AS_TEXT, "--format=%H")
    args = ("log", "--extended-regexp", f"-G{pattern}", *walk, *output_options)
    revision = ("--end-of-options", rev, "--", *pathspecs)
    return run_git(repo.cwd, *LOG_SETTINGS, *args, *revision).decode().split()


def list_commits_replacing(repo: Repository, rev: str, path: str, text: str) -> list[str]:
    """Return the commits that changed how often `text` occurs in a file.

    Commits of merged branches are among them; merges and commits without parents are not.
    """
    walk = ("--min-parents=1", "--max-parents=1", f"-S{text}", *AS_TEXT, "--format=%H")
    revision = ("--end-of-options", rev, "--", f":(top,literal){path}")
    return run_git(repo.cwd, *LOG_SETTINGS, "log", *walk, *revision).decode().split()


def find_last_uses(repo: Repository, rev: str) -> dict[str, datetime]:
    """Return when each agent last committed work for which it had read entries of memory.

    Such commits name the entries in the trailer `Memory-Retrieved`.

    Returns:
        The time of the last such commit by agent, the latest first.
    """
    keys = (SURFACE_TRAILER, "Memory-Session")
    values = "".join(f"%x00%(trailers:key={key},valueonly,separator=%x2C)" for key in keys)
    format_options = ("--date=raw", f"--format=%cd{values}")
    selection = (f"-n{MAX_USES}", f"--grep=^{SERVED_TRAILER}:")
    args = ("log", *selection, *format_options, "--end-of-options", rev, "--")
    listing = run_git(repo.cwd, *LOG_SETTINGS, *args).decode("utf-8", "replace")

    latest: dict[str, datetime] = {}
    for line in listing.splitlines():
        raw_date, surface, sessions = line.split("\0")
        committed_at = parse_date(raw_date)
        for agent in _list_agents(surface, sessions):
            latest[agent] = max(committed_at, latest.get(agent, committed_at))
    latest_first = sorted(latest.items(), key=lambda item: item[1], reverse=True)
    return dict(latest_first)


def _list_agents(surface: str, sessions: str) -> set[str]:
    """Return the names of the agents that made a commit, from the values of its trailers.

    Args:
        surface: the value of `Memory-Surface`: the name of the cloud service in which the agent
            ran; "" if it ran elsewhere. It is returned as the name of the agent.
        sessions: the values of `Memory-Session`, each `<agent>:<id>`, with commas.
    """
    if surface:
        return {surface}
    agents = {session.strip().partition(":")[0] for session in sessions.split(",")}
    return agents - {""}


def find_unmerged_mention(repo: Repository, words: str) -> datetime | None:
    """Return when the newest descendant of HEAD with `words` in its message was committed.

    Only commits of local branches are searched. None if no message has the words.
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
    diff_options = (
        "-p",
        "-U0",
        "-m",
        "--no-renames",
        "--no-color",
        "--date=raw",
        "--format=%x00%H %cd",
    )
    options = ("--first-parent", *diff_options, *AS_TEXT, f"--since={since}T00:00:00Z")
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
                _count_line(count.added_counts, line)
    if count is not None:
        yield count


def _count_line(counts: dict[str, int], diff_line: bytes) -> None:
    """Update the counts of `counts` with a line of a diff: `+` counts 1, `-` counts -1."""
    for start in counts:
        if diff_line.startswith(f"+{start}".encode()):
            counts[start] += 1
        elif diff_line.startswith(f"-{start}".encode()):
            counts[start] -= 1


def list_releases(repo: Repository, since: str, rev: str, limit: int) -> list[str]:
    """Return the newest tags between two commits that name a version (`v1.2`), oldest first.

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
    """Return the lines that the diff of two commits adds; changes of white space do not count.

    At most `limit` bytes of the diff are read.
    """
    diff_options = ("-U0", "-w", "--no-renames", *NO_COLOR_OR_PROGRAMS)
    with stream_git(repo.cwd, "diff", *diff_options, "--end-of-options", base, tip, "--") as stream:
        diff_lines = stream.read(limit).splitlines()
    added_lines: list[str] = []
    for line in diff_lines:
        is_file_name = line.startswith(b"+++ ")
        if line.startswith(b"+") and not is_file_name:
            added_lines.append(line[1:].decode("utf-8", "replace"))
    return "\n".join(added_lines)


def read_hunks(
    repo: Repository, base: str, tip: str, paths: Sequence[str], limit: int = 1 << 16
) -> dict[str, str]:
    """Return by path the hunks of the diff of two commits, for people to read.

    A hunk has one line of context; changes of white space are left out.

    Args:
        repo: the repository.
        base: the older commit.
        tip: the newer commit.
        paths: the files.
        limit: at most this number of bytes of the diff is read.
    """
    diff_options = ("-U1", "-w", "--no-renames", *NO_COLOR_OR_PROGRAMS, "--no-prefix")
    literal_paths = [f":(top,literal){path}" for path in paths]
    args = ("diff", *diff_options, "--end-of-options", base, tip, "--", *literal_paths)
    with stream_git(repo.cwd, *LOG_SETTINGS, *args) as stream:
        text = "\n" + stream.read(limit).decode("utf-8", "replace")

    hunks_by_path: dict[str, str] = {}
    for file_diff in text.split("\ndiff --git ")[1:]:
        header, *hunks = file_diff.split("\n@@ ")
        if hunks:
            names, _, _ = header.partition("\n")  # `<path> <path>`
            path = names.split(" ")[-1]
            hunks_by_path[path] = "\n".join(f"@@ {hunk.rstrip()}" for hunk in hunks)
    return hunks_by_path
