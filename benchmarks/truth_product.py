"""What a judge of anchors asks of memory-ci: anchor entries, and say what became of the code that they cite.

These names are the whole interface of such a judge (see docs/serving.md#anchors); it follows when the insides move.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from memory_ci.anchors.anchors import parse_anchor
from memory_ci.anchors.verdicts import truth_factor
from memory_ci.commands.retrieve.anchor_verdicts import judge_cites
from memory_ci.extraction.cites import find_cites
from memory_ci.extraction.entries import make_sample_entry
from memory_ci.memory.cites import anchor_entries, cite_touched
from memory_ci.memory.named_code import cite_named
from memory_ci.memory.workspace import Workspace, open_workspace
from memory_ci.records.entry import PROJECT, Entry, Located
from memory_ci.store.edits import format_entry as format_entry


class Shown(NamedTuple):
    """What `retrieve` says of an entry: the kind of its verdict, the factor of its rank (0: withheld), where it is."""

    kind: str
    factor: float
    note: str
    path: str
    first: int | None
    last: int | None

    @property
    def is_held_back(self) -> bool:
        """Whether the entry is demoted or withheld."""
        return self.factor < 1


def open_product(git_dir: str) -> Workspace:
    """The repository whose git directory or work tree is `git_dir`."""
    return open_workspace(Path(git_dir), is_named=True)


def make_entry(number: int, title: str, body: str, cite: str | None) -> Entry:
    """An entry of the first day of 2026 with at most one cite."""
    return msgspec.structs.replace(
        make_sample_entry(number, title), body=body, cites=(cite,) if cite else ()
    )


def anchor(workspace: Workspace, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries with their cites anchored, as `record` writes them."""
    return anchor_entries(workspace, entries)


def cites_of_commit(
    workspace: Workspace, sha: str, message: str, paths: tuple[str, ...]
) -> tuple[str, ...]:
    """What `record` cites for an entry of this commit."""
    (cites,) = cite_touched(workspace, [(message, find_cites(message, paths, sha))])
    title, _, body = message.partition("\n")
    entry = msgspec.structs.replace(make_entry(0, title, body, None), cites=cites)
    return cite_named(workspace, [entry], sha)[0].cites


def form_of(entry: Entry) -> str:
    """What the first cite names: `symbol`, `lines`, `file`, or `none`."""
    found = [parse_anchor(cite) for cite in entry.cites]
    if not found or found[0] is None or found[0].digest is None:
        return "none"
    return "symbol" if found[0].symbol else "lines" if found[0].first else "file"


def look(workspace: Workspace, entries: Sequence[Entry], rev: str) -> list[Shown]:
    """What `retrieve` says of each entry at a revision."""
    truth = judge_cites(
        workspace, [Located(entry, "MEMORY.md", 1, PROJECT) for entry in entries], rev
    )
    return [_shown(truth[entry]) for entry in entries]


def _shown(verdicts: Sequence[Any]) -> Shown:
    if not verdicts:
        return Shown("none", 1.0, "", "", None, None)
    one = verdicts[0]
    kind = "edited-since" if one.note.startswith("edited since") else one.kind
    return Shown(kind, truth_factor(verdicts), one.note, one.path, one.first, one.last)


def msgspec_replace(entry: Entry, **fields: Any) -> Entry:  # noqa: ANN401 - any field of Entry
    """The entry with other values."""
    return msgspec.structs.replace(entry, **fields)
