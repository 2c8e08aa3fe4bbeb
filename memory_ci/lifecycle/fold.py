"""Fold: inbox fragments become entries of their scope's file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from memory_ci.records.change import Change
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.report import Finding
from memory_ci.text import content_words


def plan_fold(
    fragments: Iterable[Located], kept: Sequence[Located], targets: Mapping[str, str | None]
) -> tuple[tuple[Change, ...], tuple[Finding, ...]]:
    """A move for each fragment, a drop for one that is kept already, word for word, where it is for.

    `targets` gives, by fragment path, the file of its scope; None leaves the fragment where it is, with a finding. So
    does an id that an entry of other words has: what nobody kept must not go.
    """
    known = {place.entry.id: place for place in reversed(kept)}
    said: defaultdict[object, list[Located]] = defaultdict(list)
    for place in kept:
        said[_words(place.entry)].append(place)
    changes: list[Change] = []
    findings: list[Finding] = []
    for place in sorted(fragments, key=lambda place: (place.entry.id, place.path)):
        target = targets[place.path]
        twin = next((other for other in said[_words(place.entry)] if is_kept(place, other)), None)
        if twin is not None:
            why = f"is kept already as {twin.entry.id}"
            changes.append(
                Change(step="fold", kind="drop", path=twin.path, entry=twin.entry, why=why, moved_from=place.path)
            )
        elif place.entry.id in known:
            findings.append(_taken(place, known[place.entry.id]))
        elif target is None:
            findings.append(_unplaced(place))
        else:
            entry = msgspec.structs.replace(place.entry, scope=None)
            moved = Located(entry, target, 0, place.scope)
            known[entry.id] = moved
            said[_words(entry)].append(moved)
            changes.append(
                Change(step="fold", kind="move", path=target, entry=entry, why="from the inbox", moved_from=place.path)
            )
    return tuple(changes), tuple(findings)


def is_kept(new: Located, other: Located) -> bool:
    """Whether `other` keeps what `new` says: the same words, for all that it is for. What is retired keeps nothing but
    itself."""
    is_itself = new.entry.id == other.entry.id
    is_said = _words(new.entry) == _words(other.entry) and is_covered(new.scope, other.scope)
    return is_said and (is_itself or other.entry.status != "retired")


def is_covered(wanted: ScopeOf, scope: ScopeOf) -> bool:
    """Whether all that `wanted` is for are given what stands in `scope`.

    A session's entries are given to that session alone, a team's to those who work in its directory.

    >>> [is_covered(wanted, ScopeOf("team", "src")) for wanted in (ScopeOf("team", "src/api"), ScopeOf("project"))]
    [True, False]
    """
    if scope.name == "session":
        return wanted == scope
    if scope.name == "team" and scope.where:
        return wanted.name == "team" and f"{wanted.where}/".startswith(f"{scope.where}/")
    return True


def is_same_learning(one: Entry, other: Entry) -> bool:
    """Whether two entries are one learning: the same id, or the same words, whatever their spacing and case."""
    return one.id == other.id or _words(one) == _words(other)


def _words(entry: Entry) -> tuple[str, frozenset[str], str]:
    return entry.type, content_words(entry.title), " ".join(entry.body.lower().split())


def _taken(place: Located, other: Located) -> Finding:
    message = f"its id is that of an entry in {other.path}, which does not say this where it is for"
    hint = "Give the note an id of its own (`uuidgen`); it waits in the inbox until then."
    return Finding(place.path, place.line, "taken-id", message, hint, "notice")


def _unplaced(place: Located) -> Finding:
    message = f"the scope {place.entry.scope or 'project'!r} has no file that could be written here"
    hint = "Give the entry another `scope:`; it waits in the inbox until then."
    return Finding(place.path, place.line, "no-scope-file", message, hint, "warning")
