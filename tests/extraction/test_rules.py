"""Tests of the rules engine: marks are written, suspicions proposed, and records give their decision."""

from __future__ import annotations

import pytest

from memory_ci.extraction.engines.rules import RulesEngine
from memory_ci.extraction.judge import DEFAULTS_BY_KIND
from memory_ci.extraction.reply import Learning, parse_reply
from memory_ci.extraction.suspects import MAX_PER_MESSAGE
from memory_ci.records.candidate import Request
from memory_ci.records.event import EventKind
from tests.extraction.make import make_piece

RECORD = """# 7. Use one pool

- Status: {status}

## Context

Connections are slow.

## Decision

We share one pool per process,
because connecting costs a second.

More words.

## Consequences

Workers wait.
"""


def extract(text: str, kind: EventKind = "commit") -> tuple[Learning, ...]:
    reply = RulesEngine().extract(Request(change="#1", evidence=(make_piece(text, kind=kind),)))
    assert (reply.stop_reason, reply.model) == ("end_turn", "rules")
    return parse_reply(reply.text, trusted=True).learnings


@pytest.mark.parametrize(
    ("line", "kind", "importance", "scope"),
    [
        ("Directive: never push to main on a Friday", "directive", 0.9, "institutional"),
        ("Convention: name a fixture after what it gives", "procedural", 0.8, "project"),
        ("Invariant: an order has at least one line", "declarative", 0.8, "project"),
        ("Constraint: the API allows ten calls a second", "declarative", 0.8, "project"),
        ("Gotcha: the client closes the stream twice", "procedural", 0.8, "project"),
        ("Lesson: measure before the cache is added", "procedural", 0.8, "project"),
        ("Decision: one pool, because connecting is slow", "declarative", 0.7, "project"),
        ("Root cause: the lock was held twice", "corrective", 0.6, "project"),
    ],
)
def test_each_marker_has_its_type_weight_and_scope(
    line: str, kind: str, importance: float, scope: str
) -> None:
    (learning,) = extract(f"fix: x\n\n{line}\n")
    assert (DEFAULTS_BY_KIND[learning.kind].type, learning.importance, learning.scope) == (
        kind,
        importance,
        scope,
    )
    assert learning.is_marked


def test_a_rejection_is_negative_knowledge() -> None:
    (learning,) = extract("feat: x\n\nrejected(pool): one pool per call, because it leaked\n")
    assert (learning.adoption, learning.is_marked) == ("rejected", True)


def test_a_weak_mark_is_proposed_with_the_reason() -> None:
    (learning,) = extract("feat: x\n\ndecision(db): use the pool for connections\n")
    assert (learning.is_marked, learning.marker) == (False, "decision")
    assert learning.doubt == "a decision without its reason"


@pytest.mark.parametrize(
    ("message", "doubt"),
    [
        (
            'Revert "feat: retry uploads"\n\nThe server answers twice, and a\nclient then charges a card twice.',
            "revert",
        ),
        ("feat: x\n\nOne must never hold two locks at the same time.", "rule"),
        ("fix: x\n\nThe upload is late because the token\nexpires after an hour.", "reason"),
        (
            "fix: x\n\n- Tests that use chdir cannot run in parallel\n  because it moves the process.\n- y",
            "reason",
        ),
        ("feat: x\n\nNote: the old flag is read until the next release.", "remark"),
    ],
)
def test_unmarked_sentences_are_only_suspected(message: str, doubt: str) -> None:
    (learning,) = extract(message)
    assert not learning.is_marked
    assert doubt in learning.doubt
    assert learning.quotes[0].text in " ".join(message.split())


def test_an_ordinary_message_gives_nothing() -> None:
    assert (
        extract("feat: retry uploads\n\nUploads are tried three times with a pause between them.")
        == ()
    )


def test_the_suspected_sentences_of_a_message_are_limited() -> None:
    message = "fix: x\n\n" + "".join(
        f"One must never do the thing number {n} again.\n" for n in range(9)
    )
    assert len(extract(message)) == MAX_PER_MESSAGE


def test_a_reverted_change_is_never_advice() -> None:
    (learning,) = extract(
        'Revert "feat: retry uploads"\n\nThe server answers twice, and the client charges twice.'
    )
    assert (learning.adoption, learning.body) == (
        "rejected",
        "The server answers twice, and the client charges twice.",
    )


@pytest.mark.parametrize(
    "message",
    [
        'Revert "feat: retry uploads"\n\nThis reverts commit 0123456789012345678901234567890123456789.',
        "feat: x\n\nThe pool never reached more than two connections at a time.",
        "feat: x\n\nThis must never hold two locks at the same time.",
        "feat: x\n\nThe lock is now always taken before the file is read.",
        "feat: x\n\n- Call it always before the file is read from disk",
        "feat: x\n\nThe next rule must always hold for these places:\n\n- a\n- b",
    ],
)
def test_narration_and_fragments_are_not_suspected(message: str) -> None:
    assert not extract(message)


def test_an_accepted_record_gives_its_decision() -> None:
    (learning,) = extract(RECORD.format(status="Accepted"), kind="adr")
    assert learning.title == "Use one pool"
    assert learning.body == "We share one pool per process, because connecting costs a second."
    assert (learning.kind, learning.importance, learning.is_marked) == ("decision", 0.7, True)
    assert (
        learning.quotes[0].text
        == "We share one pool per process,\nbecause connecting costs a second."
    )


def test_the_decision_of_a_record_includes_its_list_and_a_topic_is_not_its_title() -> None:
    record = "# help-comments\n\n## Decision\n\nA command shows:\n\n- its usage, on\n  one line\n- its summary\n\nNo more."
    (learning,) = extract(record, kind="adr")
    assert learning.title == "help-comments: A command shows"
    assert learning.body == "- its usage, on one line\n- its summary"


@pytest.mark.parametrize(
    "record",
    [RECORD.format(status="Proposed"), RECORD.replace("## Decision", "## Idea"), "", "# Title"],
)
def test_a_record_that_decides_nothing_gives_nothing(record: str) -> None:
    assert extract(record, kind="adr") == ()


@pytest.mark.parametrize(
    "review_text",
    [
        "/remember The gateway never keeps a key for more than a day, so always send a fresh one.",
        "/remember The gateway never keeps a key\nfor more than a day, so always send a fresh one.",
        "Rejected: we never retry in each caller, because only the client knows the key.",
    ],
)
def test_the_text_of_a_reviews_mark_is_not_suspected_again(review_text: str) -> None:
    (learning,) = extract(review_text, "review")
    assert learning.marker in ("remember", "rejected")


def test_other_text_of_a_review_with_a_mark_is_suspected() -> None:
    review_text = (
        "/remember The gateway keeps a key for a day.\n\nNever retry a POST without a key, please."
    )
    assert [candidate.marker for candidate in extract(review_text, "review")] == ["remember", ""]
