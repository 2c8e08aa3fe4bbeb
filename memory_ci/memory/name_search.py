"""Names of code in memory entries: whether a tree still has them, and earlier commits had them.

A name that the commit on which its entry was written had, and that the tree lacks, is dead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from memory_ci.anchors.symbols import list_mentions
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.log import find_words, follow_renames, list_pending_renames, list_renames
from memory_ci.gitrepo.past import find_commits_of_days
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.judged_view import JudgedView, make_key
from memory_ci.memory.workspace import Workspace, build_memory_test
from memory_ci.records.entry import Entry
from memory_ci.regex import Regex
from memory_ci.store.layout import memory_pathspecs

SOURCE_COMMIT = Regex(r"(?<!claimed:)\bcommit:([0-9a-f]{7,64})\b")
"""A commit in the source of an entry, as `commit:1a2b3c4`, unless it is marked as unproved."""
NAMED_PATH = Regex(r"(?<![\w./-])(?:[\w-][\w.-]*/)+[\w.-]*\w")
"""A path with a folder, as `src/client.py`."""

MIN_NAME = 4
"""Length of the shortest name; shorter ones occur in too many places, and `e.g` is none."""

MAX_COMMITS = 20
"""Number of earlier commits that are searched; each costs git processes."""


class CodeNames(NamedTuple):
    """Names of code and paths in the text of an entry: all, or the missing ones.

    Missing are those that the searched tree lacks.
    """

    names: list[str]
    paths: list[str]


class NameSearch(NamedTuple):
    """The result of a search for the names in entries.

    Attributes:
        complete_entries: the entries whose names and paths are all in the tree.
        dead_names: for each other entry those of its missing names and paths that are dead, which
            may be none.
    """

    complete_entries: list[Entry]
    dead_names: dict[Entry, list[str]]


def list_code_names(prose: str) -> CodeNames:
    """Return the names of code and the paths in a text.

    Names have no owners (`post` for `Client.post`), because a method is still there when its class
    is renamed.
    """
    mentions = list_mentions(NAMED_PATH.sub(" ", prose), include_weak=False)
    names = dict.fromkeys(mention.rpartition(".")[2] for mention in mentions)
    long_names = [name for name in names if len(name) >= MIN_NAME]
    return CodeNames(long_names, NAMED_PATH.findall(prose))


def search_names(view: JudgedView, entries: Iterable[Entry]) -> NameSearch:
    """Search a tree for the names of code in entries, and find out which missing names are dead.

    A name that the tree lacks is missing. It is dead if the commit on which its entry was written
    had it: then code was removed or renamed. Otherwise the entry never named code by it.

    At most MAX_COMMITS commits are searched for names, and as many for paths. Entries of further
    commits are left out of the result; a later search finds them, because the names that a commit
    had are cached for good.

    Args:
        view: the tree: a commit or the work tree.
        entries: the entries.
    """
    named_by_entry = {entry: list_code_names(entry.text) for entry in entries}
    tree_paths = {file.path for file in view.files}
    missing_by_entry = _find_missing_names(view, named_by_entry, tree_paths)
    complete_entries = [entry for entry in named_by_entry if entry not in missing_by_entry]

    entries_by_commit, entries_without_commit = _group_by_commit(view, missing_by_entry)
    past_names = _collect_past_names(view, entries_by_commit, missing_by_entry)
    dead_names: dict[Entry, list[str]] = {entry: [] for entry in entries_without_commit}
    commits_searched_for_paths = 0
    for commit, entries_of_commit in entries_by_commit.items():
        searched_entries = [entry for entry in entries_of_commit if entry in past_names]
        if any(missing_by_entry[entry].paths for entry in searched_entries):
            if commits_searched_for_paths == MAX_COMMITS:
                continue
            commits_searched_for_paths += 1
        missing_of_commit = {entry: missing_by_entry[entry] for entry in searched_entries}
        dead_names |= _list_dead_names(view, commit, missing_of_commit, past_names, tree_paths)
    return NameSearch(complete_entries, dead_names)


def _collect_past_names(
    view: JudgedView,
    entries_by_commit: Mapping[str, Sequence[Entry]],
    missing_by_entry: Mapping[Entry, CodeNames],
) -> dict[Entry, list[str]]:
    """Return for each entry those of its missing names that the code of its commit had.

    They come from the cache, or from a search of at most MAX_COMMITS commits, which is cached.
    Entries of further commits are left out.

    Args:
        view: the repository, with the cache.
        entries_by_commit: the entries by the commit on which they were written.
        missing_by_entry: the names and paths of each entry that the tree lacks.
    """
    cache_keys = {}
    for commit, entries in entries_by_commit.items():
        for entry in entries:
            cache_keys[entry] = _make_past_key(view, commit, missing_by_entry[entry])
    past_names = view.load_cached(cache_keys, list[str])

    new_entries_by_commit = {}
    for commit, entries in entries_by_commit.items():
        new_entries = [entry for entry in entries if entry not in past_names]
        if new_entries:
            new_entries_by_commit[commit] = new_entries
    new_names: dict[Entry, list[str]] = {}
    for commit in [*new_entries_by_commit][:MAX_COMMITS]:
        entries = new_entries_by_commit[commit]
        new_names |= _find_past_names(view, commit, entries, missing_by_entry)
    if new_names:
        view.save_cached({cache_keys[entry]: names for entry, names in new_names.items()})
    return past_names | new_names


def _make_past_key(view: JudgedView, commit: str, missing: CodeNames) -> str:
    """Return the cache key of the question which missing names the code of a commit had.

    The configuration says which files are no code, so it is part of the key.
    """
    config = view.workspace.config
    settings = (repr(config.scopes), config.export.path or "")
    return make_key("names of a commit", commit, *settings, *missing.names)


def _find_past_names(
    view: JudgedView,
    commit: str,
    entries: Iterable[Entry],
    missing_by_entry: Mapping[Entry, CodeNames],
) -> dict[Entry, list[str]]:
    """Search the code of a commit for missing names of entries, and return the found ones.

    Args:
        view: the repository.
        commit: the commit.
        entries: the entries that were written on it.
        missing_by_entry: the names and paths of each entry that the tree lacks.
    """
    missing_names = {entry: missing_by_entry[entry].names for entry in entries}
    names_in_commit = _find_names_in_tree(view.workspace, commit, missing_names.values())
    past_names = {}
    for entry, names in missing_names.items():
        past_names[entry] = [name for name in names if name in names_in_commit]
    return past_names


def _find_missing_names(
    view: JudgedView, named_by_entry: Mapping[Entry, CodeNames], tree_paths: Collection[str]
) -> dict[Entry, CodeNames]:
    """Return the names and paths of entries that the tree of a view lacks.

    Entries that miss nothing are left out.

    Args:
        view: the view.
        named_by_entry: the names and paths in each entry.
        tree_paths: all paths of the tree.
    """
    all_names = [named.names for named in named_by_entry.values()]
    names_in_tree = _find_names_in_tree(view.workspace, view.rev, all_names)
    missing_by_entry = {}
    for entry, named in named_by_entry.items():
        missing_names = [name for name in named.names if name not in names_in_tree]
        missing_paths = [path for path in named.paths if path not in tree_paths]
        if missing_names or missing_paths:
            missing_by_entry[entry] = CodeNames(missing_names, missing_paths)
    return missing_by_entry


def _group_by_commit(
    view: JudgedView, entries: Iterable[Entry]
) -> tuple[dict[str, list[Entry]], list[Entry]]:
    """Group entries by the commit on which they were written.

    Where only the day is known on which an entry was written, it is the last commit of that day.

    Returns:
        The entries by commit, and the entries for which no commit is known.
    """
    commit_by_entry: dict[Entry, str] = {}
    day_by_entry: dict[Entry, date] = {}
    all_entries = list(entries)
    for entry in all_entries:
        written_on = _find_commit_or_day(view.workspace, entry)
        if isinstance(written_on, date):
            day_by_entry[entry] = written_on
        elif written_on:
            commit_by_entry[entry] = written_on
    commit_by_day = find_commits_of_days(view.repo, view.rev or "HEAD", set(day_by_entry.values()))

    entries_by_commit: dict[str, list[Entry]] = defaultdict(list)
    entries_without_commit = []
    for entry in all_entries:
        commit = commit_by_entry.get(entry)
        if entry in day_by_entry:
            commit = commit_by_day.get(day_by_entry[entry])
        if commit:
            entries_by_commit[commit].append(entry)
        else:
            entries_without_commit.append(entry)
    return entries_by_commit, entries_without_commit


def _list_dead_names(
    view: JudgedView,
    commit: str,
    missing_by_entry: Mapping[Entry, CodeNames],
    past_names: Mapping[Entry, list[str]],
    tree_paths: Collection[str],
) -> dict[Entry, list[str]]:
    """Return the dead names and paths of entries that were written on one commit.

    Dead are missing names and paths that the commit had. A path whose file was renamed since is not
    dead.

    Args:
        view: the searched tree.
        commit: the commit.
        missing_by_entry: the names and paths of each entry that the tree lacks.
        past_names: those of the missing names of each entry that the commit had.
        tree_paths: all paths of the tree.
    """
    missing_paths: set[str] = set()
    for missing in missing_by_entry.values():
        missing_paths.update(missing.paths)
    dead_paths: set[str] = set()
    if missing_paths:
        paths_in_commit = missing_paths & tree_at(view.repo, commit).files.keys()
        dead_paths = _keep_unrenamed_paths(view, commit, paths_in_commit, tree_paths)

    dead_names = {}
    for entry, missing in missing_by_entry.items():
        dead_paths_of_entry = [path for path in missing.paths if path in dead_paths]
        dead_names[entry] = [*past_names[entry], *dead_paths_of_entry]
    return dead_names


def _keep_unrenamed_paths(
    view: JudgedView, commit: str, paths: Collection[str], tree_paths: Collection[str]
) -> set[str]:
    """Return the paths of files that were not renamed to a path of the tree since a commit.

    Args:
        view: the tree. If it has no commit, renames are unknown, and no path is returned.
        commit: the commit.
        paths: paths of files in it that the tree lacks.
        tree_paths: all paths of the tree.
    """
    tip = find_commit(view.repo, view.rev or "HEAD") if paths else None
    if tip is None:
        return set()
    renames = list_renames(view.repo, [commit], tip)
    is_work_tree = view.rev is None
    if is_work_tree:
        renames |= list_pending_renames(view.repo)
    return {path for path in paths if follow_renames(path, renames, tree_paths) is None}


def _find_names_in_tree(
    workspace: Workspace, rev: str | None, name_lists: Iterable[Iterable[str]]
) -> set[str]:
    """Return those of some names that the code of a tree holds; memory files do not count.

    Args:
        workspace: the repository.
        rev: the commit; None for the work tree.
        name_lists: the names, in several lists.
    """
    distinct_names: set[str] = set()
    distinct_names.update(*name_lists)
    exported_path = workspace.config.export.path
    excluded = [*memory_pathspecs(workspace.config.scopes)]
    if exported_path:
        excluded.append(exported_path)

    is_memory = build_memory_test(workspace)
    names_in_tree = set()
    for path, name in find_words(workspace.repo, rev, distinct_names, excluded):
        if path != exported_path and not is_memory(path):
            names_in_tree.add(name)
    return names_in_tree


def _find_commit_or_day(workspace: Workspace, entry: Entry) -> str | date | None:
    """Return the commit on whose tree an entry was written, else the day on which it was.

    An entry that was reinforced later counts as written on that day. It is None if neither is
    known.
    """
    if entry.created_at is not None and entry.last_reinforced > entry.created_at:
        return entry.last_reinforced
    for sha in SOURCE_COMMIT.findall(entry.source or ""):
        commit = find_commit(workspace.repo, sha)
        if commit:
            return commit
    return entry.created_at
