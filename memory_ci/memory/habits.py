"""Habits in the newest merged changes: changelogs, conventional commits, files kept in sync."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Collection, Iterable

from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.log import find_lines
from memory_ci.memory.screening import is_unsafe
from memory_ci.memory.task_ledger import MAX_QUOTE, FinishedChange, Ledger
from memory_ci.memory.workspace import Workspace, readable_path
from memory_ci.records.retrieval import ChangelogHabit, Habits, SyncedFiles
from memory_ci.regex import Regex
from memory_ci.search.similar_tasks import CLASSES, classify_title
from memory_ci.text import shorten

LAST_CHANGES = 100
"""Number of changes of a class in which a habit is counted."""

LEAST_CHANGES = 20
"""Number of changes of a class below which no habit is counted."""

LAST_TITLES = 50
"""Number of titles in which conventional commits are counted."""

FRAGMENTS = Regex(
    r"(?i)\.?(?:changelog|changes?|news|newsfragments|changesets?)(?:\.d)?|unreleased|next"
)
"""The name of a directory of changelog fragments, as `changelog.d`."""

CHANGELOG = Regex(r"(?i)(?:change(?:s|log)|history|news|whatsnew)\b")
"""The name of a changelog, as `CHANGELOG.md`."""

CONVENTIONAL = Regex(r"[a-z]+(?:\([^)]*\))?!?: ")
"""The start of a conventional commit, as `fix(api): `."""

IN_SYNC = r"(keep|kept|stay|update|must be).{0,40} in (sync|step) with"
"""Words of a comment that asks to change two files together, as an expression of `git grep`."""

PATH = Regex(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*\.\w{1,10}\b")
"""A path with an ending, as `src/client.py`."""

COMMENT = Regex(r"\s*(?:#|//|/?\*|--|;|<!--|\.\. )|.*\s(?:#|//)\s")
"""A line with a comment in one of the usual languages."""

MAX_COMMENTS = 200


def count_habits(workspace: Workspace, ledger: Ledger, tip: str) -> Habits:
    """Count habits of the newest changes: changelogs, conventional commits, files kept in sync.

    Args:
        workspace: the repository.
        ledger: the changes.
        tip: the commit whose comments are searched for files that are kept in sync.
    """
    # How often changes of a class, such as fixes or features, write to a changelog.
    changelog_habits = {}
    for class_name in CLASSES:
        changes = []
        for change in ledger.changes:
            if classify_title(change.title) == class_name:
                changes.append(change)
        last_changes = changes[-LAST_CHANGES:]
        changelog_counts = _count_changelogs(last_changes)
        if len(last_changes) >= LEAST_CHANGES and changelog_counts:
            path, count = changelog_counts.most_common(1)[0]
            changelog_habits[class_name] = ChangelogHabit(count, len(last_changes), path)

    titles = [change.title for change in ledger.changes[-LAST_TITLES:]]
    conventional_titles = [title for title in titles if CONVENTIONAL.match(title)]
    # Pairs of files, one of which has a comment that the other must be changed as well.
    synced_files = _list_files_in_sync(workspace, tip)
    return Habits(
        fragments=changelog_habits,
        conventional=(len(conventional_titles), len(titles)),
        in_sync=tuple(synced_files),
    )


def _count_changelogs(changes: Iterable[FinishedChange]) -> Counter[str]:
    """Count the changes that touched each changelog, or directory of fragments."""
    counts: Counter[str] = Counter()
    for change in changes:
        counts.update({_changelog_of(path) for path in change.files} - {""})
    return counts


def _list_files_in_sync(workspace: Workspace, tip: str) -> list[SyncedFiles]:
    """Return the files with a comment that asks to keep another file in sync."""
    paths = {readable_path(file) for file in tree_at(workspace.repo, tip).files.values()}
    in_sync = []
    for path, line in find_lines(workspace.repo, tip, IN_SYNC)[:MAX_COMMENTS]:
        if path not in paths or not COMMENT.match(line) or is_unsafe(line):
            continue
        other_path = _find_named_file(path, line, paths)
        if other_path is not None:
            comment = shorten(line.strip(" \t#/*-;"), MAX_QUOTE)
            in_sync.append(SyncedFiles(path, other_path, comment))
    return in_sync


def _find_named_file(path: str, line: str, paths: Collection[str]) -> str | None:
    """Return the first other file that a line of a file names, or None.

    The name counts from the root, or relative to the file.

    Args:
        path: the path of the file.
        line: the line.
        paths: all paths of the tree.
    """
    for name in PATH.findall(line):
        relative_path = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        for candidate in (name, relative_path):
            if candidate in paths and candidate != path:
                return candidate
    return None


def _changelog_of(path: str) -> str:
    """Return the changelog that a path is, or the directory of its fragments; else ""."""
    directory, _, name = path.rpartition("/")
    if FRAGMENTS.fullmatch(directory.rpartition("/")[2]):
        return f"{directory}/"
    return path if CHANGELOG.match(name) else ""
