"""Records as rows of the index and back, and the values that are derived from their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from memory_ci.digests import blake2b
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.report import LoadedFile
from memory_ci.regex import Regex
from memory_ci.text import CAMEL, UNSPACED, cited_words, words

Row = tuple[Any, ...]
WORD_FIELDS = ("id", "type", "domain", "status", "phase", "session")
DAY_FIELDS = ("last_reinforced", "created_at", "occurred_at", "valid_until")
TEXT_FIELDS = ("title", "body")
FRONT_FIELDS = tuple(
    name
    for name in Entry.__struct_fields__
    if name not in {*WORD_FIELDS, *DAY_FIELDS, *TEXT_FIELDS}
)
"""Fields of Entry that no filter uses: they share the column `front`."""

ENTRY_COLUMNS = (
    "id, path, line, scope, scope_where, type, domain, status, phase, session, "
    "last_reinforced, created_at, occurred_at, valid_until, text_hash, front, title, body, source"
)
LINE_INDEX = ENTRY_COLUMNS.split(", ").index("line")
FILE_COLUMNS = "path, oid, scope, scope_where, prose, findings"
FEEDBACK_COLUMNS = "path, place, line, entry, kind, at, by, ref, job"
HASH_BYTES = 16
MAX_DAYS = 10_000  # Number of different days whose text is remembered.

get_front = attrgetter(*FRONT_FIELDS)
CITES_INDEX = FRONT_FIELDS.index("cites")
AKA_INDEX = FRONT_FIELDS.index("aka")
pack = msgspec.msgpack.Encoder().encode


class EntryDigest(msgspec.Struct, frozen=True):
    """The line of an entry in its file, and a digest of the other values of its row."""

    line: int
    digest: bytes


@cache
def _make_front_decoder() -> msgspec.msgpack.Decoder[Any]:
    """Return the decoder of the column `front`. To make it takes 2 ms, and a build needs none."""
    fields = msgspec.structs.fields(Entry)
    columns = [(field.name, field.type) for field in fields if field.name in FRONT_FIELDS]
    front = msgspec.defstruct("Front", columns, array_like=True)
    return msgspec.msgpack.Decoder(front)


def unpack_front(front: bytes) -> Any:  # noqa: ANN401 - a record with FRONT_FIELDS
    """Return the values of the column `front` as a record.

    Raises:
        ValueError: they are damaged.
    """
    return _make_front_decoder().decode(front)


def _get_shape(byte: int) -> str:
    """Return the shape of a byte: "a" for a small letter, "A" for a capital or digit, else " "."""
    character = chr(byte)
    if not character.isascii() or not character.isalnum():
        return " "
    return "a" if character.islower() else "A"


SHAPES = "".join(_get_shape(byte) for byte in range(256)).encode()
"""A table for bytes.translate that replaces each byte by its shape: `getName2` by `aaaAaaaA`."""

IDENTIFIER_PARTS = Regex(CAMEL.pattern.encode())


def entry_row(located: Located, source: bytes | None) -> Row:
    """Return an entry as a row of the table `entries`: the values of ENTRY_COLUMNS.

    Args:
        located: the entry and its place.
        source: the hash of its text in the file (`LoadedFile.text_hashes`).
    """
    entry = located.entry
    scope = located.scope
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
        _format_day(entry.last_reinforced),
        _format_day(entry.created_at),
        _format_day(entry.occurred_at),
        _format_day(entry.valid_until),
        text_hash(entry),
        pack(get_front(entry)),
        entry.title,
        entry.body,
        source,
    )


def read_entry_row(row: Row) -> Located:
    """Return the entry of a row of the table `entries`; the inverse of `entry_row`.

    Raises:
        ValueError: the row is damaged.
        TypeError: the row is damaged.
    """
    # In the order of ENTRY_COLUMNS: 5 to 9 are WORD_FIELDS without `id`, 10 to 13 are DAY_FIELDS.
    entry_id, path, line, scope, where = row[:5]
    days = [None if day is None else date.fromisoformat(day) for day in row[10:14]]
    _text_hash, packed_front, title, body, _source = row[14:]
    front_values = get_front(unpack_front(packed_front))
    fields: dict[str, Any] = {"id": entry_id, "title": title, "body": body}
    fields |= zip(WORD_FIELDS[1:], row[5:10], strict=True)
    fields |= zip(DAY_FIELDS, days, strict=True)
    fields |= zip(FRONT_FIELDS, front_values, strict=True)
    return Located(Entry(**fields), path, line, ScopeOf(scope, where))


def file_row(file: LoadedFile, oid: str) -> Row:
    """Return a memory file as a row of the table `files`: the values of FILE_COLUMNS."""
    return (
        file.path,
        oid,
        file.scope.name,
        file.scope.where,
        pack(file.prose),
        pack(file.findings),
    )


def feedback_rows(file: LoadedFile) -> Iterator[Row]:
    """Yield each event of feedback in a file as a row of the table `feedback`.

    The last column is a name for the job that gave the feedback, by which feedback of one job is
    counted once: its ref or, without one, its author and its time.
    """
    for number, (line, event) in enumerate(file.feedback):
        time = event.at.isoformat()
        # With the prefixes no ref equals the name and time of another job.
        job = f"r:{event.ref}" if event.ref else f"b:{event.by}\n{time}"
        yield file.path, number, line, event.id, event.kind, time, event.by, event.ref, job


def placeholders(columns: str) -> str:
    """Return a `?` for each of `columns`.

    >>> placeholders("path, oid")
    '?, ?'
    """
    return ", ".join("?" for _ in columns.split(","))


def as_json_list(values: Iterable[object]) -> str:
    """Return values as a JSON list, which SQLite's json_each reads.

    Python's module `json` takes 1 ms to import.
    """
    return msgspec.json.encode(list(values)).decode()


def file_digest(file: Row, entries: Iterable[EntryDigest], feedback: Iterable[Row] = ()) -> bytes:
    """Return a hash of all rows of one memory file.

    A row that was damaged or edited no longer matches the hash. Somebody who edits a row may write
    a new hash as well; `artifact.verify` finds that.

    Args:
        file: the row of the file.
        entries: the line and the digest of each of its entries.
        feedback: its rows of feedback.
    """
    digests_by_line = sorted((entry.line, entry.digest) for entry in entries)
    return _hash((file, digests_by_line, list(feedback)))


def entry_digest(row: Row) -> EntryDigest:
    """Return the line of an entry, and a digest of the other values of its row."""
    other_values = (*row[:LINE_INDEX], *row[LINE_INDEX + 1 :])
    return EntryDigest(line=row[LINE_INDEX], digest=_hash(other_values))


def _hash(values: Row) -> bytes:
    return blake2b(pack(values), digest_size=HASH_BYTES).digest()


def text_hash(entry: Entry) -> bytes:
    """Return the hash of the text of an entry, the key of its vector."""
    return blake2b(entry.text.encode(), digest_size=HASH_BYTES).digest()


def hidden_parts(title: str, body: str) -> str:
    """Return the words of a text that SQLite's tokenizer unicode61 does not find.

    The tokenizer splits a text at signs only. So these are the parts of identifiers such as
    `getName`, and the words of scripts without blanks. They are indexed in addition to the text.

    This takes most of the time of a build. Therefore identifiers are found in the shapes of the
    text (SHAPES), which is several times faster than a look at each word.

    >>> hidden_parts("Call getUserName", "in src/http_client2.py, never HTTP")
    'get user name client 2'
    """
    text = f"{title}\n{body}"
    encoded = text.encode()
    shapes = encoded.translate(SHAPES) + b" "
    parts: list[bytes] = []
    for start in _find_identifiers(shapes):
        end = shapes.index(b" ", start)
        identifier_parts = IDENTIFIER_PARTS.findall(encoded, start, end)
        if len(identifier_parts) > 1:
            parts += identifier_parts
    joined_parts = b" ".join(parts).lower().decode()
    if encoded.isascii() or not UNSPACED.search(text):
        return joined_parts

    hidden_words = [joined_parts]
    for token in text.split():
        if UNSPACED.search(token):
            hidden_words += words(token)
    return " ".join(hidden_words).strip()


def cited(front: bytes) -> str:
    """Return the words of the cites and of `aka` (other names) in the column `front`."""
    fields = get_front(unpack_front(front))
    return cited_words(fields[CITES_INDEX], fields[AKA_INDEX])


# The name, the number of arguments and the code of each function that schema.sql calls.
SQL_FUNCTIONS = (("hidden_parts", 2, hidden_parts), ("cited", 1, cited))


def _find_identifiers(shapes: bytes) -> list[int]:
    """Return the indices at which words begin that have a capital or a digit inside.

    Args:
        shapes: a text whose bytes are replaced by their shapes: "a" for a small letter, "A" for a
            capital or a digit, " " for anything else.
    """
    starts = set()
    for shape_pair in (b"aA", b"AA"):  # As in `getName`, and in `HTTPServer`.
        index = shapes.find(shape_pair)
        while index >= 0:
            word_start = shapes.rfind(b" ", 0, index) + 1
            starts.add(word_start)
            index = shapes.find(shape_pair, index + 1)
    return sorted(starts)


@lru_cache(MAX_DAYS)
def _format_day(day: date | None) -> str | None:
    return None if day is None else day.isoformat()
