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
    """Return the verdict `changed` for each entry that names code which is gone.

    A name is dead if the code had it when the entry was written, and no longer has it. Then the
    entry as a whole counts as changed, not as gone, because other parts of it may still hold.
    Entries with anchors, and entries about rejected approaches, are not judged by names.

    While all names are in the tree, this is one search of the tree, and none for a tree that was
    searched before.

    Args:
        view: the tree: a commit or the work tree.
        entries: the entries.

    Raises:
        RepositoryError: unknown-revision.
    """
    judged_entries = [entry for entry in entries if _is_judged_by_names(entry)]
    verdicts = {}
    for entry, dead_names in _load_dead_names(view, judged_entries).items():
        if dead_names:
            verdicts[entry] = Verdict(
                "changed", dead_names[0], note="is nowhere in the code any more"
            )
    return verdicts


def _is_judged_by_names(entry: Entry) -> bool:
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
    history_state = (view.tip or "", str(is_shallow(view.repo)))
    history_keys = {}
    for entry in tree_keys:
        history_keys[entry] = make_key(tree_keys[entry], *history_state, str(entry.last_reinforced))

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

    An entry whose names are all in the tree has no dead names. That is cached under its tree key,
    because it holds whatever the history is, and it is left out of the result. The dead names of an
    entry with missing names are cached under its history key. Nothing is cached if somebody wrote
    to the work tree during the search.

    Args:
        view: the tree.
        entries: the entries.
        tree_keys: the tree key of each entry.
        history_keys: the history key of each entry.
    """
    from memory_ci.memory.name_search import search_names

    search = search_names(view, entries)
    if view.is_unmodified():
        results: dict[str, list[str]] = {}
        for entry in search.complete_entries:
            results[tree_keys[entry]] = []
        for entry, names in search.dead_names.items():
            results[history_keys[entry]] = names
        view.save_cached(results)
    return search.dead_names


def _make_tree_keys(view: JudgedView, entries: Sequence[Entry]) -> dict[Entry, str]:
    """Return the cache key of each entry for what a tree says about its names.

    It is a hash of the code of the tree, of the scopes in the configuration, which say what files
    are memory and so no code, and of the entry: its text has the names, its source and its creation
    day say on which commit it was written.
    """
    scopes = repr(view.workspace.config.scopes)
    code_key = _make_code_key(view) if entries else ""
    tree_keys = {}
    for entry in entries:
        entry_parts = (entry.text, str(entry.source), str(entry.created_at))
        tree_keys[entry] = make_key(code_key, scopes, *entry_parts)
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
