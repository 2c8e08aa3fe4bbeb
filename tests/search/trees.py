"""Trees of memory files for tests of the index: object ids, and a loader that keeps its requests."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.report import Finding, LoadedFile
from tests.make import make_entry


class Tree:
    """Paths with their entries.

    Attributes:
        requests: the paths of each call of `load`.
    """

    def __init__(self, files: Mapping[str, tuple[Entry, ...]] | None = None) -> None:
        self.files = {path: make_loaded(path, *entries) for path, entries in (files or {}).items()}
        self.requests: list[list[str]] = []

    @property
    def oids(self) -> dict[str, str]:
        return {
            path: hashlib.sha256(msgspec.msgpack.encode(loaded)).hexdigest()
            for path, loaded in self.files.items()
        }

    def load(self, paths: Collection[str]) -> Iterator[LoadedFile]:
        self.requests.append(list(paths))
        for path in paths:
            yield self.files[path]


def make_loaded(path: str, *entries: Entry, **fields: Any) -> LoadedFile:
    """Return a loaded file; its scope is team for `<dir>/MEMORY.md`, else by the file name, or `scope`."""
    directory, _, name = path.rpartition("/")
    scope = (
        ScopeOf("team", directory)
        if directory
        else ScopeOf("institutional" if "institutional" in name else "project")
    )
    scope = fields.pop("scope", scope)
    located = tuple(
        Located(entry, path, 1 + 20 * place, scope) for place, entry in enumerate(entries)
    )
    return LoadedFile(path=path, scope=scope, entries=located, **fields)


def make_tree(count: int = 1) -> Tree:
    """Return a tree with a file of `count` entries, a file of prose with a finding, and an empty file."""
    tree = Tree(
        {
            "MEMORY.md": tuple(
                make_entry(n, title=f"Retry number{n} with a key") for n in range(count)
            )
        }
    )
    finding = Finding("institutional.md", 3, "bad-value", "importance is not a number")
    tree.files["institutional.md"] = make_loaded(
        "institutional.md", prose=((1, "Always test."),), findings=(finding,)
    )
    tree.files["src/MEMORY.md"] = make_loaded("src/MEMORY.md")
    return tree
