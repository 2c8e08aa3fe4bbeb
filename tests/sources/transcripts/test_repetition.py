"""Tests of repetition: a long text that two sessions repeat exactly is a program's."""

from __future__ import annotations

import io

import pytest

from memory_ci.records.event import Session
from memory_ci.sources.transcripts.builder import merge_sessions
from memory_ci.sources.transcripts.claude_code import read
from tests.sources.transcripts.claude import Record, human_texts, make_lines, make_user

TEMPLATE = "\n".join(f"Step {number}: look at part {number} of the change." for number in range(21))


def read_sessions(*records: tuple[str, Record]) -> tuple[Session, ...]:
    """Return a session for each record, each from a file of its own."""
    data = [make_lines(record | {"sessionId": session}) for session, record in records]
    return merge_sessions(
        session for transcript in data for session in read(io.BytesIO(transcript), "session.jsonl")
    )


@pytest.mark.parametrize(
    "second_text",
    [TEMPLATE, TEMPLATE.replace("\n", "\r\n") + "\n"],
    ids=["same", "other line ends"],
)
def test_a_long_text_of_two_sessions_is_not_from_a_person(second_text: str) -> None:
    sessions = read_sessions(("s1", make_user(TEMPLATE, 1)), ("s2", make_user(second_text, 2)))
    assert [human_texts(session) for session in sessions] == [[], []]
    assert [session.counts.human_turns for session in sessions] == [0, 0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (TEMPLATE, TEMPLATE.replace("Step 3", "Step three")),
        (TEMPLATE.rpartition("\n")[0], TEMPLATE.rpartition("\n")[0]),
        ("Go on, please.", "Go on, please."),
    ],
    ids=["another word", "twenty lines", "short"],
)
def test_other_texts_stay_a_person_s(first: str, second: str) -> None:
    sessions = read_sessions(("s1", make_user(first, 1)), ("s2", make_user(second, 2)))
    assert [human_texts(session) for session in sessions] == [[first], [second]]


def test_a_long_text_that_one_session_holds_twice_stays_a_person_s() -> None:
    (session,) = read_sessions(("s1", make_user(TEMPLATE, 1)), ("s1", make_user(TEMPLATE, 2)))
    assert human_texts(session) == [TEMPLATE, TEMPLATE]


def test_a_copied_turn_in_a_resumed_session_is_not_a_repetition() -> None:
    sessions = read_sessions(("s1", make_user(TEMPLATE, 1)), ("s2", make_user(TEMPLATE, 1)))
    assert [human_texts(session) for session in sessions] == [[TEMPLATE], []]
