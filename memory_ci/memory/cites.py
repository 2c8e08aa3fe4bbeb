"""Anchors: made when entries are written, and judged against any view."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import cache, cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from memory_ci import __version__
from memory_ci.anchors.anchors import (
    enrich_anchor,
    format_anchor,
    is_citable,
    make_anchor,
    parse_anchor,
)
from memory_ci.anchors.named_parts import anchor_parts
from memory_ci.anchors.subjects import choose_touched, find_named, list_touched
from memory_ci.extraction.cites import name_places
from memory_ci.gitrepo.blobs import TreeFile, list_worktree, read_files, tree_at
from memory_ci.gitrepo.log import (
    MAX_WORDS,
    find_last_touches,
    find_mentions,
    follow_renames,
    list_pending_renames,
    list_renames,
)
from memory_ci.gitrepo.repo import Repository, find_commit, find_objects, is_shallow, resolve_commit
from memory_ci.memory.workspace import Workspace, index_path
from memory_ci.records.anchor import Anchor, Verdict
from memory_ci.records.entry import Entry, Located

MAX_CODE_BYTES = (
    1 << 20
)  # A larger file is data, not code: what is anchored in it is compared by its object id alone.
MAX_NAMESAKES = (
    20  # A name that more files have (`__init__.py`) tells nothing about where a file went.
)
MAX_MENTIONS = 200  # So many files at most are searched for definitions that left theirs.
LINK = "120000"  # The mode of a symbolic link, which no listing of files has.

JUDGES = (
    *(f"anchors/{name}" for name in ("anchors", "named_parts", "symbols", "verdicts", "words")),
    *(f"memory/{name}" for name in ("cites", "dead_names")),
)
"""The modules that decide on a verdict. What another source of theirs kept is not believed."""

CiteKey = tuple[str, str]  # The id of an entry, and one of its cites.
Verdicts = dict[CiteKey, Verdict]


def anchor_entries(workspace: Workspace, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries, each cite of theirs with the hash of what it cites and, where the learning names a definition, its
    lines and symbol. A cite that is no anchor, or whose file is not in that commit, stays as it is."""
    anchors = {
        cite: anchor for entry in entries for cite in entry.cites if (anchor := parse_anchor(cite))
    }
    bare = {cite: anchor for cite, anchor in anchors.items() if anchor.text is None}
    blobs = _find_blobs(workspace.repo, bare.values())
    texts = read_texts(workspace.repo, filter(None, blobs.values()))
    known = {
        cite: texts[blob]
        for cite, one in bare.items()
        if (blob := blobs[one]) is not None and blob in texts
    }

    def enrich(cite: str, prose: str) -> str:
        return (
            format_anchor(enrich_anchor(bare[cite], known[cite], prose)) if cite in known else cite
        )

    return tuple(
        replace(entry, cites=tuple(enrich(cite, entry.text) for cite in entry.cites))
        for entry in entries
    )


def cite_touched(
    workspace: Workspace, asked: Sequence[tuple[str, Sequence[str]]]
) -> list[tuple[str, ...]]:
    """For each text with the cites that extraction found in its commit, what it is about of what the commit touched.
    Lines that the text names stay as they are. A file is cited whole if the commit touched no definition in it and the
    text names it, or nothing else was touched. Two git processes for all."""
    anchors = {
        cite: anchor for _, cites in asked for cite in cites if (anchor := parse_anchor(cite))
    }
    places = dict.fromkeys((one.commit, one.path) for one in anchors.values() if one.first is None)
    names = [f"{commit}{parent}:{path}" for commit, path in places for parent in ("", "^")]
    oids = iter(find_objects(workspace.repo, names))
    blobs = {
        place: [TreeFile(place[1], oid) if oid else None for oid in (next(oids), next(oids))]
        for place in places
    }
    texts = read_texts(workspace.repo, (file for both in blobs.values() for file in both if file))
    changed = {
        place: [texts.get(file, "") if file else "" for file in both]
        for place, both in blobs.items()
    }
    return [
        _choose(prose, [anchors[cite] for cite in cites if cite in anchors], changed)
        for prose, cites in asked
    ]


def _choose(
    prose: str, anchors: Sequence[Anchor], changed: Mapping[tuple[str, str], Sequence[str]]
) -> tuple[str, ...]:
    whole = {one.path: one for one in anchors if one.first is None}
    after = {path: text for path, one in whole.items() if (text := changed[one.commit, path][0])}
    before = {path: text for path, one in whole.items() if (text := changed[one.commit, path][1])}
    touched = list_touched(before, after)
    named = name_places(prose, list(whole)).keys()
    chosen = choose_touched(prose, touched, named)
    found = [
        make_anchor(one.path, after[one.path], whole[one.path].commit, symbol=one.name)
        for one in chosen
    ]
    if not found:
        owned = find_named(prose, after)
        found = [
            make_anchor(path, after[path], whole[path].commit, symbol=name) for path, name in owned
        ]
    if not found and not (touched and not named):
        files = sorted(named & after.keys()) or (list(after) if len(after) == 1 else [])
        found = [make_anchor(path, after[path], whole[path].commit) for path in files]
    return tuple(map(format_anchor, [*(one for one in anchors if one.first is not None), *found]))


def judge_anchors(workspace: Workspace, located: Iterable[Located], view: str | None) -> Verdicts:
    """What became of every anchor in a view (None: the work tree, HEAD in a bare repository; else a revision), by
    (entry id, cite). Two git processes while nothing changed since it was judged last, whatever the number of entries.
    Raises RepositoryError (unknown-revision)."""
    (verdicts,) = judge_views(located, JudgedView(workspace, view))
    return verdicts


def judge_views(located: Iterable[Located], *views: JudgedView) -> list[Verdicts]:
    """What became of every anchor in views of one repository; what the anchors were made from is asked once."""
    entries = {
        (place.entry.id, cite): place.entry for place in located for cite in place.entry.cites
    }
    cited = {key: anchor for key in entries if (anchor := parse_anchor(key[1]))}
    if not cited:
        return [{} for _ in views]
    blobs = _find_blobs(views[0].repo, cited.values())
    return [_judge_view(view, cited, entries, blobs) for view in views]


def _judge_view(
    view: JudgedView,
    cited: Mapping[CiteKey, Anchor],
    entries: Mapping[CiteKey, Entry],
    blobs: Mapping[Anchor, TreeFile | None],
) -> Verdicts:
    """Return the verdicts of one view. A file that is cited whole is judged by its parts that the entry names."""
    parts = _find_parts(view, cited, entries, blobs)
    wanted = {anchor: blobs[anchor] for key, anchor in cited.items() if key not in parts}
    wanted |= {part: blobs[cited[key]] for key, own in parts.items() for part in own}
    verdicts = _Inquiry(view, wanted).judge_all()
    judged = {key: verdicts[anchor] for key, anchor in cited.items() if key not in parts}
    if parts:
        from memory_ci.anchors.verdicts import (
            judge_parts,
        )  # seldom needed, and `add` needs no judge

        judged |= {
            key: judge_parts(cited[key], [verdicts[part] for part in own])
            for key, own in parts.items()
        }
    return judged


def _find_parts(
    view: JudgedView,
    cited: Mapping[CiteKey, Anchor],
    entries: Mapping[CiteKey, Entry],
    blobs: Mapping[Anchor, TreeFile | None],
) -> dict[CiteKey, list[Anchor]]:
    """Return anchors of the parts that an entry names of each file that is cited whole and is another in the view.

    Where the entry names nothing in the file, there is no item.
    """
    oids = {file.path: file.oid for file in view.listed}
    edited: dict[CiteKey, TreeFile] = {}
    for key, anchor in cited.items():
        blob = blobs[anchor]
        is_whole = anchor.first is None and anchor.symbol is None
        if is_whole and blob is not None and oids.get(anchor.path) != blob.oid:
            edited[key] = blob
    if not edited:
        return {}
    keys = {
        key: make_key("parts", key[1], blob.oid, entries[key].text) for key, blob in edited.items()
    }
    kept = view.recall(keys, list[str])
    new = [key for key in edited if key not in kept]
    texts = read_texts(view.repo, (edited[key] for key in new))
    for key in new:
        text = texts.get(edited[key])
        found = anchor_parts(cited[key], text, entries[key].text) if text is not None else []
        kept[key] = list(map(format_anchor, found))
    view.keep({keys[key]: kept[key] for key in new})
    return {
        key: list(filter(None, map(parse_anchor, cites))) for key, cites in kept.items() if cites
    }


def gone_since(
    workspace: Workspace, located: Iterable[Located], verdicts: Verdicts, rev: str
) -> dict[str, date]:
    """Since when entries have had no code, by entry id, for those all of whose anchors are gone at `rev`. It is the day
    of the newest commit that touched one of their files: of the removal, where the file was removed."""
    from memory_ci.lifecycle.upkeep import (
        is_gone,
        list_verdicts,
    )  # these imports in functions: `add` needs no judge

    paths = {
        place.entry.id: {verdict.path for verdict in list_verdicts(place.entry, verdicts)}
        for place in located
        if is_gone(place.entry, verdicts)
    }
    days = find_last_touches(
        workspace.repo, resolve_commit(workspace.repo, rev), frozenset().union(*paths.values())
    )
    return {
        entry: max(days[path] for path in own) for entry, own in paths.items() if own <= days.keys()
    }


def read_texts(repo: Repository, files: Iterable[TreeFile]) -> dict[TreeFile, str]:
    """The texts of those files that can be read, with one process for all."""
    contents = read_files(repo, dict.fromkeys(files), MAX_CODE_BYTES)
    return {
        content.file: content.data.decode("utf-8", "replace")
        for content in contents
        if content.data is not None
    }


def _find_blobs(repo: Repository, anchors: Iterable[Anchor]) -> dict[Anchor, TreeFile | None]:
    """The blob that each anchor was made from, where the repository has it."""
    wanted = list(dict.fromkeys(anchors))
    oids = find_objects(repo, [f"{anchor.commit}:{anchor.path}" for anchor in wanted])
    return {
        anchor: TreeFile(anchor.path, oid) if oid else None
        for anchor, oid in zip(wanted, oids, strict=True)
    }


T = TypeVar("T")
Asked = TypeVar("Asked")


class JudgedView:
    """A view and its files, listed when they are first asked for. What was found in them is kept in the index, under
    keys that stand for all that it follows from."""

    def __init__(self, workspace: Workspace, view: str | None) -> None:
        self.workspace, self.repo, self.kept = workspace, workspace.repo, index_path(workspace)
        self._name = view

    @cached_property
    def rev(self) -> str | None:
        """The commit; None for the work tree. Raises RepositoryError (unknown-revision)."""
        is_worktree = self._name is None and self.repo.root is not None
        return None if is_worktree else resolve_commit(self.repo, self._name or "HEAD")

    @cached_property
    def tip(self) -> str | None:
        """The commit whose history the view has."""
        return self.rev or find_commit(self.repo, "HEAD")

    @cached_property
    def listed(self) -> tuple[TreeFile, ...]:
        return self._list()

    @cached_property
    def tree(self) -> str:
        """What stands for all files, and (for renames that are no commit yet) for which of them git has."""
        return _digest(*(f"{file.path}\0{file.oid}\0{file.on_disk}" for file in self.listed))

    def is_unwritten(self) -> bool:
        """Whether nobody wrote to the work tree since it was listed."""
        return self.rev is not None or self._list() == self.listed

    def recall(self, keys: Mapping[Asked, str], kind: type[T]) -> dict[Asked, T]:
        """What is kept under keys."""
        from memory_ci.search.verdicts import read_verdicts

        kept = read_verdicts(self.kept, list(keys.values()))
        with suppress(ValueError, TypeError, msgspec.ValidationError):  # damage: asked again
            return {
                one: msgspec.convert(json.loads(kept[key]), kind)
                for one, key in keys.items()
                if key in kept
            }
        return {}

    def keep(self, found: Mapping[str, object]) -> None:
        from memory_ci.search.verdicts import keep_verdicts

        keep_verdicts(
            self.kept, {key: json.dumps(msgspec.to_builtins(one)) for key, one in found.items()}
        )

    def _list(self) -> tuple[TreeFile, ...]:
        return (
            list_worktree(self.repo, ())
            if self.rev is None
            else tree_at(self.repo, self.rev).select(())
        )


def make_key(*parts: str) -> str:
    """The key of what follows from these alone, as this version judges."""
    return _digest(__version__, _read_judges(), *parts)


@cache
def _read_judges() -> str:
    """What stands for the way of judging: the source of its modules, "" where that was not installed."""
    with suppress(OSError):
        return _digest(
            *(Path(__file__, "../..", f"{name}.py").resolve().read_text("utf-8") for name in JUDGES)
        )
    return ""


def _digest(*parts: str) -> str:
    return hashlib.blake2b(
        "\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=16
    ).hexdigest()


class _Outcome(NamedTuple):
    """A verdict, and what other files are searched for before it is final: "" if it is."""

    verdict: Verdict
    trace: str = ""


class _Inquiry:
    """One round of judging: what is costly to ask is asked once, and only if an anchor needs it. Outcomes are kept in
    the index under two kinds of keys. One stands for all texts that were compared; the other, for what was sought
    elsewhere, for the whole tree and the commit whose renames were followed."""

    def __init__(self, view: JudgedView, blobs: Mapping[Anchor, TreeFile | None]) -> None:
        self.view, self.repo, self.blobs, self.rev = view, view.repo, blobs, view.rev
        self.files = {file.path: file for file in view.listed if is_citable(file.path)}
        self.texts: dict[TreeFile, str] = {}
        self.new: dict[str, _Outcome] = {}

    def judge_all(self) -> dict[Anchor, Verdict]:
        verdicts: dict[Anchor, Verdict] = {}
        for anchor, blob in self.blobs.items():
            here = self.files.get(anchor.path)
            if blob is not None and here is not None and blob.oid == here.oid:
                verdicts[anchor] = Verdict("fresh", anchor.path, anchor.first, anchor.last)
        other = [anchor for anchor in self.blobs if anchor not in verdicts]
        present = [anchor for anchor in other if anchor.path in self.files]
        near = self._judge({one: [one.path] for one in present}, {one: one.path for one in present})
        final = {anchor: outcome for anchor, outcome in near.items() if not outcome.trace}
        if far := [anchor for anchor in other if anchor not in final]:
            keys = {
                one: self._key(one, self.view.tree, "" if one in near else self.view.tip or "")
                for one in far
            }
            known = self.view.recall(keys, _Outcome)
            found = self._seek([anchor for anchor in far if anchor not in known], near)
            if found and self.view.is_unwritten():
                self.new |= {
                    keys[anchor]: outcome for anchor, outcome in found.items() if not outcome.trace
                }
            final |= known | found
        self.view.keep(self.new)
        return verdicts | {anchor: outcome.verdict for anchor, outcome in final.items()}

    def _seek(
        self, anchors: Sequence[Anchor], near: Mapping[Anchor, _Outcome]
    ) -> dict[Anchor, _Outcome]:
        """What became of anchors of which the tree has no file, or whose text is not there any more."""
        gone = [anchor for anchor in anchors if anchor not in near]
        successors = {
            anchor: anchor.path for anchor in anchors if anchor in near
        } | self._find_successors(gone)
        by_name = _group((_name(path), path) for path in self.files)
        guesses: dict[
            Anchor, list[str]
        ] = {}  # where to look: in the file that lives on, else in those of its name
        for anchor in anchors:
            namesakes, successor = by_name.get(_name(anchor.path), []), successors[anchor]
            guesses[anchor] = (
                [successor] if successor else namesakes if len(namesakes) <= MAX_NAMESAKES else []
            )
        found = {anchor: near[anchor] for anchor in anchors if anchor in near}
        found |= self._judge({anchor: guesses[anchor] for anchor in gone}, successors)
        traces = {anchor: outcome.trace for anchor, outcome in found.items() if outcome.trace}
        names = sorted(set(traces.values()))[:MAX_WORDS]
        mentioning = find_mentions(self.repo, self.rev, set(names))
        mentions = [path for path in mentioning if path in self.files][:MAX_MENTIONS]
        self._read(self.files[path] for path in mentions)
        places = {
            anchor: [
                *guesses[anchor],
                *(path for path in mentions if trace in self.texts.get(self.files[path], "")),
            ]
            for anchor, trace in traces.items()
            if trace in names
        }
        again = self._judge(places, successors)
        return found | {anchor: _Outcome(outcome.verdict) for anchor, outcome in again.items()}

    def _key(self, anchor: Anchor, *parts: str) -> str:
        blob = self.blobs[anchor]
        return make_key(format_anchor(anchor), blob.oid if blob else "", *parts)

    def _find_successors(self, anchors: Sequence[Anchor]) -> dict[Anchor, str | None]:
        """The path at which the file of each anchor, which is not there any more, lives on. That is a file of the same
        content that is no older copy: of the same name if there are several."""
        by_oid = _group((file.oid, file.path) for file in self.files.values())
        found: dict[Anchor, str | None] = {}
        for anchor in anchors:
            blob = self.blobs[anchor]
            twins = by_oid.get(blob.oid, []) if blob else []
            fits = [path for path in twins if _name(path) == _name(anchor.path)] or twins
            found[anchor] = fits[0] if len(fits) == 1 else None
        copies = self._find_existing((one.commit, path) for one, path in found.items() if path)
        found |= {
            anchor: None
            for anchor, path in found.items()
            if path and (anchor.commit, path) in copies
        }
        lost = [anchor for anchor, path in found.items() if path is None and self.blobs[anchor]]
        renames = self._list_renames(lost, self.view.tip) if lost and self.view.tip else {}
        return found | {anchor: follow_renames(anchor.path, renames, self.files) for anchor in lost}

    def _list_renames(self, lost: Sequence[Anchor], tip: str) -> dict[str, str]:
        """The renames that lead on from these files. Those of commits are kept: the walk to them is long."""
        past = (tip, str(is_shallow(self.repo)))
        keys = {anchor: make_key("renames", anchor.commit, anchor.path, *past) for anchor in lost}
        known = self.view.recall(keys, dict[str, str])
        if asked := [anchor for anchor in lost if anchor not in known]:
            commits = find_objects(
                self.repo, [f"{commit}^{{commit}}" for commit in {one.commit for one in asked}]
            )
            renames = list_renames(self.repo, filter(None, commits), tip)
            for anchor in asked:  # the renames of a file one after the other, once round at most
                names = [anchor.path]
                while (new := renames.get(names[-1])) and new not in names:
                    names.append(new)
                known[anchor] = dict(pairwise(names))
            self.view.keep({keys[anchor]: known[anchor] for anchor in asked})
        pending = list_pending_renames(self.repo) if self.rev is None else {}
        return {old: new for steps in known.values() for old, new in steps.items()} | pending

    def _judge(
        self, places: Mapping[Anchor, Sequence[str]], successors: Mapping[Anchor, str | None]
    ) -> dict[Anchor, _Outcome]:
        keys = {
            anchor: self._key(
                anchor,
                successors[anchor] or "",
                *(f"{path}\0{self.files[path].oid}" for path in paths),
            )
            for anchor, paths in places.items()
        }
        known = self.view.recall(keys, _Outcome)
        asked = {anchor: paths for anchor, paths in places.items() if anchor not in known}
        # What other files than the one that lives on held at the commit of each anchor.
        before = self._find_existing(
            (anchor.commit, path)
            for anchor, paths in asked.items()
            for path in paths
            if path != successors[anchor]
        )
        here = {anchor: [self.files[path] for path in paths] for anchor, paths in asked.items()}
        then = {anchor: [blob] if (blob := self.blobs[anchor]) else [] for anchor in asked}
        self._read([*chain.from_iterable((*here.values(), *then.values())), *before.values()])
        judged = {
            anchor: self._judge_one(anchor, paths, successors[anchor], before)
            for anchor, paths in asked.items()
        }
        for anchor, files in here.items():
            # Only texts that are the ones of their ids are kept: a file on disk may be written meanwhile.
            if all(file in self.texts and not file.on_disk for file in (*files, *then[anchor])):
                self.new[keys[anchor]] = judged[anchor]
        return known | judged

    def _judge_one(
        self,
        anchor: Anchor,
        paths: Sequence[str],
        successor: str | None,
        before: Mapping[tuple[str, str], TreeFile],
    ) -> _Outcome:
        from memory_ci.anchors.verdicts import find_trace, judge

        blob = self.blobs[anchor]
        then = self.texts.get(blob) if blob else None
        if then and "\n" not in then and successor is None:
            commit = find_commit(self.repo, anchor.commit)
            if commit is not None and tree_at(self.repo, commit).modes.get(anchor.path) == LINK:
                return _Outcome(
                    Verdict("unverifiable", anchor.path, note="a symbolic link is not followed")
                )
        files = {
            path: self.texts[self.files[path]] for path in paths if self.files[path] in self.texts
        }
        had = {
            path: before[anchor.commit, path] for path in paths if (anchor.commit, path) in before
        }
        texts = {path: self.texts[file] for path, file in had.items() if file in self.texts}
        verdict = judge(anchor, then, files, successor, texts)
        is_there = verdict.kind in ("fresh", "moved")
        return _Outcome(
            verdict, "" if is_there else find_trace(anchor, then, files.get(successor or ""))
        )

    def _find_existing(self, asked: Iterable[tuple[str, str]]) -> dict[tuple[str, str], TreeFile]:
        """The files that commits hold at paths."""
        pairs = sorted(set(asked))
        oids = find_objects(self.repo, [f"{commit}:{path}" for commit, path in pairs])
        return {pair: TreeFile(pair[1], oid) for pair, oid in zip(pairs, oids, strict=True) if oid}

    def _read(self, files: Iterable[TreeFile]) -> None:
        self.texts |= read_texts(self.repo, (file for file in files if file not in self.texts))


def _group(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _name(path: str) -> str:
    return path.rpartition("/")[2]
