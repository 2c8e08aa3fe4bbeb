"""Commits of record runs, their trailers, and the cursor: the position that they reached."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date

import msgspec

from memory_ci.gitrepo.history import group_commits, list_parents, walk_first_parents
from memory_ci.gitrepo.log import FILE_OPTIONS, LOG_SETTINGS, read_log
from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.repo import Repository, is_ancestor, is_in_history
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.records.history import Commit
from memory_ci.records.names import FULL_ID

STEP = "Memory-CI-Step"
SOURCE = "Memory-CI-Source"
COST = "Memory-CI-Cost"
RANGE = "Memory-CI-Range"
COUNTED = "Memory-CI-Counted"

INBOX = ".memory/inbox/"
"""Where strangers may write notes. A record run deletes them and writes their content elsewhere."""


class Cursor(msgspec.Struct, frozen=True):
    """The position that earlier runs reached in history.

    Attributes:
        source: the newest commit that they covered.
        commit: the record commit that names it.
    """

    source: str
    commit: str


def is_markdown(path: str) -> bool:
    """Return whether a path may be that of a memory file, wherever memory is configured to live."""
    return path.endswith(".md")


def find_cursor(
    repo: Repository, rev: str, is_memory: Callable[[str], bool] = is_markdown
) -> Cursor | None:
    """Return the cursor that the newest record commit of `rev` names; None before the first run.

    Anyone can write a trailer, so a source that is not in the history of its commit is skipped. A
    record commit off the first-parent line counts if a merge of memory alone contains it, such as
    the merge commit of the memory pull request.
    """
    newest = next(_iter_cursors(repo, rev, is_memory, "--first-parent"), None)
    exclusions = [f"^{newest.commit}"] if newest else []
    for cursor in _iter_cursors(repo, rev, is_memory, *exclusions):
        if _is_further(repo, rev, cursor, newest, is_memory):
            return cursor
    return newest


def find_lost_cursor(
    repo: Repository,
    rev: str,
    cursor: Cursor | None,
    is_memory: Callable[[str], bool] = is_markdown,
) -> Cursor | None:
    """Return the cursor of the newest record commit whose source is not in its history.

    Args:
        repo: the repository.
        rev: the revision whose first parents are searched.
        cursor: the result of `find_cursor`; only record commits after it are searched.
        is_memory: whether a path is that of a memory file.
    """
    exclusions = [f"^{cursor.commit}"] if cursor else []
    for commit in _iter_record_commits(repo, rev, SOURCE, is_memory, "--first-parent", *exclusions):
        lost = [
            source
            for source in _list_sources(commit)
            if not is_in_history(repo, source, commit.sha)
        ]
        if lost:
            return Cursor(lost[-1], commit.sha)
    return None


def list_counted_commits(
    repo: Repository, rev: str, is_memory: Callable[[str], bool] = is_markdown
) -> frozenset[str]:
    """Return the commits whose trailers earlier runs counted, so that a replay counts none twice.

    All of history is searched: record commits of a merged memory pull request are not on the
    first-parent line.
    """
    counted: set[str] = set()
    for commit in _iter_record_commits(repo, rev, COUNTED, is_memory):
        for _, value in find_trailers(commit.message, (COUNTED,)):
            counted.update(split_ids(value))
    return frozenset(counted)


def sum_costs(repo: Repository, since: date, *revs: str) -> float:
    """Sum the USD that runs noted in trailers of commits.

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


def _iter_cursors(
    repo: Repository, rev: str, is_memory: Callable[[str], bool], *options: str
) -> Iterator[Cursor]:
    """Yield the cursors of record commits of `rev`, newest first; options as for `git log`."""
    for commit in _iter_record_commits(repo, rev, SOURCE, is_memory, *options):
        for source in reversed(_list_sources(commit)):
            if is_in_history(repo, source, commit.sha):
                yield Cursor(source, commit.sha)
                break


def _list_sources(commit: Commit) -> list[str]:
    trailers = find_trailers(commit.message, (SOURCE,))
    return [value for _, value in trailers if re.fullmatch(FULL_ID, value)]


def _is_further(
    repo: Repository,
    rev: str,
    cursor: Cursor,
    newest: Cursor | None,
    is_memory: Callable[[str], bool],
) -> bool:
    """Return whether a cursor off the first-parent line of `rev` belongs to it and is further.

    It belongs to the line if both lines lead back to its source, and the merge that contains it
    changed memory only. Thus a branch with a cursor of its own does not count, and a change of code
    cannot carry a forged cursor.

    Args:
        repo: the repository.
        rev: the revision.
        cursor: the cursor to judge.
        newest: the newest cursor on the first-parent line.
        is_memory: whether a path is that of a memory file.
    """
    if newest is not None and is_ancestor(repo, cursor.source, newest.source):
        return False

    parents = list_parents(repo, cursor.source, rev)
    tip = next(iter(parents))
    for start in (tip, cursor.commit):
        first_parents = walk_first_parents(parents, start)
        if not first_parents or parents[first_parents[-1]][:1] != (cursor.source,):
            return False

    groups = group_commits(parents, tip)
    merge_sha = next(group[-1] for group in groups if cursor.commit in group)
    merge_options = (*FILE_OPTIONS, "--no-renames", "--no-walk", "--end-of-options", merge_sha)
    ((merge, _),) = read_log(repo, *merge_options)
    return bool(merge.files) and all(is_memory(file.path) for file in merge.files)


def _iter_record_commits(
    repo: Repository, rev: str, key: str, is_memory: Callable[[str], bool], *options: str
) -> Iterator[Commit]:
    """Yield the record commits of `rev` with `key:` in the message, newest first."""
    grep = ("--fixed-strings", "--regexp-ignore-case", f"--grep={key}:")
    files = (*FILE_OPTIONS, "--no-renames")
    for commit, _ in read_log(repo, *options, *files, *grep, "--end-of-options", rev, "--"):
        if _is_record_commit(commit, is_memory):
            yield commit


def _is_record_commit(commit: Commit, is_memory: Callable[[str], bool]) -> bool:
    """Return whether a commit is one of record, or a squash of some.

    Such a commit names its step and changes memory only. A commit that strangers may make does not
    count: it writes notes into the inbox, or only deletes some.
    """
    notes = [file for file in commit.files if file.path.startswith(INBOX)]
    if len(notes) == len(commit.files) or any(file.status != "D" for file in notes):
        return False
    if not find_trailers(commit.message, (STEP,)):
        return False
    return all(is_memory(file.path) for file in commit.files)
