"""Tests of reading Copilot CLI sessions: turns, replies and tools, without hooks and sub-agents' tasks."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.sources.transcripts.copilot import read, sniff
from tests.make import examples
from tests.sources.transcripts.samples import (
    broken,
    human_texts,
    lines,
    of_kind,
    read_one,
    records,
    sample,
    sniffed,
)

NAME = "copilot-events.jsonl"


def test_only_copilot_files_are_recognised() -> None:
    assert sniffed(sniff) == {NAME}


def test_typed_turns_are_a_persons_and_our_own_prompts_are_not() -> None:
    session = read_one(read, sample(NAME), "c0/events.jsonl")
    assert (session.key, session.branch) == (
        "copilot:c0000000-0000-4000-8000-000000000004",
        "retry",
    )
    assert human_texts(session) == [
        "Add a retry to the client",
        "No, never retry a charge in the caller.",
    ]
    assert session.counts.human_turns == 2
    assert [event.text[:10] for event in session.events if event.actor == "injected"] == [
        "You are a ",
        "memory-ci:",
    ]
    assert [event.text for event in session.events if event.actor == "subagent"] == [
        "Look at each file."
    ]
    assert session.counts.unknown == {}


def test_tool_events_have_the_files_of_the_project_and_their_success() -> None:
    session = read_one(read, sample(NAME))
    assert [(event.tool, event.paths) for event in of_kind(session, "tool_call")] == [
        ("edit", ("src/client.py",)),
        ("bash", ()),
        ("view", ()),
    ]
    assert [(event.tool, event.ok) for event in of_kind(session, "tool_result")] == [
        ("edit", True),
        ("bash", False),
        ("view", False),
    ]
    assert [event.actor for event in of_kind(session, "interrupt")] == ["human"]


def test_a_message_that_was_not_typed_names_its_origin() -> None:
    first, *_ = records(NAME)
    skill = {
        "type": "user.message",
        "data": {"content": "Do as the skill says", "source": "skill-pdf"},
        "id": "x",
    }
    assert human_texts(read_one(read, lines(first, skill, {"type": "new.kind"}))) == []


@given(st.data())
@examples(150)
def test_broken_files_raise_no_error(data: Any) -> None:
    list(read(io.BytesIO(data.draw(broken(NAME))), NAME))
