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

    The result is git's own merge of lines if a side cannot be read without doubt: a broken or
    repeated entry, text that is not UTF-8, mixed line ends. The same holds if the result, read
    back, would differ from the merge.

    Returns:
        The merged file with git's conflict markers, and the number of conflicts.
    """
    if not is_contested(base, ours, theirs):
        return _choose_changed(base, ours, theirs), 0
    try:
        files = [_read(data) for data in (base, ours, theirs)]
        text, conflicts = _Merge(*files).merge()
    except (UnmergeableError, MemoryCIError):
        return merge_text(base, ours, theirs)

    newline = _choose_changed(*(file.newline for file in files))
    has_bom = _choose_changed(*(file.has_bom for file in files))
    text = text.replace("\n", newline)
    if has_bom:
        text = BOM + text
    return text.encode(), conflicts


def _read(data: bytes) -> MemoryFile:
    """Parse a memory file with line ends made `\\n`; its `newline` has the original ones.

    Raises:
        UnmergeableError: the file cannot be read without doubt.
    """
    has_crlf = b"\r\n" in data
    file = parse_memory_file("", data.replace(b"\r\n", b"\n"))
    is_mixed = has_crlf and data.count(b"\n") != data.count(b"\r\n")
    is_unparsed = bool(data) and not file.segments
    is_broken = is_unparsed or any(segment.is_broken for segment in file.segments)
    entry_ids = [entry.id for entry in file.entries]
    has_duplicates = len(entry_ids) != len(set(entry_ids))
    if is_mixed or is_broken or has_duplicates:
        raise UnmergeableError
    return replace(file, newline="\r\n" if has_crlf else "\n")


class _Merge:
    """A merge of three readable versions of a memory file.

    A file consists of segments: entries, and the prose between them. Entries that all versions have
    in the same order divide the files; the prose between two such entries is merged as text.
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
        base_gaps, our_gaps, their_gaps = (_list_gaps(file, common_ids) for file in self._files)
        self._append(_merge_prose(base_gaps[0], our_gaps[0], their_gaps[0]))
        for number, entry_id in enumerate(common_ids, start=1):
            self._append(self._merge_entry(entry_id))
            self._append(_merge_prose(base_gaps[number], our_gaps[number], their_gaps[number]))
        self._insert_other_entries(common_ids)
        self._verify()

        texts = ["".join(segment.raw for segment in file.segments) for file in self._files]
        merged_text = "".join(segment.raw for segment in self._segments)
        broken = [segment for segment in self._segments if segment.is_broken]
        conflicts = len(broken) + len(self._conflicting_ids)
        return merged_text.rstrip() + _merge_tails(*texts), conflicts

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
        """Insert the entries that have no common place, in the order of their dates."""
        _, ours, theirs = self._entries
        for entry_id in sorted({*ours, *theirs}.difference(common_ids)):
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
        base_text, our_text, their_text = (_text_of(segment) for segment in (base, ours, theirs))
        if _trim(our_text) == _trim(base_text):
            merged = theirs
        elif _trim(their_text) == _trim(base_text):
            merged = ours
        else:
            merged = self._merge_contested(base, ours, theirs)
        if merged is None:
            return None
        tail = _merge_tails(base_text or "", our_text or "", their_text or "")
        return replace(merged, raw=merged.raw.rstrip() + tail)

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
            return None if merged is None else ours or theirs
        if isinstance(merged, Conflict):
            return self._mark_conflict((ours, merged.ours), (theirs, merged.theirs))
        if merged is not None:
            segment = _write_merged(merged, base, ours, theirs)
            if segment is not None:
                return segment
        return self._mark_conflict((ours, our_entry), (theirs, their_entry))

    def _mark_conflict(self, *versions: tuple[Segment, Entry | None]) -> Segment:
        """Return two versions of an entry between git's conflict markers.

        Args:
            versions: for each side the text in the file, and the entry to write in its place.
        """
        texts = []
        for segment, entry in versions:
            if entry is not None:
                texts.append(_rewrite(segment, entry).rstrip())
                self._conflicting_ids.add(entry.id)
        our_text, their_text = texts
        our_entry = versions[0][1]
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
            return Segment(_rewrite(segment, merged), entry=merged)
    if any(comments):
        return None
    return Segment(format_entry(merged), entry=merged)


def _text_of(segment: Segment | None) -> str | None:
    return segment.raw if segment is not None else None


def _trim(text: str | None) -> str | None:
    return text.rstrip() if text is not None else None


def _choose_changed(base: T, ours: T, theirs: T) -> T:
    """Return the version of the side that changed the base; ours if both sides did."""
    return theirs if ours == base else ours


def _merge_tails(base: str, ours: str, theirs: str) -> str:
    """Merge the white space at the end of three texts."""
    tails = [text[len(text.rstrip()) :] for text in (base, ours, theirs)]
    return _choose_changed(*tails)


def _find_common_order(first_ids: Sequence[str], second_ids: Sequence[str]) -> list[str]:
    """Return the ids that two lists have in the same order, as difflib finds them."""
    matcher = SequenceMatcher(None, first_ids, second_ids, autojunk=False)
    common_ids: list[str] = []
    for block in matcher.get_matching_blocks():
        common_ids += first_ids[block.a : block.a + block.size]
    return common_ids


def _list_gaps(file: MemoryFile, common_ids: Iterable[str]) -> list[str]:
    """Return the prose before, between and after some entries of a file.

    Args:
        file: the file.
        common_ids: the ids of the entries.

    Returns:
        One text more than there are ids, also if the file lacks some of the entries.
    """
    common_ids = set(common_ids)
    gaps = [""]
    for segment in file.segments:
        if segment.entry is None:
            gaps[-1] += segment.raw
        elif segment.entry.id in common_ids:
            gaps.append("")
    missing = len(common_ids) + 1 - len(gaps)
    return gaps + [""] * missing


def _merge_prose(base: str, ours: str, theirs: str) -> Segment | None:
    """Merge three versions of prose between entries.

    Returns:
        A segment, which is broken if it has conflicts; None if there is no prose.
    """
    trimmed = [text.rstrip() for text in (base, ours, theirs)]
    if not is_contested(*trimmed):
        text = _choose_changed(*trimmed)
        return Segment(text + _merge_tails(base, ours, theirs)) if text else None
    merged, conflicts = merge_text(*(f"{text}\n".encode() for text in trimmed))
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


def _rewrite(segment: Segment, entry: Entry) -> str:
    """Return the text of an entry in a file with new content; the form of other fields is kept.

    An entry with other unknown keys is not rewritten.

    Args:
        segment: the entry in the file.
        entry: its new content.
    """
    old_entry = segment.entry
    if old_entry == entry or (old_entry is not None and old_entry.extra != entry.extra):
        return segment.raw
    edited = edit_file(MemoryFile("", (segment,), ()), updated=[entry])
    return edited.segments[0].raw
