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
    FileVersion,
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

SYMBOLIC_LINK_MODE = "120000"
"""The mode of a symbolic link in a git tree; listings of code files leave such files out."""


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
        anchor: the code that the cite names: a file at a commit, or some of its lines.
        cited_file: the file at that commit; None if the repository lacks it.
    """

    entry: Entry
    anchor: Anchor
    cited_file: TreeFile | None


def judge_views(located_entries: Iterable[Located], *views: JudgedView) -> list[Verdicts]:
    """Judge in each tree, for each cite of entries, whether its code is still there.

    The cited files are looked up in their own commits once for all trees.

    Args:
        located_entries: the entries.
        views: trees of one repository, each a commit or the work tree.

    Returns:
        The verdicts for each tree: whether the code is unchanged, moved, changed or gone, by entry
        id and cite.
    """
    entry_by_cite: dict[CiteKey, Entry] = {}
    anchor_by_cite: dict[CiteKey, Anchor] = {}
    for located in located_entries:
        for cite in located.entry.cites:
            anchor = parse_anchor(cite)
            if anchor is not None:
                entry_by_cite[located.entry.id, cite] = located.entry
                anchor_by_cite[located.entry.id, cite] = anchor
    if not anchor_by_cite:
        return [{} for _ in views]

    cited_files = find_cited_blobs(views[0].repo, anchor_by_cite.values())
    cited_code = {}
    for key, anchor in anchor_by_cite.items():
        cited_code[key] = _CitedCode(entry_by_cite[key], anchor, cited_files[anchor])
    return [_judge_view(view, cited_code) for view in views]


def _judge_view(view: JudgedView, cited_code: Mapping[CiteKey, _CitedCode]) -> Verdicts:
    """Judge for each cite whether its code is still in one tree.

    A cite of a whole file whose entry names some definitions or lines of it is judged by these
    parts: each part has an anchor of its own, and the verdict on the cite is made of the verdicts
    on its parts.

    Args:
        view: a commit or the work tree.
        cited_code: the cited code, by entry id and text of the cite.
    """
    parts_by_cite = _find_parts(view, cited_code)
    cited_file_by_anchor = {}
    for key, code in cited_code.items():
        for anchor in parts_by_cite.get(key, [code.anchor]):
            cited_file_by_anchor[anchor] = code.cited_file
    verdict_by_anchor = _Judge(view, cited_file_by_anchor).judge_all()

    verdicts = {}
    for key, code in cited_code.items():
        if key not in parts_by_cite:
            verdicts[key] = verdict_by_anchor[code.anchor]
    if parts_by_cite:
        from memory_ci.anchors.verdicts import judge_parts  # seldom needed; `add` needs no verdicts

        for key, parts in parts_by_cite.items():
            part_verdicts = [verdict_by_anchor[part] for part in parts]
            verdicts[key] = judge_parts(cited_code[key].anchor, part_verdicts)
    return verdicts


def _find_parts(
    view: JudgedView, cited_code: Mapping[CiteKey, _CitedCode]
) -> dict[CiteKey, list[Anchor]]:
    """Return which parts of a file an entry names, for files that are cited whole and were edited.

    A part is a definition or some lines, as an anchor of its own. Parts are cached as text.

    Args:
        view: the commit or work tree whose files are compared with the cited ones.
        cited_code: the cited code, by entry id and text of the cite.

    Returns:
        The parts by cite, without the cites whose entry names no part of the file.
    """
    edited_files = _find_edited_files(view, cited_code)
    cache_keys = {}
    for key, cited_file in edited_files.items():
        _, cite = key
        cache_keys[key] = make_key("parts", cite, cited_file.oid, cited_code[key].entry.text)
    if not cache_keys:
        return {}
    part_texts = view.load_cached(cache_keys, list[str])

    uncached = {key: file for key, file in edited_files.items() if key not in part_texts}
    if uncached:
        from memory_ci.anchors.named_parts import anchor_named_parts  # `add` needs no parts

        file_texts = read_texts(view.repo, uncached.values())
        for key, cited_file in uncached.items():
            parts = []
            if cited_file in file_texts:
                code = cited_code[key]
                parts = anchor_named_parts(code.anchor, file_texts[cited_file], code.entry.text)
            part_texts[key] = [format_anchor(part) for part in parts]
        view.save_cached({cache_keys[key]: part_texts[key] for key in uncached})

    parts_by_cite = {}
    for key, texts in part_texts.items():
        parsed = [parse_anchor(text) for text in texts]
        if parsed:
            parts_by_cite[key] = [anchor for anchor in parsed if anchor is not None]
    return parts_by_cite


def _find_edited_files(
    view: JudgedView, cited_code: Mapping[CiteKey, _CitedCode]
) -> dict[CiteKey, TreeFile]:
    """Return the files that are cited whole and that a tree lacks or has with other content.

    Args:
        view: the commit or work tree.
        cited_code: the cited code, by entry id and text of the cite.

    Returns:
        Each file as it is in the commit of its cite.
    """
    oid_by_path = {file.path: file.oid for file in view.files}
    edited_files = {}
    for key, code in cited_code.items():
        anchor = code.anchor
        cited_file = code.cited_file
        is_whole_file = anchor.first is None and anchor.symbol is None
        if not is_whole_file or cited_file is None:
            continue
        if oid_by_path.get(anchor.path) != cited_file.oid:
            edited_files[key] = cited_file
    return edited_files


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
    for located_entry in located:
        entry = located_entry.entry
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
    """A verdict on an anchor, which is final or not.

    Attributes:
        verdict: the verdict.
        search_text: the text to search for in other files before the verdict is final, because the
            cited code may have moved there; "" if the verdict is final.
    """

    verdict: Verdict
    search_text: str = ""

    @property
    def is_final(self) -> bool:
        """Whether no other file has to be searched for the code."""
        return not self.search_text


class _Judge:
    """A comparison of anchors with a view; costly questions are asked once, and only if needed.

    Outcomes are cached under two kinds of keys. The first is a hash of all texts that were
    compared. The second, for anchors that were searched for in other files, is a hash of the whole
    tree and of the commit whose renames were followed.
    """

    def __init__(self, view: JudgedView, cited_files: Mapping[Anchor, TreeFile | None]) -> None:
        """Prepare the comparison.

        Args:
            view: the commit or work tree to compare with.
            cited_files: the file of each anchor in its own commit, None if that is missing.
        """
        self._view = view
        self._repo = view.repo
        self._cited_files = cited_files
        self._files = {file.path: file for file in view.files if is_citable(file.path)}
        self._texts: dict[TreeFile, str] = {}  # of files that were read, of any commit
        self._uncached_outcomes: dict[str, _Outcome] = {}  # to be saved, by cache key

    def judge_all(self) -> dict[Anchor, Verdict]:
        """Return the verdict of each anchor: whether its code is still in the view, and where.

        Each step takes the anchors on which the step before had no final verdict: files that are
        unchanged, files that are edited at the same path, all files of the view.
        """
        verdicts = self._find_unchanged()
        changed_anchors = [anchor for anchor in self._cited_files if anchor not in verdicts]
        same_path_outcomes = self._compare_same_paths(changed_anchors)

        unresolved_anchors = []
        for anchor in changed_anchors:
            outcome = same_path_outcomes.get(anchor)
            if outcome is not None and outcome.is_final:
                verdicts[anchor] = outcome.verdict
            else:
                unresolved_anchors.append(anchor)
        if unresolved_anchors:
            outcomes = self._search_tree(unresolved_anchors, same_path_outcomes)
            for anchor, outcome in outcomes.items():
                verdicts[anchor] = outcome.verdict
        self._view.save_cached(self._uncached_outcomes)
        return verdicts

    def _find_unchanged(self) -> dict[Anchor, Verdict]:
        """Return the verdict `fresh` for each anchor whose file is the same in the view."""
        verdicts = {}
        for anchor, cited_file in self._cited_files.items():
            file = self._files.get(anchor.path)
            if cited_file is not None and file is not None and cited_file.oid == file.oid:
                verdicts[anchor] = Verdict("fresh", anchor.path, anchor.first, anchor.last)
        return verdicts

    def _compare_same_paths(self, anchors: Sequence[Anchor]) -> dict[Anchor, _Outcome]:
        """Compare anchors with the file at their own path, where the view has one."""
        present_anchors = [anchor for anchor in anchors if anchor.path in self._files]
        paths = {anchor: [anchor.path] for anchor in present_anchors}
        return self._compare(paths, {anchor: anchor.path for anchor in present_anchors})

    def _search_tree(
        self, anchors: Sequence[Anchor], same_path_outcomes: Mapping[Anchor, _Outcome]
    ) -> dict[Anchor, _Outcome]:
        """Return the outcome for each anchor, from the cache or from a search of the whole tree.

        Only final outcomes are cached. An outcome is not final if the search for its text was
        omitted, as it is beyond MAX_WORDS texts; a later search finds it.

        Args:
            anchors: the anchors whose text is not in the file at their path.
            same_path_outcomes: the outcomes of the comparison with that file, where the view has
                it.
        """
        cache_keys = {}
        for anchor in anchors:
            # Without a file at the path, renames are followed, so the result depends on history.
            history_tip = "" if anchor in same_path_outcomes else self._view.tip or ""
            cache_keys[anchor] = self._make_key(anchor, self._view.tree_digest, history_tip)
        cached_outcomes = self._view.load_cached(cache_keys, _Outcome)

        new_anchors = [anchor for anchor in anchors if anchor not in cached_outcomes]
        new_outcomes = self._search_files(new_anchors, same_path_outcomes)
        # If files were written during the search, the digest in the key is of other files.
        if new_outcomes and self._view.is_unmodified():
            for anchor, outcome in new_outcomes.items():
                if outcome.is_final:
                    self._uncached_outcomes[cache_keys[anchor]] = outcome
        return cached_outcomes | new_outcomes

    def _search_files(
        self, anchors: Sequence[Anchor], same_path_outcomes: Mapping[Anchor, _Outcome]
    ) -> dict[Anchor, _Outcome]:
        """Search the files of the view for anchors whose file or text is not at its path.

        First an anchor whose path has no file is compared with its likely files: the file that was
        renamed from it, else the files of the same name. Then an anchor that was not found is
        compared with its likely files and all files that mention the definition.

        Args:
            anchors: the anchors.
            same_path_outcomes: the outcomes of the comparison with the file at the path, where
                there is one.
        """
        outcomes: dict[Anchor, _Outcome] = {}
        anchors_without_file = []
        successors: dict[Anchor, str | None] = {}  # path at which the file of an anchor lives on
        for anchor in anchors:
            if anchor in same_path_outcomes:
                outcomes[anchor] = same_path_outcomes[anchor]
                successors[anchor] = anchor.path
            else:
                anchors_without_file.append(anchor)
        successors |= self._find_successors(anchors_without_file)

        likely_paths = self._list_likely_paths(successors)
        uncompared_paths = {anchor: likely_paths[anchor] for anchor in anchors_without_file}
        outcomes |= self._compare(uncompared_paths, successors)

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
        cited_file = self._cited_files[anchor]
        return make_key(format_anchor(anchor), cited_file.oid if cited_file else "", *parts)

    def _find_successors(self, anchors: Sequence[Anchor]) -> dict[Anchor, str | None]:
        """Return the path at which the missing file of each anchor lives on, or None.

        That is the file of the same content, unless it was there already when the anchor was made.
        Else renames in git's history are followed.
        """
        successors = self._find_same_content(anchors)
        versions = [(anchor.commit, path) for anchor, path in successors.items() if path]
        older_copies = find_files_at(self._repo, versions)
        for anchor, path in successors.items():
            if path and (anchor.commit, path) in older_copies:
                successors[anchor] = None

        unresolved_anchors = []
        for anchor, path in successors.items():
            if path is None and self._cited_files[anchor] is not None:
                unresolved_anchors.append(anchor)
        renames = {}
        if unresolved_anchors and self._view.tip:
            renames = self._list_renames(unresolved_anchors, self._view.tip)
        for anchor in unresolved_anchors:
            successors[anchor] = follow_renames(anchor.path, renames, self._files)
        return successors

    def _find_same_content(self, anchors: Sequence[Anchor]) -> dict[Anchor, str | None]:
        """Return the one path with the content of each anchor's file; None for none or several.

        If files of the same name have the content, only these count.
        """
        paths_by_oid = _group_values((file.oid, file.path) for file in self._files.values())
        path_by_anchor: dict[Anchor, str | None] = {}
        for anchor in anchors:
            cited_file = self._cited_files[anchor]
            paths = paths_by_oid.get(cited_file.oid, []) if cited_file else []
            namesakes = [path for path in paths if _base_name(path) == _base_name(anchor.path)]
            candidates = namesakes or paths
            path_by_anchor[anchor] = candidates[0] if len(candidates) == 1 else None
        return path_by_anchor

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
        """Compare each anchor with the files at its paths.

        Outcomes are taken from the cache. The key is made of all files that are compared, so that
        an outcome counts as long as none of them changes. New outcomes are saved by `judge_all`.

        Args:
            paths_by_anchor: the paths in the view that are searched for each anchor's text.
            successors: the path at which the file of each anchor lives on, None if unknown.
        """
        cache_keys = {}
        for anchor, paths in paths_by_anchor.items():
            files = [f"{path}\0{self._files[path].oid}" for path in paths]
            cache_keys[anchor] = self._make_key(anchor, successors[anchor] or "", *files)
        outcomes = self._view.load_cached(cache_keys, _Outcome)

        uncached_paths = {
            anchor: paths for anchor, paths in paths_by_anchor.items() if anchor not in outcomes
        }
        earlier_files = self._find_earlier_files(uncached_paths, successors)
        self._read_compared(uncached_paths, earlier_files)
        for anchor, paths in uncached_paths.items():
            outcome = self._compare_anchor(anchor, paths, successors[anchor], earlier_files)
            outcomes[anchor] = outcome
            if self._is_read_from_git(anchor, paths):
                self._uncached_outcomes[cache_keys[anchor]] = outcome
        return outcomes

    def _find_earlier_files(
        self,
        paths_by_anchor: Mapping[Anchor, Sequence[str]],
        successors: Mapping[Anchor, str | None],
    ) -> dict[FileVersion, TreeFile]:
        """Return the compared files as they were in the commit of each anchor.

        A text that another file held in that commit already is a copy, and did not move there. The
        successor of the anchor's own file is left out, because it counts as the same file.

        Args:
            paths_by_anchor: the paths in the view that are searched for each anchor's text.
            successors: the path at which the file of each anchor lives on, None if unknown.
        """
        versions = []
        for anchor, paths in paths_by_anchor.items():
            versions += [(anchor.commit, path) for path in paths if path != successors[anchor]]
        return find_files_at(self._repo, versions)

    def _read_compared(
        self,
        paths_by_anchor: Mapping[Anchor, Sequence[str]],
        earlier_files: Mapping[FileVersion, TreeFile],
    ) -> None:
        """Read all files that are to be compared with anchors, by one git process.

        Args:
            paths_by_anchor: the paths in the view that are compared with each anchor. Its cited
                file is read as well, as it is in the commit of the anchor.
            earlier_files: the files at these paths in the commit of the anchor.
        """
        files = [*earlier_files.values()]
        for anchor, paths in paths_by_anchor.items():
            files += [self._files[path] for path in paths]
            cited_file = self._cited_files[anchor]
            if cited_file is not None:
                files.append(cited_file)
        self._read_texts(files)

    def _is_read_from_git(self, anchor: Anchor, paths: Sequence[str]) -> bool:
        """Return whether all files that were compared with an anchor were read from git objects.

        Only then may the outcome be cached: a file on disk may be written while it is read, so that
        its text is not the text of the object id in the cache key.
        """
        files = [self._files[path] for path in paths]
        cited_file = self._cited_files[anchor]
        if cited_file is not None:
            files.append(cited_file)
        return all(file in self._texts and not file.on_disk for file in files)

    def _compare_anchor(
        self,
        anchor: Anchor,
        paths: Sequence[str],
        successor: str | None,
        earlier_files: Mapping[FileVersion, TreeFile],
    ) -> _Outcome:
        """Compare the cited text with the files at some paths of the view, which were read before.

        Unless the text is found, the outcome has a text to search for in further files, such as
        the name of the cited definition.

        Args:
            anchor: the cited file or lines.
            paths: the paths.
            successor: the path at which the cited file lives on, None if unknown. Text in other
                files must be new there to count as moved.
            earlier_files: the files at these paths in the commit of the anchor, by which a text
                that moved there is told from a copy that was there before.
        """
        from memory_ci.anchors.verdicts import find_search_text, judge_anchor

        cited_file = self._cited_files[anchor]
        cited_text = self._texts.get(cited_file) if cited_file else None
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
        search_text = find_search_text(anchor, cited_text, successor_text)
        return _Outcome(verdict, search_text)

    def _is_link(self, anchor: Anchor, text: str) -> bool:
        """Return whether a cited file with this text is a symbolic link in its commit.

        The text of a link is the path that it points to. Git is asked only if it is one line.
        """
        if "\n" in text:
            return False
        commit = find_commit(self._repo, anchor.commit)
        return (
            commit is not None
            and tree_at(self._repo, commit).modes.get(anchor.path) == SYMBOLIC_LINK_MODE
        )

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
