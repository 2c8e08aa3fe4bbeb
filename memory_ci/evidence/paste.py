"""Pasted reviews: what a person pastes of a bot's comment into a turn of a session is the bot's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from memory_ci.evidence.trust import is_author
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import Event

MIN_WORDS = 8  # Words of a paragraph that nobody types by chance as a bot wrote them.
WORD = re.compile(r"\w+")
BLANK_LINE = re.compile(r"\n\s*\n")


def withdraw_pasted(events: Iterable[Event], policy: ExtractionConfig) -> tuple[Event, ...]:
    """Return the events of a change, the turns of people without paragraphs that stand in the reviews of bots.

    A turn of nothing else is nobody's. Marks of Markdown do not count: people paste what a page shows.
    """
    events = tuple(events)
    reviews = [
        _fold(event.text) for event in events if event.kind == "review" and _is_bot(event, policy)
    ]
    if not reviews:
        return events
    return tuple(_withdraw(event, reviews) if _is_turn(event) else event for event in events)


def _withdraw(event: Event, reviews: Sequence[str]) -> Event:
    paragraphs = [paragraph for paragraph in BLANK_LINE.split(event.text) if paragraph.strip()]
    long_ones = [
        said for paragraph in paragraphs if len((said := _fold(paragraph)).split()) >= MIN_WORDS
    ]
    sources = [review for review in reviews if any(said in review for said in long_ones)]
    own = [
        paragraph
        for paragraph in paragraphs
        if not any(_fold(paragraph) in review for review in sources)
    ]
    if not own:
        return replace(event, actor="injected", labels=())
    return replace(event, text="\n\n".join(own)) if len(own) < len(paragraphs) else event


def _is_turn(event: Event) -> bool:
    return event.session is not None and event.actor == "human" and event.kind == "text"


def _is_bot(event: Event, policy: ExtractionConfig) -> bool:
    return event.actor == "bot" or is_author(event.author, policy.bot_authors)


def _fold(text: str) -> str:
    """Return the words of a text between blanks."""
    return f" {' '.join(WORD.findall(text.casefold()))} "
