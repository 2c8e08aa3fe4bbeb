"""The codec of front matter: fields of text to an Entry and back, problems named by line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, get_args

import msgspec

from memory_ci.errors import UsageError
from memory_ci.records.check import BeforeCheck, ChangeCheck, CheckLevel
from memory_ci.records.entry import (
    MOMENT,
    NEW_IMPORTANCE,
    Adoption,
    Domain,
    Entry,
    EntryType,
    Phase,
    Priority,
    Status,
)
from memory_ci.regex import Regex
from memory_ci.store.yamltext import (
    Field,
    YamlTextError,
    format_scalar,
    parse_fields,
    quote_scalar,
    trailing_comment,
)
from memory_ci.text import did_you_mean

UUID = Regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Half a character: a path that is not UTF-8 decodes to some.
SURROGATE = Regex("[\ud800-\udfff]")
MAX_COUNT = 10**18 - 1  # The highest count that is read and written: it fits integers of the index.
DATE = Regex(r"(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}.*)?")
Value = str | tuple[str, ...] | None


class BadValueError(Exception):
    """A field with a value that is not allowed; the message names those that are.

    Attributes:
        line: its line in the field, 0-based.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        """Remember the line."""
        super().__init__(message)
        self.line = line


class FieldProblem(msgspec.Struct, frozen=True):
    """A problem in a front matter.

    Attributes:
        line: its line, 0-based; -1 is the opening `---`.
        code: the code of the finding.
        message: the fault.
        hint: the remedy.
    """

    line: int
    code: str
    message: str
    hint: str = ""


def _read_text(value: Value) -> str:
    if not isinstance(value, str):
        raise BadValueError("must be a single text")
    return value


def _read_texts(value: Value) -> tuple[str, ...]:
    if value is None:
        raise BadValueError("must be a list of texts")
    texts = (value,) if isinstance(value, str) else value
    return tuple(text for text in texts if text)


def _read_uuid(value: Value) -> str:
    text = _read_text(value).lower()
    if not UUID.fullmatch(text):
        raise BadValueError(f"{text!r} is not a UUID")
    return text


def _read_date(value: Value) -> date:
    match = DATE.fullmatch(_read_text(value).strip())
    try:
        return date.fromisoformat(match[1] if match else "")
    except ValueError:
        raise BadValueError(f"{value!r} is not a date like '2026-11-20'") from None


def _read_share(value: Value) -> float:
    try:
        number = float(_read_text(value))
    except ValueError:
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise BadValueError(f"{value!r} is not a number from 0.0 to 1.0")
    return number


def _read_count(value: Value) -> int:
    text = _read_text(value)
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise BadValueError(f"{value!r} is not a whole number of 0 or more")
    return int(text)


def _make_choice_reader(options: Sequence[str]) -> Callable[[Value], str]:
    """Return a reader of values that must be one of `options`."""

    def read_choice(value: Value) -> str:
        if value not in options:
            raise BadValueError(f"{value!r} is not one of {', '.join(options)}")
        return _read_text(value)

    return read_choice


_read_known_phase = _make_choice_reader(get_args(Phase))


def _read_phase(value: Value) -> str | None:
    return None if value == "unknown" else _read_known_phase(value)


def _read_moment(value: Value) -> str:
    text = _read_text(value)
    if not MOMENT.fullmatch(text):
        moments = "start, before:commit, before:push, before:pull-request, before:command COMMAND"
        raise BadValueError(
            f"{text!r} is none of {moments}, before:edit GLOB, after:failure COMMAND"
        )
    return text


def _refuse_flat_check(_: Value) -> ChangeCheck:
    """Refuse a check that is not nested; `_read_value` reads the others."""
    raise BadValueError("needs a mapping, as `untouched: [GLOB]` below it")


DATES = ("last_reinforced", "created_at", "occurred_at", "valid_until", "promoted_at")
TEXTS = ("session", "scope", "source", "engine", "aka", "instead", "promoted_from")
LISTS = ("supersedes", "evidence", "occurrences", "cites", "relations")
READERS: Mapping[str, Callable[[Value], Any]] = {
    "id": _read_uuid,
    "type": _make_choice_reader(get_args(EntryType)),
    "domain": _make_choice_reader(get_args(Domain)),
    "importance": _read_share,
    "reinforcement_count": _read_count,
    "status": _make_choice_reader(get_args(Status)),
    "phase": _read_phase,
    "when": _read_moment,
    "check": _refuse_flat_check,
    "level": _make_choice_reader(get_args(CheckLevel)),
    "priority": _make_choice_reader(get_args(Priority)),
    "adoption": _make_choice_reader(get_args(Adoption)),
    **dict.fromkeys(DATES, _read_date),
    **dict.fromkeys(TEXTS, _read_text),
    **dict.fromkeys(LISTS, _read_texts),
}
CONVERTERS = {name: READERS[name] for name in Entry.__struct_fields__ if name in READERS}
"""The reader of each field of an entry, in canonical order."""

REQUIRED = ("id", "type")
DEFAULTS: Mapping[str, object] = {
    "domain": "task",
    "importance": NEW_IMPORTANCE,
    "reinforcement_count": 0,
    "status": "active",
}
"""The values of keys that a front matter need not have. `last_reinforced` is `created_at` then."""

CORE_KEYS = (*REQUIRED, *DEFAULTS, "last_reinforced")
"""The keys that every entry has a value of. Each was required up to version 0.2."""


def list_missing(fields: Sequence[Field]) -> tuple[str, ...]:
    """Return the keys that a front matter lacks.

    A key with a default is missing only if an unknown key is spelt like it, since a default would
    then hide what was meant.
    """
    present = {field.key for field in fields if field.value != "" or field.key in CORE_KEYS}
    unknown_keys = {field.key for field in fields if field.key not in CONVERTERS}
    missing: list[str] = []
    for key in CORE_KEYS:
        if key in present:
            continue
        if key in REQUIRED or any(did_you_mean(name, [key]) for name in unknown_keys):
            missing.append(key)
    if present.isdisjoint({"created_at", "last_reinforced"}) and "last_reinforced" not in missing:
        missing.append("created_at")
    return tuple(missing)


def parse_values(
    fields: Sequence[Field], lines: Sequence[str]
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """Return the values of the fields of an entry, and the problems with others.

    Args:
        fields: the fields.
        lines: the lines of the front matter that they are in.
    """
    values: dict[str, Any] = dict(DEFAULTS)
    problems: list[FieldProblem] = []
    for key in list_missing(fields):
        message = f"the required field {key!r} is missing"
        hint = "Add it, or let `memory-ci check --fix`."
        problems.append(FieldProblem(-1, "missing-field", message, hint))
    for field in fields:
        if field.key not in CONVERTERS or (field.value == "" and field.key not in CORE_KEYS):
            continue
        try:
            values[field.key] = _read_value(field, lines)
        except BadValueError as error:
            line = field.first + error.line
            problems.append(FieldProblem(line, "bad-value", f"{field.key}: {error}"))
    fault = "" if problems else _find_level_fault(values)
    if fault:
        line = next(field.first for field in fields if field.key == "level")
        problems.append(FieldProblem(line, "bad-value", f"level: {fault}"))
    if "created_at" in values:
        values.setdefault("last_reinforced", values["created_at"])
    return values, problems


def _find_level_fault(values: Mapping[str, Any]) -> str:
    """Return why a level means nothing, "" if it does."""
    if "level" not in values:
        return ""
    if "check" not in values:
        return "is of a check, and there is none"
    if values["level"] == "fail" and isinstance(values["check"], BeforeCheck):
        return "fail has no effect on `before`, which only agents' hooks can see"
    return ""


def _read_value(field: Field, lines: Sequence[str]) -> object:
    """Return the value of a field; a check is read from its lines, for it is nested.

    Raises:
        BadValueError: it is not allowed.
    """
    if field.key != "check" or field.value is not None:
        return CONVERTERS[field.key](field.value)
    from memory_ci.store.checkfield import CheckError, parse_check_field  # most entries have none

    try:
        return parse_check_field(
            [line.rstrip("\r") for line in lines[field.first : field.last + 1]]
        )
    except CheckError as error:
        raise BadValueError(str(error), error.line) from None


def parse_extra(fields: Sequence[Field], lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the unknown keys with their raw YAML after the colon, for when they are rewritten."""
    extra: list[tuple[str, str]] = []
    for field in fields:
        if field.key not in CONVERTERS:
            raw = "\n".join(lines[field.first : field.last + 1])
            extra.append((field.key, raw.partition(":")[2]))
    return tuple(extra)


def format_field(key: str, value: object) -> list[str]:
    """Return the canonical lines of a field; none for a value that is absent."""
    if value is None or value == ():
        return []
    if isinstance(value, ChangeCheck):
        from memory_ci.store.checkfield import format_check_field  # most entries have none

        return format_check_field(value)
    if isinstance(value, tuple):
        return [f"{key}:", *(f"- {quote_scalar(item)}" for item in value)]
    if isinstance(value, date):
        return [f"{key}: '{value.isoformat()}'"]
    if isinstance(value, float):
        return [f"{key}: {format_share(value)}"]
    if isinstance(value, int):
        return [f"{key}: {min(value, MAX_COUNT)}"]
    text = str(value)
    if key == "id" and UUID.fullmatch(text):
        return [f"{key}: {text}"]
    return [f"{key}: {format_scalar(text)}"]


def format_share(value: float) -> str:
    """Return the shortest decimals that read back as the same number, without an exponent.

    >>> [format_share(v) for v in (0.5, 1.0, 0.12345, 0.00001)]
    ['0.5', '1.0', '0.12345', '0.00001']
    """
    return format(Decimal(repr(value)), "f")


def is_default(entry: Entry, key: str) -> bool:
    """Return whether an entry reads the same without one of its keys."""
    value = getattr(entry, key)
    if key == "last_reinforced":
        return bool(value == entry.created_at)
    return key in DEFAULTS and bool(value == DEFAULTS[key])


def format_front_matter(entry: Entry) -> list[str]:
    """Return the lines between the two `---`, without keys that have their default.

    Fields are in canonical order, unknown keys last.
    """
    lines: list[str] = []
    for key in CONVERTERS:
        if not is_default(entry, key):
            lines += format_field(key, getattr(entry, key))
    for key, raw in entry.extra:
        lines += f"{key}:{raw}".split("\n")
    return lines


def edit_front_matter(
    lines: Sequence[str], fields: Sequence[Field], before: Entry, after: Entry
) -> list[str]:
    """Rewrite the fields that differ, each in its place; every other line is kept.

    A new field comes before the first field that follows it in canonical order. A new line ends as
    the line that it replaces or precedes. The comment after a value on one line is kept. A field
    that is there stays if its new value is the default: the change would be hard to see without it.

    Args:
        lines: the lines of a front matter, which may end in a carriage return.
        fields: the fields in them.
        before: the entry as it was read.
        after: the entry to write.

    Raises:
        UsageError: unknown keys differ (entry-not-writable).
    """
    if before.extra != after.extra:
        raise UsageError("unknown front matter keys cannot be edited", slug="entry-not-writable")
    order = {key: position for position, key in enumerate(CONVERTERS)}
    spans = {field.key: (field.first, field.last + 1) for field in fields}
    edits: list[tuple[int, int, int, list[str]]] = []
    for key in CONVERTERS:
        value = getattr(after, key)
        if key in spans:
            if getattr(before, key) == value:
                continue
            first, end = spans[key]
        elif is_default(after, key) or value in (None, ()):
            continue
        else:
            following = [
                start for name, (start, _) in spans.items() if order.get(name, -1) > order[key]
            ]
            first = end = min(following, default=len(lines))
        edits.append((first, order[key], end, format_field(key, value)))

    edited = list(lines)
    for first, _, end, new_lines in sorted(edits, reverse=True):
        old_line = edited[min(first, len(edited) - 1)]
        ending = "\r" if old_line.endswith("\r") else ""
        if end - first == len(new_lines) == 1:
            ending = trailing_comment(old_line.removesuffix("\r")) + ending
        edited[first:end] = [line + ending for line in new_lines]
    return edited


def find_unwritable(entry: Entry) -> str | None:
    """Return the first field that would not read back unchanged, for example half a character."""
    for key in CONVERTERS:
        value = getattr(entry, key)
        if value in (None, ()):
            continue
        if value == "":
            return key
        try:
            lines = format_field(key, value)
            if _read_value(parse_fields(lines)[0], lines) != value:
                return key
        except (YamlTextError, BadValueError):
            return key
    return next((key for key, raw in entry.extra if SURROGATE.search(raw)), None)
