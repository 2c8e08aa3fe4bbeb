"""Replies: text that should be JSON, read one learning at a time, so that one bad learning costs only itself.

Whatever the text holds, reading takes linear time and raises nothing but EngineError. What a model may not say (that an
author marked it, where it is written) is not read from its reply at all.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple, TypeVar, get_args

import msgspec

from memory_ci.errors import EngineError
from memory_ci.records.candidate import Kind, Reach, Weight
from memory_ci.records.entry import Adoption
from memory_ci.secrets import mask_secrets

MAX_REPLY = (
    1_000_000  # Characters of a model's reply that are read: several times what any may answer.
)
MAX_TRIES = (
    200  # Objects that are sought in a list that is broken: far more than a model is asked for.
)
QUOTE_WIDTH = (
    300  # Characters of a quote: enough to prove a learning, too few to carry a text into memory.
)
OBJECT = re.compile(r'\{\s*"')
TITLE = re.compile(r'"title"\s*:')
FIELD = re.compile(r"`(?:\$\.(?P<wrong>\w+)[^`]*|(?P<missing>\w+))`$")
DECODER = json.JSONDecoder()
BROKEN = "broken-json"


class RawQuote(msgspec.Struct, frozen=True):
    """Words claimed to stand in the piece of evidence of that id."""

    evidence: str
    text: str


class Learning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One learning as a reply states it. `restates` and `contradicts` are claimed ids of entries; `aka` are words to
    find it by. The fields from `importance` on come from code only. `is_marked`: the author of the evidence marked it
    as worth keeping; else `doubt` says why it is only proposed."""

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
    importance: float | None = None
    scope: str | None = None
    is_marked: bool = False
    marker: str = ""
    doubt: str = ""

    @property
    def is_by_rule(self) -> bool:
        """Code of ours found it: a rule says that it is marked, or what it doubts."""
        return self.is_marked or bool(self.doubt)


# Fields of a learning that only code may set; replies of former versions have some of them.
OWNED = frozenset({"importance", "scope", "is_marked", "marker", "doubt"})
CHOICES = {"kind": get_args(Kind), "reach": get_args(Reach), "weight": get_args(Weight)}


class ProposedRisk(msgspec.Struct, frozen=True, kw_only=True):
    """One risk of a plan, as the reply to a pre-mortem states it."""

    title: str
    why: str
    signal: str = ""
    mitigation: str = ""
    quotes: tuple[RawQuote, ...] = ()


class WholeReply(msgspec.Struct, frozen=True):
    """The answer of an engine, whole: what `format_reply` writes and `parse_reply` salvages."""

    learnings: tuple[Learning, ...]


T = TypeVar("T", Learning, ProposedRisk)


class Parsed(NamedTuple):
    """The learnings that could be read, and of each that could not, why."""

    learnings: tuple[Learning, ...]
    reasons: tuple[str, ...] = ()


def format_reply(learnings: tuple[Learning, ...]) -> str:
    """The JSON text of a reply; the inverse of `parse_reply`."""
    return msgspec.json.encode(WholeReply(learnings)).decode()


def parse_reply(text: str, *, trusted: bool = False) -> Parsed:
    """The learnings in `text`, whatever stands around them: a fence, prose, a list cut short, several lists. `trusted`:
    the reply is that of code of ours, so the fields that only code may set are read. Raises EngineError
    (unreadable-reply) when there is no list of learnings at all."""
    return Parsed(*_parse(text, "learnings", Learning, trusted=trusted))


def parse_risks(text: str) -> tuple[tuple[ProposedRisk, ...], tuple[str, ...]]:
    """The risks in the reply to a pre-mortem, and of each that could not be read, why. Raises as `parse_reply`."""
    return _parse(text, "risks", ProposedRisk)


def _parse(
    text: str, name: str, kind: type[T], *, trusted: bool = False
) -> tuple[tuple[T, ...], tuple[str, ...]]:
    raw, reasons = _find_list(text if trusted else text[:MAX_REPLY], name)
    read = [_convert(one if trusted else _allowed(one), kind) for one in raw]
    found = tuple(one for one in read if isinstance(one, kind))
    return found, tuple(one for one in read if isinstance(one, str)) + reasons


def _find_list(text: str, name: str) -> tuple[list[object], tuple[str, ...]]:
    """What the lists of that name hold, and a reason for each that was broken. A list that cannot be read whole is
    searched to the end of the text, so no part of it is read more than twice."""
    begin = re.compile(rf'"{name}"\s*:\s*(?=\[)')
    found: list[object] = []
    start = begin.search(text)
    if start is None:
        told = f"the engine's reply holds no list of {name}: {mask_secrets(text)[:80]!r}"
        hint = "run again; if it happens every time, choose another engine or model"
        raise EngineError(told, slug="unreadable-reply", hint=hint)
    while start is not None:
        try:
            items, end = DECODER.raw_decode(text, start.end())
        except (ValueError, RecursionError):
            rest = _salvage(text, start.end())
            lost = min(len(TITLE.findall(text, start.end())), MAX_TRIES) - len(rest)
            return found + rest, (BROKEN,) * max(lost, 0)
        found += items
        start = begin.search(text, end)
    return found, ()


def _salvage(text: str, position: int) -> list[object]:
    """Objects with a title that can be read from `position` on; the quotes of a broken one have none."""
    objects: list[object] = []
    for _ in range(MAX_TRIES):
        begin = OBJECT.search(text, position)
        if begin is None:
            break
        try:
            found, position = DECODER.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            position = begin.start() + 1
            continue
        if "title" in found:
            objects.append(found)
    return objects


def _allowed(raw: object) -> object:
    """What a model may say of a learning: no field that code owns; null, "" and an unknown choice leave a field out."""
    if not isinstance(raw, dict):
        return raw
    kept = {
        key: value
        for key, value in raw.items()
        if key not in OWNED and value is not None and value != ""
    }
    for name, values in CHOICES.items():
        if kept.get(name) not in values:
            kept.pop(name, None)
    if isinstance(quotes := kept.get("quotes"), list):
        kept["quotes"] = [
            one | {"text": one["text"][:QUOTE_WIDTH]}
            if isinstance(one, dict) and isinstance(one.get("text"), str)
            else one
            for one in quotes
        ]
    return kept


def _convert(raw: object, kind: type[T]) -> T | str:
    """`raw` as a record, or why it is none."""
    if not isinstance(raw, dict):
        return "not-an-object"
    try:
        found = msgspec.convert(raw, kind)
        msgspec.json.encode(found)  # lone surrogates are no text, and could not be reported
    except msgspec.ValidationError as error:
        field = FIELD.search(str(error))  # in the words of msgspec
        if field is None:
            return "bad-learning"
        name = (field["wrong"] or field["missing"]).replace("_", "-")
        return f"bad-{name}" if field["wrong"] else f"no-{name}"
    except (UnicodeEncodeError, RecursionError):
        return "not-text"
    return found if found.title.strip() else "bad-title"
