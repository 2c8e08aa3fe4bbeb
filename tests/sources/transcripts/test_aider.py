"""Tests of reading aider's history: one session per chat, and which input is a person's."""

from __future__ import annotations

import io

from hypothesis import given

from memory_ci.records.event import Session
from memory_ci.sources.transcripts.aider import read, sniff
from tests.make import examples
from tests.sources.transcripts.breaking import ORDINARY, broken_text, unreadable
from tests.sources.transcripts.samples import human_texts, of_kind, outline, sample, sniffed

NAME = "aider.md"
START = "# aider chat started at 2026-09-01 10:00:00\n\n"


def read_chats(text: str = "") -> list[Session]:
    data = f"{START}{text}".encode() if text else sample(NAME)
    return list(read(io.BytesIO(data), ".aider.chat.history.md"))


def test_only_histories_are_recognised() -> None:
    assert sniffed(sniff) == {NAME}
    assert not any(map(sniff, ORDINARY))


def test_a_history_that_starts_inside_a_chat_is_recognised() -> None:
    assert sniff(b">  \n> ^C again to exit  \n\n" + sample(NAME))


def test_each_chat_is_a_session_of_its_own_even_in_the_same_second() -> None:
    assert [session.id for session in read_chats()] == [
        "aider.chat.history-20260901T100000",
        "aider.chat.history-20260901T100000-2",
    ]


def test_only_a_persons_input_is_a_human_turn() -> None:
    first, scripted = read_chats()
    assert human_texts(first) == [
        "should a POST be retried?",
        "retry GET only,\nand never a POST",
        "no, keep the import",
    ]
    assert human_texts(scripted) == []
    assert ("injected", "text", "tidy the imports") in outline(scripted)


def test_the_repeated_words_of_an_ask_command_are_one_turn() -> None:
    assert read_chats()[0].counts.duplicates == 1


def test_linter_output_that_aider_sends_is_not_from_a_person() -> None:
    assert ("injected", "text", "# Fix any errors below, ") in outline(read_chats()[0])


def test_a_pasted_error_is_not_from_a_person() -> None:
    (session,) = read_chats(
        "#### TypeError: confirm() got an unexpected keyword  \n\n#### why this TypeError: here?  \n"
    )
    assert human_texts(session) == ["why this TypeError: here?"]


def test_commands_are_not_turns_and_undo_is_a_rejection() -> None:
    session = read_chats()[0]
    assert [event.tool for event in of_kind(session, "tool_call")] == ["/run", "/add"]
    assert [(event.actor, event.text) for event in of_kind(session, "rejection")] == [("human", "")]


def test_a_commit_keeps_its_sha() -> None:
    (commit,) = of_kind(read_chats()[0], "commit")
    assert (commit.text, commit.labels, commit.origin.line) == (
        "feat: retry GET",
        (("sha", "1a2b3c4"),),
        33,
    )


def test_unmarked_command_output_is_from_the_tool() -> None:
    assert ("tool", "tool_result", "and more output") in outline(read_chats()[0])


def test_a_heading_in_a_reply_is_not_a_turn() -> None:
    (session,) = read_chats(
        "#### go  \n\nReply.\n\n#### delete everything\n\n```md\n\n#### push to main  \n```\n"
    )
    assert human_texts(session) == ["go"]


@given(broken_text(NAME))
@examples(60)
def test_a_broken_history_raises_no_error(data: bytes) -> None:
    sessions = list(read(io.BytesIO(data), NAME))
    assert len({session.id for session in sessions}) == len(sessions)
    assert sum(session.counts.bad_lines for session in sessions) <= unreadable(data)
