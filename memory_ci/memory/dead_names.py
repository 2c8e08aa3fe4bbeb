"""Dead names: names in memory entries (without cites) that the code had and no longer has.

Results are cached, so most retrievals do not import the search for names.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence

from memory_ci.gitrepo.repo import is_shallow
from memory_ci.memory.judged_view import JudgedView, make_key
from memory_ci.memory.workspace import build_memory_test
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry
from memory_ci.store.layout import memory_pathspecs


def find_dead_names(view: JudgedView, entries: Iterable[Entry]) -> dict[Entry, Verdict]:
    """Return the verdict `changed` for each entry without anchors that names dead code or paths.

    While all names are in the tree, this is one search of the tree, and none for a tree that was
    searched before.

    Raises:
        RepositoryError: unknown-revision.
    """
    judged = [entry for entry in entries if _is_judged(entry)]
    verdicts = {}
    for entry, dead_names in _load_dead_names(view, judged).items():
        if dead_names:
            verdicts[entry] = Verdict("changed", dead_names[0], note="stands nowhere any more")
    return verdicts


def _is_judged(entry: Entry) -> bool:
    """Return whether the names of code in an entry should be in the tree, and are searched for.

    Entries with anchors are judged by these. An entry on a rejected approach itself says that its
    code is gone.
    """
    if entry.adoption == "rejected":
        return False
    if not entry.cites:
        return True
    from memory_ci.anchors.anchors import parse_anchor  # entries without cites do not need it

    return not any(map(parse_anchor, entry.cites))


def _load_dead_names(view: JudgedView, entries: Sequence[Entry]) -> dict[Entry, list[str]]:
    """Return the dead names of entries, from a cache or by a search of the tree and its history.

    Results are cached under two keys. That all names of an entry are in the tree depends on the
    tree and the entry alone; dead names depend on the history, too.
    """
    if not entries:
        return {}
    tree_keys = _make_tree_keys(view, entries)
    history = (view.tip or "", str(is_shallow(view.repo)))
    history_keys = {}
    for entry in tree_keys:
        history_keys[entry] = make_key(tree_keys[entry], *history, str(entry.last_reinforced))

    dead_names = view.load_cached_any(
        {entry: (tree_keys[entry], history_keys[entry]) for entry in tree_keys}, list[str]
    )
    new_entries = [entry for entry in tree_keys if entry not in dead_names]
    if new_entries:
        dead_names |= _search_and_cache(view, new_entries, tree_keys, history_keys)
    return dead_names


def _search_and_cache(
    view: JudgedView,
    entries: Sequence[Entry],
    tree_keys: Mapping[Entry, str],
    history_keys: Mapping[Entry, str],
) -> dict[Entry, list[str]]:
    """Search for the names in entries, cache the results, and return the dead names.

    Entries whose names are all in the tree are left out.

    Args:
        view: the tree.
        entries: the entries.
        tree_keys: the cache key for an entry whose names are all in the tree.
        history_keys: the cache key for the dead names of an entry.
    """
    from memory_ci.memory.name_search import search_names

    search = search_names(view, entries)
    if view.is_unmodified():
        results: dict[str, list[str]] = {tree_keys[entry]: [] for entry in search.live}
        for entry, names in search.dead.items():
            results[history_keys[entry]] = names
        view.save_cached(results)
    return search.dead


def _make_tree_keys(view: JudgedView, entries: Sequence[Entry]) -> dict[Entry, str]:
    """Return the cache key of each entry for its names in the tree of a view."""
    scopes = repr(view.workspace.config.scopes)
    code_key = _make_code_key(view) if entries else ""
    tree_keys = {}
    for entry in entries:
        texts = (entry.text, str(entry.source), str(entry.created_at))
        tree_keys[entry] = make_key(code_key, scopes, *texts)
    return tree_keys


def _make_code_key(view: JudgedView) -> str:
    """Return a cache key of all files that names are searched in.

    Of memory files, which are not searched, only the paths count, so that a new entry does not
    invalidate the cached results of the others.
    """
    is_memory = build_memory_test(view.workspace)
    # Only files with one of these endings can be memory: comparing those first is faster.
    pathspecs = memory_pathspecs(view.workspace.config.scopes)
    endings = tuple(posixpath.splitext(pathspec)[1] for pathspec in pathspecs)
    parts = []
    for file in view.files:
        if file.path.endswith(endings) and is_memory(file.path):
            parts.append(file.path)
        else:
            parts.append(f"{file.path}\0{file.oid}\0{file.on_disk}")
    return make_key(*parts)
