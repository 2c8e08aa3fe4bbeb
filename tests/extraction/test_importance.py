"""Importance by the event: Crewship's table for the events of merged work."""

from __future__ import annotations

from typing import Any

import pytest

from memory_ci.extraction.entries import ROUTINE, TABLE, base_importance
from memory_ci.extraction.judge import JudgedCase, judge_reply
from memory_ci.extraction.reply import Learning, RawQuote, format_reply
from memory_ci.extraction.scopes import MAX_IMPORTANCE, SCOPES
from memory_ci.records.candidate import Candidate
from tests.extraction.make import judge_messages, make_piece

REVERTS = 'Revert "Retry every charge"\n\nThis reverts commit 3f2ab91. A charge must be sent once.'
ROUTINE_WORK = "Retry every charge\n\nA charge must be sent once."


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "check", "labels": (("outcome", "failed-then-passed"),)}, 1.0),
        ({"kind": "interrupt"}, 0.85),
        ({"kind": "intervention"}, 0.85),
        ({"kind": "rejection"}, 0.80),
        ({"kind": "pr", "labels": (("outcome", "closed-unmerged"),)}, 0.80),
        ({"kind": "commit", "text": REVERTS}, 0.80),
        ({"kind": "commit", "text": "fix(api)!: revert the retry"}, 0.80),
        ({"kind": "review", "labels": (("state", "changes_requested"),)}, 0.75),
        ({"kind": "review", "labels": (("outcome", "requested-then-made"),)}, 0.75),
        ({"kind": "compaction"}, 0.65),
        ({"kind": "commit", "text": ROUTINE_WORK}, ROUTINE),
        ({"kind": "commit", "text": "Tell how to revert a charge"}, ROUTINE),
        ({"kind": "pr"}, ROUTINE),
        ({"kind": "review", "labels": (("state", "approved"),)}, ROUTINE),
        ({"kind": "text"}, ROUTINE),
    ],
)
def test_an_event_counts_what_the_table_adds_for_its_kind_and_severity(fields: dict[str, Any], expected: float) -> None:
    assert base_importance([make_piece(**fields)]) == pytest.approx(expected)


def test_each_row_is_graver_than_routine_and_never_more_than_one() -> None:
    assert all(ROUTINE < row.importance <= 1 for row in TABLE)


def test_the_gravest_of_several_events_counts() -> None:
    pieces = [make_piece(kind="text"), make_piece(kind="rejection"), make_piece(kind="compaction")]
    assert base_importance(pieces) == pytest.approx(0.80)
    assert base_importance([]) == ROUTINE


def judged(text: str, scope: str = "project", importance: float | None = None) -> Candidate:
    """The verdict on what a model makes of a commit."""
    quote = RawQuote("e1", "A charge must be sent once.")
    learning = Learning(title="Send it once", quotes=(quote,), extraction_scope=scope, importance=importance)
    (one,) = judge_reply(JudgedCase(label="#1", pieces=(make_piece(text),)), format_reply((learning,)), "model").judged
    return one.candidate


def test_a_learning_without_an_importance_counts_what_its_event_does() -> None:
    assert judged(ROUTINE_WORK).importance == SCOPES["project"].importance
    assert judged(REVERTS).importance == pytest.approx(0.80)


def test_what_a_reply_says_is_kept_whatever_the_event() -> None:
    assert judged(REVERTS, importance=0.4).importance == 0.4
    assert judged(ROUTINE_WORK, importance=0.9).importance == 0.9


def test_a_scope_that_gives_more_than_the_event_keeps_it_within_the_bound() -> None:
    assert judged(ROUTINE_WORK, scope="corrective").importance == SCOPES["corrective"].importance
    assert judged(REVERTS, scope="observations").importance == SCOPES["observations"].importance <= MAX_IMPORTANCE


def test_the_root_cause_of_a_revert_counts_more_than_that_of_a_fix() -> None:
    cause = "Root cause: the gateway books a charge each time it is asked.\nFix: send a key with each charge."
    (fix,) = judge_messages(f"fix: charge once\n\n{cause}")
    (revert, *_) = judge_messages(f'Revert "Retry every charge"\n\n{cause}')
    assert (fix.candidate.importance, revert.candidate.importance) == (0.6, 0.8)
