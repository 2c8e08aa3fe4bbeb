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
from memory_ci.store.episodes import is_episode_path, merge_documents
from memory_ci.store.files import write_file
from memory_ci.store.layout import RECORDED_FILE
from memory_ci.store.ranges import merge_recorded

T = TypeVar("T")
BOM = "\ufeff"


class UnmergeableError(Exception):
    """Three texts cannot be merged by entries, so that git's own merge must be used."""


def merge_files(base: Path, ours: Path, theirs: Path, path: str) -> int:
    """Merge both sides' changes of `base`, and write the result into `ours`.

    Args:
        base: the common ancestor.
        ours: our version, and the result.
        theirs: their version.
        path: the path of the file in the repository.

    Returns:
        The number of conflicts in the result.

    Raises:
        RepositoryError: write-failed, git-missing; `ours` is unchanged then.
    """
    texts = (base.read_bytes(), ours.read_bytes(), theirs.read_bytes())
    try:
        if path == RECORDED_FILE and is_contested(*texts):
            merged, conflicts = merge_recorded(*texts[1:]), 0
        elif is_episode_path(path) and is_contested(*texts):
            merged, conflicts = merge_documents(*texts) or merge_text(*texts)
        else:
            merged, conflicts = merge_texts(*texts)
    except Exception:  # noqa: BLE001 - git waits for a merge, and its own merge always works
        merged, conflicts = merge_text(*texts)
    write_file(ours, merged)
    return conflicts


def merge_texts(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, int]:
    """Merge a memory file by entries.

    The result is git's own merge of lines if a side cannot be read without doubt: a broken or
    repeated entry, text that is not UTF-8, mixed line ends. The same holds if the result, read
    back, would differ from the merge.

    Returns:
        The merged file with git's conflict markers, and the number of conflicts.
    """
    if not is_contested(base, ours, theirs):
        return _choose(base, ours, theirs), 0
    try:
        files = [_read(data) for data in (base, ours, theirs)]
        text, conflicts = _Merge(*files).merge()
    except (UnmergeableError, MemoryCIError):
        return merge_text(base, ours, theirs)

    newline = _choose(*(file.newline for file in files))
    text = text.replace("\n", newline)
    if _choose(*(file.has_bom for file in files)):
        text = BOM + text
    return text.encode(), conflicts


def _read(data: bytes) -> MemoryFile:
    """Parse a file with its line ends made plain; `newline` has the original ones.

    Raises:
        UnmergeableError: the file cannot be read without doubt.
    """
    has_crlf = b"\r\n" in data
    file = parse_memory_file("", data.replace(b"\r\n", b"\n"))
    ids = [entry.id for entry in file.entries]
    is_mixed = has_crlf and data.count(b"\n") != data.count(b"\r\n")
    is_broken = any(segment.is_broken for segment in file.segments) or (data and not file.segments)
    if is_mixed or is_broken or len(ids) != len(set(ids)):
        raise UnmergeableError
    return replace(file, newline="\r\n" if has_crlf else "\n")


class _Merge:
    """A merge of three readable files.

    Entries that all files have in the same order are fixed points; prose is merged between them.
    """

    def __init__(self, base: MemoryFile, ours: MemoryFile, theirs: MemoryFile) -> None:
        self._files = (base, ours, theirs)
        self._entries = [_entries_by_id(file) for file in self._files]
        self._conflicting_ids: set[str] = set()
        self._segments: list[Segment] = []

    def merge(self) -> tuple[str, int]:
        """Return the text, with plain line ends, and the number of conflicts in it.

        Raises:
            UnmergeableError: the result, read back, would differ from the merge.
        """
        common_ids = self._find_common_ids()
        gaps = [_list_gaps(file, common_ids) for file in self._files]
        for index, prose in enumerate(zip(*gaps, strict=True)):
            if index:
                self._append(self._merge_entry(common_ids[index - 1]))
            self._append(_merge_prose(*prose))
        self._insert_other_entries(common_ids)
        self._verify()

        texts = ["".join(segment.raw for segment in file.segments) for file in self._files]
        merged_text = "".join(segment.raw for segment in self._segments)
        broken = [segment for segment in self._segments if segment.is_broken]
        conflicts = len(broken) + len(self._conflicting_ids)
        return merged_text.rstrip() + _merge_tails(*texts), conflicts

    def _find_common_ids(self) -> list[str]:
        """Return the ids that all files have in one order; without a base, those of both sides."""
        base_ids, our_ids, their_ids = (list(entries) for entries in self._entries)
        if self._files[0].segments:
            our_ids = _find_common_order(base_ids, our_ids)
        return _find_common_order(our_ids, their_ids)

    def _insert_other_entries(self, common_ids: Iterable[str]) -> None:
        """Insert the entries that have no common place."""
        _, ours, theirs = self._entries
        for entry_id in sorted({*ours, *theirs}.difference(common_ids)):
            segment = self._merge_entry(entry_id)
            if segment is not None and segment.entry is not None:
                text = segment.raw.rstrip() + "\n"
                insert_entry(self._segments, segment.entry, text, "\n")

    def _append(self, segment: Segment | None) -> None:
        if segment is not None:
            raw = segment.raw if segment.raw.endswith("\n") else segment.raw + "\n\n"
            self._segments.append(replace(segment, raw=raw))

    def _merge_entry(self, entry_id: str) -> Segment | None:
        """Return the merged entry; None if it is deleted."""
        base, ours, theirs = (entries.get(entry_id) for entries in self._entries)
        base_text, our_text, their_text = (
            segment and segment.raw.rstrip() for segment in (base, ours, theirs)
        )
        if our_text == base_text:
            chosen = theirs
        elif their_text == base_text:
            chosen = ours
        else:
            chosen = self._merge_contested(base, ours, theirs)
        if chosen is None:
            return None
        tail = _merge_tails(*(segment.raw if segment else "" for segment in (base, ours, theirs)))
        return replace(chosen, raw=chosen.raw.rstrip() + tail)

    def _merge_contested(
        self, base: Segment | None, ours: Segment | None, theirs: Segment | None
    ) -> Segment | None:
        """Merge an entry that both sides changed, or that one deleted and the other changed."""
        merged = merge_entries(
            *(segment.entry if segment else None for segment in (base, ours, theirs))
        )
        if ours is None or theirs is None:
            return (ours or theirs) if merged else None
        if isinstance(merged, Conflict):
            return self._mark_conflict((ours, merged.ours), (theirs, merged.theirs))
        if merged is not None:
            segment = _write_merged(merged, base, ours, theirs)
            if segment is not None:
                return segment
        return self._mark_conflict((ours, ours.entry), (theirs, theirs.entry))

    def _mark_conflict(self, *versions: tuple[Segment, Entry | None]) -> Segment:
        """Return two versions of an entry between git's markers."""
        texts = []
        for segment, entry in versions:
            if entry is not None:
                texts.append(_rewrite(segment, entry).rstrip())
                self._conflicting_ids.add(entry.id)
        our_text, their_text = texts
        our_entry = versions[0][1]
        raw = f"<<<<<<< ours\n{our_text}\n=======\n{their_text}\n>>>>>>> theirs\n"
        return Segment(raw, 0, our_entry)

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
    """Return the text of a merged entry; None if it would lose comments or unknown keys."""
    comments = [_list_comments(segment) for segment in (base, ours, theirs)]
    if is_contested(*comments):
        return None
    chosen_comments = _choose(*comments)
    candidates = [
        segment for segment in (ours, theirs) if _list_comments(segment) == chosen_comments
    ]
    candidates.sort(key=lambda segment: segment.entry != merged)
    for segment in candidates:
        if segment.entry is not None and segment.entry.extra == merged.extra:
            return Segment(_rewrite(segment, merged), 0, merged)
    if any(comments):
        return None
    return Segment(format_entry(merged), 0, merged)


def _choose(base: T, ours: T, theirs: T) -> T:
    """Return the side that changed; ours if both did."""
    return theirs if ours == base else ours


def _merge_tails(base: str, ours: str, theirs: str) -> str:
    """Merge the white space at the end of texts."""
    return _choose(*(text[len(text.rstrip()) :] for text in (base, ours, theirs)))


def _find_common_order(first_ids: Sequence[str], second_ids: Sequence[str]) -> list[str]:
    """Return the ids that two lists have in the same order."""
    matcher = SequenceMatcher(None, first_ids, second_ids, autojunk=False)
    common_ids: list[str] = []
    for block in matcher.get_matching_blocks():
        common_ids += first_ids[block.a : block.a + block.size]
    return common_ids


def _list_gaps(file: MemoryFile, common_ids: Iterable[str]) -> list[str]:
    """Return the prose before, between and after the common entries."""
    common_ids = set(common_ids)
    gaps = [""]
    for segment in file.segments:
        if segment.entry is None:
            gaps[-1] += segment.raw
        elif segment.entry.id in common_ids:
            gaps.append("")
    return gaps + [""] * (len(common_ids) + 1 - len(gaps))


def _merge_prose(base: str, ours: str, theirs: str) -> Segment | None:
    """Merge prose; the segment is broken if it has conflicts, and None if there is no prose."""
    sides = [text.rstrip() for text in (base, ours, theirs)]
    if not is_contested(*sides):
        text = _choose(*sides)
        return Segment(text + _merge_tails(base, ours, theirs), 0) if text else None
    merged, conflicts = merge_text(*(f"{text}\n".encode() for text in sides))
    return Segment(merged.decode().rstrip() + "\n\n", 0, is_broken=conflicts > 0)


def _list_comments(segment: Segment | None) -> tuple[str, ...]:
    """Return comments in a front matter: lines outside of fields, which no rewrite may lose."""
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
    """Return the text of a segment with the content of an entry; other text is unchanged.

    An entry with other unknown keys is not rewritten.
    """
    if segment.entry == entry or (segment.entry is not None and segment.entry.extra != entry.extra):
        return segment.raw
    return edit_file(MemoryFile("", (segment,), ()), updated=[entry]).segments[0].raw
