"""Code that memory entries cite: anchored to a commit, and later compared with another tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.anchors.anchors import enrich_anchor, format_anchor, make_anchor, parse_anchor
from memory_ci.anchors.subjects import (
    choose_touched_definitions,
    find_mentioned_definitions,
    list_touched_definitions,
)
from memory_ci.extraction.cites import find_named_places
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.repo import Repository, find_objects
from memory_ci.memory.workspace import Workspace
from memory_ci.records.anchor import Anchor, Verdict
from memory_ci.records.entry import Entry

MAX_CODE_BYTES = 1 << 20
"""Bytes of a file of code; anchors in a larger one are compared by object id alone."""

CiteKey = tuple[str, str]  # The id of an entry, and one of its cites.
Verdicts = dict[CiteKey, Verdict]
FileVersion = tuple[str, str]  # A commit, and a path in it.


def anchor_entries(workspace: Workspace, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Add the hash of the cited text to each cite of entries that lacks it.

    Where the entry names a definition of a file that it cites whole, the cite gets its lines and
    symbol as well. A cite that is no anchor, or whose file is not in its commit, is unchanged.

    Returns:
        The entries in the same order, with their new cites.
    """
    anchors_by_cite = {}
    for entry in entries:
        for cite in entry.cites:
            anchor = parse_anchor(cite)
            if anchor is not None and anchor.digest is None:
                anchors_by_cite[cite] = anchor

    blobs = find_cited_blobs(workspace.repo, anchors_by_cite.values())
    texts = read_texts(workspace.repo, [blob for blob in blobs.values() if blob is not None])

    anchored_entries = []
    for entry in entries:
        new_cites = []
        for cite in entry.cites:
            anchor = anchors_by_cite.get(cite)
            blob = blobs[anchor] if anchor is not None else None
            if anchor is None or blob is None or blob not in texts:
                new_cites.append(cite)
            else:
                new_cites.append(format_anchor(enrich_anchor(anchor, texts[blob], entry.text)))
        anchored_entries.append(replace(entry, cites=tuple(new_cites)))
    return tuple(anchored_entries)


class _FileChange(NamedTuple):
    """The text of a file before and after a commit; "" where it does not exist or is no text."""

    before: str
    after: str


def cite_touched(
    workspace: Workspace, cited_texts: Sequence[tuple[str, Sequence[str]]]
) -> list[tuple[str, ...]]:
    """Choose the cites of each text: the code that its commit changed and the text is about.

    A cite names code at a commit: a whole file, or some lines of it. Cites with lines are kept. A
    cite of a whole file is replaced by cites of the definitions in it that the commit changed. It
    stays if the commit changed no definition and the text names the file, or the file is the only
    one. This takes two git processes for all texts.

    Args:
        workspace: the repository.
        cited_texts: texts, each with the cites that extraction found in its commit.

    Returns:
        The cites of each text.
    """
    anchors_by_cite = {}
    for _, cites in cited_texts:
        for cite in cites:
            anchor = parse_anchor(cite)
            if anchor is not None:
                anchors_by_cite[cite] = anchor

    whole_files: dict[FileVersion, None] = {}  # without duplicates, in order
    for anchor in anchors_by_cite.values():
        if anchor.first is None:
            whole_files[anchor.commit, anchor.path] = None
    changes = _read_changes(workspace.repo, list(whole_files))

    chosen_cites = []
    for text, cites in cited_texts:
        anchors = [anchors_by_cite[cite] for cite in cites if cite in anchors_by_cite]
        chosen_cites.append(_choose_cites(text, anchors, changes))
    return chosen_cites


def _read_changes(
    repo: Repository, versions: Sequence[FileVersion]
) -> dict[FileVersion, _FileChange]:
    """Read each file as it is in its commit, and as it was in the commit's parent."""
    parent_versions = [(f"{commit}^", path) for commit, path in versions]
    files = find_files_at(repo, [*versions, *parent_versions])
    texts = read_texts(repo, files.values())
    text_by_version = {version: texts[file] for version, file in files.items() if file in texts}

    changes = {}
    for commit, path in versions:
        before = text_by_version.get((f"{commit}^", path), "")
        after = text_by_version.get((commit, path), "")
        changes[commit, path] = _FileChange(before, after)
    return changes


def _choose_cites(
    prose: str, anchors: Sequence[Anchor], changes: Mapping[FileVersion, _FileChange]
) -> tuple[str, ...]:
    """Replace anchors of whole files by anchors of the touched code that a text is about.

    Args:
        prose: the text that cites.
        anchors: its anchors; those with lines are kept.
        changes: the text of each file before and after its commit.
    """
    commit_by_path = {anchor.path: anchor.commit for anchor in anchors if anchor.first is None}
    texts_before = {}
    texts_after = {}
    for path, commit in commit_by_path.items():
        change = changes[commit, path]
        if change.before:
            texts_before[path] = change.before
        if change.after:
            texts_after[path] = change.after

    chosen_anchors = [anchor for anchor in anchors if anchor.first is not None]
    for path, symbol in _choose_code(prose, list(commit_by_path), texts_before, texts_after):
        anchor = make_anchor(path, texts_after[path], commit_by_path[path], symbol=symbol)
        chosen_anchors.append(anchor)
    return tuple(format_anchor(anchor) for anchor in chosen_anchors)


def _choose_code(
    prose: str,
    paths: Sequence[str],
    texts_before: Mapping[str, str],
    texts_after: Mapping[str, str],
) -> list[tuple[str, str | None]]:
    """Return the code that a text is about: paths, each with a definition, or None for all of it.

    The first of these that exists: touched definitions that fit the text, definitions that the text
    names, files that it names, and the only file.

    Args:
        prose: the text.
        paths: the files that may be cited.
        texts_before: their contents before the commit, by path.
        texts_after: their contents after it.
    """
    touched = list_touched_definitions(texts_before, texts_after)
    named_paths = find_named_places(prose, paths).keys()
    definitions = choose_touched_definitions(prose, touched, named_paths)
    if definitions:
        return [(definition.path, definition.name) for definition in definitions]

    named_definitions = find_mentioned_definitions(prose, texts_after)
    if named_definitions:
        return [(path, name) for path, name in named_definitions]

    if touched and not named_paths:
        return []
    whole_files = sorted(named_paths & texts_after.keys())
    if not whole_files and len(texts_after) == 1:
        whole_files = list(texts_after)
    return [(path, None) for path in whole_files]


def read_texts(repo: Repository, files: Iterable[TreeFile]) -> dict[TreeFile, str]:
    """Read the texts of files by one process, without those that cannot be read."""
    texts = {}
    for content in read_files(repo, dict.fromkeys(files), MAX_CODE_BYTES):
        if content.data is not None:
            texts[content.file] = content.data.decode("utf-8", "replace")
    return texts


def find_cited_blobs(repo: Repository, anchors: Iterable[Anchor]) -> dict[Anchor, TreeFile | None]:
    """Return the file of each anchor in its commit, or None if the repository lacks it."""
    distinct_anchors = list(dict.fromkeys(anchors))
    files = find_files_at(repo, [(anchor.commit, anchor.path) for anchor in distinct_anchors])
    return {anchor: files.get((anchor.commit, anchor.path)) for anchor in distinct_anchors}


def find_files_at(repo: Repository, versions: Iterable[FileVersion]) -> dict[FileVersion, TreeFile]:
    """Return the files that commits have at paths, without those that do not exist."""
    distinct_versions = sorted(set(versions))
    oids = find_objects(repo, [f"{commit}:{path}" for commit, path in distinct_versions])
    files = {}
    for (commit, path), oid in zip(distinct_versions, oids, strict=True):
        if oid is not None:
            files[commit, path] = TreeFile(path, oid)
    return files
