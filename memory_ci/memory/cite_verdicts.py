"""Verdicts on cited code: whether a tree still has the code as an entry's commit had it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from memory_ci.anchors.anchors import format_anchor, is_citable, parse_anchor
from memory_ci.gitrepo.blobs import TreeFile, tree_at
from memory_ci.gitrepo.log import (
    MAX_WORDS,
    find_last_changes,
    find_mentions,
    follow_renames,
    list_pending_renames,
    list_renames,
)
from memory_ci.gitrepo.repo import find_commit, find_objects, is_shallow, resolve_commit
from memory_ci.memory.cites import (
    CiteKey,
    FilePlace,
    Verdicts,
    find_cited_blobs,
    find_files_at,
    read_texts,
)
from memory_ci.memory.judged_view import JudgedView, make_key
from memory_ci.memory.workspace import Workspace
from memory_ci.records.anchor import Anchor, Verdict
from memory_ci.records.entry import Entry, Located

MAX_NAMESAKES = 20
"""Number of files of one name (`__init__.py`) above which the name does not tell where one went."""

MAX_MENTIONS = 200
"""Number of files that are searched for definitions that left their own file."""

LINK = "120000"  # The mode of a symbolic link, which no listing of files has.


def judge_anchors(workspace: Workspace, located: Iterable[Located], view: str | None) -> Verdicts:
    """Judge for each cite of entries whether the code that it anchors is still in a view.

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


class _CitedCode(NamedTuple):
    """A cite of an entry.

    Attributes:
        entry: the entry.
        anchor: the place of code that the cite names: a file at a commit, or some of its lines.
        blob: the file at that commit; None if the repository lacks it.
    """

    entry: Entry
    anchor: Anchor
    blob: TreeFile | None


def judge_views(located: Iterable[Located], *views: JudgedView) -> list[Verdicts]:
    """Judge in each view, for each cite of entries, whether its code is still there.

    The cited files are looked up in their own commits once for all views.

    Args:
        located: the entries.
        views: trees of one repository, each a commit or the work tree.
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

    blobs = find_cited_blobs(views[0].repo, anchors.values())
    cited = {}
    for key, anchor in anchors.items():
        cited[key] = _CitedCode(entries[key], anchor, blobs[anchor])
    return [_judge_view(view, cited) for view in views]


def _judge_view(view: JudgedView, cited: Mapping[CiteKey, _CitedCode]) -> Verdicts:
    """Judge for each cite whether its code is still in one view.

    A file that is cited whole is judged by those of its parts that the entry names.

    Args:
        view: a commit or the work tree.
        cited: the cites, by entry id and text of the cite.
    """
    parts_by_cite = _find_parts(view, cited)
    blob_by_anchor = {}
    for key, code in cited.items():
        for anchor in parts_by_cite.get(key, [code.anchor]):
            blob_by_anchor[anchor] = code.blob
    verdict_by_anchor = _Judge(view, blob_by_anchor).judge_all()

    verdicts = {}
    for key, code in cited.items():
        if key not in parts_by_cite:
            verdicts[key] = verdict_by_anchor[code.anchor]
    if parts_by_cite:
        from memory_ci.anchors.verdicts import judge_parts  # seldom needed; `add` needs no verdicts

        for key, parts in parts_by_cite.items():
            part_verdicts = [verdict_by_anchor[part] for part in parts]
            verdicts[key] = judge_parts(cited[key].anchor, part_verdicts)
    return verdicts


def _find_parts(
    view: JudgedView, cited: Mapping[CiteKey, _CitedCode]
) -> dict[CiteKey, list[Anchor]]:
    """Return which parts of a file an entry names, for files that are cited whole and were edited.

    A part is a definition or some lines, as an anchor of its own. Parts are cached as text.

    Args:
        view: the commit or work tree whose files are compared with the cited ones.
        cited: the cites, by entry id and text of the cite.

    Returns:
        The parts by cite, without the cites whose entry names no part of the file.
    """
    edited = _find_edited_files(view, cited)
    cache_keys = {}
    for key, blob in edited.items():
        _, cite = key
        cache_keys[key] = make_key("parts", cite, blob.oid, cited[key].entry.text)
    if not cache_keys:
        return {}
    part_texts = view.load_cached(cache_keys, list[str])

    uncached = {key: blob for key, blob in edited.items() if key not in part_texts}
    if uncached:
        from memory_ci.anchors.named_parts import anchor_named_parts  # `add` needs no parts

        file_texts = read_texts(view.repo, uncached.values())
        for key, blob in uncached.items():
            parts = []
            if blob in file_texts:
                code = cited[key]
                parts = anchor_named_parts(code.anchor, file_texts[blob], code.entry.text)
            part_texts[key] = [format_anchor(part) for part in parts]
        view.save_cached({cache_keys[key]: part_texts[key] for key in uncached})

    parts_by_cite = {}
    for key, texts in part_texts.items():
        parsed = [parse_anchor(text) for text in texts]
        if parsed:
            parts_by_cite[key] = [anchor for anchor in parsed if anchor is not None]
    return parts_by_cite


def _find_edited_files(
    view: JudgedView, cited: Mapping[CiteKey, _CitedCode]
) -> dict[CiteKey, TreeFile]:
    """Return the cited version of each file that is cited whole and is not the same in a view."""
    oid_by_path = {file.path: file.oid for file in view.files}
    edited = {}
    for key, (_, anchor, blob) in cited.items():
        is_whole_file = anchor.first is None and anchor.symbol is None
        if is_whole_file and blob is not None and oid_by_path.get(anchor.path) != blob.oid:
            edited[key] = blob
    return edited


def find_days_gone(
    workspace: Workspace, located: Iterable[Located], verdicts: Verdicts, rev: str
) -> dict[str, date]:
    """Return since when the code of entries is gone, for entries whose anchors are all gone.

    The day is that of the newest commit that touched one of their files. Where a file was removed,
    that is the commit that removed it.

    Args:
        workspace: the repository.
        located: the entries.
        verdicts: the verdicts on their cites, by entry id and cite.
        rev: the commit whose history is searched.

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
    last_change_days = find_last_changes(workspace.repo, tip, all_paths)

    days = {}
    for entry_id, paths in paths_by_id.items():
        if paths <= last_change_days.keys():
            days[entry_id] = max(last_change_days[path] for path in paths)
    return days


class _Outcome(NamedTuple):
    """A verdict on an anchor.

    Attributes:
        verdict: the verdict.
        search_text: the text to search for in other files before the verdict is final; "" if it is.
    """

    verdict: Verdict
    search_text: str = ""


class _Judge:
    """A comparison of anchors with a view; costly questions are asked once, and only if needed.

    Outcomes are cached under two kinds of keys. The first is a hash of all texts that were
    compared. The second, for anchors that were searched for in other files, is a hash of the whole
    tree and of the commit whose renames were followed.
    """

    def __init__(self, view: JudgedView, blobs: Mapping[Anchor, TreeFile | None]) -> None:
        """Prepare the comparison.

        Args:
            view: the commit or work tree to compare with.
            blobs: the file of each anchor in its own commit, None if that is missing.
        """
        self._view = view
        self._repo = view.repo
        self._blobs = blobs
        self._files = {file.path: file for file in view.files if is_citable(file.path)}
        self._texts: dict[TreeFile, str] = {}
        self._new_outcomes: dict[str, _Outcome] = {}  # by cache key

    def judge_all(self) -> dict[Anchor, Verdict]:
        """Return the verdict of each anchor: whether its code is still in the view, and where."""
        verdicts = self._find_unchanged()
        changed = [anchor for anchor in self._blobs if anchor not in verdicts]
        in_place = self._judge_in_place(changed)

        unresolved = []
        for anchor in changed:
            # An outcome with a search text is not final: the code may be in another file.
            if anchor in in_place and not in_place[anchor].search_text:
                verdicts[anchor] = in_place[anchor].verdict
            else:
                unresolved.append(anchor)
        if unresolved:
            for anchor, outcome in self._search_tree(unresolved, in_place).items():
                verdicts[anchor] = outcome.verdict
        self._view.save_cached(self._new_outcomes)
        return verdicts

    def _find_unchanged(self) -> dict[Anchor, Verdict]:
        """Return the verdict `fresh` for each anchor whose file is the same in the view."""
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
            # Without a file at the path, renames are followed, so the result depends on history.
            history_tip = "" if anchor in in_place else self._view.tip or ""
            cache_keys[anchor] = self._make_key(anchor, self._view.tree_digest, history_tip)
        cached_outcomes = self._view.load_cached(cache_keys, _Outcome)

        new_anchors = [anchor for anchor in anchors if anchor not in cached_outcomes]
        new_outcomes = self._search_files(new_anchors, in_place)
        # If files were written during the search, the digest in the key is of other files.
        if new_outcomes and self._view.is_unmodified():
            for anchor, outcome in new_outcomes.items():
                if not outcome.search_text:
                    self._new_outcomes[cache_keys[anchor]] = outcome
        return cached_outcomes | new_outcomes

    def _search_files(
        self, anchors: Sequence[Anchor], in_place: Mapping[Anchor, _Outcome]
    ) -> dict[Anchor, _Outcome]:
        """Search the files of the view for anchors whose file or text is not at its path.

        If the path of an anchor has no file, the anchor is compared with the file that was renamed
        from it, else with files of the same name. Anchors that are still not found are compared
        with all files that mention the definition.

        Args:
            anchors: the anchors.
            in_place: the outcomes of the comparison with the file at the path, where there is one.
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
        """Return the successor of each anchor's file, or else the files of the same name.

        Args:
            successors: the path at which the file of each anchor lives on, None if unknown.
        """
        paths_by_name = _group_values((_base_name(path), path) for path in self._files)
        likely_paths: dict[Anchor, Sequence[str]] = {}
        for anchor, successor in successors.items():
            namesakes = paths_by_name.get(_base_name(anchor.path), [])
            if successor is not None:
                likely_paths[anchor] = [successor]
            elif len(namesakes) <= MAX_NAMESAKES:
                likely_paths[anchor] = namesakes
            else:
                likely_paths[anchor] = []
        return likely_paths

    def _find_mentioning_paths(
        self, outcomes: Mapping[Anchor, _Outcome]
    ) -> dict[Anchor, list[str]]:
        """Return the files of the view that hold the search text of each anchor.

        Anchors without a search text are left out, and those beyond the first MAX_WORDS texts.
        """
        search_texts = {}
        for anchor, outcome in outcomes.items():
            if outcome.search_text:
                search_texts[anchor] = outcome.search_text
        searched = set(sorted(set(search_texts.values()))[:MAX_WORDS])

        mentions = find_mentions(self._repo, self._view.rev, searched)
        paths = [path for path in mentions if path in self._files][:MAX_MENTIONS]
        self._read_texts(self._files[path] for path in paths)

        mentioning_paths = {}
        for anchor, search_text in search_texts.items():
            if search_text in searched:
                mentioning_paths[anchor] = [
                    path for path in paths if search_text in self._text_of(path)
                ]
        return mentioning_paths

    def _text_of(self, path: str) -> str:
        """Return the text of a file of the view that was read, "" if it could not be."""
        return self._texts.get(self._files[path], "")

    def _make_key(self, anchor: Anchor, *parts: str) -> str:
        """Return the cache key for a verdict on an anchor that depends on the given texts, too."""
        blob = self._blobs[anchor]
        return make_key(format_anchor(anchor), blob.oid if blob else "", *parts)

    def _find_successors(self, anchors: Sequence[Anchor]) -> dict[Anchor, str | None]:
        """Return the path at which the missing file of each anchor lives on, or None.

        That is the file of the same content, unless it was there already when the anchor was made.
        Else renames in git's history are followed.
        """
        successors = self._find_same_content(anchors)
        new_places = [(anchor.commit, path) for anchor, path in successors.items() if path]
        older_copies = find_files_at(self._repo, new_places)
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

        If files of the same name have the content, only these count.
        """
        paths_by_oid = _group_values((file.oid, file.path) for file in self._files.values())
        same_content: dict[Anchor, str | None] = {}
        for anchor in anchors:
            blob = self._blobs[anchor]
            paths = paths_by_oid.get(blob.oid, []) if blob else []
            namesakes = [path for path in paths if _base_name(path) == _base_name(anchor.path)]
            candidates = namesakes or paths
            same_content[anchor] = candidates[0] if len(candidates) == 1 else None
        return same_content

    def _list_renames(self, anchors: Sequence[Anchor], tip: str) -> dict[str, str]:
        """Return the renames since the commits of anchors that lead on from their files.

        The renames of commits are cached, because the walk through history is long. Renames in the
        work tree that are not committed yet are added.

        Returns:
            The new path by old path.
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
            revisions = {f"{anchor.commit}^{{commit}}" for anchor in new_anchors}
            shas = [sha for sha in find_objects(self._repo, [*revisions]) if sha is not None]
            renames = list_renames(self._repo, shas, tip)
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
        """Compare each anchor with the files at its paths, and cache the outcomes.

        Args:
            paths_by_anchor: the paths in the view that are searched for each anchor's text.
            successors: the path at which the file of each anchor lives on, None if unknown.
        """
        cache_keys = {}
        for anchor, paths in paths_by_anchor.items():
            files = [f"{path}\0{self._files[path].oid}" for path in paths]
            cache_keys[anchor] = self._make_key(anchor, successors[anchor] or "", *files)
        outcomes = self._view.load_cached(cache_keys, _Outcome)

        uncached = {
            anchor: paths for anchor, paths in paths_by_anchor.items() if anchor not in outcomes
        }
        earlier_files = self._find_earlier_files(uncached, successors)
        self._read_compared(uncached, earlier_files)
        for anchor, paths in uncached.items():
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
        """Return the compared files as they were in the commit of each anchor, but for successors.

        Text that such a file held already did not move there.
        """
        places = []
        for anchor, paths in paths_by_anchor.items():
            places += [(anchor.commit, path) for path in paths if path != successors[anchor]]
        return find_files_at(self._repo, places)

    def _read_compared(
        self,
        paths_by_anchor: Mapping[Anchor, Sequence[str]],
        earlier_files: Mapping[FilePlace, TreeFile],
    ) -> None:
        """Read all files that are to be compared with anchors, by one git process.

        These are the cited file of each anchor, the files of the view at its paths, and these as
        they were in the commit of the anchor.
        """
        files = [*earlier_files.values()]
        for anchor, paths in paths_by_anchor.items():
            files += [self._files[path] for path in paths]
            blob = self._blobs[anchor]
            if blob is not None:
                files.append(blob)
        self._read_texts(files)

    def _has_certain_texts(self, anchor: Anchor, paths: Sequence[str]) -> bool:
        """Return whether the outcome for an anchor depends on git objects alone, and may be cached.

        A file on disk may be written while it is read, and have another text than its object id.
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
        """Compare the cited text with the files at some paths of the view, which were read before.

        Args:
            anchor: the anchor.
            paths: the paths.
            successor: the one of them at which the file of the anchor lives on, None if unknown.
            earlier_files: these files as they were in the commit of the anchor.
        """
        from memory_ci.anchors.verdicts import find_search_text, judge_anchor

        blob = self._blobs[anchor]
        cited_text = self._texts.get(blob) if blob else None
        if cited_text and successor is None and self._is_link(anchor, cited_text):
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
        successor_text = texts.get(successor) if successor is not None else None
        return _Outcome(verdict, find_search_text(anchor, cited_text, successor_text))

    def _is_link(self, anchor: Anchor, text: str) -> bool:
        """Return whether a cited file with this text is a symbolic link in its commit.

        The text of a link is the path that it points to. Git is asked only if it is one line.
        """
        if "\n" in text:
            return False
        commit = find_commit(self._repo, anchor.commit)
        return commit is not None and tree_at(self._repo, commit).modes.get(anchor.path) == LINK

    def _read_texts(self, files: Iterable[TreeFile]) -> None:
        unread = [file for file in files if file not in self._texts]
        self._texts |= read_texts(self._repo, unread)


def _chain_renames(path: str, renames: Mapping[str, str]) -> dict[str, str]:
    """Return the renames that a file went through, one after another, up to the first cycle.

    Args:
        path: the first path of the file.
        renames: the new path by old path, of all files.
    """
    paths = [path]
    while True:
        new_path = renames.get(paths[-1])
        if not new_path or new_path in paths:
            return dict(pairwise(paths))
        paths.append(new_path)


def _group_values(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Return the values of each key."""
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]
