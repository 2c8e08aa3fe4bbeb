"""Join the episode files of a month into one file, and merge two versions of an episode file.

Documents are copied byte for byte, so that unknown keys are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date
from typing import NamedTuple

from memory_ci.store.episodes import (
    MAX_FILE_BYTES,
    DatedDocument,
    date_document,
    find_month,
    has_ended,
    join_documents,
    month_path,
    read_documents,
)


def join_months(files: Mapping[str, bytes | None], before: date) -> dict[str, bytes | None]:
    """Join the episode files of each month that ended before a day into one file.

    Documents are copied byte for byte, each once, in order of time. A file with text that cannot be
    read stays.

    Args:
        files: the content of files of episodes; None for an unreadable file.
        before: the day.

    Returns:
        The new content of each changed file; None for a deleted file.
    """
    files_by_month: defaultdict[str, dict[str, bytes | None]] = defaultdict(dict)
    for path in sorted(files):
        month = find_month(path)
        if month is not None and has_ended(month, before):
            files_by_month[month][path] = files[path]
    changes: dict[str, bytes | None] = {}
    for month, month_files in files_by_month.items():
        changes |= _join_month(month_path(month), month_files)
    return changes


def _join_month(target: str, files: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    """Join the files of a month into the file `target`.

    Args:
        target: the path of the file of the whole month, which may be among `files`.
        files: the content of the files of the month; None for an unreadable file.

    Returns:
        The new content of `target`, and None for each file whose documents are in it now. Empty if
        the files stay as they are.
    """
    sizes: dict[str, int] = {}  # Of the files that can be read completely.
    dated_documents: set[DatedDocument] = set()
    for path, data in files.items():
        if data is None:
            continue
        documents, findings = read_documents(path, data)
        if not findings:
            sizes[path] = len(data)
            for document, record in documents:
                dated_documents.add(date_document(document, record))
    joined_paths = [path for path in sizes if path != target]
    is_target_unreadable = target in files and target not in sizes
    if not joined_paths or is_target_unreadable:
        return {}

    content = join_documents(dated_documents)
    # Git takes a new file for a renamed one if half of it is the text of a deleted file. If two
    # branches join a month and one of them has more in it, git then finds a conflict of names, for
    # which it calls no merge driver.
    is_new = target not in files
    looks_renamed = is_new and max(sizes.values()) * 2 >= len(content)
    if len(content) > MAX_FILE_BYTES or looks_renamed:
        return {}
    changes: dict[str, bytes | None] = {target: content}
    for path in joined_paths:
        changes[path] = None
    return changes


class _MergedDocument(NamedTuple):
    """The result of a merge of one document.

    Attributes:
        document: the document; None if it is deleted.
        is_conflict: whether both sides changed it differently.
    """

    document: DatedDocument | None
    is_conflict: bool = False


def merge_documents(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, int] | None:
    """Merge two versions of an episode file by documents.

    A document is dropped only if one side deleted it and the other did not change it. Where both
    sides changed a document differently, both versions are put between git's conflict markers.

    Args:
        base: the file at the merge base.
        ours: the file of our side.
        theirs: the file of their side.

    Returns:
        The merged file in order of time, and the number of conflicts; None if a side cannot be read
        completely or the result is too long.
    """
    base_documents = _group_by_id(base)
    our_documents = _group_by_id(ours)
    their_documents = _group_by_id(theirs)
    if base_documents is None or our_documents is None or their_documents is None:
        return None

    merged_documents: list[DatedDocument] = []
    conflict_count = 0
    for document_id in {**base_documents, **our_documents, **their_documents}:
        result = _merge_document(
            base_documents.get(document_id),
            our_documents.get(document_id),
            their_documents.get(document_id),
        )
        if result.is_conflict:
            conflict_count += 1
        if result.document is not None:
            merged_documents.append(result.document)
    data = join_documents(merged_documents)
    return (data, conflict_count) if len(data) <= MAX_FILE_BYTES else None


def _group_by_id(data: bytes) -> dict[str, DatedDocument] | None:
    """Return the documents of a file by id.

    Return None if a document cannot be read, if different documents share an id, or if the file has
    line ends other than `\\n`.
    """
    if b"\r" in data:
        return None
    if not data.strip():
        return {}
    documents, findings = read_documents("", data)
    if findings:
        return None
    documents_by_id: dict[str, DatedDocument] = {}
    for document, record in documents:
        dated_document = date_document(document, record)
        if documents_by_id.setdefault(record.id, dated_document) != dated_document:
            return None
    return documents_by_id


def _merge_document(
    base: DatedDocument | None, ours: DatedDocument | None, theirs: DatedDocument | None
) -> _MergedDocument:
    """Merge three versions of a document.

    Args:
        base: the version at the merge base; None if the document does not exist there.
        ours: the version of our side; None if our side does not have it.
        theirs: the version of their side; None if their side does not have it.
    """
    if ours == theirs or base == theirs:
        return _MergedDocument(ours)
    if base == ours:
        return _MergedDocument(theirs)
    if ours is None or theirs is None:
        return _MergedDocument(ours or theirs)  # One side changed what the other deleted: keep it.
    conflict = f"<<<<<<< ours\n{ours.text}=======\n{theirs.text}>>>>>>> theirs\n"
    return _MergedDocument(ours._replace(text=conflict), is_conflict=True)
