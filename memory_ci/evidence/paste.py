"""Removal of bots' review comments that a person pasted into a turn of a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from memory_ci.evidence.trust import is_bot
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import Event
from memory_ci.regex import Regex

MIN_WORDS = 8  # Words of a paragraph that nobody types by chance as a bot wrote them.
WORD = Regex(r"\w+")
BLANK_LINE = Regex(r"\n\s*\n")


def remove_pasted_reviews(events: Iterable[Event], policy: ExtractionConfig) -> tuple[Event, ...]:
    """Return the events of a change, people's turns without paragraphs pasted from bots' reviews.

    A turn that consists only of such paragraphs gets the actor `injected` instead of `human`.
    Texts are compared without the marks of Markdown, because people paste from a rendered page.
    """
    events = tuple(events)
    bot_reviews = [
        _normalize_words(event.text)
        for event in events
        if event.kind == "review" and is_bot(event, policy)
    ]
    if not bot_reviews:
        return events

    cleaned: list[Event] = []
    for event in events:
        if _is_turn(event):
            event = _remove_pasted_paragraphs(event, bot_reviews)
        cleaned.append(event)
    return tuple(cleaned)


def _remove_pasted_paragraphs(event: Event, bot_reviews: Sequence[str]) -> Event:
    """Return a person's turn without the paragraphs that are in bots' reviews.

    A review counts as pasted if a long paragraph is in it; then its short ones are removed, too.

    Args:
        event: the turn.
        bot_reviews: the texts of the reviews, as `_normalize_words` returns them.
    """
    paragraphs = [paragraph for paragraph in BLANK_LINE.split(event.text) if paragraph.strip()]
    normal_paragraphs = [_normalize_words(paragraph) for paragraph in paragraphs]
    long_paragraphs = [text for text in normal_paragraphs if len(text.split()) >= MIN_WORDS]
    pasted_reviews = []
    for review in bot_reviews:
        if any(text in review for text in long_paragraphs):
            pasted_reviews.append(review)

    typed_paragraphs: list[str] = []
    for paragraph, normal_paragraph in zip(paragraphs, normal_paragraphs, strict=True):
        is_pasted = any(normal_paragraph in review for review in pasted_reviews)
        if not is_pasted:
            typed_paragraphs.append(paragraph)
    if not typed_paragraphs:
        return replace(event, actor="injected", labels=())
    if len(typed_paragraphs) == len(paragraphs):
        return event
    return replace(event, text="\n\n".join(typed_paragraphs))


def _is_turn(event: Event) -> bool:
    return event.session is not None and event.actor == "human" and event.kind == "text"


def _normalize_words(text: str) -> str:
    """Return the words of a text, case folded, each between single blanks."""
    return f" {' '.join(WORD.findall(text.casefold()))} "
