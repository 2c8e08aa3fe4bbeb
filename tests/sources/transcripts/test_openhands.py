"""Tests of reading OpenHands event lists: `source: user` is not always a person."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.sources.transcripts.openhands import read, sniff
from tests.make import examples
from tests.sources.transcripts.samples import (
    broken,
    human_texts,
    of_kind,
    outline,
    read_one,
    sample,
    sniffed,
)


def test_only_event_lists_are_recognised() -> None:
    assert sniffed(sniff) == {"openhands-v0.json", "openhands-v1.json"}
    assert not sniff(b'[{"role": "user", "content": "hi"}]')


def test_the_messages_of_a_person_are_human() -> None:
    assert human_texts(read_one(read, sample("openhands-v0.json"))) == [
        "Make the build pass.",
        "Do not touch the Makefile.",
    ]


def test_prompt_recall_and_canned_answers_are_injected() -> None:
    session = read_one(read, sample("openhands-v0.json"))
    assert [(kind, text) for actor, kind, text in outline(session) if actor == "injected"] == [
        ("text", "You are an agent."),
        ("text", "Added workspace context"),
        ("compaction", "The build needs a flag."),
        ("text", "Please continue working o"[:24]),
    ]


def test_the_task_of_a_delegate_is_not_human() -> None:
    session = read_one(read, sample("openhands-v0.json"))
    assert [text for actor, _, text in outline(session) if actor == "subagent"] == [
        "TASK: look it up",
        "Found it.",
    ]


def test_an_action_gives_its_thought_and_its_call() -> None:
    session = read_one(read, sample("openhands-v0.json"))
    assert outline(session)[3:6] == [
        ("agent", "text", "I build it."),
        ("agent", "tool_call", '{"command":"make"}'),
        ("tool", "tool_result", "Error 2"),
    ]
    result = session.events[5]
    assert (result.tool, result.ok, result.severity) == ("execute_bash", False, "error")


def test_a_refusal_is_a_rejection_of_the_last_call() -> None:
    (event,) = of_kind(read_one(read, sample("openhands-v0.json")), "rejection")
    assert (event.actor, event.tool, event.text) == ("human", "str_replace_editor", "")


def test_stopping_the_agent_is_an_interruption() -> None:
    assert [
        event.actor for event in of_kind(read_one(read, sample("openhands-v0.json")), "interrupt")
    ] == ["human"]


def test_a_state_change_by_the_environment_is_not_an_interruption() -> None:
    event = {
        "source": "environment",
        "action": "change_agent_state",
        "args": {"agent_state": "stopped"},
    }
    assert read_one(read, json.dumps([event]).encode()).events == ()


def test_the_line_of_an_event_is_that_of_its_id() -> None:
    text = sample("openhands-v0.json").decode().splitlines()
    event = next(
        event
        for event in read_one(read, sample("openhands-v0.json")).events
        if event.kind == "interrupt"
    )
    assert text[(event.origin.line or 0) - 1].strip() == '"id": 10,'


def test_the_form_of_the_sdk_is_read() -> None:
    session = read_one(read, sample("openhands-v1.json"), "events.json")
    assert session.key == "openhands:events"
    assert outline(session) == [
        ("injected", "text", "You are an agent."),
        ("human", "text", "Make the build pass."),
        ("injected", "text", "<EXTRA_INFO>skill</EXTRA"),
        ("agent", "text", "I build it."),
        ("agent", "tool_call", '{"command":"make"}'),
        ("tool", "tool_result", "Error 2"),
        ("agent", "tool_call", '{"command":"view","path"'),
        ("human", "rejection", "Leave the Makefile alone"),
        ("tool", "tool_result", "blocked by policy"),
        ("human", "interrupt", ""),
        ("injected", "compaction", "The build needs a flag."),
        ("subagent", "text", "Report to me."),
        ("agent", "text", "Done."),
    ]
    assert session.events[6].paths == ("Makefile",)
    assert session.counts.unknown == {"BrandNewEvent": 1}


def test_an_event_without_a_kind_is_counted() -> None:
    data = json.dumps(
        [{"source": "user", "action": "teleport", "args": {}}, None, {"id": 3}]
    ).encode()
    counts = read_one(read, data).counts
    assert (counts.records, counts.bad_lines, counts.unknown) == (
        3,
        1,
        {"untyped": 1, "user/teleport": 1},
    )


def test_a_truncated_list_is_counted() -> None:
    session = read_one(read, sample("openhands-v0.json")[:-9], "run.json")
    assert (session.id, session.events, session.counts.bad_lines) == ("run", (), 1)


def test_empty_and_deeply_nested_files_are_counted_as_bad() -> None:
    assert read_one(read, b"").counts.bad_lines == 1
    assert read_one(read, b"[" * 100_000).counts.bad_lines == 1


@examples(60)
@given(st.data())
def test_broken_files_raise_no_error(data: st.DataObject) -> None:
    text = data.draw(broken(data.draw(st.sampled_from(["openhands-v0.json", "openhands-v1.json"]))))
    sniff(text[: 64 * 1024])
    assert read_one(read, text).agent == "openhands"
