"""Three-way merge of memory files by entries, and of episode files by documents.

The git merge driver runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from memory_ci.errors import MemoryCIError
from memory_ci.gitrepo.merges import merge_text
from memory_ci.lifecycle.merge import Conflict, is_contested, merge_entries
from memory_ci.records.entry import Entry
from memory_ci.store.document import MemoryFile, Segment, parse_memory_file
from memory_ci.store.edits import edit_file, format_entry, insert_entry
from memory_ci.store.episode_months import merge_documents
from memory_ci.store.episodes import (
    is_episode_path,
)
from memory_ci.store.files import write_file
from memory_ci.store.layout import RECORDED_FILE
from memory_ci.store.ranges import merge_recorded

T = TypeVar("T")
BOM = "\ufeff"


class UnmergeableError(Exception):
    """Three texts cannot be merged by entries, so that git's own merge must be used."""


def merge_files(base: Path, ours: Path, theirs: Path, path: str) -> int:
    """Merge the changes that two branches made to a file, and write the result into `ours`.

    Args:
        base: the version of the common ancestor.
        ours: our version, and the result.
        theirs: their version.
        path: the path of the file in the repository.

    Returns:
        The number of conflicts in the result.

    Raises:
        RepositoryError: write-failed, git-missing; `ours` is unchanged then.
    """
    versions = (base.read_bytes(), ours.read_bytes(), theirs.read_bytes())
    try:
        merged, conflicts = _merge_versions(path, *versions)
    except Exception:  # noqa: BLE001 - git waits for a merge, and its own merge always works
        merged, conflicts = merge_text(*versions)
    write_file(ours, merged)
    return conflicts


def _merge_versions(path: str, base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, int]:
    """Merge three versions of a file by its kind: recorded ranges, episodes, or entries.

    Returns:
        The merged file, and the number of conflicts in it.
    """
    if is_contested(base, ours, theirs):
        if path == RECORDED_FILE:
            return merge_recorded(ours, theirs), 0
        if is_episode_path(path):
            return merge_documents(base, ours, theirs) or merge_text(base, ours, theirs)
    return merge_texts(base, ours, theirs)


def merge_texts(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, int]:
    """Merge three versions of a memory file by entries.

    If only one side changed the file, the result is that side. If both did, each entry is merged
    by its fields. Where that is not possible, the result is git's own merge of lines: if a version
    has a broken or repeated entry, text that is not UTF-8, or mixed line ends, or if the result,
    read back, would differ from the merge.

    Returns:
        The merged file with git's conflict markers, and the number of conflicts.
    """
    if not is_contested(base, ours, theirs):
        return _choose_changed(base, ours, theirs), 0
    try:
        files = [_parse_mergeable(data) for data in (base, ours, theirs)]
        text, conflicts = _MemoryFileMerge(*files).merge()
    except (UnmergeableError, MemoryCIError):
        return merge_text(base, ours, theirs)

    newline = _choose_changed(*(file.newline for file in files))
    has_bom = _choose_changed(*(file.has_bom for file in files))
    text = text.replace("\n", newline)
    if has_bom:
        text = BOM + text
    return text.encode(), conflicts


def _parse_mergeable(data: bytes) -> MemoryFile:
    """Parse a memory file with line ends made `\\n`; its `newline` has the original ones.

    Raises:
        UnmergeableError: the file has mixed line ends, is not UTF-8, or has a broken entry or two
            entries with one id.
    """
    has_crlf = b"\r\n" in data
    file = parse_memory_file("", data.replace(b"\r\n", b"\n"))
    has_mixed_line_ends = has_crlf and data.count(b"\n") != data.count(b"\r\n")
    is_undecodable = bool(data) and not file.segments
    has_broken_entry = any(segment.is_broken for segment in file.segments)
    entry_ids = [entry.id for entry in file.entries]
    has_repeated_ids = len(entry_ids) != len(set(entry_ids))
    if has_mixed_line_ends or is_undecodable or has_broken_entry or has_repeated_ids:
        raise UnmergeableError
    return replace(file, newline="\r\n" if has_crlf else "\n")


class _MemoryFileMerge:
    """A merge of three readable versions of a memory file.

    A file consists of segments: entries, and the prose between them. Common entries are those that
    all versions have in the same order. They divide each version into the same number of gaps (the
    prose before, between and after them), and each gap is merged as text.
    """

    def __init__(self, base: MemoryFile, ours: MemoryFile, theirs: MemoryFile) -> None:
        self._files = (base, ours, theirs)
        self._entries = [_entries_by_id(file) for file in self._files]
        self._conflicting_ids: set[str] = set()
        self._segments: list[Segment] = []  # the result so far: prose and entries, in order

    def merge(self) -> tuple[str, int]:
        """Return the merged text, with line ends `\\n`, and the number of conflicts in it.

        Raises:
            UnmergeableError: the result, read back, would differ from the merge.
        """
        common_ids = self._find_common_ids()
        gaps_of_versions = [_list_gaps(file, common_ids) for file in self._files]
        first_gap, *gaps_after_entries = zip(*gaps_of_versions, strict=True)
        self._append(_merge_prose(*first_gap))
        for entry_id, gap in zip(common_ids, gaps_after_entries, strict=True):
            self._append(self._merge_entry(entry_id))
            self._append(_merge_prose(*gap))
        self._insert_other_entries(common_ids)
        self._verify()

        texts = ["".join(segment.raw for segment in file.segments) for file in self._files]
        merged_text = "".join(segment.raw for segment in self._segments)
        broken_segments = [segment for segment in self._segments if segment.is_broken]
        conflicts = len(broken_segments) + len(self._conflicting_ids)
        return merged_text.rstrip() + _merge_trailing_space(*texts), conflicts

    def _find_common_ids(self) -> list[str]:
        """Return the ids of entries that all versions have in one order.

        Without a base these are the ids that both sides have in one order.
        """
        base_ids, our_ids, their_ids = (list(entries) for entries in self._entries)
        base_file = self._files[0]
        if base_file.segments:
            our_ids = _find_common_order(base_ids, our_ids)
        return _find_common_order(our_ids, their_ids)

    def _insert_other_entries(self, common_ids: Iterable[str]) -> None:
        """Insert the entries that are not common, each at the place for its date.

        `insert_entry` finds that place. The entries are sorted by id, so that the result does not
        depend on which side is ours.
        """
        _, our_entries, their_entries = self._entries
        for entry_id in sorted({*our_entries, *their_entries}.difference(common_ids)):
            segment = self._merge_entry(entry_id)
            if segment is not None and segment.entry is not None:
                text = segment.raw.rstrip() + "\n"
                insert_entry(self._segments, segment.entry, text, "\n")

    def _append(self, segment: Segment | None) -> None:
        """Add prose or an entry to the end of the result, with a line break behind it."""
        if segment is not None:
            raw = segment.raw if segment.raw.endswith("\n") else segment.raw + "\n\n"
            self._segments.append(replace(segment, raw=raw))

    def _merge_entry(self, entry_id: str) -> Segment | None:
        """Return the merge of three versions of an entry; None if the entry is deleted."""
        base, ours, theirs = (entries.get(entry_id) for entries in self._entries)
        base_text, our_text, their_text = (_get_text(segment) for segment in (base, ours, theirs))
        if _trim_end(our_text) == _trim_end(base_text):
            merged = theirs
        elif _trim_end(their_text) == _trim_end(base_text):
            merged = ours
        else:
            merged = self._merge_contested(base, ours, theirs)
        if merged is None:
            return None
        trailing_space = _merge_trailing_space(base_text or "", our_text or "", their_text or "")
        return replace(merged, raw=merged.raw.rstrip() + trailing_space)

    def _merge_contested(
        self, base: Segment | None, ours: Segment | None, theirs: Segment | None
    ) -> Segment | None:
        """Merge an entry that both sides changed, or that one side deleted and the other changed.

        Args:
            base: the entry in the file of the common ancestor; None if the file lacks it.
            ours: the entry in our file; None if the file lacks it.
            theirs: the entry in their file; None if the file lacks it.

        Returns:
            The merged entry, perhaps with conflict markers; None if the entry is deleted.
        """
        base_entry, our_entry, their_entry = (
            segment.entry if segment else None for segment in (base, ours, theirs)
        )
        merged = merge_entries(base_entry, our_entry, their_entry)
        if ours is None or theirs is None:
            # One side deleted the entry; it stays if the other side changed it.
            is_deleted = merged is None
            return None if is_deleted else ours or theirs
        if isinstance(merged, Conflict):
            return self._mark_conflict(ours, merged.ours, theirs, merged.theirs)
        if merged is not None:
            segment = _write_merged(merged, base, ours, theirs)
            if segment is not None:
                return segment
        return self._mark_conflict(ours, our_entry, theirs, their_entry)

    def _mark_conflict(
        self, ours: Segment, our_entry: Entry | None, theirs: Segment, their_entry: Entry | None
    ) -> Segment:
        """Return two versions of an entry between git's conflict markers.

        Args:
            ours: the entry in our file.
            our_entry: our version as it is written into the conflict.
            theirs: the entry in their file.
            their_entry: their version as it is written into the conflict.
        """
        texts = []
        for segment, entry in ((ours, our_entry), (theirs, their_entry)):
            if entry is not None:  # always: only a segment of prose has no entry
                texts.append(_rewrite_entry(segment, entry).rstrip())
                self._conflicting_ids.add(entry.id)
        our_text, their_text = texts
        raw = f"<<<<<<< ours\n{our_text}\n=======\n{their_text}\n>>>>>>> theirs\n"
        return Segment(raw, entry=our_entry)

    def _verify(self) -> None:
        """Check that the parts without conflicts, read back, equal the merge.

        Raises:
            UnmergeableError: they do not.
        """
        text = ""
        entries = []
        for segment in self._segments:
            entry = segment.entry
            if segment.is_broken or (entry is not None and entry.id in self._conflicting_ids):
                continue
            text += segment.raw
            if entry is not None:
                entries.append(entry)
        if list(parse_memory_file("", text.encode()).entries) != entries:
            raise UnmergeableError


def _entries_by_id(file: MemoryFile) -> dict[str, Segment]:
    return {segment.entry.id: segment for segment in file.segments if segment.entry is not None}


def _write_merged(
    merged: Entry, base: Segment | None, ours: Segment, theirs: Segment
) -> Segment | None:
    """Write a merged entry into the text of our or their version, to keep its YAML comments.

    The result has the comments of the side that changed them. If no version has comments, and none
    has the unknown keys of the merged entry, the entry is formatted without a version.

    Args:
        merged: the merged entry.
        base: the version of the common ancestor; None if it lacks the entry.
        ours: our version.
        theirs: their version.

    Returns:
        The segment of the merged entry; None if it would lose comments or unknown keys.
    """
    comments = [_list_comments(segment) for segment in (base, ours, theirs)]
    if is_contested(*comments):
        return None
    merged_comments = _choose_changed(*comments)
    versions = [segment for segment in (ours, theirs) if _list_comments(segment) == merged_comments]
    # A version that equals the merged entry comes first, because its text need not change.
    versions.sort(key=lambda segment: segment.entry != merged)
    for segment in versions:
        if segment.entry is not None and segment.entry.extra == merged.extra:
            return Segment(_rewrite_entry(segment, merged), entry=merged)
    if any(comments):
        return None
    return Segment(format_entry(merged), entry=merged)


def _get_text(segment: Segment | None) -> str | None:
    return segment.raw if segment is not None else None


def _trim_end(text: str | None) -> str | None:
    return text.rstrip() if text is not None else None


def _choose_changed(base: T, ours: T, theirs: T) -> T:
    """Return the version of the side that changed the base; ours if both sides did."""
    return theirs if ours == base else ours


def _merge_trailing_space(base: str, ours: str, theirs: str) -> str:
    """Merge the white space at the end of three texts."""
    trailing_spaces = [text[len(text.rstrip()) :] for text in (base, ours, theirs)]
    return _choose_changed(*trailing_spaces)


def _find_common_order(first_ids: Sequence[str], second_ids: Sequence[str]) -> list[str]:
    """Return the ids that two lists have in the same order, as difflib finds them."""
    matcher = SequenceMatcher(None, first_ids, second_ids, autojunk=False)
    common_ids: list[str] = []
    for block in matcher.get_matching_blocks():
        common_ids += first_ids[block.a : block.a + block.size]
    return common_ids


def _list_gaps(file: MemoryFile, common_ids: Iterable[str]) -> list[str]:
    """Return the prose before, between and after some entries of a file.

    Only the common ancestor may lack the entries: if it is empty. Its missing gaps are empty.

    Args:
        file: the file.
        common_ids: the ids of the entries.

    Returns:
        The prose before the first entry, then the prose after each.
    """
    common_ids = set(common_ids)
    gaps = [""]
    for segment in file.segments:
        if segment.entry is None:
            gaps[-1] += segment.raw
        elif segment.entry.id in common_ids:
            gaps.append("")
    missing_count = len(common_ids) + 1 - len(gaps)
    return gaps + [""] * missing_count


def _merge_prose(base: str, ours: str, theirs: str) -> Segment | None:
    """Merge three versions of prose between entries.

    If only one side changed the prose, the result is that side, whatever the white space at the
    end. If both did, the result is git's merge of lines.

    Returns:
        A segment of prose, marked as broken if it has conflict markers; None if there is no prose.
    """
    trimmed_texts = [text.rstrip() for text in (base, ours, theirs)]
    if not is_contested(*trimmed_texts):
        text = _choose_changed(*trimmed_texts)
        return Segment(text + _merge_trailing_space(base, ours, theirs)) if text else None
    merged, conflicts = merge_text(*(f"{text}\n".encode() for text in trimmed_texts))
    return Segment(merged.decode().rstrip() + "\n\n", is_broken=conflicts > 0)


def _list_comments(segment: Segment | None) -> tuple[str, ...]:
    """Return the lines of an entry's front matter that are no fields, such as comments."""
    if segment is None:
        return ()
    field_lines: set[int] = set()
    for field in segment.fields:
        field_lines.update(range(field.first, field.last + 1))

    comments = []
    for number, line in enumerate(segment.head):
        if number not in field_lines and line.strip():
            comments.append(line)
    return tuple(comments)


def _rewrite_entry(segment: Segment, entry: Entry) -> str:
    """Return the text of an entry in a file, changed to new content.

    Only the fields that differ are written, so the others keep their order and their comments.
    Unknown keys cannot be written: if they differ, the text is returned unchanged.

    Args:
        segment: the entry in the file.
        entry: its new content.
    """
    old_entry = segment.entry
    is_unchanged = old_entry == entry
    differs_in_unknown_keys = old_entry is not None and old_entry.extra != entry.extra
    if is_unchanged or differs_in_unknown_keys:
        return segment.raw
    edited_file = edit_file(MemoryFile("", (segment,), ()), updated=[entry])
    return edited_file.segments[0].raw
