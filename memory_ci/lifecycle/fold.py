"""Fold: inbox fragments become entries of their scope's file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from memory_ci.records.change import Change
from memory_ci.records.entry import Entry, Located
from memory_ci.records.report import Finding
from memory_ci.text import content_words


def plan_fold(
    fragments: Iterable[Located], kept: Sequence[Located], targets: Mapping[str, str | None]
) -> tuple[tuple[Change, ...], tuple[Finding, ...]]:
    """A move for each fragment, a drop for one that is kept already, word for word or by its id.

    `targets` gives, by fragment path, the file of its scope; None leaves the fragment where it is, with a finding.
    """
    known = {place.entry.id: place for place in kept}
    said = {_words(place.entry): place for place in kept}
    changes: list[Change] = []
    findings: list[Finding] = []
    for place in sorted(fragments, key=lambda place: place.entry.id):
        target = targets[place.path]
        twin = known.get(place.entry.id) or said.get(_words(place.entry))
        if twin is not None:
            why = f"is kept already as {twin.entry.id}"
            changes.append(
                Change(step="fold", kind="drop", path=twin.path, entry=twin.entry, why=why, moved_from=place.path)
            )
        elif target is None:
            findings.append(_unplaced(place))
        else:
            entry = msgspec.structs.replace(place.entry, scope=None)
            moved = Located(entry, target, 0, place.scope)
            known[entry.id] = said[_words(entry)] = moved
            changes.append(
                Change(step="fold", kind="move", path=target, entry=entry, why="from the inbox", moved_from=place.path)
            )
    return tuple(changes), tuple(findings)


def is_same_learning(one: Entry, other: Entry) -> bool:
    """Whether two entries are one learning: the same id, or the same words, whatever their spacing and case."""
    return one.id == other.id or _words(one) == _words(other)


def _words(entry: Entry) -> tuple[str, frozenset[str], str]:
    return entry.type, content_words(entry.title), " ".join(entry.body.lower().split())


def _unplaced(place: Located) -> Finding:
    message = f"the scope {place.entry.scope or 'project'!r} has no file that could be written here"
    hint = "Give the entry another `scope:`; it waits in the inbox until then."
    return Finding(place.path, place.line, "no-scope-file", message, hint, "warning")
