"""Dead names: what an entry without anchors names, and the tree had when it was written and has no more."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from memory_ci.errors import RepositoryError
from memory_ci.flows.anchors import JudgedView, make_key
from memory_ci.flows.workspace import Workspace, memory_test
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.history import find_commit_of_day
from memory_ci.gitrepo.log import find_words, follow_renames, list_pending_renames, list_renames
from memory_ci.gitrepo.repo import find_commit, is_shallow
from memory_ci.lifecycle.anchors import parse_anchor
from memory_ci.lifecycle.symbols import list_mentions
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry

SOURCE = re.compile(r"(?<!claimed:)\bcommit:([0-9a-f]{7,64})\b")
PATH = re.compile(r"(?<![\w./-])(?:[\w-][\w.-]*/)+[\w.-]*\w")
MIN_NAME = 4
"""Shorter names stand in too many places, and `e.g` is none."""

MAX_COMMITS = 20
"""So many commits at most are looked into for what stood there."""

Names = Mapping[Entry, Sequence[str]]


def find_dead_names(view: JudgedView, entries: Iterable[Entry]) -> dict[Entry, Verdict]:
    """For entries without anchors the first name or path that died, as a verdict. While all names live, that is one
    search through the tree, and none for a tree that was asked before. Raises RepositoryError (unknown-revision)."""
    asked = {entry: f"{entry.title}\n{entry.body}" for entry in entries if _is_asked(entry)}
    names = {entry: list(_list_names(prose)) for entry, prose in asked.items()}
    paths = {entry: PATH.findall(prose) for entry, prose in asked.items()}
    asked = {entry: prose for entry, prose in asked.items() if names[entry] or paths[entry]}
    if not asked:
        return {}
    scopes = repr(view.workspace.config.scopes)
    told = {one: (prose, str(one.source), str(one.created_at)) for one, prose in asked.items()}
    alive = {entry: make_key(view.tree, scopes, *own) for entry, own in told.items()}
    known = view.recall(alive, list[str])
    past = [] if len(known) == len(asked) else [view.tip or "", str(is_shallow(view.repo))]
    dated = {entry: make_key(key, *past) for entry, key in alive.items() if entry not in known}
    known |= view.recall(dated, list[str])
    new = [entry for entry in asked if entry not in known]
    if new:
        live, lost = _search(view, {one: names[one] for one in new}, {one: paths[one] for one in new})
        if view.is_unwritten():
            view.keep({alive[one]: [] for one in live} | {dated[one]: own for one, own in lost.items()})
        known |= lost
    return {entry: Verdict("changed", lost[0], note="stands nowhere any more") for entry, lost in known.items() if lost}


def _search(view: JudgedView, names: Names, paths: Names) -> tuple[list[Entry], dict[Entry, list[str]]]:
    """(the entries of which all stands in the tree, what died of the others)."""
    workspace, rev = view.workspace, view.rev
    here = {file.path for file in view.listed}
    found = _find(workspace, rev, names)
    dead_names = {entry: [name for name in own if name not in found] for entry, own in names.items()}
    dead_paths = {entry: [path for path in own if path not in here] for entry, own in paths.items()}
    live = [entry for entry in names if not dead_names[entry] and not dead_paths[entry]]
    by_commit: dict[str, list[Entry]] = defaultdict(list)
    lost: dict[Entry, list[str]] = {}
    for entry in (one for one in names if one not in live):
        if then := _find_writing(workspace, entry, rev or "HEAD"):
            by_commit[then].append(entry)
        else:
            lost[entry] = []
    for then, own in list(by_commit.items())[:MAX_COMMITS]:
        had = _find(workspace, then, {entry: dead_names[entry] for entry in own})
        gone = _lose(workspace, then, rev, {path for entry in own for path in dead_paths[entry]}, here)
        for entry in own:
            lost[entry] = [name for name in dead_names[entry] if name in had]
            lost[entry] += [path for path in dead_paths[entry] if path in gone]
    return live, lost


def _is_asked(entry: Entry) -> bool:
    """Whether an entry has no anchors. That the code of a rejected approach is gone is what its entry says."""
    return entry.adoption != "rejected" and not any(map(parse_anchor, entry.cites))


def _list_names(prose: str) -> Iterable[str]:
    """The names without their owners: a method lives on when its class has another name."""
    tails = (mention.rpartition(".")[2] for mention in list_mentions(PATH.sub(" ", prose), plain=False))
    return dict.fromkeys(tail for tail in tails if len(tail) >= MIN_NAME)


def _find(workspace: Workspace, rev: str | None, names: Names) -> set[str]:
    """Those of the names that a tree holds, memory apart."""
    is_memory, exported = memory_test(workspace), workspace.config.export.path
    wanted = {name for own in names.values() for name in own}
    return {word for path, word in find_words(workspace.repo, rev, wanted) if path != exported and not is_memory(path)}


def _find_writing(workspace: Workspace, entry: Entry, tip: str) -> str | None:
    """The commit whose tree an entry was written on, or last seen to hold: of its source, else the last of a day."""
    if entry.created_at is not None and entry.last_reinforced > entry.created_at:
        return _find_day(workspace, entry.last_reinforced, tip)
    for sha in SOURCE.findall(entry.source or ""):
        if commit := find_commit(workspace.repo, sha):
            return commit
    return _find_day(workspace, entry.created_at, tip) if entry.created_at else None


def _find_day(workspace: Workspace, day: date, tip: str) -> str | None:
    try:
        return find_commit_of_day(workspace.repo, tip, day)
    except RepositoryError:  # a shallow clone does not reach back so far
        return None


def _lose(workspace: Workspace, then: str, rev: str | None, paths: set[str], here: set[str]) -> set[str]:
    """Those of the paths that a commit had and that live on under no other name."""
    had = paths & tree_at(workspace.repo, then).files.keys()
    tip = find_commit(workspace.repo, rev or "HEAD") if had else None
    if tip is None:
        return set()
    renames = list_renames(workspace.repo, [then], tip) | (list_pending_renames(workspace.repo) if rev is None else {})
    return {path for path in had if follow_renames(path, renames, here) is None}
