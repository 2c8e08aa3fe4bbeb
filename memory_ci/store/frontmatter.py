"""Convert YAML front matter of memory entries: parse its fields to values, format and edit them."""

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
    find_trailing_comment,
    format_scalar,
    parse_fields,
    quote_scalar,
)
from memory_ci.text import did_you_mean

UUID = Regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Half of a UTF-16 pair, which UTF-8 cannot encode. A path that is not UTF-8 decodes to some.
SURROGATE = Regex("[\ud800-\udfff]")
MAX_COUNT = 10**18 - 1  # The highest count that is read and written: it fits integers of the index.
# A date, with a time of day that is ignored: `2026-11-20` or `2026-11-20T08:15:00Z`.
DATE = Regex(r"(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}.*)?")
Value = str | tuple[str, ...] | None
"""The value of a field in the text: a scalar or a list of scalars; None if it is nested deeper."""


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
    """A problem in the front matter of an entry.

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
    iso_date = match[1] if match else ""
    try:
        return date.fromisoformat(iso_date)
    except ValueError:
        raise BadValueError(f"{value!r} is not a date like '2026-11-20'") from None


def _read_share(value: Value) -> float:
    """Return a number from 0 to 1."""
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
    """Return a function that returns a field's value if it is in `options`, and refuses others."""

    def read_choice(value: Value) -> str:
        if value not in options:
            raise BadValueError(f"{value!r} is not one of {', '.join(options)}")
        return _read_text(value)

    return read_choice


_read_known_phase = _make_choice_reader(get_args(Phase))


def _read_phase(value: Value) -> str | None:
    return None if value == "unknown" else _read_known_phase(value)


def _read_moment(value: Value) -> str:
    """Return when an agent is to be served the entry, for example `before:commit`."""
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
"""The function that reads the value of each field of an entry, in canonical order."""

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


def list_missing_keys(fields: Sequence[Field]) -> tuple[str, ...]:
    """Return the required keys that the front matter of an entry lacks.

    A key with a default counts as missing only if an unknown key looks like a misspelling of it:
    the default would hide the mistake.
    """
    present_keys = {field.key for field in fields if field.value != "" or field.key in CORE_KEYS}
    unknown_keys = {field.key for field in fields if field.key not in CONVERTERS}
    missing_keys: list[str] = []
    for key in CORE_KEYS:
        if key in present_keys:
            continue
        is_misspelled = any(did_you_mean(unknown, [key]) for unknown in unknown_keys)
        if key in REQUIRED or is_misspelled:
            missing_keys.append(key)
    # `last_reinforced` is `created_at` by default, so one of the two dates is enough.
    has_date = "created_at" in present_keys or "last_reinforced" in present_keys
    if not has_date and "last_reinforced" not in missing_keys:
        missing_keys.append("created_at")
    return tuple(missing_keys)


def parse_values(
    fields: Sequence[Field], lines: Sequence[str]
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """Parse the fields of an entry's front matter.

    Args:
        fields: the fields.
        lines: the lines of the front matter that they are in.

    Returns:
        The values by key, defaults included, and the problems: missing keys and bad values.
    """
    values: dict[str, Any] = dict(DEFAULTS)
    problems: list[FieldProblem] = []
    for key in list_missing_keys(fields):
        message = f"the required field {key!r} is missing"
        hint = "Add it, or let `memory-ci check --fix`."
        problems.append(FieldProblem(-1, "missing-field", message, hint))
    for field in fields:
        is_unknown = field.key not in CONVERTERS
        is_empty_option = field.value == "" and field.key not in CORE_KEYS
        if is_unknown or is_empty_option:
            continue
        try:
            values[field.key] = _read_value(field, lines)
        except BadValueError as error:
            line = field.first + error.line
            problems.append(FieldProblem(line, "bad-value", f"{field.key}: {error}"))
    level_problem = "" if problems else _explain_useless_level(values)
    if level_problem:
        line = next(field.first for field in fields if field.key == "level")
        problems.append(FieldProblem(line, "bad-value", f"level: {level_problem}"))
    if "created_at" in values:
        values.setdefault("last_reinforced", values["created_at"])
    return values, problems


def _explain_useless_level(values: Mapping[str, Any]) -> str:
    """Return the reason why the `level` of an entry has no effect; "" if it has one.

    The field says how a violation of the entry's `check` is reported. The reason follows the words
    `level: ` in a message.
    """
    if "level" not in values:
        return ""
    if "check" not in values:
        return "is of a check, and there is none"
    if values["level"] == "fail" and isinstance(values["check"], BeforeCheck):
        return "fail has no effect on `before`, which only agents' hooks can see"
    return ""


def _read_value(field: Field, lines: Sequence[str]) -> object:
    """Return the value of a field.

    A check has nested values (`field.value` is None) and is parsed from its lines. A check that is
    a plain text or list is refused by its converter, as any wrong value is.

    Raises:
        BadValueError: the value is not allowed.
    """
    is_nested_check = field.key == "check" and field.value is None
    if not is_nested_check:
        return CONVERTERS[field.key](field.value)
    from memory_ci.store.checkfield import CheckError, parse_check_field  # most entries have none

    try:
        return parse_check_field(
            [line.rstrip("\r") for line in lines[field.first : field.last + 1]]
        )
    except CheckError as error:
        raise BadValueError(str(error), error.line) from None


def parse_extra(fields: Sequence[Field], lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return (key, raw YAML after the colon) for each unknown key, so that it can be written again.

    Args:
        fields: all fields of a front matter.
        lines: the lines of the front matter.
    """
    extra: list[tuple[str, str]] = []
    for field in fields:
        if field.key not in CONVERTERS:
            field_text = "\n".join(lines[field.first : field.last + 1])
            _, _, raw_value = field_text.partition(":")
            extra.append((field.key, raw_value))
    return tuple(extra)


def format_field(key: str, value: object) -> list[str]:
    """Format a field of an entry as YAML lines; none for None or an empty tuple."""
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
    """Return whether a field has its default, so that the front matter need not have the key."""
    value = getattr(entry, key)
    if key == "last_reinforced":
        return bool(value == entry.created_at)
    return key in DEFAULTS and bool(value == DEFAULTS[key])


def format_front_matter(entry: Entry) -> list[str]:
    """Format the front matter of an entry: the lines between the two `---`.

    Fields are in canonical order, unknown keys last. Fields with their default are left out.
    """
    lines: list[str] = []
    for key in CONVERTERS:
        if not is_default(entry, key):
            lines += format_field(key, getattr(entry, key))
    for key, raw in entry.extra:
        lines += f"{key}:{raw}".split("\n")
    return lines


class _LineReplacement(msgspec.Struct, frozen=True):
    """New lines for the lines `first` up to `end`, excluded; an insertion where both are equal."""

    first: int
    end: int
    new_lines: list[str]


def edit_front_matter(
    lines: Sequence[str], fields: Sequence[Field], before: Entry, after: Entry
) -> list[str]:
    """Return the lines of a front matter with the fields of `after`; unchanged fields keep theirs.

    A new field comes before the first field that follows it in canonical order. A new line ends as
    the line that it replaces or precedes. The comment after a value on one line is kept. A field
    in the text stays there if its new value is the default: the change would be hard to see
    without it.

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
    edited = list(lines)
    # From the last to the first, so that line numbers of the remaining replacements stay valid.
    for replacement in reversed(_plan_replacements(fields, before, after, len(lines))):
        first = replacement.first
        # The line that is replaced, or before which new ones come; at the end, the last line.
        old_line = edited[min(first, len(edited) - 1)]
        line_end = "\r" if old_line.endswith("\r") else ""
        old_line_count = replacement.end - first
        comment = ""
        if old_line_count == 1 and len(replacement.new_lines) == 1:
            comment = find_trailing_comment(old_line.removesuffix("\r"))
        edited[first : replacement.end] = [
            f"{line}{comment}{line_end}" for line in replacement.new_lines
        ]
    return edited


def _plan_replacements(
    fields: Sequence[Field], before: Entry, after: Entry, line_count: int
) -> list[_LineReplacement]:
    """Return the replacements that make the front matter of `before` the one of `after`.

    They are in the order of their lines. Those at one line are in canonical order of the fields.
    """
    fields_by_key = {field.key: field for field in fields}
    replacements: list[_LineReplacement] = []
    for key in CONVERTERS:
        new_value = getattr(after, key)
        field = fields_by_key.get(key)
        if field is None:
            if is_default(after, key) or new_value in (None, ()):
                continue
            first = _find_insertion_line(key, fields, line_count)
            end = first
        else:
            if getattr(before, key) == new_value:
                continue
            first = field.first
            end = field.last + 1
        replacements.append(_LineReplacement(first, end, format_field(key, new_value)))
    replacements.sort(key=lambda replacement: replacement.first)
    return replacements


def _find_insertion_line(key: str, fields: Sequence[Field], line_count: int) -> int:
    """Return the line of the next field in canonical order, before which a new field belongs.

    Without a next field that is the end of the front matter. Unknown keys are no next field.
    """
    canonical_keys = list(CONVERTERS)
    later_keys = set(canonical_keys[canonical_keys.index(key) + 1 :])
    later_lines = [field.first for field in fields if field.key in later_keys]
    return min(later_lines, default=line_count)


def find_unwritable(entry: Entry) -> str | None:
    """Return the first field whose written form would not parse to the same value; None if all do.

    Examples are an empty text and half of a UTF-16 pair.
    """
    for key in CONVERTERS:
        value = getattr(entry, key)
        if value in (None, ()):
            continue
        if value == "":
            return key
        lines = format_field(key, value)
        try:
            read_back = _read_value(parse_fields(lines)[0], lines)
        except (YamlTextError, BadValueError):
            return key
        if read_back != value:
            return key
    for key, raw in entry.extra:
        if SURROGATE.search(raw):
            return key
    return None
