"""Tests of importance, which depends on the kind and severity of the event."""

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
def test_the_importance_of_an_event_is_in_the_table_by_kind_and_severity(
    fields: dict[str, Any], expected: float
) -> None:
    assert compute_base_importance([make_piece(**fields)]) == pytest.approx(expected)


def test_each_row_is_above_routine_and_at_most_one() -> None:
    assert all(ROUTINE_IMPORTANCE < row.importance <= 1 for row in GRAVE_EVENTS)


def test_the_most_severe_of_several_events_counts() -> None:
    pieces = [make_piece(kind="text"), make_piece(kind="rejection"), make_piece(kind="compaction")]
    assert compute_base_importance(pieces) == pytest.approx(0.80)
    assert compute_base_importance([]) == ROUTINE_IMPORTANCE


def weigh(evidence: str | Evidence, kind: Kind = "convention", weight: Weight = "normal") -> float:
    """Return the importance of a model's learning from a piece."""
    learning = Learning(
        title="Send it once", quotes=(RawQuote("e1", QUOTE),), kind=kind, weight=weight
    )
    case = JudgedCase(
        label="#1", pieces=(make_piece(evidence) if isinstance(evidence, str) else evidence,)
    )
    return judge_reply(case, format_reply((learning,)), "model").judged[0].candidate.importance


def test_a_kind_has_its_importance_and_a_severe_event_adds_to_it() -> None:
    assert (
        weigh(ROUTINE_WORK)
        == DEFAULTS_BY_KIND["convention"].importance
        < DEFAULTS_BY_KIND["decision"].importance
    )
    assert weigh(ROUTINE_WORK, "decision") == DEFAULTS_BY_KIND["decision"].importance
    assert weigh(REVERTS) == pytest.approx(0.80)


def test_costly_events_and_quoted_requests_of_people_are_more_important() -> None:
    assert weigh(ROUTINE_WORK, weight="costly") == COSTLY_IMPORTANCE
    assert weigh(ROUTINE_WORK, weight="asked") == weigh(ROUTINE_WORK)
    turn = make_piece(QUOTE, kind="text")
    assert weigh(turn, weight="asked") == ASKED_IMPORTANCE <= MAX_IMPORTANCE


def test_the_root_cause_of_a_revert_is_more_important_than_that_of_a_fix() -> None:
    cause = "Root cause: the gateway books a charge each time it is asked.\nFix: send a key with each charge."
    (fix,) = judge_messages(f"fix: charge once\n\n{cause}")
    (revert, *_) = judge_messages(f'Revert "Retry every charge"\n\n{cause}')
    assert (fix.candidate.importance, revert.candidate.importance) == (0.6, 0.8)
