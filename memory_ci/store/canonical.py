"""Entries in the form that `edits.format_entry` writes, read with one regular expression.

Almost all entries have this form. `document` reads all others, and defines what an entry is: of an
entry that is read here it would return the same.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any, get_args

from memory_ci.records.entry import Adoption, Domain, Entry, EntryType, Phase, Priority, Status
from memory_ci.regex import Regex
from memory_ci.store.frontmatter import CONVERTERS, DATES, DEFAULTS, LISTS, TEXTS, UUID
from memory_ci.store.yamltext import FAST_PLAIN, MAX_LINE

# A key of an entry that is not a word of prose, with its colon: `importance:`.
ENTRY_KEY = Regex(
    r"(id|type|domain|importance|status|reinforcement_count|last_reinforced|created_at)\s*:"
)
QUOTED = "'[ -&(-~]+'"
SCALAR = f"(?:{FAST_PLAIN}|{QUOTED})"
CHOICES = {
    "type": EntryType,
    "domain": Domain,
    "status": Status,
    "phase": Phase,
    "priority": Priority,
    "adoption": Adoption,
}
FORMS = {
    "id": UUID.pattern,
    "importance": r"0\.[0-9]+|1\.0",
    "reinforcement_count": "[0-9]{1,18}",
    **{key: "|".join(map(re.escape, get_args(choices))) for key, choices in CHOICES.items()},
    **dict.fromkeys(DATES, "'[0-9]{4}-[0-9]{2}-[0-9]{2}'"),
    **dict.fromkeys(TEXTS, SCALAR),
}
"""The form of the value of each key whose value is in one line."""

KEYS = tuple(key for key in CONVERTERS if key in FORMS or key in LISTS)


def _write_pattern(key: str) -> str:
    """Return the pattern of a field, with a group for its value."""
    if key in LISTS:
        return rf"(?:{key}:\n((?:- {SCALAR}\n)+))?"
    pattern = rf"{key}: ({FORMS[key]})\n"
    return pattern if key in {"id", "type"} else f"(?:{pattern})?"


ENTRY_HEAD = Regex("".join(map(_write_pattern, KEYS)) + r"---\n## (\S(?:[^\n]*[^\s#])?)(?=\n|\Z)")
"""A front matter from its id, the line that closes it, and the title."""

SPECIAL_SIGNS = ("\n---", "\n# ", "```", "~~~", "\r", "\ufeff", "\n<<<<<<< ", "\n>>>>>>> ")
"""Signs that may end a body, or change how the text after them is read."""

LEADING_BLANK = Regex(r"\A(?:[ \t]*\n)+")


def parse_canonical(text: str) -> Entry | None:
    """Return the entry of a text; None if the text is not in the canonical form.

    Then the module `document` has to read it, which takes longer. A text is refused here as well if
    a sign in it may end the body, or if its title or body may be a second front matter.

    Args:
        text: an entry from its `id:` up to the next entry.
    """
    match = ENTRY_HEAD.match(text)
    if match is None or match.end() > MAX_LINE:
        return None
    body = text[match.end() :]
    for sign in SPECIAL_SIGNS:
        if sign in body:
            return None
    *raw_values, title = match.groups()
    title_text = title.strip(" \t#-")
    may_be_front_matter = not title_text or ENTRY_KEY.match(title_text)
    if may_be_front_matter or "\ufeff" in title:
        return None

    values: dict[str, Any] = dict(DEFAULTS)
    try:
        for key, raw_value in zip(KEYS, raw_values, strict=True):
            if raw_value is not None:
                values[key] = _read_value(key, raw_value)
    except ValueError:
        return None  # A day that is in no calendar.
    if "created_at" in values:
        values.setdefault("last_reinforced", values["created_at"])
    elif "last_reinforced" not in values:
        return None
    return Entry(**values, title=title, body=strip_body(body.removeprefix("\n")))


def _read_value(key: str, raw_value: str) -> object:
    """Return the value of a field.

    Raises:
        ValueError: it is a date that does not exist.
    """
    if key in DATES:
        return date.fromisoformat(raw_value[1:-1])
    if key in LISTS:
        return tuple(_remove_quotes(line[2:]) for line in raw_value[:-1].split("\n"))
    if key == "importance":
        return float(raw_value)
    if key == "reinforcement_count":
        return int(raw_value)
    return _remove_quotes(raw_value)


def _remove_quotes(scalar: str) -> str:
    return scalar[1:-1] if scalar[0] == "'" else scalar


def strip_body(text: str) -> str:
    """Return the text below a title without blank lines before it and white space after it."""
    blank = LEADING_BLANK.match(text)
    if blank:
        text = text[blank.end() :]
    return text.rstrip()
