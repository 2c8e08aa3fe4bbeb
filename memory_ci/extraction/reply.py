"""Replies: text that should be JSON, read one learning at a time, so that one bad learning costs only itself."""

from __future__ import annotations

import json
import re
from typing import Annotated, NamedTuple

import msgspec

from memory_ci.errors import EngineError
from memory_ci.extraction.scopes import SCOPES
from memory_ci.records.entry import Adoption, Domain, EntryType

LIST = re.compile(r'"learnings"\s*:\s*\[')
TITLE = re.compile(r'"title"\s*:')
DECODER = json.JSONDecoder()


class RawQuote(msgspec.Struct, frozen=True):
    """Words claimed to stand in the piece of evidence of that id."""

    evidence: str
    text: str


class Learning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One learning as a reply states it. What is left out has the defaults of its extraction scope.

    `is_marked`: the author of the evidence marked it as worth keeping; else `doubt` says why it is only proposed.
    """

    title: str
    quotes: tuple[RawQuote, ...]
    extraction_scope: str
    body: str = ""
    type: EntryType | None = None
    domain: Domain | None = None
    importance: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] | None = None
    scope: str | None = None
    is_marked: bool = False
    marker: str = ""
    doubt: str = ""
    adoption: Adoption | None = None
    instead: str | None = None


class Reply(msgspec.Struct, frozen=True):
    """The answer of an engine, whole: what `format_reply` writes and `parse_reply` salvages."""

    learnings: tuple[Learning, ...]


class Parsed(NamedTuple):
    """The learnings that could be read, and how many could not."""

    learnings: tuple[Learning, ...]
    dropped: int


def format_reply(learnings: tuple[Learning, ...]) -> str:
    """The JSON text of a reply; the inverse of `parse_reply`."""
    return msgspec.json.encode(Reply(learnings)).decode()


def parse_reply(text: str) -> Parsed:
    """The learnings in `text`, whatever stands around them: a fence, prose, a list cut short.

    Raises EngineError [unreadable-reply] when there is no list of learnings at all.
    """
    start = LIST.search(text)
    if start is None:
        raise EngineError(
            f"the engine's reply holds no list of learnings: {text[:80]!r}",
            slug="unreadable-reply",
            hint="run again; if it happens every time, choose another engine or model",
        )
    try:
        whole, _ = DECODER.raw_decode(text, text.rindex("{", 0, start.start()))
        claimed = len(whole["learnings"])
        objects = whole["learnings"]
    except ValueError:
        claimed = len(TITLE.findall(text, start.end()))
        objects = _salvage(text, start.end())
    learnings = tuple(learning for raw in objects if (learning := _find_learning(raw)))
    return Parsed(learnings, max(claimed - len(learnings), 0))


def _salvage(text: str, position: int) -> list[object]:
    """Every object with a title that can be read from `position` on; the quotes of a broken one have none."""
    objects: list[object] = []
    while (position := text.find("{", position)) >= 0:
        try:
            found, position = DECODER.raw_decode(text, position)
        except ValueError:
            position += 1
            continue
        if "title" in found:
            objects.append(found)
    return objects


def _find_learning(raw: object) -> Learning | None:
    try:
        learning = msgspec.convert(raw, Learning)
    except msgspec.ValidationError:
        return None
    return learning if learning.extraction_scope in SCOPES and learning.title.strip() else None
