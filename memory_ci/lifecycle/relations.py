"""Relations: what one entry says of another, a line each in its front matter. Names: an id, or its beginning."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Literal, NamedTuple

from msgspec.structs import replace

from memory_ci.records.entry import Entry, Located
from memory_ci.records.report import Finding

RelationKind = Literal["supports", "contradicts", "duplicates"]

KINDS: dict[str, RelationKind] = {
    "supports": "supports",
    "contradicts": "contradicts",
    "refutes": "contradicts",
    "duplicates": "duplicates",
}  # The words that are read, and what each is written as.
LINE = re.compile(rf"\s*({'|'.join(KINDS)})\s+(\S+)\s*", re.IGNORECASE)


class Relation(NamedTuple):
    """What an entry is to the entry of that id."""

    kind: RelationKind
    id: str


def parse_relation(line: str) -> Relation | None:
    """The relation that a line states; None for a line of another form, which is kept but says nothing to us.

    >>> parse_relation("refutes 7A41")
    Relation(kind='contradicts', id='7a41')
    """
    match = LINE.fullmatch(line)
    return Relation(KINDS[match[1].lower()], match[2].lower()) if match else None


def format_relation(relation: Relation) -> str:
    return f"{relation.kind} {relation.id}"


def relations_of(entry: Entry) -> tuple[Relation, ...]:
    """The relations that can be read, in the order written."""
    return tuple(
        relation for line in entry.relations if (relation := parse_relation(line)) is not None
    )


def with_relation(entry: Entry, relation: Relation) -> Entry:
    """The entry with that relation, its lines sorted and each once; itself if it has the relation already. A line that
    cannot be read stays as it is."""
    if relation in relations_of(entry):
        return entry
    return replace(entry, relations=tuple(sorted({*entry.relations, format_relation(relation)})))


def list_dangling(located: Iterable[Located]) -> list[tuple[Located, Relation]]:
    """Return the relations to an id that no entry has, and none has taken in (`supersedes`), each with its entry."""
    places = list(located)
    known = _known_ids(places)
    pairs = (
        (place, relation)
        for place in places
        for relation in dict.fromkeys(relations_of(place.entry))
    )
    return [(place, relation) for place, relation in pairs if relation.id not in known]


def find_dangling(located: Iterable[Located], retired: Collection[str] = ()) -> Iterator[Finding]:
    """Return a warning for each relation to an id that no entry has.

    Args:
        located: the entries of memory.
        retired: ids of entries that were retired when they were taken out: what names them is not at fault.
    """
    places = list(located)
    known = _known_ids(places)
    for place, (kind, id_) in list_dangling(places):
        if id_ not in retired:
            message = f"{kind} {id_}: no entry has this id"
            meant = [one for one in known if one.startswith(id_)]  # perhaps it was cut short
            hint = "Take the line out, or name the entry that is meant (`memory-ci list` shows the ids)."
            hint = f"Write the id whole: {meant[0]}." if len(meant) == 1 else hint
            yield Finding(place.path, place.line, "dangling-relation", message, hint, "warning")


def _known_ids(places: Iterable[Located]) -> set[str]:
    return {id_ for place in places for id_ in (place.entry.id, *place.entry.supersedes)}


SHORTEST = 4  # Characters of an id, as git wants of its own (core.abbrev).


def find_ids(entries: Iterable[Entry], prefix: str) -> frozenset[str]:
    """The ids that begin like this, else those of entries that have taken in one which does."""
    wanted, known = prefix.lower(), list(entries)
    fits = frozenset(entry.id for entry in known if entry.id.startswith(wanted))
    return fits or frozenset(
        entry.id for entry in known if any(old.startswith(wanted) for old in entry.supersedes)
    )


def find_id(entries: Iterable[Entry], prefix: str) -> str | None:
    """The one entry that is meant by an id or its start; None if not one is, or too little is said of it."""
    fits = find_ids(entries, prefix) if len(prefix) >= SHORTEST else ()
    return next(iter(fits)) if len(fits) == 1 else None
