"""The front matter codec: fields of text to an Entry and back, with every problem named by its line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, get_args

import msgspec

from memory_ci.errors import UsageError
from memory_ci.records.entry import Adoption, Domain, Entry, EntryType, Phase, Priority, Status
from memory_ci.store.yamltext import (
    Field,
    YamlTextError,
    format_scalar,
    parse_fields,
    quote_scalar,
    trailing_comment,
)

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SURROGATE = re.compile(
    "[\ud800-\udfff]"
)  # Half a character: what a path that is not UTF-8 turns into.
MAX_COUNT = 10**18 - 1  # The highest count read and written: it fits the index's integers.
DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}.*)?")
Value = str | tuple[str, ...] | None


class BadValueError(Exception):
    """A field holds what it must not; the text says what would be right."""


class FieldProblem(msgspec.Struct, frozen=True):
    """One thing wrong in a front matter: 0-based line in it (-1: its opening `---`), code, what, what to do."""

    line: int
    code: str
    message: str
    hint: str = ""


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise BadValueError("must be a single text")
    return value


def _texts(value: Value) -> tuple[str, ...]:
    if value is None:
        raise BadValueError("must be a list of texts")
    return tuple(item for item in ((value,) if isinstance(value, str) else value) if item)


def _uuid(value: Value) -> str:
    text = _text(value).lower()
    if not UUID.fullmatch(text):
        raise BadValueError(f"{text!r} is not a UUID")
    return text


def _day(value: Value) -> date:
    match = DATE.fullmatch(_text(value).strip())
    try:
        return date.fromisoformat(match[1] if match else "")
    except ValueError:
        raise BadValueError(f"{value!r} is not a date like '2026-11-20'") from None


def _share(value: Value) -> float:
    try:
        number = float(_text(value))
    except ValueError:
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise BadValueError(f"{value!r} is not a number from 0.0 to 1.0")
    return number


def _count(value: Value) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", _text(value)):
        raise BadValueError(f"{value!r} is not a whole number of 0 or more")
    return int(_text(value))


def _choice(options: Sequence[str]) -> Callable[[Value], str]:
    def convert(value: Value) -> str:
        if value not in options:
            raise BadValueError(f"{value!r} is not one of {', '.join(options)}")
        return _text(value)

    return convert


DATES = ("last_reinforced", "created_at", "occurred_at", "valid_until", "promoted_at")
READINGS: Mapping[str, Callable[[Value], Any]] = {
    "id": _uuid,
    "type": _choice(get_args(EntryType)),
    "domain": _choice(get_args(Domain)),
    "importance": _share,
    "reinforcement_count": _count,
    "status": _choice(get_args(Status)),
    "phase": lambda value: None if value == "unknown" else _choice(get_args(Phase))(value),
    "priority": _choice(get_args(Priority)),
    "adoption": _choice(get_args(Adoption)),
    **dict.fromkeys(DATES, _day),
    **dict.fromkeys(
        ("session", "scope", "source", "engine", "aka", "instead", "promoted_from"), _text
    ),
    **dict.fromkeys(("supersedes", "evidence", "occurrences", "cites", "relations"), _texts),
}
# The known fields in canonical order, each with the reading of its own type.
CONVERTERS = {name: READINGS[name] for name in Entry.__struct_fields__ if name in READINGS}
REQUIRED = (
    "id",
    "type",
    "domain",
    "importance",
    "reinforcement_count",
    "last_reinforced",
    "status",
)


def parse_values(fields: Sequence[Field]) -> tuple[dict[str, Any], list[FieldProblem]]:
    """Typed values of the known fields, and what is wrong with the others."""
    values: dict[str, Any] = {}
    present = {field.key for field in fields}
    absent = [f"the required field {key!r} is missing" for key in REQUIRED if key not in present]
    hint = "Add it, or let `memory-ci check --fix`."
    problems = [FieldProblem(-1, "missing-field", message, hint) for message in absent]
    for field in fields:
        if field.key not in CONVERTERS or (field.value == "" and field.key not in REQUIRED):
            continue
        try:
            values[field.key] = CONVERTERS[field.key](field.value)
        except BadValueError as error:
            problems.append(FieldProblem(field.first, "bad-value", f"{field.key}: {error}"))
    return values, problems


def parse_extra(fields: Sequence[Field], lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The unknown keys with their raw YAML after the colon, so that a rewrite can put them back."""
    return tuple(
        (field.key, "\n".join(lines[field.first : field.last + 1]).partition(":")[2])
        for field in fields
        if field.key not in CONVERTERS
    )


def format_field(key: str, value: object) -> list[str]:
    """The canonical lines of one known field; none for a value that is absent."""
    if value is None or value == ():
        return []
    if isinstance(value, tuple):
        return [f"{key}:", *(f"- {quote_scalar(item)}" for item in value)]
    if isinstance(value, date):
        return [f"{key}: '{value.isoformat()}'"]
    if isinstance(value, float):
        return [f"{key}: {format_share(value)}"]
    if isinstance(value, int):
        return [f"{key}: {min(value, MAX_COUNT)}"]
    is_plain = key == "id" and UUID.fullmatch(str(value))
    return [f"{key}: {value if is_plain else format_scalar(str(value))}"]


def format_share(value: float) -> str:
    """The shortest decimals that read back as the same number, without an exponent.

    >>> [format_share(v) for v in (0.5, 1.0, 0.12345, 0.00001)]
    ['0.5', '1.0', '0.12345', '0.00001']
    """
    return format(Decimal(repr(value)), "f")


def format_front_matter(entry: Entry) -> list[str]:
    """The lines between the two `---`, known fields in canonical order, unknown ones after them."""
    known = [line for key in CONVERTERS for line in format_field(key, getattr(entry, key))]
    return known + [line for key, raw in entry.extra for line in f"{key}:{raw}".split("\n")]


def edit_front_matter(
    lines: Sequence[str], fields: Sequence[Field], before: Entry, after: Entry
) -> list[str]:
    """`lines` with only the fields that differ rewritten, each where it stands; every other line is kept.

    A field that is new goes before the first field that follows it in canonical order. `lines` may end in their `\\r`:
    a new line ends as the one it replaces or stands before. The comment behind a value on one line stays.
    """
    if before.extra != after.extra:
        raise UsageError("unknown front matter keys cannot be edited", slug="entry-not-writable")
    changed = [key for key in CONVERTERS if getattr(before, key) != getattr(after, key)]
    edited = list(lines)
    spans = {field.key: (field.first, field.last + 1) for field in fields}
    order = {key: place for place, key in enumerate(CONVERTERS)}
    edits = []
    for key in changed:
        later = [first for name, (first, _) in spans.items() if order.get(name, -1) > order[key]]
        first, end = spans.get(key, (min(later, default=len(lines)),) * 2)
        edits.append((first, order[key], end, format_field(key, getattr(after, key))))
    for first, _, end, new in sorted(edits, reverse=True):
        old = edited[min(first, len(edited) - 1)]
        comment = trailing_comment(old.removesuffix("\r")) if end - first == len(new) == 1 else ""
        ending = "\r" if old.endswith("\r") else ""
        edited[first:end] = [line + comment + ending for line in new]
    return edited


def find_unwritable(entry: Entry) -> str | None:
    """The first field of the front matter that would not read back as it is, as one with half a character."""
    for key, convert in CONVERTERS.items():
        if (value := getattr(entry, key)) in (None, ()):
            continue
        try:
            if value == "" or convert(parse_fields(format_field(key, value))[0].value) != value:
                return key
        except (YamlTextError, BadValueError):
            return key
    return next((key for key, raw in entry.extra if SURROGATE.search(raw)), None)
