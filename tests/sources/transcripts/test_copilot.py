"""Copilot CLI: what was typed, said and done, and nothing that a hook or a sub-agent's task put there."""

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


def test_it_knows_its_own_files_alone() -> None:
    assert sniffed(sniff) == {NAME}


def test_what_was_typed_is_a_person_s_and_what_we_asked_is_nobody_s() -> None:
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


def test_tools_name_the_files_of_the_project_and_say_whether_they_failed() -> None:
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


def test_a_message_that_was_not_typed_says_where_it_comes_from() -> None:
    first, *_ = records(NAME)
    skill = {
        "type": "user.message",
        "data": {"content": "Do as the skill says", "source": "skill-pdf"},
        "id": "x",
    }
    assert human_texts(read_one(read, lines(first, skill, {"type": "new.kind"}))) == []


@given(st.data())
@examples(150)
def test_whatever_is_broken_it_reads_on(data: Any) -> None:
    list(read(io.BytesIO(data.draw(broken(NAME))), NAME))
