"""Relations between entries, as lines in their front matter, and entries named by their ids."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Literal, NamedTuple

from msgspec.structs import replace

from memory_ci.records.entry import Entry, Located
from memory_ci.records.report import Finding
from memory_ci.regex import Regex

RelationKind = Literal["supports", "contradicts", "duplicates"]

KINDS: dict[str, RelationKind] = {
    "supports": "supports",
    "contradicts": "contradicts",
    "refutes": "contradicts",
    "duplicates": "duplicates",
}
"""The words that are read, and the kind that each means."""

LINE = Regex(rf"\s*(?P<word>{'|'.join(KINDS)})\s+(?P<id>\S+)\s*", re.IGNORECASE)


class Relation(NamedTuple):
    """The relation of an entry to the entry with an id."""

    kind: RelationKind
    id: str


def parse_relation(line: str) -> Relation | None:
    """Parse a line of front matter such as `contradicts 7a41`; None for a line of another form.

    >>> parse_relation("refutes 7A41")
    Relation(kind='contradicts', id='7a41')
    """
    match = LINE.fullmatch(line)
    if match is None:
        return None
    return Relation(KINDS[match["word"].lower()], match["id"].lower())


def format_relation(relation: Relation) -> str:
    """Format a relation as a line of front matter."""
    return f"{relation.kind} {relation.id}"


def parse_relations(entry: Entry) -> tuple[Relation, ...]:
    """Return the relations of an entry that can be read, in their order."""
    relations = [parse_relation(line) for line in entry.relations]
    return tuple(relation for relation in relations if relation is not None)


def with_relation(entry: Entry, relation: Relation) -> Entry:
    """Return an entry with a relation, and its lines sorted and distinct.

    An entry that has the relation already is returned unchanged. Lines that cannot be read stay.
    """
    if relation in parse_relations(entry):
        return entry
    lines = {*entry.relations, format_relation(relation)}
    return replace(entry, relations=tuple(sorted(lines)))


def list_dangling(located: Iterable[Located]) -> list[tuple[Located, Relation]]:
    """Return the relations to ids that no entry has or supersedes, each with its entry."""
    located_entries = list(located)
    known_ids = _list_known_ids(located_entries)
    dangling: list[tuple[Located, Relation]] = []
    for located_entry in located_entries:
        for relation in dict.fromkeys(parse_relations(located_entry.entry)):
            if relation.id not in known_ids:
                dangling.append((located_entry, relation))
    return dangling


def find_dangling(located: Iterable[Located], retired: Collection[str] = ()) -> Iterator[Finding]:
    """Yield a warning for each relation to an id that no entry has.

    Args:
        located: the entries of memory.
        retired: ids of entries that were removed after they had retired, and may still be named.
    """
    located_entries = list(located)
    known_ids = _list_known_ids(located_entries)
    for located_entry, relation in list_dangling(located_entries):
        if relation.id in retired:
            continue
        hint = (
            "Take the line out, or name the entry that is meant (`memory-ci list` shows the ids)."
        )
        longer_ids = [known_id for known_id in known_ids if known_id.startswith(relation.id)]
        if len(longer_ids) == 1:
            hint = f"Write the id whole: {longer_ids[0]}."
        message = f"{relation.kind} {relation.id}: no entry has this id"
        yield Finding(
            located_entry.path, located_entry.line, "dangling-relation", message, hint, "warning"
        )


def _list_known_ids(located_entries: Iterable[Located]) -> set[str]:
    """Return the ids of entries and of those that they supersede."""
    known_ids: set[str] = set()
    for located_entry in located_entries:
        known_ids.update((located_entry.entry.id, *located_entry.entry.supersedes))
    return known_ids


MIN_PREFIX = 4
"""Characters of the start of an id that names an entry, at least, as for git (core.abbrev)."""


def find_ids(entries: Iterable[Entry], prefix: str) -> frozenset[str]:
    """Return the ids that start with a prefix, else those of entries that supersede such ids."""
    prefix = prefix.lower()
    entries = list(entries)
    ids = {entry.id for entry in entries if entry.id.startswith(prefix)}
    if not ids:
        for entry in entries:
            if any(old_id.startswith(prefix) for old_id in entry.supersedes):
                ids.add(entry.id)
    return frozenset(ids)


def find_id(entries: Iterable[Entry], prefix: str) -> str | None:
    """Return the only id with a prefix; None if no id or several have it, or it is too short."""
    if len(prefix) < MIN_PREFIX:
        return None
    ids = find_ids(entries, prefix)
    return next(iter(ids)) if len(ids) == 1 else None
