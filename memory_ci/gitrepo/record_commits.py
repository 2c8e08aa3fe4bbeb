"""Find the commits of record runs, and the cursor: the newest commit that such runs have read.

A record run reads the merged changes of a branch, and commits the entries that it learned from
them. Such a record commit changes memory files only, and has the trailers below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date

import msgspec
from msgspec.structs import replace

from memory_ci.gitrepo.history import (
    find_cached_commits,
    group_commits,
    list_cached_first_parents,
    list_parents,
    walk_first_parents,
)
from memory_ci.gitrepo.log import FILE_OPTIONS, LOG_SETTINGS, read_commit, read_log
from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.repo import Repository, cache_ancestor, find_commit, is_ancestor
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.records.history import Commit, FileChange
from memory_ci.records.names import FULL_ID

# Keys of the trailers in the messages of record commits.
STEP = "Memory-CI-Step"
SOURCE = "Memory-CI-Source"
COST = "Memory-CI-Cost"
RANGE = "Memory-CI-Range"
COUNTED = "Memory-CI-Counted"

INBOX = ".memory/inbox/"
"""The directory of proposed notes, which people who may not change memory may write, too.

A record run deletes the notes and writes their content into other memory files.
"""


FIRST_PARENT = "--first-parent"


class Cursor(msgspec.Struct, frozen=True):
    """How far earlier record runs have read history.

    Attributes:
        source: the newest commit that they read.
        commit: the record commit that names it in its trailer `Memory-CI-Source`.
    """

    source: str
    commit: str


class CursorSearch(msgspec.Struct, frozen=True):
    """The cursor of a revision, and a newer one that it lost.

    Attributes:
        cursor: the cursor; None before the first run.
        lost: the newest record commit after it whose source is not in its history, which happens
            when the branch was rewritten; None if there is no such commit.
    """

    cursor: Cursor | None
    lost: Cursor | None


def is_markdown(path: str) -> bool:
    """Return whether a path may lead to a memory file, wherever memory is configured to live."""
    return path.endswith(".md")


def find_cursor(
    repo: Repository, rev: str, is_memory: Callable[[str], bool] = is_markdown
) -> Cursor | None:
    """Return how far record runs have read the history of `rev`; None before the first run.

    Args:
        repo: the repository.
        rev: a revision.
        is_memory: returns whether a path leads to a memory file.
    """
    return search_cursors(repo, rev, is_memory).cursor


def search_cursors(
    repo: Repository, rev: str, is_memory: Callable[[str], bool] = is_markdown
) -> CursorSearch:
    """Return how far record runs have read the history of `rev`, and the cursor that it lost.

    The newest record commit names the last commit that was read, its source, in a trailer. Anyone
    can write a trailer, so a source that is not in the history of its record commit is skipped.

    Record commits on the first-parent line are searched first. Newer ones off this line count if
    the merge that contains them changed memory only, as the merge of a memory pull request does.

    Args:
        repo: the repository.
        rev: a revision.
        is_memory: returns whether a path leads to a memory file.
    """
    if _has_no_trailer(repo, None, rev, SOURCE):
        return CursorSearch(None, None)
    on_first_parents: Cursor | None = None
    lost: Cursor | None = None
    for commit in _iter_on_first_parents(repo, rev, is_memory):
        on_first_parents = _read_cursor(repo, rev, commit)
        if on_first_parents is not None:
            break
        sources = _list_sources(commit)
        if lost is None and sources:
            lost = Cursor(sources[-1], commit.sha)

    if on_first_parents is not None:
        is_at_tip = on_first_parents.commit == rev
        if is_at_tip or _has_no_source_off_line(repo, on_first_parents.source, rev):
            return CursorSearch(on_first_parents, lost)
    exclusions = [f"^{on_first_parents.commit}"] if on_first_parents else []
    for commit in _iter_record_commits(repo, rev, SOURCE, is_memory, *exclusions):
        cursor = _read_cursor(repo, rev, commit)
        if cursor and _is_valid_and_newer(repo, rev, cursor, on_first_parents, is_memory):
            is_older_lost = lost is not None and is_ancestor(repo, lost.commit, cursor.commit)
            return CursorSearch(cursor, None if is_older_lost else lost)
    return CursorSearch(on_first_parents, lost)


def list_counted_commits(
    repo: Repository,
    rev: str,
    since: str | None = None,
    is_memory: Callable[[str], bool] = is_markdown,
) -> frozenset[str]:
    """Return the commits whose trailers on the use of entries earlier record runs counted.

    A run that reads a range again must not count their trailers twice. All parents are searched:
    record commits of a merged memory pull request are not on the first-parent line.

    Args:
        repo: the repository.
        rev: the revision whose history is searched.
        since: the commit before the range of the run; None for all of history. Only record commits
            after it are searched: an older one cannot have counted a commit of the range.
        is_memory: returns whether a path leads to a memory file.
    """
    exclusions = [f"^{since}"] if since else []
    counted: set[str] = set()
    cached_commits = find_cached_commits(repo, since, rev)
    if cached_commits is not None:
        search = _select_record_commits(cached_commits, COUNTED, is_memory)
    else:
        search = _iter_record_commits(repo, rev, COUNTED, is_memory, *exclusions, needs_all=True)
    for commit in search:
        for _, value in find_trailers(commit.message, (COUNTED,)):
            counted.update(split_ids(value))
    return frozenset(counted)


def sum_costs(repo: Repository, since: date, *revs: str) -> float:
    """Return the total cost of record runs in USD, from the trailers of their commits.

    Args:
        repo: the repository.
        since: commits since the start of this day, UTC.
        revs: revisions and options as for `git log`.
    """
    options = (
        f"--since={since}T00:00:00Z",
        f"--grep=^{COST}:",
        f"--format=%(trailers:key={COST},valueonly)",
    )
    listing = run_git(repo.cwd, *LOG_SETTINGS, "log", *options, *revs, "--")

    total = 0.0
    for line in listing.decode("utf-8", "replace").splitlines():
        amount = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) USD", line.strip())
        if amount:
            total += float(amount[1])
    return total


def _read_cursor(repo: Repository, rev: str, commit: Commit) -> Cursor | None:
    """Return the cursor that a record commit names; None if its history lacks all of its sources.

    If a squash names several sources, the newest that is in its history counts.
    """
    for source in reversed(_list_sources(commit)):
        if find_commit(repo, source) != source:
            continue
        if _is_on_first_parents(repo, source, commit, rev) or is_ancestor(repo, source, commit.sha):
            cache_ancestor(repo, source, rev)
            return Cursor(source, commit.sha)
    return None


def _is_on_first_parents(repo: Repository, source: str, commit: Commit, rev: str) -> bool:
    """Return whether first parents lead from a record commit back to its source.

    It takes no git process of its own: the caller of a search reads the range after the source
    next, and that range is cached. False also if `rev` may be a name, of which nothing is cached.
    """
    if rev not in repo.commits:
        return False
    newer_parents = list_parents(repo, source, rev)
    return _is_first_parent_descendant(newer_parents, commit.sha, source)


def _has_no_source_off_line(repo: Repository, source: str, rev: str) -> bool:
    """Return whether the commits after a source that were not searched yet name no source.

    These are the commits that are not on the first-parent line of `rev`. False if `rev` may be a
    name, of which nothing is cached, or if there are such commits and they were not read before.
    """
    if rev not in repo.commits:
        return False
    newer_parents = list_parents(repo, source, rev)
    first_parents = set(walk_first_parents(newer_parents, rev))
    if len(first_parents) == len(newer_parents):
        return True
    cached_commits = find_cached_commits(repo, source, rev)
    if cached_commits is None:
        return False
    return not any(
        commit.sha not in first_parents and _mentions(commit, SOURCE) for commit in cached_commits
    )


def _has_no_trailer(repo: Repository, since: str | None, rev: str, key: str) -> bool:
    """Return whether the commits of a range were read before, and none mentions a trailer."""
    cached_commits = find_cached_commits(repo, since, rev)
    if cached_commits is None:
        return False
    return not any(_mentions(commit, key) for commit in cached_commits)


def _mentions(commit: Commit, key: str) -> bool:
    """Return whether the message of a commit has `key:` anywhere, in any case."""
    return f"{key}:".lower() in commit.message.lower()


def _list_sources(commit: Commit) -> list[str]:
    """Return the commit ids that a message names in trailers `Memory-CI-Source`.

    A squash of record commits has several, the newest last.
    """
    trailers = find_trailers(commit.message, (SOURCE,))
    return [value for _, value in trailers if re.fullmatch(FULL_ID, value)]


def _is_valid_and_newer(
    repo: Repository,
    rev: str,
    cursor: Cursor,
    on_first_parents: Cursor | None,
    is_memory: Callable[[str], bool],
) -> bool:
    """Return whether a cursor off the first-parent line of `rev` is valid for it, and newer.

    A cursor is a record commit and its source, the last commit that the run had read. These must
    hold:

    1. The source is not in the history that the cursor on the first-parent line has.
    2. The first parents of `rev` and of the record commit lead back to the source: else the cursor
       is of another branch.
    3. The merge that brought the record commit to the first-parent line changed memory files only:
       else a change of code could carry a forged cursor.

    Args:
        repo: the repository.
        rev: the revision.
        cursor: the cursor to judge.
        on_first_parents: the newest cursor on the first-parent line.
        is_memory: returns whether a path leads to a memory file.
    """
    if on_first_parents is not None and is_ancestor(repo, cursor.source, on_first_parents.source):
        return False

    newer_parents = list_parents(repo, cursor.source, rev)  # Of the commits after the source.
    tip = next(iter(newer_parents))  # Children come before parents: the first is `rev` itself.
    for commit in (tip, cursor.commit):
        if not _is_first_parent_descendant(newer_parents, commit, cursor.source):
            return False

    for group in group_commits(newer_parents, tip):
        if cursor.commit in group:
            # The last commit of a group merged the others.
            merge = read_commit(repo, group[-1], *FILE_OPTIONS, "--no-renames")
            return bool(merge.files) and all(is_memory(file.path) for file in merge.files)
    return False


def _is_first_parent_descendant(
    newer_parents: Mapping[str, tuple[str, ...]], commit: str, source: str
) -> bool:
    """Return whether first parents lead from a commit back to `source`.

    The walk ends at the first commit in the history of `source`, because `newer_parents` has none
    of these. They do lead back if that commit is `source` itself.

    Args:
        newer_parents: the parents of each commit that is not in the history of `source`.
        commit: the id of the commit.
        source: the id of the commit to find.
    """
    first_parent_line = walk_first_parents(newer_parents, commit)
    if not first_parent_line:
        return False
    oldest = first_parent_line[-1]
    return newer_parents[oldest][:1] == (source,)


def _iter_record_commits(
    repo: Repository,
    rev: str,
    key: str,
    is_memory: Callable[[str], bool],
    *options: str,
    needs_all: bool = False,
) -> Iterator[Commit]:
    """Yield the record commits of `rev` with `key:` in the message, newest first.

    A first git process searches only for the newest match, because most callers need no other, and
    the search for a second match could read all of history.

    Args:
        repo: the repository.
        rev: a revision.
        key: the key of a trailer.
        is_memory: returns whether a path leads to a memory file.
        options: `--first-parent`, and revisions that are excluded.
        needs_all: whether the caller needs all matches, so that one process searches for them.
    """
    grep = ("--fixed-strings", "--regexp-ignore-case", f"--grep={key}:")
    arguments = (*options, *FILE_OPTIONS, "--no-renames", *grep, "--end-of-options", rev, "--")
    all_matches = ["--skip=0"]
    newest_then_others = ["--max-count=1", "--skip=1"]
    for limit in all_matches if needs_all else newest_then_others:
        has_match = False
        for commit, _ in read_log(repo, limit, *arguments):
            has_match = True
            if _is_record_commit(commit, is_memory):
                yield commit
        if not has_match:
            return


def _iter_on_first_parents(
    repo: Repository, rev: str, is_memory: Callable[[str], bool]
) -> Iterator[Commit]:
    """Yield the record commits on the first-parent line of `rev` with a source, newest first.

    Git searches only behind the commits that were read before.
    """
    cached_commits = list_cached_first_parents(repo, rev)
    yield from _select_record_commits(cached_commits, SOURCE, is_memory)
    unread = cached_commits[-1].parents[:1] if cached_commits else (rev,)
    for older_rev in unread:
        yield from _iter_record_commits(repo, older_rev, SOURCE, is_memory, FIRST_PARENT)


def _select_record_commits(
    cached_commits: Iterable[Commit], key: str, is_memory: Callable[[str], bool]
) -> Iterator[Commit]:
    """Yield those of some commits that are record commits with `key:` in the message."""
    for commit in cached_commits:
        if _mentions(commit, key) and _is_record_commit(_split_renames(commit), is_memory):
            yield commit


def _split_renames(commit: Commit) -> Commit:
    """Return a commit with each renamed file as a deleted one and an added one."""
    files: list[FileChange] = []
    for file in commit.files:
        if file.status == "R" and file.old_path is not None:
            files += [FileChange("D", file.old_path), FileChange("A", file.path)]
        else:
            files.append(file)
    return replace(commit, files=tuple(files))


def _is_record_commit(commit: Commit, is_memory: Callable[[str], bool]) -> bool:
    """Return whether a record run made a commit, or the commit is a squash of such commits.

    A record commit has a trailer `Memory-CI-Step`, and changes memory files: at least one outside
    the inbox, and none in the inbox except by deleting notes.

    Anyone can write such a trailer, and people who may not change memory may propose notes in the
    inbox. If their commit counted, a forged trailer could move the cursor, and later runs would
    skip changes. So a commit of the kind that such people may make is never a record commit.
    """
    inbox_files = [file for file in commit.files if file.path.startswith(INBOX)]
    # A commit without any file is not a record commit, either.
    changes_only_inbox = len(inbox_files) == len(commit.files)
    writes_notes = any(file.status != "D" for file in inbox_files)
    if changes_only_inbox or writes_notes:
        return False
    if not find_trailers(commit.message, (STEP,)):
        return False
    return all(is_memory(file.path) for file in commit.files)
