"""Dead names: what an entry without anchors names, and the tree had when it was written and has no more."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.anchors.symbols import list_mentions
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.history import find_commit_of_day
from memory_ci.gitrepo.log import find_words, follow_renames, list_pending_renames, list_renames
from memory_ci.gitrepo.repo import find_commit, is_shallow
from memory_ci.memory.cites import JudgedView, make_key
from memory_ci.memory.workspace import Workspace, memory_test
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry
from memory_ci.store.layout import memory_pathspecs

SOURCE = re.compile(r"(?<!claimed:)\bcommit:([0-9a-f]{7,64})\b")
PATH = re.compile(r"(?<![\w./-])(?:[\w-][\w.-]*/)+[\w.-]*\w")
MIN_NAME = 4  # Shorter names stand in too many places, and `e.g` is none.
MAX_COMMITS = 20  # So many commits at most are looked into for what stood there.
Names = Mapping[Entry, Sequence[str]]


def find_dead_names(view: JudgedView, entries: Iterable[Entry]) -> dict[Entry, Verdict]:
    """For entries without anchors the first name or path that died, as a verdict. While all names live, that is one
    search through the tree, and none for a tree that was asked before. Raises RepositoryError (unknown-revision)."""
    # That the code of a rejected approach is gone is what its entry says.
    bare = (
        one
        for one in entries
        if one.adoption != "rejected" and not any(map(parse_anchor, one.cites))
    )
    asked = {entry: entry.text for entry in bare}
    paths = {entry: PATH.findall(prose) for entry, prose in asked.items()}
    names: dict[Entry, list[str]] = {}
    for (
        entry,
        prose,
    ) in (
        asked.items()
    ):  # names without their owners: a method lives on when its class has another name
        tails = (
            mention.rpartition(".")[2]
            for mention in list_mentions(PATH.sub(" ", prose), plain=False)
        )
        names[entry] = list(dict.fromkeys(tail for tail in tails if len(tail) >= MIN_NAME))
    asked = {entry: prose for entry, prose in asked.items() if names[entry] or paths[entry]}
    if not asked:
        return {}
    scopes = repr(view.workspace.config.scopes)
    told = {one: (prose, str(one.source), str(one.created_at)) for one, prose in asked.items()}
    alive = {entry: make_key(view.tree_digest, scopes, *own) for entry, own in told.items()}
    known = view.load_cached(alive, list[str])
    past = [] if len(known) == len(asked) else [view.tip or "", str(is_shallow(view.repo))]
    dated = {entry: make_key(key, *past) for entry, key in alive.items() if entry not in known}
    known |= view.load_cached(dated, list[str])
    new = [entry for entry in asked if entry not in known]
    if new:
        live, lost = _search(
            view, {one: names[one] for one in new}, {one: paths[one] for one in new}
        )
        if view.is_unmodified():
            view.save_cached(
                {alive[one]: [] for one in live} | {dated[one]: own for one, own in lost.items()}
            )
        known |= lost
    return {
        entry: Verdict("changed", lost[0], note="stands nowhere any more")
        for entry, lost in known.items()
        if lost
    }


def _search(
    view: JudgedView, names: Names, paths: Names
) -> tuple[list[Entry], dict[Entry, list[str]]]:
    """(the entries of which all stands in the tree, what died of the others)."""
    workspace, rev = view.workspace, view.rev
    here = {file.path for file in view.files}
    found = _find(workspace, rev, names)
    dead_names = {
        entry: [name for name in own if name not in found] for entry, own in names.items()
    }
    dead_paths = {entry: [path for path in own if path not in here] for entry, own in paths.items()}
    live = [entry for entry in names if not dead_names[entry] and not dead_paths[entry]]
    by_commit: dict[str, list[Entry]] = defaultdict(list)
    lost: dict[Entry, list[str]] = {}
    days: dict[date, str | None] = {}
    for entry in (one for one in names if one not in live):
        then = _find_writing(workspace, entry)
        if isinstance(then, date) and then not in days:
            if len(days) == MAX_COMMITS:
                continue  # another time: each costs a process
            days[then] = None
            with suppress(RepositoryError):  # a shallow clone does not reach back so far
                days[then] = find_commit_of_day(workspace.repo, rev or "HEAD", then)
        if commit := days[then] if isinstance(then, date) else then:
            by_commit[commit].append(entry)
        else:
            lost[entry] = []
    for then, own in list(by_commit.items())[:MAX_COMMITS]:
        had = _find(workspace, then, {entry: dead_names[entry] for entry in own})
        wanted = {path for entry in own for path in dead_paths[entry]} & tree_at(
            workspace.repo, then
        ).files.keys()
        tip = find_commit(workspace.repo, rev or "HEAD") if wanted else None
        renames = list_renames(workspace.repo, [then], tip) if tip else {}
        renames |= list_pending_renames(workspace.repo) if tip and rev is None else {}
        gone = {path for path in wanted if tip and follow_renames(path, renames, here) is None}
        for entry in own:
            lost[entry] = [name for name in dead_names[entry] if name in had]
            lost[entry] += [path for path in dead_paths[entry] if path in gone]
    return live, lost


def _find(workspace: Workspace, rev: str | None, names: Names) -> set[str]:
    """Those of the names that a tree holds, memory apart."""
    is_memory, exported = memory_test(workspace), workspace.config.export.path
    wanted = {name for own in names.values() for name in own}
    exclude = (*memory_pathspecs(workspace.config.scopes), *([exported] if exported else []))
    found = find_words(workspace.repo, rev, wanted, exclude)
    return {word for path, word in found if path != exported and not is_memory(path)}


def _find_writing(workspace: Workspace, entry: Entry) -> str | date | None:
    """The commit whose tree an entry was written on, or last seen to hold: of its source, else the last of a day."""
    day = entry.created_at
    if day is not None and entry.last_reinforced > day:
        return entry.last_reinforced
    found = (find_commit(workspace.repo, sha) for sha in SOURCE.findall(entry.source or ""))
    return next(filter(None, found), day)
