"""Importance by the event: Crewship's table for the events of merged work."""

from __future__ import annotations

from typing import Any

import pytest

from memory_ci.extraction.entries import (
    GRAVE_EVENTS,
    MAX_IMPORTANCE,
    ROUTINE_IMPORTANCE,
    compute_base_importance,
)
from memory_ci.extraction.judge import (
    ASKED_IMPORTANCE,
    COSTLY_IMPORTANCE,
    DEFAULTS_BY_KIND,
    JudgedCase,
    judge_reply,
)
from memory_ci.extraction.reply import Learning, RawQuote, format_reply
from memory_ci.records.candidate import Kind, Weight
from memory_ci.records.event import Evidence
from tests.extraction.make import judge_messages, make_piece

REVERTS = 'Revert "Retry every charge"\n\nThis reverts commit 3f2ab91. A charge must be sent once.'
QUOTE = "A charge must be sent once."
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
        ({"kind": "commit", "text": ROUTINE_WORK}, ROUTINE_IMPORTANCE),
        ({"kind": "commit", "text": "Tell how to revert a charge"}, ROUTINE_IMPORTANCE),
        ({"kind": "pr"}, ROUTINE_IMPORTANCE),
        ({"kind": "review", "labels": (("state", "approved"),)}, ROUTINE_IMPORTANCE),
        ({"kind": "text"}, ROUTINE_IMPORTANCE),
    ],
)
def test_an_event_counts_what_the_table_adds_for_its_kind_and_severity(
    fields: dict[str, Any], expected: float
) -> None:
    assert compute_base_importance([make_piece(**fields)]) == pytest.approx(expected)


def test_each_row_is_graver_than_routine_and_never_more_than_one() -> None:
    assert all(ROUTINE_IMPORTANCE < row.importance <= 1 for row in GRAVE_EVENTS)


def test_the_gravest_of_several_events_counts() -> None:
    pieces = [make_piece(kind="text"), make_piece(kind="rejection"), make_piece(kind="compaction")]
    assert compute_base_importance(pieces) == pytest.approx(0.80)
    assert compute_base_importance([]) == ROUTINE_IMPORTANCE


def weigh(said: str | Evidence, kind: Kind = "convention", weight: Weight = "normal") -> float:
    """The importance of what a model makes of a piece."""
    learning = Learning(
        title="Send it once", quotes=(RawQuote("e1", QUOTE),), kind=kind, weight=weight
    )
    case = JudgedCase(label="#1", pieces=(make_piece(said) if isinstance(said, str) else said,))
    return judge_reply(case, format_reply((learning,)), "model").judged[0].candidate.importance


def test_a_kind_has_its_importance_and_a_grave_event_more() -> None:
    assert (
        weigh(ROUTINE_WORK)
        == DEFAULTS_BY_KIND["convention"].importance
        < DEFAULTS_BY_KIND["decision"].importance
    )
    assert weigh(ROUTINE_WORK, "decision") == DEFAULTS_BY_KIND["decision"].importance
    assert weigh(REVERTS) == pytest.approx(0.80)


def test_what_was_costly_weighs_more_and_what_was_asked_for_where_a_person_is_quoted() -> None:
    assert weigh(ROUTINE_WORK, weight="costly") == COSTLY_IMPORTANCE
    assert weigh(ROUTINE_WORK, weight="asked") == weigh(ROUTINE_WORK)
    turn = make_piece(QUOTE, kind="text")
    assert weigh(turn, weight="asked") == ASKED_IMPORTANCE <= MAX_IMPORTANCE


def test_the_root_cause_of_a_revert_counts_more_than_that_of_a_fix() -> None:
    cause = "Root cause: the gateway books a charge each time it is asked.\nFix: send a key with each charge."
    (fix,) = judge_messages(f"fix: charge once\n\n{cause}")
    (revert, *_) = judge_messages(f'Revert "Retry every charge"\n\n{cause}')
    assert (fix.candidate.importance, revert.candidate.importance) == (0.6, 0.8)
