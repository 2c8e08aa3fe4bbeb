"""Tests of pasted reviews: a bot's text that a person pastes into a session is not the person's word."""

from __future__ import annotations

from memory_ci.evidence.ingestion import collect_evidence
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import Event
from tests.evidence.make import make_review, make_turn

POLICY = ExtractionConfig()
COMMENT = "The `retry` helper is **duplicated** in three places. Consider extracting it into a function of its own."
PASTED = "The retry helper is duplicated in three places. Consider extracting it into a function of its own."


def read_turns(*events: Event) -> list[str]:
    """Return the texts of the session turns that are read, and the reasons for the others."""
    evidence = collect_evidence(events, POLICY)
    reasons = [
        omission.reason for omission in evidence.left_out if omission.reason != "bot-chatter"
    ]
    return [piece.text for piece in evidence.pieces if piece.session] + reasons


def test_a_turn_that_repeats_a_bots_comment_is_left_out() -> None:
    assert read_turns(make_review(COMMENT, actor="bot"), make_turn(PASTED)) == ["injected"]


def test_a_turn_with_a_pasted_comment_keeps_the_persons_own_words() -> None:
    title = "### Helper is copied\n\n"
    turn = f"Fix this, and always log the id of a charge.\n\nHelper is copied\n\n{PASTED}"
    own_words = ["Fix this, and always log the id of a charge."]
    assert read_turns(make_review(title + COMMENT, actor="bot"), make_turn(turn)) == own_words


def test_a_persons_comment_and_short_repetitions_remove_nothing() -> None:
    turn = "Consider extracting it"
    assert read_turns(make_review(COMMENT, actor="bot"), make_turn(turn)) == [turn]
    assert read_turns(make_turn(PASTED)) == [PASTED]
    evidence = collect_evidence((make_review(COMMENT), make_turn(PASTED)), POLICY)
    assert [piece.text for piece in evidence.pieces] == [COMMENT, PASTED]
