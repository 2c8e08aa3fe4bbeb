"""A draft: memory as the steps planned so far would leave it, and what is left of a plan's promises to check."""

from __future__ import annotations

from collections.abc import Iterable

from memory_ci.flows.workspace import Memory, Workspace
from memory_ci.gitrepo.blobs import list_tree
from memory_ci.records.change import Change
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.loaded import LoadedFile
from memory_ci.store.layout import classify_scope, is_fragment, is_legacy, scope_path
from memory_ci.store.load import PROJECT


class Draft:
    """Entries where they stand, the inbox apart. Steps plan on it and then are taken over into it."""

    def __init__(self, workspace: Workspace, rev: str, memory: Memory) -> None:
        self._patterns = workspace.config.scopes
        self._paths = frozenset(file.path for file in list_tree(workspace.repo, rev, ()))
        self.kept = [p for p in memory.located if p.path in self._paths and not is_fragment(p.path)]
        self.kept = [place for place in self.kept if not is_legacy(place.path)]
        self.inbox = [place for file in memory.files if _is_whole(file) for place in file.entries]

    @property
    def by_id(self) -> dict[str, Located]:
        """The kept entries; of an id that stands twice, the first."""
        return {place.entry.id: place for place in reversed(self.kept)}

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(place.entry for place in self.kept)

    def path_of(self, scope: ScopeOf) -> str | None:
        """The file of a scope, unless the tree has a file where it needs a directory or the reverse."""
        path = scope_path(scope, self._patterns)
        if path is None:
            return None
        parents = {path[:at] for at, char in enumerate(path) if char == "/"}
        is_directory = any(other.startswith(path + "/") for other in self._paths)
        return None if is_directory or parents & self._paths else path

    def take(self, changes: Iterable[Change]) -> tuple[Change, ...]:
        """Do the changes to the draft, and give them back."""
        taken = tuple(changes)
        for change in taken:
            self._do(change)
        return taken

    def _do(self, change: Change) -> None:
        places = [
            at for at, place in enumerate(self.kept) if (place.path, place.entry.id) == (change.path, change.entry.id)
        ]
        if change.kind in ("add", "move"):
            scope = classify_scope(change.path, self._patterns) or PROJECT
            self.kept.append(Located(change.entry, change.path, 0, scope))
        elif change.kind == "update" and places:
            old = self.kept[places[0]]
            self.kept[places[0]] = Located(change.entry, old.path, old.line, old.scope)
        elif change.kind == "remove" and places:
            del self.kept[places[-1]]
        if change.moved_from is not None:
            self.inbox = [place for place in self.inbox if place.path != change.moved_from]


def _is_whole(file: LoadedFile) -> bool:
    """Whether a file is an inbox fragment that is one entry and nothing else: folding it takes the file away."""
    return is_fragment(file.path) and len(file.entries) == 1 and not file.findings and not file.prose
