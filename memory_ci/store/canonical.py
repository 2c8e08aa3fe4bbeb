"""Entries in the form that `edits.format_entry` writes, read line by line without a YAML parser.

Almost all entries have this form. `document` reads all others, and defines what an entry is: of an
entry that is read here it would return the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, get_args

from memory_ci.records.entry import Adoption, Domain, Entry, EntryType, Phase, Priority, Status
from memory_ci.regex import Regex
from memory_ci.store.frontmatter import DATES, DEFAULTS, LISTS, TEXTS, UUID
from memory_ci.store.yamltext import FAST_PLAIN, MAX_LINE

# A key of an entry that is not a word of prose, with its colon: `importance:`.
ENTRY_KEY = Regex(
    r"(id|type|domain|importance|status|reinforcement_count|last_reinforced|created_at)\s*:"
)
SCALAR = Regex(f"{FAST_PLAIN}|'[ -&(-~]+'")
"""A value that needs one line: `pr:7`, or `'in quotes'` without a quote in it."""

DAY = Regex("'[0-9]{4}-[0-9]{2}-[0-9]{2}'")
SHARE = Regex(r"0\.[0-9]+|1\.0")
COUNT = Regex("[0-9]{1,18}")
MAX_DAYS = 10_000  # Number of different days that are remembered: those of 27 years.

FIELD_END = Regex(r"\n(?!- )")
"""The end of a field: a line break that is not followed by an item of its list."""

SPECIAL_LINE = Regex(r"\n(?:---|# |<<<<<<< |>>>>>>> )")
SPECIAL_SIGNS = ("```", "~~~", "\r", "\ufeff")
"""Signs that may end a body, or change how the text after them is read, as a SPECIAL_LINE does."""

LEADING_BLANK = Regex(r"\A(?:[ \t]*\n)+")


def parse_canonical(text: str) -> Entry | None:
    """Return the entry of a text; None if the text is not in the canonical form.

    Then the module `document` has to read it, which takes longer. A text is refused here as well if
    a sign in it may end the body, or if its title or body may be a second front matter.

    Args:
        text: an entry from its `id:` up to the next entry.
    """
    front_matter, _, below = text.partition("\n---\n## ")
    if SPECIAL_LINE.search(below):
        return None
    for sign in SPECIAL_SIGNS:
        if sign in below:
            return None
    title, _, body = below.partition("\n")
    is_canonical_title = title == title.strip() and not title.endswith("#")
    if not is_canonical_title or len(front_matter) + len(title) > MAX_LINE:
        return None
    title_text = title.strip(" \t#-")
    may_be_front_matter = not title_text or ENTRY_KEY.match(title_text)
    if may_be_front_matter:
        return None

    values = _read_front_matter(front_matter)
    if values is None:
        return None
    return Entry(**values, title=title, body=strip_body(body))


def _read_front_matter(text: str) -> dict[str, Any] | None:
    """Return the values of a front matter by key, defaults included.

    Returns:
        None if the front matter is not in the canonical form, or lacks a required key.
    """
    written_values: dict[str, object] = {}
    read_value: Callable[[str], object | None] | None
    for field in FIELD_END.split(text):
        if "\n" in field:
            key, _, raw_value = field.partition(":\n- ")
            read_value = _read_list if key in LISTS else None
        else:
            key, _, raw_value = field.partition(": ")
            read_value = READERS.get(key)
        value = read_value(raw_value) if read_value else None
        if value is None or key in written_values:
            return None
        written_values[key] = value
    values = {**DEFAULTS, **written_values}
    if "created_at" in values:
        values.setdefault("last_reinforced", values["created_at"])
    has_required_keys = "id" in values and "type" in values and "last_reinforced" in values
    return values if has_required_keys else None


def _read_list(raw_value: str) -> tuple[str, ...] | None:
    """Return the items of a list; None if one is not in the canonical form."""
    items = raw_value.split("\n- ")
    return tuple(map(_remove_quotes, items)) if all(map(SCALAR.fullmatch, items)) else None


def _read_text(raw_value: str) -> str | None:
    return _remove_quotes(raw_value) if SCALAR.fullmatch(raw_value) else None


def _read_uuid(raw_value: str) -> str | None:
    return raw_value if UUID.fullmatch(raw_value) else None


def _read_share(raw_value: str) -> float | None:
    return float(raw_value) if SHARE.fullmatch(raw_value) else None


def _read_count(raw_value: str) -> int | None:
    return int(raw_value) if COUNT.fullmatch(raw_value) else None


@lru_cache(MAX_DAYS)
def _read_day(raw_value: str) -> date | None:
    """Return the date of a value such as `'2026-11-20'`; None if it is none, or in no calendar."""
    try:
        return date.fromisoformat(raw_value[1:-1]) if DAY.fullmatch(raw_value) else None
    except ValueError:
        return None


def _remove_quotes(scalar: str) -> str:
    return scalar[1:-1] if scalar[0] == "'" else scalar


def _make_choice_reader(choices: Sequence[str]) -> Callable[[str], str | None]:
    """Return a function that returns a value if it is one of the choices, else None."""
    return {choice: choice for choice in choices}.get


READERS: Mapping[str, Callable[[str], object | None]] = {
    "id": _read_uuid,
    "type": _make_choice_reader(get_args(EntryType)),
    "domain": _make_choice_reader(get_args(Domain)),
    "importance": _read_share,
    "reinforcement_count": _read_count,
    "status": _make_choice_reader(get_args(Status)),
    "phase": _make_choice_reader(get_args(Phase)),
    "priority": _make_choice_reader(get_args(Priority)),
    "adoption": _make_choice_reader(get_args(Adoption)),
    **dict.fromkeys(DATES, _read_day),
    **dict.fromkeys(TEXTS, _read_text),
}
"""The function that reads a value in one line, by key; it returns None if it is not canonical."""


def strip_body(text: str) -> str:
    """Return the text below a title without blank lines before it and white space after it."""
    blank = LEADING_BLANK.match(text)
    if blank:
        text = text[blank.end() :]
    return text.rstrip()
