"""Anchors of entries: made when entries are written, and compared with the code of a view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.anchors.anchors import (
    enrich_anchor,
    format_anchor,
    is_citable,
    make_anchor,
    parse_anchor,
)
from memory_ci.anchors.subjects import choose_touched, find_named_definitions, list_touched
from memory_ci.extraction.cites import find_named_places
from memory_ci.gitrepo.blobs import TreeFile, read_files, tree_at
from memory_ci.gitrepo.log import (
    MAX_WORDS,
    find_last_changes,
    find_mentions,
    follow_renames,
    list_pending_renames,
    list_renames,
)
from memory_ci.gitrepo.repo import Repository, find_commit, find_objects, is_shallow, resolve_commit
from memory_ci.memory.judged_view import JudgedView, make_key
from memory_ci.memory.workspace import Workspace
from memory_ci.records.anchor import Anchor, Verdict
from memory_ci.records.entry import Entry, Located

MAX_CODE_BYTES = 1 << 20
"""Bytes of a file of code; anchors in a larger one are compared by object id alone."""

MAX_NAMESAKES = 20
"""Number of files of one name (`__init__.py`) above which the name does not tell where one went."""

MAX_MENTIONS = 200
"""Number of files that are searched for definitions that left their own file."""

LINK = "120000"  # The mode of a symbolic link, which no listing of files has.

CiteKey = tuple[str, str]  # The id of an entry, and one of its cites.
Verdicts = dict[CiteKey, Verdict]
FilePlace = tuple[str, str]  # A commit, and a path in it.


def anchor_entries(workspace: Workspace, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Add to each cite of entries the hash of the cited text.

    Where the entry names a definition of a file that it cites whole, the cite gets its lines and
    symbol as well. A cite that is no anchor, or whose file is not in its commit, is unchanged.
    """
    anchors = {}
    for entry in entries:
        for cite in entry.cites:
            anchor = parse_anchor(cite)
            if anchor is not None and anchor.text is None:
                anchors[cite] = anchor

    blobs = _find_blobs(workspace.repo, anchors.values())
    texts = read_texts(workspace.repo, [blob for blob in blobs.values() if blob is not None])

    anchored_entries = []
    for entry in entries:
        cites = []
        for cite in entry.cites:
            blob = blobs[anchors[cite]] if cite in anchors else None
            if blob is not None and blob in texts:
                cite = format_anchor(enrich_anchor(anchors[cite], texts[blob], entry.text))
            cites.append(cite)
        anchored_entries.append(replace(entry, cites=tuple(cites)))
    return tuple(anchored_entries)


class _FileChange(NamedTuple):
    """The text of a file before and after a commit; "" where it does not exist or is no text."""

    before: str
    after: str


def cite_touched(
    workspace: Workspace, cited_texts: Sequence[tuple[str, Sequence[str]]]
) -> list[tuple[str, ...]]:
    """Choose cites for each text among the code that its commit touched.

    Cites with lines are kept. A file is cited whole if the commit touched no definition in it and
    the text names it, or if nothing else was touched. This takes two git processes for all texts.

    Args:
        workspace: the repository.
        cited_texts: texts, each with the cites that extraction found in its commit.

    Returns:
        The cites of each text.
    """
    anchors = {}
    for _, cites in cited_texts:
        for cite in cites:
            anchor = parse_anchor(cite)
            if anchor is not None:
                anchors[cite] = anchor

    whole_files = [anchor for anchor in anchors.values() if anchor.first is None]
    places = dict.fromkeys((anchor.commit, anchor.path) for anchor in whole_files)
    changes = _read_changes(workspace.repo, list(places))

    chosen = []
    for prose, cites in cited_texts:
        own_anchors = [anchors[cite] for cite in cites if cite in anchors]
        chosen.append(_choose_cites(prose, own_anchors, changes))
    return chosen


def _read_changes(repo: Repository, places: Sequence[FilePlace]) -> dict[FilePlace, _FileChange]:
    """Read files before and after commits."""
    names = []
    for commit, path in places:
        names += [f"{commit}:{path}", f"{commit}^:{path}"]
    oids = find_objects(repo, names)

    blobs: list[TreeFile | None] = []
    for (_, path), after_oid, before_oid in zip(places, oids[::2], oids[1::2], strict=True):
        blobs.append(TreeFile(path, after_oid) if after_oid else None)
        blobs.append(TreeFile(path, before_oid) if before_oid else None)
    texts = read_texts(repo, [blob for blob in blobs if blob is not None])

    blob_texts = [texts.get(blob, "") if blob is not None else "" for blob in blobs]
    changes = {}
    for place, after, before in zip(places, blob_texts[::2], blob_texts[1::2], strict=True):
        changes[place] = _FileChange(before, after)
    return changes


def _choose_cites(
    prose: str, anchors: Sequence[Anchor], changes: Mapping[FilePlace, _FileChange]
) -> tuple[str, ...]:
    commits = {anchor.path: anchor.commit for anchor in anchors if anchor.first is None}
    texts_before = {}
    texts_after = {}
    for path, commit in commits.items():
        change = changes[commit, path]
        if change.before:
            texts_before[path] = change.before
        if change.after:
            texts_after[path] = change.after

    chosen = [anchor for anchor in anchors if anchor.first is not None]
    for path, symbol in _choose_places(prose, list(commits), texts_before, texts_after):
        chosen.append(make_anchor(path, texts_after[path], commits[path], symbol=symbol))
    return tuple(map(format_anchor, chosen))


def _choose_places(
    prose: str,
    paths: Sequence[str],
    texts_before: Mapping[str, str],
    texts_after: Mapping[str, str],
) -> list[tuple[str, str | None]]:
    """Return the paths that a text is about, each with a definition, or None for the whole file."""
    touched = list_touched(texts_before, texts_after)
    named_paths = find_named_places(prose, paths).keys()
    definitions = choose_touched(prose, touched, named_paths)
    if definitions:
        return [(definition.path, definition.name) for definition in definitions]

    named_definitions = find_named_definitions(prose, texts_after)
    if named_definitions:
        return [(path, name) for path, name in named_definitions]

    if touched and not named_paths:
        return []
    whole_files = sorted(named_paths & texts_after.keys())
    if not whole_files and len(texts_after) == 1:
        whole_files = list(texts_after)
    return [(path, None) for path in whole_files]


def judge_anchors(workspace: Workspace, located: Iterable[Located], view: str | None) -> Verdicts:
    """Compare all anchors of entries with a view.

    This takes two git processes while nothing changed since the last comparison, whatever the
    number of entries.

    Args:
        workspace: the repository.
        located: the entries.
        view: None for the work tree (HEAD in a bare repository), or a revision.

    Returns:
        The verdicts by entry id and cite.

    Raises:
        RepositoryError: unknown-revision.
    """
    (verdicts,) = judge_views(located, JudgedView(workspace, view))
    return verdicts


def judge_views(located: Iterable[Located], *views: JudgedView) -> list[Verdicts]:
    """Compare all anchors of entries with several views of one repository.

    The blobs that the anchors were made from are looked up once for all views.
    """
    entries: dict[CiteKey, Entry] = {}
    anchors: dict[CiteKey, Anchor] = {}
    for place in located:
        for cite in place.entry.cites:
            anchor = parse_anchor(cite)
            if anchor is not None:
                entries[place.entry.id, cite] = place.entry
                anchors[place.entry.id, cite] = anchor
    if not anchors:
        return [{} for _ in views]

    blobs = _find_blobs(views[0].repo, anchors.values())
    return [_judge_view(view, anchors, entries, blobs) for view in views]


def _judge_view(
    view: JudgedView,
    anchors: Mapping[CiteKey, Anchor],
    entries: Mapping[CiteKey, Entry],
    blobs: Mapping[Anchor, TreeFile | None],
) -> Verdicts:
    """Return the verdicts of one view.

    A file that is cited whole is judged by those of its parts that the entry names.
    """
    parts_by_key = _find_parts(view, anchors, entries, blobs)
    wanted_blobs = {}
    for key, anchor in anchors.items():
        if key not in parts_by_key:
            wanted_blobs[anchor] = blobs[anchor]
    for key, parts in parts_by_key.items():
        for part in parts:
            wanted_blobs[part] = blobs[anchors[key]]

    verdicts = _Judge(view, wanted_blobs).judge_all()
    judged = {key: verdicts[anchor] for key, anchor in anchors.items() if key not in parts_by_key}
    if parts_by_key:
        from memory_ci.anchors.verdicts import judge_parts  # seldom needed; `add` needs no verdicts

        for key, parts in parts_by_key.items():
            judged[key] = judge_parts(anchors[key], [verdicts[part] for part in parts])
    return judged


def _find_parts(
    view: JudgedView,
    anchors: Mapping[CiteKey, Anchor],
    entries: Mapping[CiteKey, Entry],
    blobs: Mapping[Anchor, TreeFile | None],
) -> dict[CiteKey, list[Anchor]]:
    """Return the parts that entries name of each file that is cited whole and has changed.

    There is no item where the entry names nothing in the file.
    """
    oids = {file.path: file.oid for file in view.files}
    edited: dict[CiteKey, TreeFile] = {}
    for key, anchor in anchors.items():
        blob = blobs[anchor]
        is_whole = anchor.first is None and anchor.symbol is None
        if is_whole and blob is not None and oids.get(anchor.path) != blob.oid:
            edited[key] = blob
    if not edited:
        return {}

    cache_keys = {}
    for key, blob in edited.items():
        cite = key[1]
        cache_keys[key] = make_key("parts", cite, blob.oid, entries[key].text)
    cites_by_key = view.load_cached(cache_keys, list[str])

    # Imported here because `add` needs no verdicts.
    from memory_ci.anchors.named_parts import anchor_parts

    new_keys = [key for key in edited if key not in cites_by_key]
    texts = read_texts(view.repo, [edited[key] for key in new_keys])
    for key in new_keys:
        text = texts.get(edited[key])
        parts = []
        if text is not None:
            parts = anchor_parts(anchors[key], text, entries[key].text)
        cites_by_key[key] = [format_anchor(part) for part in parts]
    view.save_cached({cache_keys[key]: cites_by_key[key] for key in new_keys})

    parts_by_key = {}
    for key, cites in cites_by_key.items():
        if cites:
            parsed = [parse_anchor(cite) for cite in cites]
            parts_by_key[key] = [anchor for anchor in parsed if anchor is not None]
    return parts_by_key


def gone_since(
    workspace: Workspace, located: Iterable[Located], verdicts: Verdicts, rev: str
) -> dict[str, date]:
    """Return since when the code of entries is gone, for entries whose anchors are all gone.

    The day is that of the newest commit that touched one of their files. Where a file was removed,
    that is the commit that removed it.

    Returns:
        The day by entry id.
    """
    # Imported here because `add` needs no verdicts.
    from memory_ci.lifecycle.upkeep import is_gone, list_verdicts

    paths_by_id: dict[str, set[str]] = {}
    for place in located:
        entry = place.entry
        if is_gone(entry, verdicts):
            paths_by_id[entry.id] = {verdict.path for verdict in list_verdicts(entry, verdicts)}

    all_paths = frozenset().union(*paths_by_id.values())
    tip = resolve_commit(workspace.repo, rev)
    last_touches = find_last_changes(workspace.repo, tip, all_paths)

    days = {}
    for entry_id, paths in paths_by_id.items():
        if paths <= last_touches.keys():
            days[entry_id] = max(last_touches[path] for path in paths)
    return days


def read_texts(repo: Repository, files: Iterable[TreeFile]) -> dict[TreeFile, str]:
    """Read the texts of files by one process, without those that cannot be read."""
    texts = {}
    for content in read_files(repo, dict.fromkeys(files), MAX_CODE_BYTES):
        if content.data is not None:
            texts[content.file] = content.data.decode("utf-8", "replace")
    return texts


def _find_blobs(repo: Repository, anchors: Iterable[Anchor]) -> dict[Anchor, TreeFile | None]:
    """Return the blob that each anchor was made from, or None if the repository lacks it."""
    distinct_anchors = list(dict.fromkeys(anchors))
    names = [f"{anchor.commit}:{anchor.path}" for anchor in distinct_anchors]
    blobs = {}
    for anchor, oid in zip(distinct_anchors, find_objects(repo, names), strict=True):
        blobs[anchor] = TreeFile(anchor.path, oid) if oid else None
    return blobs


class _Outcome(NamedTuple):
    """A verdict, and a text to search for in other files before it is final; "" if it is final."""

    verdict: Verdict
    trace: str = ""


class _Judge:
    """A comparison of anchors with a view; costly questions are asked once, and only if needed.

    Outcomes are cached under two kinds of keys. The first is a hash of all texts that were
    compared. The second, for anchors that were searched for in other files, is a hash of the whole
    tree and of the commit whose renames were followed.
    """

    def __init__(self, view: JudgedView, blobs: Mapping[Anchor, TreeFile | None]) -> None:
        self._view = view
        self._repo = view.repo
        self._blobs = blobs
        self._files = {file.path: file for file in view.files if is_citable(file.path)}
        self._texts: dict[TreeFile, str] = {}
        self._new_outcomes: dict[str, _Outcome] = {}

    def judge_all(self) -> dict[Anchor, Verdict]:
        """Return the verdict of each anchor."""
        verdicts = self._find_unchanged()
        changed = [anchor for anchor in self._blobs if anchor not in verdicts]
        in_place = self._judge_in_place(changed)
        outcomes = {anchor: outcome for anchor, outcome in in_place.items() if not outcome.trace}

        unresolved = [anchor for anchor in changed if anchor not in outcomes]
        if unresolved:
            outcomes |= self._search_tree(unresolved, in_place)
        self._view.save_cached(self._new_outcomes)
        return verdicts | {anchor: outcome.verdict for anchor, outcome in outcomes.items()}

    def _find_unchanged(self) -> dict[Anchor, Verdict]:
        """Return verdicts for anchors whose file has the same blob in the view."""
        verdicts = {}
        for anchor, blob in self._blobs.items():
            file = self._files.get(anchor.path)
            if blob is not None and file is not None and blob.oid == file.oid:
                verdicts[anchor] = Verdict("fresh", anchor.path, anchor.first, anchor.last)
        return verdicts

    def _judge_in_place(self, anchors: Sequence[Anchor]) -> dict[Anchor, _Outcome]:
        """Compare anchors with the file at their own path, where the view has one."""
        present = [anchor for anchor in anchors if anchor.path in self._files]
        paths = {anchor: [anchor.path] for anchor in present}
        return self._compare(paths, {anchor: anchor.path for anchor in present})

    def _search_tree(
        self, anchors: Sequence[Anchor], in_place: Mapping[Anchor, _Outcome]
    ) -> dict[Anchor, _Outcome]:
        """Return the outcome for each anchor, from the cache or from a search of the whole tree.

        Args:
            anchors: the anchors whose text is not in the file at their path.
            in_place: the outcomes of the comparison with that file, where the view has it.
        """
        cache_keys = {}
        for anchor in anchors:
            # Renames are followed, and so history counts, if there is no file at the path.
            history_tip = "" if anchor in in_place else self._view.tip or ""
            cache_keys[anchor] = self._make_key(anchor, self._view.tree_digest, history_tip)
        cached_outcomes = self._view.load_cached(cache_keys, _Outcome)

        new_anchors = [anchor for anchor in anchors if anchor not in cached_outcomes]
        new_outcomes = self._search_files(new_anchors, in_place)
        # Files that were written during the search are not those of the digest.
        if new_outcomes and self._view.is_unmodified():
            for anchor, outcome in new_outcomes.items():
                if not outcome.trace:
                    self._new_outcomes[cache_keys[anchor]] = outcome
        return cached_outcomes | new_outcomes

    def _search_files(
        self, anchors: Sequence[Anchor], in_place: Mapping[Anchor, _Outcome]
    ) -> dict[Anchor, _Outcome]:
        """Search for anchors whose file or text is not at its path in the view.

        The successor of their file is searched first, else files of the same name. Files that
        mention the definition come next.
        """
        outcomes = {anchor: in_place[anchor] for anchor in anchors if anchor in in_place}
        without_file = [anchor for anchor in anchors if anchor not in in_place]
        successors: dict[Anchor, str | None] = {anchor: anchor.path for anchor in outcomes}
        successors |= self._find_successors(without_file)

        likely_paths = self._list_likely_paths(successors)
        first_paths = {anchor: likely_paths[anchor] for anchor in without_file}
        outcomes |= self._compare(first_paths, successors)

        all_paths = {}
        for anchor, mentioning_paths in self._find_mentioning_paths(outcomes).items():
            all_paths[anchor] = [*likely_paths[anchor], *mentioning_paths]
        for anchor, outcome in self._compare(all_paths, successors).items():
            # No other files are left to search, so the verdict is final.
            outcomes[anchor] = _Outcome(outcome.verdict)
        return outcomes

    def _list_likely_paths(
        self, successors: Mapping[Anchor, str | None]
    ) -> dict[Anchor, Sequence[str]]:
        """Return the successor of each anchor's file, or else the files of the same name."""
        paths_by_name = _group((_base_name(path), path) for path in self._files)
        likely_paths: dict[Anchor, Sequence[str]] = {}
        for anchor, successor in successors.items():
            namesakes = paths_by_name.get(_base_name(anchor.path), [])
            if successor:
                likely_paths[anchor] = [successor]
            elif len(namesakes) <= MAX_NAMESAKES:
                likely_paths[anchor] = namesakes
            else:
                likely_paths[anchor] = []
        return likely_paths

    def _find_mentioning_paths(
        self, outcomes: Mapping[Anchor, _Outcome]
    ) -> dict[Anchor, list[str]]:
        """Return the files that hold the trace of each anchor, for the first MAX_WORDS traces."""
        traces = {anchor: outcome.trace for anchor, outcome in outcomes.items() if outcome.trace}
        words = set(sorted(set(traces.values()))[:MAX_WORDS])
        mentions = find_mentions(self._repo, self._view.rev, words)
        paths = [path for path in mentions if path in self._files][:MAX_MENTIONS]
        self._read_texts(self._files[path] for path in paths)

        mentioning = {}
        for anchor, trace in traces.items():
            if trace in words:
                mentioning[anchor] = [path for path in paths if trace in self._text_of(path)]
        return mentioning

    def _text_of(self, path: str) -> str:
        return self._texts.get(self._files[path], "")

    def _make_key(self, anchor: Anchor, *parts: str) -> str:
        blob = self._blobs[anchor]
        return make_key(format_anchor(anchor), blob.oid if blob else "", *parts)

    def _find_successors(self, anchors: Sequence[Anchor]) -> dict[Anchor, str | None]:
        """Return the path at which the missing file of each anchor lives on, or None.

        That is a file of the same content, unless it is an older copy. Of several such files, it is
        the only one of the same name. Else renames are followed.
        """
        successors = self._find_same_content(anchors)
        pairs = [(anchor.commit, path) for anchor, path in successors.items() if path]
        older_copies = self._find_existing(pairs)
        for anchor, path in successors.items():
            if path and (anchor.commit, path) in older_copies:
                successors[anchor] = None

        unresolved = []
        for anchor, path in successors.items():
            if path is None and self._blobs[anchor] is not None:
                unresolved.append(anchor)
        renames = {}
        if unresolved and self._view.tip:
            renames = self._list_renames(unresolved, self._view.tip)
        for anchor in unresolved:
            successors[anchor] = follow_renames(anchor.path, renames, self._files)
        return successors

    def _find_same_content(self, anchors: Sequence[Anchor]) -> dict[Anchor, str | None]:
        """Return the one path with the content of each anchor's file; None for none or several.

        Files of the same name are preferred.
        """
        paths_by_oid = _group((file.oid, file.path) for file in self._files.values())
        same_content: dict[Anchor, str | None] = {}
        for anchor in anchors:
            blob = self._blobs[anchor]
            paths = paths_by_oid.get(blob.oid, []) if blob else []
            namesakes = [path for path in paths if _base_name(path) == _base_name(anchor.path)]
            candidates = namesakes or paths
            same_content[anchor] = candidates[0] if len(candidates) == 1 else None
        return same_content

    def _list_renames(self, anchors: Sequence[Anchor], tip: str) -> dict[str, str]:
        """Return the renames that lead on from the files of anchors, new paths by old paths.

        The renames of commits are cached, because the walk to them is long.
        """
        is_shallow_clone = str(is_shallow(self._repo))
        cache_keys = {}
        for anchor in anchors:
            cache_keys[anchor] = make_key(
                "renames", anchor.commit, anchor.path, tip, is_shallow_clone
            )
        renames_by_anchor = self._view.load_cached(cache_keys, dict[str, str])

        new_anchors = [anchor for anchor in anchors if anchor not in renames_by_anchor]
        if new_anchors:
            cited_commits = {anchor.commit for anchor in new_anchors}
            names = [f"{commit}^{{commit}}" for commit in cited_commits]
            commits = [commit for commit in find_objects(self._repo, names) if commit]
            renames = list_renames(self._repo, commits, tip)
            for anchor in new_anchors:
                renames_by_anchor[anchor] = _chain_renames(anchor.path, renames)
            self._view.save_cached(
                {cache_keys[anchor]: renames_by_anchor[anchor] for anchor in new_anchors}
            )

        all_renames: dict[str, str] = {}
        for chain in renames_by_anchor.values():
            all_renames |= chain
        if self._view.rev is None:
            all_renames |= list_pending_renames(self._repo)
        return all_renames

    def _compare(
        self,
        paths_by_anchor: Mapping[Anchor, Sequence[str]],
        successors: Mapping[Anchor, str | None],
    ) -> dict[Anchor, _Outcome]:
        """Compare each anchor with the files at its paths, and cache the outcomes."""
        cache_keys = {}
        for anchor, paths in paths_by_anchor.items():
            files = [f"{path}\0{self._files[path].oid}" for path in paths]
            cache_keys[anchor] = self._make_key(anchor, successors[anchor] or "", *files)
        outcomes = self._view.load_cached(cache_keys, _Outcome)

        new_paths = {
            anchor: paths for anchor, paths in paths_by_anchor.items() if anchor not in outcomes
        }
        earlier_files = self._find_earlier_files(new_paths, successors)
        self._read_compared(new_paths, earlier_files)
        for anchor, paths in new_paths.items():
            outcome = self._compare_anchor(anchor, paths, successors[anchor], earlier_files)
            outcomes[anchor] = outcome
            if self._has_certain_texts(anchor, paths):
                self._new_outcomes[cache_keys[anchor]] = outcome
        return outcomes

    def _find_earlier_files(
        self,
        paths_by_anchor: Mapping[Anchor, Sequence[str]],
        successors: Mapping[Anchor, str | None],
    ) -> dict[FilePlace, TreeFile]:
        """Return files other than the successor, as of the commit of each anchor."""
        places = []
        for anchor, paths in paths_by_anchor.items():
            places += [(anchor.commit, path) for path in paths if path != successors[anchor]]
        return self._find_existing(places)

    def _read_compared(
        self,
        paths_by_anchor: Mapping[Anchor, Sequence[str]],
        earlier_files: Mapping[FilePlace, TreeFile],
    ) -> None:
        """Read all texts that a comparison needs by one process."""
        files = [*earlier_files.values()]
        for anchor, paths in paths_by_anchor.items():
            files += [self._files[path] for path in paths]
            blob = self._blobs[anchor]
            if blob is not None:
                files.append(blob)
        self._read_texts(files)

    def _has_certain_texts(self, anchor: Anchor, paths: Sequence[str]) -> bool:
        """Return whether all compared texts are those of their object ids.

        A file on disk may be written while it is read, so its outcome is not cached.
        """
        files = [self._files[path] for path in paths]
        blob = self._blobs[anchor]
        if blob is not None:
            files.append(blob)
        return all(file in self._texts and not file.on_disk for file in files)

    def _compare_anchor(
        self,
        anchor: Anchor,
        paths: Sequence[str],
        successor: str | None,
        earlier_files: Mapping[FilePlace, TreeFile],
    ) -> _Outcome:
        from memory_ci.anchors.verdicts import find_search_text, judge_anchor

        blob = self._blobs[anchor]
        cited_text = self._texts.get(blob) if blob else None
        is_one_line = cited_text and "\n" not in cited_text
        if is_one_line and successor is None and self._is_link(anchor):
            note = "a symbolic link is not followed"
            return _Outcome(Verdict("unverifiable", anchor.path, note=note))

        texts = {}
        earlier_texts = {}
        for path in paths:
            file = self._files[path]
            if file in self._texts:
                texts[path] = self._texts[file]
            earlier_file = earlier_files.get((anchor.commit, path))
            if earlier_file in self._texts:
                earlier_texts[path] = self._texts[earlier_file]

        verdict = judge_anchor(anchor, cited_text, texts, successor, earlier_texts)
        if verdict.kind in ("fresh", "moved"):
            return _Outcome(verdict)
        return _Outcome(verdict, find_search_text(anchor, cited_text, texts.get(successor or "")))

    def _is_link(self, anchor: Anchor) -> bool:
        commit = find_commit(self._repo, anchor.commit)
        return commit is not None and tree_at(self._repo, commit).modes.get(anchor.path) == LINK

    def _find_existing(self, places: Iterable[FilePlace]) -> dict[FilePlace, TreeFile]:
        """Return the files that commits have at paths, without those that do not exist."""
        distinct_places = sorted(set(places))
        oids = find_objects(self._repo, [f"{commit}:{path}" for commit, path in distinct_places])
        files = {}
        for place, oid in zip(distinct_places, oids, strict=True):
            if oid:
                files[place] = TreeFile(place[1], oid)
        return files

    def _read_texts(self, files: Iterable[TreeFile]) -> None:
        unread = [file for file in files if file not in self._texts]
        self._texts |= read_texts(self._repo, unread)


def _chain_renames(path: str, renames: Mapping[str, str]) -> dict[str, str]:
    """Return the renames of one file that follow each other, without going round a cycle twice."""
    paths = [path]
    while True:
        new_path = renames.get(paths[-1])
        if not new_path or new_path in paths:
            return dict(pairwise(paths))
        paths.append(new_path)


def _group(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]
