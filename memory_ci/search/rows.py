"""Records as rows of the index, and back; what is derived from their text."""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Iterable, Iterator
from datetime import date
from operator import attrgetter
from typing import Any

import msgspec

from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.report import LoadedFile
from memory_ci.text import CAMEL, UNSPACED, cited_words, words

Row = tuple[Any, ...]
WORDS = ("id", "type", "domain", "status", "phase", "session")
DAYS = ("last_reinforced", "created_at", "occurred_at", "valid_until")
TEXTS = ("title", "body")
FRONT = tuple(name for name in Entry.__struct_fields__ if name not in {*WORDS, *DAYS, *TEXTS})
"""Fields of Entry that no filter asks for: they go into one column."""

ENTRY_COLUMNS = (
    "id, path, line, scope, scope_where, type, domain, status, phase, session, "
    "last_reinforced, created_at, occurred_at, valid_until, text_hash, front, title, body, source"
)
LINE = ENTRY_COLUMNS.split(", ").index("line")
FILE_COLUMNS = "path, oid, scope, scope_where, prose, findings"
FEEDBACK_COLUMNS = "path, place, line, entry, kind, at, by, ref, job"
HASH_BYTES = 16

Front = msgspec.defstruct(
    "Front",
    [(field.name, field.type) for field in msgspec.structs.fields(Entry) if field.name in FRONT],
    array_like=True,
)
front_of = attrgetter(*FRONT)
CITES, AKA = FRONT.index("cites"), FRONT.index("aka")
pack = msgspec.msgpack.Encoder().encode
unpack_front = msgspec.msgpack.Decoder(Front).decode
SMALL, OTHER = string.ascii_lowercase, string.ascii_uppercase + string.digits
SHAPES = bytes(
    ord("a" if chr(byte) in SMALL else "A" if chr(byte) in OTHER else " ") for byte in range(256)
)
"""A table for bytes.translate: a small letter, another letter or a digit, or what ends a word."""

PARTS = re.compile(CAMEL.pattern.encode())


def entry_row(located: Located, source: bytes | None) -> Row:
    """The values of ENTRY_COLUMNS; by `source` its text is known in the file (`LoadedFile.sources`)."""
    entry, scope = located.entry, located.scope
    return (
        entry.id,
        located.path,
        located.line,
        scope.name,
        scope.where,
        entry.type,
        entry.domain,
        entry.status,
        entry.phase,
        entry.session,
        entry.last_reinforced.isoformat(),
        _day(entry.created_at),
        _day(entry.occurred_at),
        _day(entry.valid_until),
        text_hash(entry),
        pack(front_of(entry)),
        entry.title,
        entry.body,
        source,
    )


def located_of(row: Row) -> Located:
    """The record of an `entry_row`. Raises ValueError or TypeError for a row that is damaged."""
    (
        entry_id,
        path,
        line,
        scope,
        where,
        *words,
        last,
        created,
        occurred,
        until,
        _,
        packed,
        title,
        body,
        _,
    ) = row
    days = (day and date.fromisoformat(day) for day in (last, created, occurred, until))
    fields: dict[str, Any] = {"id": entry_id, "title": title, "body": body}
    fields |= zip(WORDS[1:], words, strict=True)
    fields |= zip(DAYS, days, strict=True)
    fields |= zip(FRONT, front_of(unpack_front(packed)), strict=True)
    return Located(Entry(**fields), path, line, ScopeOf(scope, where))


def file_row(file: LoadedFile, oid: str) -> Row:
    """The values of FILE_COLUMNS."""
    return (
        file.path,
        oid,
        file.scope.name,
        file.scope.where,
        pack(file.prose),
        pack(file.findings),
    )


def feedback_rows(file: LoadedFile) -> Iterator[Row]:
    """The values of FEEDBACK_COLUMNS for each time that a file says something of an entry."""
    for place, (line, said) in enumerate(file.feedback):
        at = said.at.isoformat()
        job = (
            f"r:{said.ref}" if said.ref else f"b:{said.by}\n{at}"
        )  # a ref may spell any name and time
        yield file.path, place, line, said.id, said.kind, at, said.by, said.ref, job


def marks(columns: str) -> str:
    """A `?` for each of `columns`.

    >>> marks("path, oid")
    '?, ?'
    """
    return ", ".join("?" for _ in columns.split(","))


def digest(file: Row, entries: Iterable[tuple[int, bytes]], feedback: Iterable[Row] = ()) -> bytes:
    """What rows of one file hash to, `entries` as lines and digests: by it damage and edits show, not a forger who
    computes it anew."""
    return _hash((file, sorted(entries), list(feedback)))


def entry_digest(row: Row) -> tuple[int, bytes]:
    """The line of an entry, and what the rest of its row hashes to."""
    return row[LINE], _hash((*row[:LINE], *row[LINE + 1 :]))


def _hash(values: Row) -> bytes:
    return hashlib.blake2b(pack(values), digest_size=HASH_BYTES).digest()


def text_hash(entry: Entry) -> bytes:
    """By what the text of an entry is known to the vector lane."""
    return hashlib.blake2b(entry.text.encode(), digest_size=HASH_BYTES).digest()


def hidden_parts(title: str, body: str) -> str:
    """What FTS5's unicode61 takes for one word: it splits at signs, not at capitals or digits, nor between scripts.

    So the parts of identifiers, and the words of tokens that hold a script without blanks.

    Looking for the few words with a capital or digit inside, in a text of shapes, is several times faster than looking
    at each word, and a build consists of little else.

    >>> hidden_parts("Call getUserName", "in src/http_client2.py, never HTTP")
    'get user name client 2'
    """
    text = f"{title}\n{body}".encode()
    shapes = text.translate(SHAPES) + b" "
    found = [PARTS.findall(text, start, shapes.index(b" ", start)) for start in _starts(shapes)]
    parts = (
        b" ".join([part for parts in found if len(parts) > 1 for part in parts]).lower().decode()
        if found
        else ""
    )
    if text.isascii() or not UNSPACED.search(whole := text.decode()):
        return parts
    unspaced = (word for token in whole.split() if UNSPACED.search(token) for word in words(token))
    return " ".join([parts, *unspaced]).strip()


def cited(front: bytes) -> str:
    """The words of the cites and of `aka` in the column `front`."""
    fields = front_of(unpack_front(front))
    return cited_words(fields[CITES], fields[AKA])


FUNCTIONS = (("hidden_parts", 2, hidden_parts), ("cited", 1, cited))  # Those that schema.sql calls.


def _starts(shapes: bytes) -> list[int]:
    """Where the words begin that have a capital or a digit inside."""
    starts = set()
    for edge in (b"aA", b"AA"):
        at = shapes.find(edge)
        while at >= 0:
            starts.add(shapes.rfind(b" ", 0, at) + 1)
            at = shapes.find(edge, at + 1)
    return sorted(starts)


def _day(day: date | None) -> str | None:
    return None if day is None else day.isoformat()
