"""Tests of reading Gemini CLI sessions: the JSON object, and the log of records."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.sources.transcripts.gemini import read, sniff
from tests.make import examples
from tests.sources.transcripts.samples import (
    broken,
    human_texts,
    lines,
    of_kind,
    outline,
    read_one,
    sample,
    sniffed,
)

HEADER = {
    "sessionId": "s1",
    "projectHash": "ab",
    "startTime": "2026-09-01T10:00:00Z",
    "kind": "main",
}


def message(uid: str, kind: str, content: object, **fields: object) -> dict[str, Any]:
    return {"id": uid, "type": kind, "content": content, **fields}


def test_only_gemini_files_are_recognised() -> None:
    assert sniffed(sniff) == {"gemini-events.jsonl", "gemini-legacy.json"}


def test_a_claude_record_with_a_session_id_is_not_recognised() -> None:
    assert not sniff(b'{"sessionId":"s","uuid":"u","projectHash":"x"}\n')


def test_typed_turns_are_found_once() -> None:
    session = read_one(read, sample("gemini-events.jsonl"))
    assert human_texts(session) == ["Fix the parser, see @notes.md", "Only delete the cache."]


def test_the_content_of_files_in_a_message_is_not_from_a_person() -> None:
    session = read_one(read, sample("gemini-events.jsonl"))
    assert ("injected", "text", "--- Content from referen") in outline(session)


def test_the_displayed_prompt_is_the_typed_text() -> None:
    record = message(
        "m", "user", [{"text": "expanded by a hook"}], displayContent=[{"text": "short"}]
    )
    assert human_texts(read_one(read, lines(HEADER, record))) == ["short"]


def test_a_turn_that_a_hook_repeated_counts_once() -> None:
    typed = message("m1", "user", [{"text": "Retry in the client"}])
    reason = {"text": "memory-ci: a person corrected you, and nothing was noted."}
    retry = message("m2", "user", [reason], displayContent=[{"text": "Retry in the client"}])
    repeated = message("m3", "user", [{"text": "Retry in the client"}])
    other_message = message("m4", "user", [reason], displayContent=[{"text": "Something else"}])
    session = read_one(read, lines(HEADER, typed, retry))
    assert (human_texts(session), session.counts.human_turns) == (["Retry in the client"], 1)
    assert [event.text for event in session.events if event.actor == "injected"] == [reason["text"]]
    assert len(human_texts(read_one(read, lines(HEADER, typed, repeated)))) == 2, (
        "a person may say it twice"
    )
    assert human_texts(read_one(read, lines(HEADER, typed, other_message))) == [
        "Retry in the client",
        "Something else",
    ]


def test_the_last_version_of_a_message_counts_once_and_its_result_too() -> None:
    session = read_one(read, sample("gemini-events.jsonl"))
    assert [
        (event.origin.line, event.ok, event.severity) for event in of_kind(session, "tool_result")
    ] == [(5, False, "error")]
    assert session.counts.agent_texts == 1
    assert session.counts.duplicates == 1


def test_a_rewritten_history_changes_no_recorded_event_and_adds_no_human_turn() -> None:
    session = read_one(read, sample("gemini-events.jsonl"))
    texts = [text for _, _, text in outline(session)]
    assert "masked" not in texts
    assert ("injected", "text", "Got it, go on.") in outline(session)


def test_a_file_with_only_rewritten_histories_is_read_from_them() -> None:
    patch = {"$set": {"messages": [message("m", "user", "hello")]}}
    assert human_texts(read_one(read, lines(HEADER, patch))) == ["hello"]


def test_a_cancelled_call_has_the_persons_reason() -> None:
    session = read_one(read, sample("gemini-events.jsonl"))
    assert [(event.actor, event.text, event.paths) for event in of_kind(session, "rejection")] == [
        ("human", "keep old.py, others import it", ()),
        ("human", "", ()),
    ]
    assert session.counts.rejections_with_reason == 1


def test_an_unfinished_call_is_an_interruption() -> None:
    interrupts = of_kind(read_one(read, sample("gemini-events.jsonl")), "interrupt")
    assert [(event.actor, event.tool) for event in interrupts] == [
        ("human", "run_shell_command"),
        ("human", None),
    ]


@pytest.mark.parametrize(
    ("path", "paths"),
    [
        ("/home/ann/shop/src/pay.py", ("src/pay.py",)),
        ("src/pay.py", ("src/pay.py",)),
        ("/home/ann/notes.md", ()),
        ("/" + "a/" * 100_000, ()),
    ],
)
def test_an_absolute_path_inside_the_project_becomes_relative(
    path: str, paths: tuple[str, ...]
) -> None:
    header = HEADER | {"projectHash": hashlib.sha256(b"/home/ann/shop").hexdigest()}
    call = {"id": "c", "name": "replace", "args": {"file_path": path}}
    session = read_one(read, lines(header, message("m", "gemini", "", toolCalls=[call])))
    assert [event.paths for event in of_kind(session, "tool_call")] == [paths]


def test_a_compression_is_marked_and_not_human() -> None:
    (event,) = of_kind(read_one(read, sample("gemini-events.jsonl")), "compaction")
    assert event.actor == "injected"


def test_rewound_turns_do_not_count() -> None:
    session = read_one(read, sample("gemini-events.jsonl"))
    assert "Delete everything." not in human_texts(session)
    assert [event.labels for event in of_kind(session, "interrupt")][-1] == (("via", "rewind"),)


def test_a_rewind_to_an_unknown_message_is_ignored() -> None:
    session = read_one(read, lines(HEADER, message("m", "user", "hello"), {"$rewindTo": "x"}))
    assert (human_texts(session), session.counts.unknown) == (["hello"], {"$rewindTo": 1})


def test_the_single_object_is_read_with_the_lines_of_its_ids() -> None:
    session = read_one(read, sample("gemini-legacy.json"), "session-1.json")
    assert session.key == "gemini:5d1c0000-0000-4000-8000-000000000003"
    assert outline(session) == [
        ("injected", "text", "This is the Gemini CLI. "),
        ("human", "text", "Add a test for the parse"),
        ("agent", "text", "I read it first."),
        ("agent", "tool_call", '{"file_path":"parser.py"'),
        ("tool", "tool_result", "File not found."),
        ("injected", "text", "System: Please continue."),
        ("agent", "text", "There is no parser.py."),
    ]
    text = sample("gemini-legacy.json").decode().splitlines()
    assert '"id": "l1"' in text[(session.events[1].origin.line or 0) - 1]


def test_the_single_object_may_be_one_line() -> None:
    data = json.dumps(json.loads(sample("gemini-legacy.json"))).encode()
    assert sniff(data)
    assert outline(read_one(read, data)) == outline(read_one(read, sample("gemini-legacy.json")))


def test_a_sub_agents_session_has_no_words_of_a_person() -> None:
    records = [
        HEADER | {"kind": "subagent"},
        message("a", "user", "look"),
        message("b", "gemini", "found"),
    ]
    assert [event.actor for event in read_one(read, lines(*records)).events] == [
        "subagent",
        "subagent",
    ]


def test_a_thought_is_not_text() -> None:
    parts = [{"text": "I think", "thought": True}, {"text": "I say"}]
    assert outline(read_one(read, lines(HEADER, message("a", "gemini", parts)))) == [
        ("agent", "text", "I say")
    ]


def test_a_truncated_object_is_counted() -> None:
    session = read_one(read, sample("gemini-legacy.json")[:-40], "session-9.json")
    assert (session.id, session.events, session.counts.bad_lines) == ("session-9", (), 1)


def test_an_empty_file_is_a_session_without_events() -> None:
    assert read_one(read, b"").events == ()


def test_bad_lines_and_unknown_types_are_counted() -> None:
    data = sample("gemini-events.jsonl") + b'{"id":\n' + b"[" * 100_000 + b"\n"
    counts = read_one(read, data).counts
    assert (counts.bad_lines, counts.unknown) == (2, {"hologram": 1})


@examples(60)
@given(st.data())
def test_broken_files_raise_no_error(data: st.DataObject) -> None:
    text = data.draw(
        broken(data.draw(st.sampled_from(["gemini-events.jsonl", "gemini-legacy.json"])))
    )
    sniff(text[: 64 * 1024])
    assert read_one(read, text).agent == "gemini"
