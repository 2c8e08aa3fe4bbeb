"""Parsing of a model's replies: JSON with a list of learnings, which are read one at a time.

A bad learning costs only itself. Whatever a text contains, reading takes linear time and raises
nothing but EngineError. Fields that a model must not set (that an author marked it, its scope) are
not read from its reply.
"""

from __future__ import annotations

import json
import re
from typing import Any, Generic, NamedTuple, TypeVar, get_args

import msgspec

from memory_ci.errors import EngineError
from memory_ci.records.candidate import Kind, Reach, Weight
from memory_ci.records.entry import Adoption
from memory_ci.regex import Regex
from memory_ci.secrets import mask_secrets

MAX_REPLY = 1_000_000
"""Number of characters of a model's reply that are read: several times what a model may answer."""

MAX_TRIES = 200
"""Number of objects that are tried in a broken list: far more than a model is asked for."""

QUOTE_WIDTH = 300
"""Number of characters of a quote: enough as a proof, too few to carry a text into memory."""

OBJECT_START = Regex(r'\{\s*"')
TITLE_KEY = Regex(r'"title"\s*:')
FAULTY_FIELD = Regex(r"`(?:\$\.(?P<wrong>\w+)[^`]*|(?P<missing>\w+))`$")
"""The field that is wrong or missing, at the end of a message of msgspec."""

DECODER = json.JSONDecoder()
BROKEN_JSON = "broken-json"


class RawQuote(msgspec.Struct, frozen=True):
    """A quote as a reply states it: the id of a piece of evidence, and words of its text."""

    evidence: str
    text: str


class Learning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One learning as a reply states it.

    Attributes:
        instead: the alternative to something rejected.
        restates: the id of the entry that it repeats, as the engine claims.
        contradicts: the ids of entries that it contradicts, as the engine claims.
        aka: words by which it may be found.
        check: the check of a rule, as text; only where a model was asked for it.
        importance: the importance of the entry; only code may set this and all fields below.
        is_marked: whether the author of the evidence marked it as worth keeping.
        doubt: why a learning that is not marked is only proposed.
    """

    title: str
    quotes: tuple[RawQuote, ...]
    body: str = ""
    kind: Kind = "convention"
    reach: Reach = "project"
    weight: Weight = "normal"
    adoption: Adoption | None = None
    instead: str | None = None
    restates: str | None = None
    contradicts: tuple[str, ...] = ()
    aka: str = ""
    check: str = ""
    importance: float | None = None
    scope: str | None = None
    is_marked: bool = False
    marker: str = ""
    doubt: str = ""

    @property
    def is_by_rule(self) -> bool:
        """Whether a rule of ours found it, which says that it is marked, or its doubt."""
        return self.is_marked or bool(self.doubt)


CODE_ONLY_FIELDS = frozenset({"importance", "scope", "is_marked", "marker", "doubt"})
"""Fields of a learning that only code may set; replies of former versions have some of them."""

FIELD_CHOICES = {"kind": get_args(Kind), "reach": get_args(Reach), "weight": get_args(Weight)}


class ProposedRisk(msgspec.Struct, frozen=True, kw_only=True):
    """One risk of a plan, as the reply to a pre-mortem states it."""

    title: str
    why: str
    signal: str = ""
    mitigation: str = ""
    quotes: tuple[RawQuote, ...] = ()


class WholeReply(msgspec.Struct, frozen=True):
    """A complete reply, as `format_reply` writes it."""

    learnings: tuple[Learning, ...]


T = TypeVar("T", Learning, ProposedRisk)


Item = TypeVar("Item")


class ParsedItems(NamedTuple, Generic[Item]):
    """The items of a reply's list that could be read, and for each other one a reason."""

    items: tuple[Item, ...]
    reasons: tuple[str, ...] = ()


class Parsed(NamedTuple):
    """The learnings that could be read, and for each other one a reason."""

    learnings: tuple[Learning, ...]
    reasons: tuple[str, ...] = ()


def format_reply(learnings: tuple[Learning, ...]) -> str:
    """Return the JSON text of a reply; the inverse of `parse_reply`."""
    return msgspec.json.encode(WholeReply(learnings)).decode()


def parse_reply(text: str, *, trusted: bool = False) -> Parsed:
    """Parse the learnings of a reply.

    The list may be in a fence, in prose or cut short, and there may be several lists.

    Args:
        text: the reply.
        trusted: the reply is of our own code, so the fields that only code may set are read.

    Raises:
        EngineError: unreadable-reply, if there is no list of learnings.
    """
    return Parsed(*_parse_list(text, "learnings", Learning, trusted=trusted))


def parse_risks(text: str) -> ParsedItems[ProposedRisk]:
    """Parse the risks of the reply to a pre-mortem.

    Raises:
        EngineError: unreadable-reply, if there is no list of risks.
    """
    return _parse_list(text, "risks", ProposedRisk)


def _parse_list(
    text: str, list_name: str, record_type: type[T], *, trusted: bool = False
) -> ParsedItems[T]:
    """Return the items of a list in a reply as records, and a reason for each that is not valid.

    A reply of a model is cut to `MAX_REPLY`, and its items lose the fields that only code may set.

    Args:
        text: the reply.
        list_name: the name of the list in the JSON of the reply; there may be several.
        record_type: the type of the records.
        trusted: whether our own code wrote the reply.
    """
    found: ParsedItems[object] = _find_items(text if trusted else text[:MAX_REPLY], list_name)
    records: list[T] = []
    reasons: list[str] = []
    for item in found.items:
        allowed_item = item if trusted else _drop_disallowed(item)
        try:
            records.append(_convert(allowed_item, record_type))
        except _InvalidItemError as error:
            reasons.append(error.reason)
    return ParsedItems(tuple(records), (*reasons, *found.reasons))


def _find_items(text: str, name: str) -> ParsedItems[object]:
    """Return the items of all JSON lists with a name in a text, and a reason for each lost item.

    From the first list that is broken, objects are read one by one up to the end of the text. So
    no part of the text is read more than twice.

    Raises:
        EngineError: unreadable-reply, if there is no such list.
    """
    list_start = re.compile(rf'"{name}"\s*:\s*(?=\[)')
    match = list_start.search(text)
    if match is None:
        beginning = mask_secrets(text)[:80]
        message = f"the engine's reply holds no list of {name}: {beginning!r}"
        hint = "run again; if it happens every time, choose another engine or model"
        raise EngineError(message, slug="unreadable-reply", hint=hint)

    items: list[object] = []
    while match is not None:
        start = match.end()
        try:
            decoded, end = DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            salvaged = _salvage_objects(text, start)
            title_count = min(len(TITLE_KEY.findall(text, start)), MAX_TRIES)
            lost_count = max(title_count - len(salvaged), 0)
            return ParsedItems((*items, *salvaged), (BROKEN_JSON,) * lost_count)
        items += decoded
        match = list_start.search(text, end)
    return ParsedItems(tuple(items))


def _salvage_objects(text: str, position: int) -> list[object]:
    """Return the JSON objects with a title that can be decoded behind a position.

    These are learnings; the quotes of a broken learning have no title.
    """
    objects: list[object] = []
    for _ in range(MAX_TRIES):
        match = OBJECT_START.search(text, position)
        if match is None:
            break
        try:
            decoded, position = DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            position = match.start() + 1
            continue
        if "title" in decoded:
            objects.append(decoded)
    return objects


def _drop_disallowed(item: object) -> object:
    """Return a learning as a model stated it, without the fields that only code may set.

    A field that is null, "" or an unknown choice is left out, so that it gets its default. Models
    write `aka` as a list as well as a text.
    """
    if not isinstance(item, dict):
        return item
    allowed: dict[str, Any] = {}
    for key, value in item.items():
        is_empty = value is None or value == ""
        is_unknown_choice = key in FIELD_CHOICES and value not in FIELD_CHOICES[key]
        if key not in CODE_ONLY_FIELDS and not is_empty and not is_unknown_choice:
            allowed[key] = value
    aka = allowed.get("aka")
    if isinstance(aka, list) and all(isinstance(word, str) for word in aka):
        allowed["aka"] = " ".join(aka)
    quotes = allowed.get("quotes")
    if isinstance(quotes, list):
        allowed["quotes"] = [_cut_quote(quote) for quote in quotes]
    return allowed


def _cut_quote(quote: object) -> object:
    """Return a quote with at most `QUOTE_WIDTH` characters of text; anything else unchanged."""
    if isinstance(quote, dict) and isinstance(quote.get("text"), str):
        return quote | {"text": quote["text"][:QUOTE_WIDTH]}
    return quote


class _InvalidItemError(Exception):
    """An item of a reply is not valid; `reason` is a slug such as `no-title`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _convert(item: object, record_type: type[T]) -> T:
    """Return an item as a record.

    Raises:
        _InvalidItemError: the item is not valid.
    """
    if not isinstance(item, dict):
        raise _InvalidItemError("not-an-object")
    try:
        record = msgspec.convert(item, record_type)
        # Lone surrogates are no text, and could not be reported.
        msgspec.json.encode(record)
    except msgspec.ValidationError as error:
        raise _InvalidItemError(_name_fault(error)) from error
    except (UnicodeEncodeError, RecursionError) as error:
        raise _InvalidItemError("not-text") from error
    if not record.title.strip():
        raise _InvalidItemError("bad-title")
    return record


def _name_fault(error: msgspec.ValidationError) -> str:
    """Return the reason for a message of msgspec: `bad-<field>` or `no-<field>`."""
    field = FAULTY_FIELD.search(str(error))
    if field is None:
        return "bad-learning"
    name = (field["wrong"] or field["missing"]).replace("_", "-")
    return f"bad-{name}" if field["wrong"] else f"no-{name}"
