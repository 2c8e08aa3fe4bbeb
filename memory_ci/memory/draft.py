"""A draft: memory as the steps planned so far would leave it, and what is left of a plan's promises to check."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from msgspec.structs import replace

from memory_ci.gitrepo.blobs import REGULAR, find_obstacle
from memory_ci.memory.workspace import Snapshot
from memory_ci.records.entry import PROJECT, Entry, Located, ScopeOf
from memory_ci.records.plan import Change
from memory_ci.store.edits import choose_twin
from memory_ci.store.layout import (
    classify_scope,
    is_canonical_path,
    is_fragment,
    is_legacy,
    scope_path,
)


class Draft:
    """Memory as the steps planned so far leave it: the kept entries with their places, and the inbox."""

    def __init__(self, base: Snapshot) -> None:
        self.base, self._patterns = base, base.workspace.config.scopes
        self._modes, memory = base.tree.modes, base.memory
        self.kept = [
            p
            for p in memory.located
            if self._modes.get(p.path) in REGULAR and not is_fragment(p.path)
        ]
        self.kept = [p for p in self.kept if is_canonical_path(p.path) and not is_legacy(p.path)]
        # Folding a note takes its file away, so only one that is one entry and nothing else is folded.
        notes = (
            file
            for file in memory.files
            if is_fragment(file.path) and not file.findings and not file.prose
        )
        self.inbox = [place for file in notes if len(file.entries) == 1 for place in file.entries]

    @property
    def by_id(self) -> dict[str, Located]:
        """The kept entries by id; of two with one id, the first."""
        return {place.entry.id: place for place in reversed(self.kept)}

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(place.entry for place in self.kept)

    def path_of(self, scope: ScopeOf) -> str | None:
        """The file of a scope, unless the tree has a link, a submodule or a directory there, or no directory above."""
        path = scope_path(scope, self._patterns)
        return path if path is not None and find_obstacle(path, self._modes) is None else None

    def home_of(self, directory: str) -> str:
        """The scope, as in Entry.scope, of what is learned in a directory: that of the nearest one, itself or above,
        that has a memory file of its own; else the project."""
        while directory:
            if scope_path(ScopeOf("team", directory), self._patterns) in self._modes:
                return f"team:{directory}"
            directory = directory.rpartition("/")[0]
        return "project"

    def copy(self) -> Draft:
        """A draft that can be changed without this one."""
        draft = copy(self)
        draft.kept, draft.inbox = [*self.kept], [*self.inbox]
        return draft

    def take(self, changes: Iterable[Change]) -> tuple[Change, ...]:
        """Do the changes to the draft, and give them back."""
        taken = tuple(changes)
        for change in taken:
            at = self.find(change)
            if change.kind in ("add", "move"):
                scope = classify_scope(change.path, self._patterns) or PROJECT
                self.kept.append(Located(change.entry, change.path, 0, scope))
            elif change.kind == "update" and at is not None:
                self.kept[at] = replace(self.kept[at], entry=change.entry)
            elif change.kind == "remove" and at is not None:
                del self.kept[at]
            if change.moved_from is not None:
                self.inbox = [place for place in self.inbox if place.path != change.moved_from]
        return taken

    def find(self, change: Change) -> int | None:
        """Where in `kept` the entry is that an update or a removal is about; compaction updates the first of copies."""
        key = (change.path, change.entry.id)
        places = [at for at, place in enumerate(self.kept) if (place.path, place.entry.id) == key]
        if change.kind == "remove":
            places.reverse()
        if not places or (change.step, change.kind) == ("compact", "update"):
            return places[0] if places else None
        return places[choose_twin([self.kept[at].entry for at in places], change.entry)]
