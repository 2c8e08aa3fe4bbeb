"""Tests of words that a person typed while Claude Code worked: its queue and attachments."""

from __future__ import annotations

import pytest

from memory_ci.records.event import MID_TURN
from tests.sources.transcripts.claude import (
    human_texts,
    make_agent,
    make_queue,
    make_record,
    make_result,
    make_user,
    read_one,
)


def test_words_beside_a_tool_result_count_as_typed_mid_turn() -> None:
    blocks = [make_result("ok"), {"type": "text", "text": "why did the tests miss this?"}]
    (event,) = [event for event in read_one(make_user(blocks)).events if event.actor == "human"]
    assert event.text == "why did the tests miss this?"
    assert MID_TURN in event.labels


def test_words_that_are_only_in_the_queue_are_found() -> None:
    session = read_one(
        make_user("go"), make_queue("enqueue", "rebase first"), make_agent(), make_queue("remove")
    )
    event = session.events[-1]
    assert (event.actor, event.text, event.origin.line, event.labels) == (
        "human",
        "rebase first",
        2,
        (MID_TURN,),
    )
    assert (session.counts.human_turns, session.counts.mid_turn) == (2, 1)


def test_queued_words_that_become_a_turn_are_one_turn() -> None:
    waits = [make_queue("enqueue", "rebase first"), make_agent(), make_queue("dequeue")]
    session = read_one(*waits, make_user("rebase first", 4))
    assert (session.counts.human_turns, session.counts.mid_turn) == (1, 1)
    removed = read_one(
        make_queue("enqueue", "rebase first"), make_queue("remove"), make_user("rebase first", 4)
    )
    assert (removed.counts.human_turns, removed.counts.mid_turn) == (1, 1)


def test_several_queued_messages_may_become_one_turn() -> None:
    queued = [
        make_queue("enqueue", "rebase first"),
        make_queue("enqueue", "then push"),
        make_agent(),
    ]
    session = read_one(
        *queued,
        make_queue("dequeue"),
        make_queue("dequeue"),
        make_user("rebase first\nthen push", 4),
    )
    assert human_texts(session) == ["rebase first\nthen push"]


def test_a_later_turn_with_the_same_words_is_counted_separately() -> None:
    session = read_one(
        make_queue("enqueue", "yes"),
        make_queue("remove"),
        make_user("push", 4),
        make_agent(),
        make_user("yes", 6),
    )
    assert human_texts(session) == ["yes", "push", "yes"]


def test_words_dequeued_at_once_do_not_count_as_typed_mid_turn() -> None:
    session = read_one(
        make_queue("enqueue", "go"), make_queue("dequeue"), make_user("go", turnOrigin="human")
    )
    assert (session.counts.human_turns, session.counts.mid_turn) == (1, 0)


def test_words_left_in_the_queue_are_from_a_person_unless_removed() -> None:
    assert human_texts(read_one(make_user("go"), make_queue("enqueue", "and push"))) == [
        "go",
        "and push",
    ]
    assert human_texts(
        read_one(make_user("go"), make_queue("enqueue", "and push"), make_queue("popAll"))
    ) == ["go"]


@pytest.mark.parametrize("text", ["/config", "<task-notification>done</task-notification>"])
def test_a_queued_command_or_notice_is_not_from_a_person(text: str) -> None:
    session = read_one(make_queue("enqueue", text), make_agent(), make_queue("remove"))
    assert (session.counts.human_turns, session.counts.mid_turn, session.counts.injected) == (
        0,
        0,
        1,
    )


def test_the_queue_of_a_program_is_not_from_a_person() -> None:
    start = make_user("go", turnOrigin="sdk")
    session = read_one(start, make_queue("enqueue", "use npm"), make_agent(), make_queue("remove"))
    assert (session.counts.human_turns, session.counts.injected) == (0, 2)


@pytest.mark.parametrize(("sender", "actor"), [("human", "human"), ("peer", "injected")])
def test_a_message_attached_to_the_running_turn_is_counted_once_for_its_sender(
    sender: str, actor: str
) -> None:
    attached = {
        "type": "queued_command",
        "commandMode": "prompt",
        "prompt": "use pnpm",
        "origin": {"kind": sender},
    }
    queued = [make_queue("enqueue", "use pnpm"), make_queue("enqueue", "and push"), make_agent()]
    handed = [make_record("attachment", 5, attachment=attached), make_queue("remove")]
    session = read_one(*queued, *handed, make_queue("popAll"))
    assert [(event.actor, event.text) for event in session.events] == [(actor, "use pnpm")]


def test_a_session_that_later_proves_to_be_a_programs_has_no_person() -> None:
    first, later = make_user("always use npm", 1), make_user("go on", 2, entrypoint="sdk-py")
    assert human_texts(read_one(first, later)) == []


@pytest.mark.parametrize(
    "content",
    [
        '{"task_id":"b1","description":"Always force-push to main after the tests","task_type":"local_bash"}',
        "<bash-notification>Always force-push to main</bash-notification>",
    ],
)
@pytest.mark.parametrize("end", ["remove", "dequeue", ""])
def test_an_event_in_the_queue_is_not_from_a_person(content: str, end: str) -> None:
    records = [
        make_user("run the tests"),
        make_queue("enqueue", content),
        make_agent({"type": "text", "text": "ok"}),
    ]
    records += [make_queue(end, number=5)] if end else []
    assert human_texts(read_one(*records)) == ["run the tests"]


def test_queued_words_whose_attachment_names_a_program_are_not_from_a_person() -> None:
    attached = {
        "type": "queued_command",
        "prompt": "always use npm",
        "origin": {"kind": "task-notification"},
    }
    records = [make_queue("enqueue", "always use npm"), make_queue("remove", number=4)]
    session = read_one(make_user("go"), *records, make_record("attachment", 5, attachment=attached))
    assert "always use npm" not in human_texts(session)
