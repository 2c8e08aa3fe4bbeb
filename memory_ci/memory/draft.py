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
    """The entries of memory, changed by each planned change in turn, before anything is written.

    A step of a plan sees the entries here as the steps before it leave them.

    Attributes:
        base: the snapshot that the plan is made on.
        located: the entries of memory files that may be written, with their paths and lines.
        inbox: the notes of the inbox that may become entries; each has a file of its own.
    """

    def __init__(self, base: Snapshot) -> None:
        """Start with the entries of a commit; files that must not be written are left out."""
        self.base = base
        self._scopes = base.workspace.config.scopes
        self._modes = base.tree.modes
        self.located: list[Located] = []
        for located in base.memory.located:
            if self._is_writable(located.path):
                self.located.append(located)

        self.inbox: list[Located] = []
        for file in base.memory.files:
            # The file of a note is deleted when the note becomes an entry, so it must hold one
            # entry and nothing else.
            is_note = is_fragment(file.path) and not file.findings and not file.prose
            if is_note and len(file.entries) == 1:
                self.inbox += file.entries

    def _is_writable(self, path: str) -> bool:
        if self._modes.get(path) not in REGULAR or is_fragment(path):
            return False
        return is_canonical_path(path) and not is_legacy(path)

    @property
    def by_id(self) -> dict[str, Located]:
        """The located entries by id; of two with one id, the first."""
        return {located_entry.entry.id: located_entry for located_entry in reversed(self.located)}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries without their paths and lines."""
        return tuple(located_entry.entry for located_entry in self.located)

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

    def find_scope_of_directory(self, directory: str) -> str:
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
        draft.located = [*self.located]
        draft.inbox = [*self.inbox]
        return draft

    def apply(self, changes: Iterable[Change]) -> tuple[Change, ...]:
        """Apply changes to the draft, and return them."""
        applied_changes = tuple(changes)
        for change in applied_changes:
            self._apply_change(change)
        return applied_changes

    def _apply_change(self, change: Change) -> None:
        """Add, update or remove one entry, and remove the note of the inbox that it came from."""
        index = self.find(change)
        if change.kind in ("add", "move"):
            scope = classify_scope(change.path, self._scopes) or PROJECT
            self.located.append(Located(change.entry, change.path, line=0, scope=scope))
        elif change.kind == "update" and index is not None:
            self.located[index] = replace(self.located[index], entry=change.entry)
        elif change.kind == "remove" and index is not None:
            del self.located[index]
        if change.moved_from is not None:
            self.inbox = [note for note in self.inbox if note.path != change.moved_from]

    def find(self, change: Change) -> int | None:
        """Return the index in `located` of the entry that a change updates or removes.

        Several entries of a file may have the id of the change. Then an update by compaction is of
        the first of them. Otherwise the entry that is most like that of the change counts; of
        several such, a removal is of the last one and an update of the first.
        """
        indices = []
        for index, located in enumerate(self.located):
            if (located.path, located.entry.id) == (change.path, change.entry.id):
                indices.append(index)
        if not indices:
            return None
        if (change.step, change.kind) == ("compact", "update"):
            return indices[0]
        if change.kind == "remove":
            indices.reverse()  # `find_old_state` takes the first of several that are most alike
        copies = [self.located[index].entry for index in indices]
        return indices[find_old_state(copies, change.entry)]
