"""Merge: a memory file three ways, entry by entry, and one of episodes by documents; what the git merge driver does."""

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

T = TypeVar("T")
BOM = "\ufeff"


class UnmergeableError(Exception):
    """The three texts cannot be merged by entries; git's own merge must do."""


def merge_files(base: Path, ours: Path, theirs: Path, path: str) -> int:
    """Write into `ours` what the changes of both sides make of `base`; the number of conflicts left in it.

    `path` is where the file stands in the repository. Raises RepositoryError (write-failed, git-missing); `ours` is
    then as it was.
    """
    texts = base.read_bytes(), ours.read_bytes(), theirs.read_bytes()
    try:
        if is_episode_path(path) and is_contested(*texts):
            merged, conflicts = merge_documents(*texts) or merge_text(*texts)
        else:
            merged, conflicts = merge_texts(*texts)
    except Exception:  # noqa: BLE001 - git waits for a merge: whatever is wrong with ours, its own will do
        merged, conflicts = merge_text(*texts)
    write_file(ours, merged)
    return conflicts


def merge_texts(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, int]:
    """A memory file merged by entries, and the number of conflicts left in it, with git's markers.

    Where a side cannot be read without doubt (an entry that is broken or stands twice, not UTF-8, mixed line ends),
    and where the result would not read back as what was merged, it is git's own merge of the lines.
    """
    if not is_contested(base, ours, theirs):
        return (theirs if ours == base else ours), 0
    try:
        files = [_read(data) for data in (base, ours, theirs)]
        text, conflicts = _Merge(*files).merge()
    except (UnmergeableError, MemoryCIError):
        return merge_text(base, ours, theirs)
    newline = _choose(*(file.newline for file in files))
    has_bom = _choose(*(file.has_bom for file in files))
    return ((BOM if has_bom else "") + text.replace("\n", newline)).encode(), conflicts


def _read(data: bytes) -> MemoryFile:
    """The file with plain line ends, `newline` saying what they were. Raises UnmergeableError."""
    has_crlf = b"\r\n" in data
    file = parse_memory_file("", data.replace(b"\r\n", b"\n"))
    ids = [entry.id for entry in file.entries]
    is_mixed = has_crlf and data.count(b"\n") != data.count(b"\r\n")
    is_broken = any(segment.is_broken for segment in file.segments) or (data and not file.segments)
    if is_mixed or is_broken or len(ids) != len(set(ids)):
        raise UnmergeableError
    return replace(file, newline="\r\n" if has_crlf else "\n")


class _Merge:
    """Three readable files on the way to one. What stands in all of them in the same order holds the prose between."""

    def __init__(self, base: MemoryFile, ours: MemoryFile, theirs: MemoryFile) -> None:
        self.files = base, ours, theirs
        self.entries = [
            {s.entry.id: s for s in file.segments if s.entry is not None} for file in self.files
        ]
        self.disputed: set[str] = set()
        self.pieces: list[Segment] = []

    def merge(self) -> tuple[str, int]:
        """The text, with plain line ends, and the number of conflicts in it. Raises UnmergeableError."""
        base, ours, theirs = (list(side) for side in self.entries)
        # The ids that all versions have in one order; without a base, those that both sides have.
        common = _in_step(_in_step(base, ours) if self.files[0].segments else ours, theirs)
        for place, prose in enumerate(
            zip(*(_gaps(file, common) for file in self.files), strict=True)
        ):
            if place:
                self._append(self._entry(common[place - 1]))
            self._append(_merge_prose(*prose))
        others = {*self.entries[1], *self.entries[2]}.difference(common)
        for piece in filter(None, map(self._entry, sorted(others))):
            if piece.entry is not None:
                insert_entry(self.pieces, piece.entry, piece.raw.rstrip() + "\n", "\n")
        self._prove()
        texts = ["".join(segment.raw for segment in file.segments) for file in self.files]
        broken = sum(piece.is_broken for piece in self.pieces)
        return "".join(piece.raw for piece in self.pieces).rstrip() + _tail(*texts), broken + len(
            self.disputed
        )

    def _append(self, piece: Segment | None) -> None:
        if piece is not None:
            raw = piece.raw if piece.raw.endswith("\n") else piece.raw + "\n\n"
            self.pieces.append(replace(piece, raw=raw))

    def _entry(self, entry_id: str) -> Segment | None:
        base, ours, theirs = (side.get(entry_id) for side in self.entries)
        before, mine, yours = (segment and segment.raw.rstrip() for segment in (base, ours, theirs))
        chosen = theirs if mine == before else ours
        if before not in (mine, yours):
            chosen = self._settle(base, ours, theirs)
        if chosen is None:
            return None
        tail = _tail(*(segment.raw if segment else "" for segment in (base, ours, theirs)))
        return replace(chosen, raw=chosen.raw.rstrip() + tail)

    def _settle(
        self, base: Segment | None, ours: Segment | None, theirs: Segment | None
    ) -> Segment | None:
        """The entry that both sides changed, or that one deleted and the other changed."""
        merged = merge_entries(
            *(segment.entry if segment else None for segment in (base, ours, theirs))
        )
        if ours is None or theirs is None:
            return (ours or theirs) if merged else None
        loose = [_loose_lines(segment) for segment in (base, ours, theirs)]
        if isinstance(merged, Conflict):
            return self._dispute((ours, merged.ours), (theirs, merged.theirs))
        if merged is not None and not is_contested(*loose):
            fitting = [
                segment for segment in (ours, theirs) if _loose_lines(segment) == _choose(*loose)
            ]
            for segment in sorted(fitting, key=lambda segment: segment.entry != merged):
                if segment.entry is not None and segment.entry.extra == merged.extra:
                    return Segment(_rewrite(segment, merged), 0, merged)
            if not any(loose):
                return Segment(format_entry(merged), 0, merged)
        return self._dispute((ours, ours.entry), (theirs, theirs.entry))

    def _dispute(self, *versions: tuple[Segment, Entry | None]) -> Segment:
        """Two versions of an entry between git's markers."""
        one, two = (
            _rewrite(segment, entry).rstrip() for segment, entry in versions if entry is not None
        )
        entry = versions[0][1]
        self.disputed.update(entry.id for _, entry in versions if entry is not None)
        return Segment(f"<<<<<<< ours\n{one}\n=======\n{two}\n>>>>>>> theirs\n", 0, entry)

    def _prove(self) -> None:
        """Read back what is not in conflict. Raises UnmergeableError if it is not what was merged."""
        sound = [
            p
            for p in self.pieces
            if not p.is_broken and (p.entry is None or p.entry.id not in self.disputed)
        ]
        read = parse_memory_file("", "".join(piece.raw for piece in sound).encode())
        if list(read.entries) != [piece.entry for piece in sound if piece.entry is not None]:
            raise UnmergeableError


def _choose(base: T, ours: T, theirs: T) -> T:
    """The side that changed; ours if both did."""
    return theirs if ours == base else ours


def _tail(base: str, ours: str, theirs: str) -> str:
    """The white space at the end, three ways."""
    return _choose(*(text[len(text.rstrip()) :] for text in (base, ours, theirs)))


def _in_step(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Ids that two lists have in the same order."""
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return [item for block in blocks for item in one[block.a : block.a + block.size]]


def _gaps(file: MemoryFile, common: Iterable[str]) -> list[str]:
    """The prose before, between and after the common entries."""
    anchors = set(common)
    gaps = [""]
    for segment in file.segments:
        if segment.entry is None:
            gaps[-1] += segment.raw
        elif segment.entry.id in anchors:
            gaps.append("")
    return gaps + [""] * (len(anchors) + 1 - len(gaps))


def _merge_prose(base: str, ours: str, theirs: str) -> Segment | None:
    """Prose as a piece of the file, broken if it has conflicts; None if there is none."""
    sides = [text.rstrip() for text in (base, ours, theirs)]
    if not is_contested(*sides):
        text = _choose(*sides)
        return Segment(text + _tail(base, ours, theirs), 0) if text else None
    merged, conflicts = merge_text(*(f"{text}\n".encode() for text in sides))
    return Segment(merged.decode().rstrip() + "\n\n", 0, is_broken=conflicts > 0)


def _loose_lines(segment: Segment | None) -> tuple[str, ...]:
    """Comments in a front matter: lines that no field holds, and that no rewrite may lose."""
    if segment is None:
        return ()
    held = {number for field in segment.fields for number in range(field.first, field.last + 1)}
    return tuple(
        line for number, line in enumerate(segment.head) if number not in held and line.strip()
    )


def _rewrite(segment: Segment, entry: Entry) -> str:
    """The segment's text saying what `entry` says, all else as it stands. Unknown keys are not rewritten."""
    if segment.entry == entry or (segment.entry is not None and segment.entry.extra != entry.extra):
        return segment.raw
    return edit_file(MemoryFile("", (segment,), ()), updated=[entry]).segments[0].raw
