"""Relations: what one entry says of another, one line each in its front matter."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import msgspec

from memory_ci.records.entry import Entry

RelationKind = Literal["supports", "contradicts", "duplicates"]

KINDS: dict[str, RelationKind] = {
    "supports": "supports",
    "contradicts": "contradicts",
    "refutes": "contradicts",
    "duplicates": "duplicates",
}
"""The words that are read, and what each is written as."""

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
    """The inverse of parse_relation."""
    return f"{relation.kind} {relation.id}"


def relations_of(entry: Entry) -> tuple[Relation, ...]:
    """The relations that can be read, in the order written."""
    return tuple(relation for line in entry.relations if (relation := parse_relation(line)) is not None)


def with_relation(entry: Entry, relation: Relation) -> Entry:
    """The entry with that relation, its lines sorted and each once; itself if it has the relation already.

    A line that cannot be read stays as it is.
    """
    if relation in relations_of(entry):
        return entry
    return msgspec.structs.replace(entry, relations=tuple(sorted({*entry.relations, format_relation(relation)})))
