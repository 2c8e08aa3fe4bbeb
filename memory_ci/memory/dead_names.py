"""Dead names: names in entries without anchors that code had and has no more.

What was found for an entry is in the cache, so most retrievals end here; the search for names, and
what it needs, is imported for the others.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from memory_ci.gitrepo.repo import is_shallow
from memory_ci.memory.judged_view import JudgedView, make_key
from memory_ci.memory.workspace import build_memory_test
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry
from memory_ci.store.layout import memory_pathspecs


def find_dead_names(view: JudgedView, entries: Iterable[Entry]) -> dict[Entry, Verdict]:
    """Return a verdict for each entry without anchors that has a dead name or path.

    While all names are in the tree, this is one search of the tree, and none for a tree that was
    searched before.

    Raises:
        RepositoryError: unknown-revision.
    """
    judged = [entry for entry in entries if _is_judged(entry)]
    verdicts = {}
    for entry, dead in _find_dead(view, judged).items():
        if dead:
            verdicts[entry] = Verdict("changed", dead[0], note="stands nowhere any more")
    return verdicts


def _is_judged(entry: Entry) -> bool:
    """Return whether the names of an entry should be in the tree.

    An entry on a rejected approach itself says that its code is gone.
    """
    if entry.adoption == "rejected":
        return False
    if not entry.cites:
        return True
    from memory_ci.anchors.anchors import parse_anchor  # entries without cites do not need it

    return not any(map(parse_anchor, entry.cites))


def _find_dead(view: JudgedView, entries: Sequence[Entry]) -> dict[Entry, list[str]]:
    """Return the dead names of entries, with a cache.

    Results are cached under two keys. Names that are all in the tree depend on the tree and the
    entry alone; dead names depend on the history, too.
    """
    if not entries:
        return {}
    scopes = repr(view.workspace.config.scopes)
    code = _make_code_key(view)
    history = (view.tip or "", str(is_shallow(view.repo)))
    tree_keys = {}
    history_keys = {}
    for entry in entries:
        texts = (entry.text, str(entry.source), str(entry.created_at))
        tree_key = make_key(code, scopes, *texts)
        tree_keys[entry] = tree_key
        history_keys[entry] = make_key(tree_key, *history, str(entry.last_reinforced))

    dead_by_entry = view.load_cached_any(
        {entry: (tree_keys[entry], history_keys[entry]) for entry in tree_keys}, list[str]
    )
    new_entries = [entry for entry in tree_keys if entry not in dead_by_entry]
    if new_entries:
        from memory_ci.memory.name_search import search_names

        live, dead = search_names(view, new_entries)
        if view.is_unmodified():
            live_results: dict[str, list[str]] = {tree_keys[entry]: [] for entry in live}
            dead_results = {history_keys[entry]: names for entry, names in dead.items()}
            view.save_cached(live_results | dead_results)
        dead_by_entry |= dead
    return dead_by_entry


def _make_code_key(view: JudgedView) -> str:
    """Return a key of all that names are sought in: the paths of all files, and what code holds.

    Memory is not searched for names. So a new entry leaves the results of the others as they are.
    """
    is_memory = build_memory_test(view.workspace)
    # Few files can be memory by their ending, which is faster to compare than a pattern.
    pathspecs = memory_pathspecs(view.workspace.config.scopes)
    endings = tuple(posixpath.splitext(pathspec)[1] for pathspec in pathspecs)
    parts = []
    for file in view.files:
        if file.path.endswith(endings) and is_memory(file.path):
            parts.append(file.path)
        else:
            parts.append(f"{file.path}\0{file.oid}\0{file.on_disk}")
    return make_key(*parts)
