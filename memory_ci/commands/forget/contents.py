"""Memory files without the words to forget, which are removed or masked.

The words are known by salted hashes only (tombstones).
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from memory_ci.errors import MemoryCIError
from memory_ci.extraction.tombstones import Tombstones
from memory_ci.gitrepo.sessionrefs import DIGEST
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.memory.workspace import Workspace, holds_entries
from memory_ci.records.entry import Entry
from memory_ci.store.document import MemoryFile, parse_memory_file, render_memory_file
from memory_ci.store.edits import edit_file
from memory_ci.store.episodes import edit_episode_records, is_episode_path
from memory_ci.store.layout import is_fragment
from memory_ci.text import plural

TEXT_FIELDS = ("source", "session", "engine", "scope", "promoted_from", "aka", "instead")
LIST_FIELDS = ("evidence", "occurrences", "cites", "relations", "extra")


class ForgetTarget(msgspec.Struct, frozen=True):
    """The words to forget, and the entry if one is to be forgotten.

    Attributes:
        tombstones: the salted hashes of the words.
        entry_id: the id of the entry to remove, "" for none.
    """

    tombstones: Tombstones
    entry_id: str = ""

    def is_named_in(self, data: bytes) -> bool:
        """Return whether a file holds the id of the entry."""
        return bool(self.entry_id) and self.entry_id.encode() in data

    def is_held_in(self, data: bytes) -> bool:
        """Return whether a file holds the words, or the id of the entry."""
        return self.tombstones.holds(data) or self.is_named_in(data)


def forget_in_entry(target: ForgetTarget, entry: Entry) -> Entry | None:
    """Return an entry without the words to forget.

    An item of a field with several values, such as a line of evidence, is removed as a whole if it
    holds the words. In other texts they are masked.

    Args:
        target: the words to forget, and the entry to remove if there is one.
        entry: the entry.

    Returns:
        The entry; None to remove it, because it is the one to forget, or because its title or body
        holds the words.
    """
    tombstones = target.tombstones
    if entry.id == target.entry_id or tombstones.refuses(entry.title, entry.body):
        return None
    changes: dict[str, Any] = {}
    for name in LIST_FIELDS:
        items = getattr(entry, name)
        changes[name] = tuple(item for item in items if not _is_refused(target, item))
    for name in TEXT_FIELDS:
        value = getattr(entry, name)
        if value and _is_refused(target, value):
            changes[name] = None
    return tombstones.mask_all(replace(entry, **changes))


def _is_refused(target: ForgetTarget, item: object) -> bool:
    """Return whether an item of an entry's field holds the words, or the id of the entry."""
    text = " ".join(item) if isinstance(item, tuple) else str(item)
    if target.entry_id and target.entry_id in text:
        return True
    return target.tombstones.refuses(text)


def rewrite_file(
    workspace: Workspace, target: ForgetTarget, path: str, data: bytes
) -> tuple[bytes | None, str]:
    """Return a memory file without the words.

    In a file of entries or episodes the fields with the words are removed or masked. Words that are
    left, and those in other files, are masked in the text.

    Args:
        workspace: the repository and its configuration.
        target: the words to forget.
        path: the path of the file.
        data: its content.

    Returns:
        The new content, None to remove the file; and the action in words, "" for none.
    """
    tombstones = target.tombstones
    if path == REJECTED_FILE:
        return _rewrite_rejected(tombstones, data)
    new_data = data
    actions: list[str] = []
    if is_episode_path(path):
        with suppress(MemoryCIError):
            new_data = edit_episode_records(path, data, tombstones.mask_all)
        if new_data != data:
            actions.append("masked in its episodes")
    elif holds_entries(workspace, path):
        with suppress(MemoryCIError):
            file, actions = forget_in_file(target, parse_memory_file(path, data))
            new_data = render_memory_file(file)
            if is_fragment(path) and not file.entries and actions:
                return None, "the note goes"
    if tombstones.holds(new_data):
        new_data = mask_text(tombstones, path, new_data)
        actions.append("masked in its text")
    return new_data, ", ".join(actions)


def _rewrite_rejected(tombstones: Tombstones, data: bytes) -> tuple[bytes, str]:
    """Return the file of tombstones without lines that hold the words; comments stay."""
    lines = data.decode("utf-8", "replace").splitlines()
    kept_lines = [line for line in lines if line.startswith("#") or not tombstones.find(line)]
    action = "its lines go" if tombstones.holds(data) else ""
    return "".join(f"{line}\n" for line in kept_lines).encode(), action


def forget_in_file(target: ForgetTarget, file: MemoryFile) -> tuple[MemoryFile, list[str]]:
    """Return a file of entries without the words to forget, and what was done, in words.

    Entries whose title or body holds the words are removed, others lose them: `2 entries removed`,
    `struck from 1 entry`.
    """
    removed_entries: list[Entry] = []
    updated_entries: list[Entry] = []
    replaced_entries: list[Entry] = []
    replacements: list[Entry] = []
    for old_entry in file.entries:
        new_entry = forget_in_entry(target, old_entry)
        if new_entry is None:
            removed_entries.append(old_entry)
        elif new_entry.extra != old_entry.extra:  # `edit_file` does not update unknown keys
            replaced_entries.append(old_entry)
            replacements.append(new_entry)
        elif new_entry != old_entry:
            updated_entries.append(new_entry)

    actions: list[str] = []
    if removed_entries:
        actions.append(f"{plural(len(removed_entries), 'entry')} removed")
    if updated_entries or replaced_entries:
        actions.append(
            f"struck from {plural(len(updated_entries) + len(replaced_entries), 'entry')}"
        )
    edited = edit_file(
        file,
        updated=updated_entries,
        removed=[*removed_entries, *replaced_entries],
        added=replacements,
    )
    return edited, actions


def mask_text(tombstones: Tombstones, path: str, data: bytes) -> bytes:
    """Return a file with masked words; in JSON Lines the texts of each line are masked."""
    text = data.decode("utf-8", "surrogateescape")
    if path.endswith((".jsonl", DIGEST)):
        lines = text.splitlines(keepends=True)
        text = "".join(_mask_json(tombstones, line) for line in lines)
    return tombstones.mask(text).encode("utf-8", "surrogateescape")


def _mask_json(tombstones: Tombstones, line: str) -> str:
    """Return a line of JSON Lines with masked words.

    A line without the words, or a line that is not JSON, is returned unchanged.
    """
    with suppress(ValueError):
        value = json.loads(line)
        masked = tombstones.mask_all(value)
        if masked != value:
            return json.dumps(masked, ensure_ascii=False, separators=(",", ":")) + "\n"
    return line
