"""What a person pastes of a bot's review into a session is not that person's word."""

from __future__ import annotations

from memory_ci.evidence.ingestion import collect_evidence
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import Event
from tests.evidence.make import make_review, make_turn

POLICY = ExtractionConfig()
COMMENT = "The `retry` helper is **duplicated** in three places. Consider extracting it into a function of its own."
PASTED = "The retry helper is duplicated in three places. Consider extracting it into a function of its own."


def read(*events: Event) -> list[str]:
    """The turns that are read, and why others are not."""
    found = collect_evidence(events, POLICY)
    left = [one.reason for one in found.left_out if one.reason != "bot-chatter"]
    return [piece.text for piece in found.pieces if piece.session] + left


def test_a_turn_that_is_a_bots_comment_is_nobodys() -> None:
    assert read(make_review(COMMENT, actor="bot"), make_turn(PASTED)) == ["injected"]


def test_of_a_turn_with_a_pasted_comment_the_persons_own_words_are_read() -> None:
    title = "### Helper is copied\n\n"
    turn = f"Fix this, and always log the id of a charge.\n\nHelper is copied\n\n{PASTED}"
    own = ["Fix this, and always log the id of a charge."]
    assert read(make_review(title + COMMENT, actor="bot"), make_turn(turn)) == own


def test_a_comment_of_a_person_and_short_words_take_nothing_away() -> None:
    turn = "Consider extracting it"
    assert read(make_review(COMMENT, actor="bot"), make_turn(turn)) == [turn]
    assert read(make_turn(PASTED)) == [PASTED]
    found = collect_evidence((make_review(COMMENT), make_turn(PASTED)), POLICY)
    assert [piece.text for piece in found.pieces] == [COMMENT, PASTED]
