"""The search for names of entries in a tree, and in the commits on which they were written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import NamedTuple

from memory_ci.anchors.symbols import list_mentions
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.log import find_words, follow_renames, list_pending_renames, list_renames
from memory_ci.gitrepo.past import find_commits_of_days
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.judged_view import JudgedView
from memory_ci.memory.workspace import Workspace, build_memory_test
from memory_ci.records.entry import Entry
from memory_ci.regex import Regex
from memory_ci.store.layout import memory_pathspecs

SOURCE = Regex(r"(?<!claimed:)\bcommit:([0-9a-f]{7,64})\b")
PATH = Regex(r"(?<![\w./-])(?:[\w-][\w.-]*/)+[\w.-]*\w")

MIN_NAME = 4
"""Length of the shortest name; shorter ones occur in too many places, and `e.g` is none."""

MAX_COMMITS = 20
"""Number of earlier commits that are searched; each costs git processes."""


class Named(NamedTuple):
    """The names and the paths in the text of an entry, or those of them that the tree lacks."""

    names: list[str]
    paths: list[str]


def list_named(prose: str) -> Named:
    """Return the names and paths in a text.

    Names have no owners, because a method is still there when its class is renamed.
    """
    mentions = list_mentions(PATH.sub(" ", prose), plain=False)
    tails = dict.fromkeys(mention.rpartition(".")[2] for mention in mentions)
    return Named([tail for tail in tails if len(tail) >= MIN_NAME], PATH.findall(prose))


def search_names(
    view: JudgedView, entries: Iterable[Entry]
) -> tuple[list[Entry], dict[Entry, list[str]]]:
    """Search a tree, and the commits on which entries were written, for the names in entries.

    Returns:
        The entries whose names are all in the tree, and the dead names of the others. Entries that
        need too many commits are in neither.
    """
    named_by_entry = {entry: list_named(entry.text) for entry in entries}
    tree_paths = {file.path for file in view.files}
    names = [named.names for named in named_by_entry.values()]
    names_in_tree = _find_in_tree(view.workspace, view.rev, names)

    live = []
    missing_by_entry = {}
    for entry, named in named_by_entry.items():
        missing = Named(
            [name for name in named.names if name not in names_in_tree],
            [path for path in named.paths if path not in tree_paths],
        )
        if missing.names or missing.paths:
            missing_by_entry[entry] = missing
        else:
            live.append(entry)

    entries_by_commit, dead = _group_by_commit(view, missing_by_entry)
    for commit, entries in list(entries_by_commit.items())[:MAX_COMMITS]:
        missing_here = {entry: missing_by_entry[entry] for entry in entries}
        dead |= _compare_with_commit(view, commit, missing_here, tree_paths)
    return live, dead


def _group_by_commit(
    view: JudgedView, entries: Iterable[Entry]
) -> tuple[dict[str, list[Entry]], dict[Entry, list[str]]]:
    """Group entries by the commit whose tree they were written on.

    Returns:
        The entries by commit, and the entries without a commit, which have no dead names.
    """
    written_on = {entry: _find_written_on(view.workspace, entry) for entry in entries}
    days = {commit for commit in written_on.values() if isinstance(commit, date)}
    commits_by_day = find_commits_of_days(view.repo, view.rev or "HEAD", days)

    entries_by_commit: dict[str, list[Entry]] = defaultdict(list)
    without_commit: dict[Entry, list[str]] = {}
    for entry, written in written_on.items():
        commit = commits_by_day.get(written) if isinstance(written, date) else written
        if commit:
            entries_by_commit[commit].append(entry)
        else:
            without_commit[entry] = []
    return entries_by_commit, without_commit


def _compare_with_commit(
    view: JudgedView,
    commit: str,
    missing_by_entry: Mapping[Entry, Named],
    tree_paths: Collection[str],
) -> dict[Entry, list[str]]:
    """Return the missing names and paths that a commit had, by entry.

    A path whose file was renamed is not dead.
    """
    names = [missing.names for missing in missing_by_entry.values()]
    earlier_names = _find_in_tree(view.workspace, commit, names)
    missing_paths: set[str] = set()
    for missing in missing_by_entry.values():
        missing_paths.update(missing.paths)
    earlier_paths = missing_paths & tree_at(view.repo, commit).files.keys()
    dead_paths = _drop_renamed(view, commit, earlier_paths, tree_paths)

    dead = {}
    for entry, missing in missing_by_entry.items():
        dead[entry] = [name for name in missing.names if name in earlier_names]
        dead[entry] += [path for path in missing.paths if path in dead_paths]
    return dead


def _drop_renamed(
    view: JudgedView, commit: str, paths: Collection[str], tree_paths: Collection[str]
) -> set[str]:
    """Return the paths of a commit whose files were not renamed since."""
    tip = find_commit(view.repo, view.rev or "HEAD") if paths else None
    if tip is None:
        return set()
    renames = list_renames(view.repo, [commit], tip)
    if view.rev is None:
        renames |= list_pending_renames(view.repo)
    return {path for path in paths if follow_renames(path, renames, tree_paths) is None}


def _find_in_tree(
    workspace: Workspace, rev: str | None, names: Iterable[Iterable[str]]
) -> set[str]:
    """Return those of the names that a tree holds outside of memory."""
    distinct_names: set[str] = set()
    distinct_names.update(*names)
    exported_path = workspace.config.export.path
    exclude = [*memory_pathspecs(workspace.config.scopes)]
    if exported_path:
        exclude.append(exported_path)

    is_memory = build_memory_test(workspace)
    found = set()
    for path, word in find_words(workspace.repo, rev, distinct_names, exclude):
        if path != exported_path and not is_memory(path):
            found.add(word)
    return found


def _find_written_on(workspace: Workspace, entry: Entry) -> str | date | None:
    """Return the commit whose tree an entry was written on, or last confirmed on.

    It is the commit of its source. Without one it is the last commit of a day, and the day is
    returned.
    """
    if entry.created_at is not None and entry.last_reinforced > entry.created_at:
        return entry.last_reinforced
    for sha in SOURCE.findall(entry.source or ""):
        commit = find_commit(workspace.repo, sha)
        if commit:
            return commit
    return entry.created_at
