"""Tests of suggestions: which unmarked sentences a person is asked about, and in which order."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.records.candidate import Candidate, Judged, Quote, Repetition

FIX = "a reason given in a fix, not marked as a learning"
ORDER = "a person says what not to do, not marked as a learning"
KEPT = "The parser must not share a buffer because two threads read it"


def judge_text(text: str, reason: str = ORDER, change: str = "#1") -> Judged:
    candidate = Candidate(
        title=text,
        body="",
        type="procedural",
        domain="task",
        importance=0.5,
        scope="project",
        extraction_scope="project",
        quotes=(Quote("e1", text),),
        is_marked=False,
    )
    return Judged(candidate=candidate, verdict="suspected", reason=reason, change=change)


@pytest.mark.parametrize(
    "text",
    [
        "We keep one queue now, so never mind the old one and let's drop it",
        "If we don't, the release would never reach the people who wait for it",
        "No, the reader of the stream must never close what it did not open",
        "Doing this by default is never what a person who runs the tool wants",
        "why don't you take the parser that the other package has had for years",
        "We don't need a test for the queue of a job that never ends",
        "For the first release we never support two writers of one file",
        "Take option B and do not clear what the index has of the session",
        "The helper has two unused cases, which must not be shown to people",
        "The process always inherits what is open, so the server inherited every pipe of the caller",
        "Since the server always asks for a key, each flush failed and caused a retry",
        "An image of the table is part of the program so prices always work offline",
        "The semantics of the offset are unchanged and it can never lose a line",
        "TableRegistry: a map of each sign to its writer, never forgets a sign",
        "The function should use the helper that exists and not do the same again, never twice",
        "To be silent in the child, these should never be left as they are by default",
        "Ask but once when it is turned on, and do not ask a person anymore",
        "first check that each branch has a test, and don't break what works",
        "The lookup of a parent always fails because a shallow clone does not hold it",
        "The layer reads the header of each request but never says so in the answer",
        "The previous type had fields that are never read by the one who is called",
        "Always generates a report of the run even when the check of the limit fails",
    ],
)
def test_a_sentence_about_the_current_work_is_not_suggested(text: str) -> None:
    assert list_suggestions([judge_text(text)]) == []


def test_consequences_and_invariants_are_suggested() -> None:
    text = "The offset can be ahead of the log or behind it, so it must never move the cursor"
    assert [suggestion.candidate.title for suggestion in list_suggestions([judge_text(text)])] == [
        text
    ]


def test_a_norm_about_the_work_process_comes_before_one_about_code() -> None:
    norm = judge_text(
        "Always run the tests of a package before you push a branch because CI is slow"
    )
    suggestions = list_suggestions([judge_text(KEPT, FIX), norm])
    assert [suggestion.candidate.title for suggestion in suggestions] == [
        norm.candidate.title,
        KEPT,
    ]


def test_an_order_without_a_reason_is_suggested_when_three_changes_give_it() -> None:
    order = "Do not write to the index of a person who has it open elsewhere"
    for count in (1, 2, 3):
        items = [judge_text(order, change=f"#{number}") for number in range(count)]
        assert bool(list_suggestions(items)) is (count == 3)


def test_the_cause_of_a_fixed_bug_is_not_suggested() -> None:
    item = judge_text(KEPT, "tells of the past alone")
    cause = replace(item, candidate=replace(item.candidate, marker="root cause"))
    assert list_suggestions([cause]) == []


@pytest.mark.parametrize(
    "text",
    [
        "Pass the key along so that the client never has to read it again",
        "Route each event through the queue because readers always come late",
        "Fixes: 0123456789ab (fix: always move the cursor down on close)",
    ],
)
def test_completed_work_in_a_message_is_not_suggested(text: str) -> None:
    assert list_suggestions([judge_text(text, FIX)]) == []


WISH_QUESTION = "Why do we still build the whole image twice on each push?"


def judged_turn(text: str, change: str) -> Judged:
    item = judge_text(text, "a person asks why something is still so", change)
    return replace(item, candidate=replace(item.candidate, session="claude:1"))


def test_a_question_that_wishes_is_suggested_when_two_changes_ask_it() -> None:
    assert list_suggestions([judged_turn(WISH_QUESTION, "#1")]) == []
    (suggestion,) = list_suggestions(
        [judged_turn(WISH_QUESTION, "#1"), judged_turn(WISH_QUESTION, "#2")]
    )
    assert suggestion.changes == ("#1", "#2")
    assert (
        list_suggestions(
            [judge_text(WISH_QUESTION, change="#1"), judge_text(WISH_QUESTION, change="#2")]
        )
        == []
    )


def test_a_wish_in_another_language_is_suggested() -> None:
    text = "Bitte niemals direkt auf den Hauptzweig pushen, auch nicht bei kleinen Dingen"
    assert len(list_suggestions([judged_turn(text, "#1")])) == 1


@pytest.mark.parametrize("word", ["dont", "don't", "don\u2019t"])
def test_an_order_counts_with_and_without_its_apostrophe(word: str) -> None:
    text = f"{word} edit a generated client by hand because the build overwrites it"
    (suggestion,) = list_suggestions([judged_turn(text, "#1")])
    assert suggestion.candidate.title == text


def test_repeated_requests_are_always_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memory_ci.extraction.suggestions.MAX_COMPARED", 1)
    day = date(2026, 1, 1)
    repetition = Repetition(kind="request", sessions=3, people=1, first=day, last=day, when="start")
    request = judge_text("Open a draft PR when you are done with it", "asked in 3 sessions")
    repeated = replace(
        request, candidate=replace(request.candidate, repetition=repetition, engine="repetition")
    )
    first, second = list_suggestions([judge_text(KEPT, FIX), repeated])
    assert (first.candidate.repetition, second.candidate.title) == (repetition, KEPT)
