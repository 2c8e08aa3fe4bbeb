"""The entries of memory files as the changes that were planned so far would leave them."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from msgspec.structs import replace

from memory_ci.gitrepo.blobs import REGULAR, find_obstacle
from memory_ci.memory.workspace import Snapshot
from memory_ci.records.entry import PROJECT, Entry, Located, ScopeOf
from memory_ci.records.plan import Change
from memory_ci.store.edits import find_old_state
from memory_ci.store.layout import (
    classify_scope,
    is_canonical_path,
    is_fragment,
    is_legacy,
    scope_path,
)


class Draft:
    """The memory that the steps planned so far leave.

    Attributes:
        base: the snapshot that the plan is made on.
        kept: the entries of memory files that may be written, with their places.
        inbox: the notes of the inbox that may be folded.
    """

    def __init__(self, base: Snapshot) -> None:
        """Start with the memory of a commit, but for files that must not be written."""
        self.base = base
        self._scopes = base.workspace.config.scopes
        self._modes = base.tree.modes
        self.kept = [place for place in base.memory.located if self._is_writable(place.path)]

        self.inbox: list[Located] = []
        for file in base.memory.files:
            # Folding a note deletes its file, so the file must be one entry and nothing else.
            is_note = is_fragment(file.path) and not file.findings and not file.prose
            if is_note and len(file.entries) == 1:
                self.inbox += file.entries

    def _is_writable(self, path: str) -> bool:
        if self._modes.get(path) not in REGULAR or is_fragment(path):
            return False
        return is_canonical_path(path) and not is_legacy(path)

    @property
    def by_id(self) -> dict[str, Located]:
        """The kept entries by id; of two with one id, the first."""
        return {place.entry.id: place for place in reversed(self.kept)}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The kept entries."""
        return tuple(place.entry for place in self.kept)

    def path_of(self, scope: ScopeOf) -> str | None:
        """Return the path of the memory file of a scope, such as a team or the project.

        Returns:
            None if the tree has a link, a submodule or a directory at that path, or something that
            is no directory above it.
        """
        path = scope_path(scope, self._scopes)
        if path is None or find_obstacle(path, self._modes) is not None:
            return None
        return path

    def home_of(self, directory: str) -> str:
        """Return the scope for entries learned in a directory: `team:<directory>` or `project`.

        That is the team of the nearest directory, itself or above, that has a memory file of its
        own, or else the project.
        """
        while directory:
            team_path = scope_path(ScopeOf("team", directory), self._scopes)
            if team_path in self._modes:
                return f"team:{directory}"
            directory = directory.rpartition("/")[0]
        return "project"

    def copy(self) -> Draft:
        """Return a draft that can be changed without changing this one."""
        draft = copy(self)
        draft.kept = [*self.kept]
        draft.inbox = [*self.inbox]
        return draft

    def take(self, changes: Iterable[Change]) -> tuple[Change, ...]:
        """Apply changes to the draft, and return them."""
        taken = tuple(changes)
        for change in taken:
            self._apply(change)
        return taken

    def _apply(self, change: Change) -> None:
        """Add, update or remove one entry, and remove the note of the inbox that it came from."""
        index = self.find(change)
        if change.kind in ("add", "move"):
            scope = classify_scope(change.path, self._scopes) or PROJECT
            self.kept.append(Located(change.entry, change.path, 0, scope))
        elif change.kind == "update" and index is not None:
            self.kept[index] = replace(self.kept[index], entry=change.entry)
        elif change.kind == "remove" and index is not None:
            del self.kept[index]
        if change.moved_from is not None:
            self.inbox = [place for place in self.inbox if place.path != change.moved_from]

    def find(self, change: Change) -> int | None:
        """Return the index in `kept` of the entry that a change updates or removes.

        Several entries of a file may have its id: then compaction updates the first of them, and a
        removal takes the last of those that are most like the entry of the change.
        """
        indices = []
        for index, place in enumerate(self.kept):
            if (place.path, place.entry.id) == (change.path, change.entry.id):
                indices.append(index)
        if change.kind == "remove":
            indices.reverse()
        if not indices:
            return None
        if (change.step, change.kind) == ("compact", "update"):
            return indices[0]
        twins = [self.kept[index].entry for index in indices]
        return indices[find_old_state(twins, change.entry)]
