"""Dead names: names in entries without anchors that code had and has no more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import date
from typing import NamedTuple

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.anchors.symbols import list_mentions
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.history import find_commit_of_day
from memory_ci.gitrepo.log import find_words, follow_renames, list_pending_renames, list_renames
from memory_ci.gitrepo.repo import find_commit, is_shallow
from memory_ci.memory.cites import JudgedView, make_key
from memory_ci.memory.workspace import Workspace, build_memory_test
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry
from memory_ci.regex import Regex
from memory_ci.store.layout import memory_pathspecs

SOURCE = Regex(r"(?<!claimed:)\bcommit:([0-9a-f]{7,64})\b")
PATH = Regex(r"(?<![\w./-])(?:[\w-][\w.-]*/)+[\w.-]*\w")

MIN_NAME = 4
"""Length of the shortest name; shorter ones occur in too many places, and `e.g` is none."""

MAX_COMMITS = 20
"""Number of earlier commits that are searched; each costs git processes."""


class _Named(NamedTuple):
    """The names and the paths in the text of an entry, or those of them that the tree lacks."""

    names: list[str]
    paths: list[str]


def find_dead_names(view: JudgedView, entries: Iterable[Entry]) -> dict[Entry, Verdict]:
    """Return a verdict for each entry without anchors that has a dead name or path.

    While all names are in the tree, this is one search of the tree, and none for a tree that was
    searched before.

    Raises:
        RepositoryError: unknown-revision.
    """
    named_by_entry = {}
    for entry in entries:
        if _is_judged(entry):
            named = _list_named(entry.text)
            if named.names or named.paths:
                named_by_entry[entry] = named
    if not named_by_entry:
        return {}

    dead_by_entry = _find_dead(view, named_by_entry)
    verdicts = {}
    for entry, dead in dead_by_entry.items():
        if dead:
            verdicts[entry] = Verdict("changed", dead[0], note="stands nowhere any more")
    return verdicts


def _is_judged(entry: Entry) -> bool:
    """Return whether the names of an entry should be in the tree.

    An entry on a rejected approach itself says that its code is gone.
    """
    return entry.adoption != "rejected" and not any(map(parse_anchor, entry.cites))


def _list_named(prose: str) -> _Named:
    """Return the names and paths in a text.

    Names have no owners, because a method is still there when its class is renamed.
    """
    mentions = list_mentions(PATH.sub(" ", prose), plain=False)
    tails = dict.fromkeys(mention.rpartition(".")[2] for mention in mentions)
    return _Named([tail for tail in tails if len(tail) >= MIN_NAME], PATH.findall(prose))


def _find_dead(view: JudgedView, named_by_entry: Mapping[Entry, _Named]) -> dict[Entry, list[str]]:
    """Return the dead names of entries, with a cache.

    Results are cached under two keys. Names that are all in the tree depend on the tree and the
    entry alone; dead names depend on the history, too.
    """
    scopes = repr(view.workspace.config.scopes)
    tree_keys = {}
    for entry in named_by_entry:
        texts = (entry.text, str(entry.source), str(entry.created_at))
        tree_keys[entry] = make_key(view.tree_digest, scopes, *texts)
    dead_by_entry = view.load_cached(tree_keys, list[str])

    unresolved = [entry for entry in named_by_entry if entry not in dead_by_entry]
    if not unresolved:
        return dead_by_entry
    history = (view.tip or "", str(is_shallow(view.repo)))
    history_keys = {entry: make_key(tree_keys[entry], *history) for entry in unresolved}
    dead_by_entry |= view.load_cached(history_keys, list[str])

    new_entries = [entry for entry in unresolved if entry not in dead_by_entry]
    if new_entries:
        new_named = {entry: named_by_entry[entry] for entry in new_entries}
        live, dead = _search(view, new_named)
        if view.is_unmodified():
            live_results: dict[str, list[str]] = {tree_keys[entry]: [] for entry in live}
            dead_results = {history_keys[entry]: names for entry, names in dead.items()}
            view.save_cached(live_results | dead_results)
        dead_by_entry |= dead
    return dead_by_entry


def _search(
    view: JudgedView, named_by_entry: Mapping[Entry, _Named]
) -> tuple[list[Entry], dict[Entry, list[str]]]:
    """Search a tree, and the commits on which entries were written, for names.

    Returns:
        The entries whose names are all in the tree, and the dead names of the others. Entries that
        need too many commits are in neither.
    """
    tree_paths = {file.path for file in view.files}
    names = [named.names for named in named_by_entry.values()]
    names_in_tree = _find_in_tree(view.workspace, view.rev, names)

    live = []
    missing_by_entry = {}
    for entry, named in named_by_entry.items():
        missing = _Named(
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

    Entries that need the commit of one more day than MAX_COMMITS are left for another time,
    because each day costs a process.

    Returns:
        The entries by commit, and the entries without a commit, which have no dead names.
    """
    entries_by_commit: dict[str, list[Entry]] = defaultdict(list)
    without_commit: dict[Entry, list[str]] = {}
    commits_by_day: dict[date, str | None] = {}
    for entry in entries:
        commit = _find_written_on(view.workspace, entry)
        if isinstance(commit, date):
            day = commit
            if day not in commits_by_day:
                if len(commits_by_day) == MAX_COMMITS:
                    continue
                commits_by_day[day] = _find_commit_of_day(view, day)
            commit = commits_by_day[day]
        if commit:
            entries_by_commit[commit].append(entry)
        else:
            without_commit[entry] = []
    return entries_by_commit, without_commit


def _find_commit_of_day(view: JudgedView, day: date) -> str | None:
    with suppress(RepositoryError):  # the history of a shallow clone may begin later
        return find_commit_of_day(view.repo, view.rev or "HEAD", day)
    return None


def _compare_with_commit(
    view: JudgedView,
    commit: str,
    missing_by_entry: Mapping[Entry, _Named],
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
