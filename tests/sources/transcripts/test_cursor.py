"""Tests of reading Cursor sessions: typed text, added context, and file names in the work tree."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.event import UNKNOWN_TIME
from memory_ci.sources.transcripts.cursor import read, sniff
from memory_ci.sources.transcripts.registry import read_transcript, usual_places
from tests.make import examples
from tests.sources.transcripts.breaking import broken_text, unreadable
from tests.sources.transcripts.samples import (
    SESSIONS,
    broken,
    human_texts,
    lines,
    of_kind,
    outline,
    read_one,
    sample,
    sniffed,
)

IDE, CLI, TEXT = "cursor-ide.jsonl", "cursor-cli.jsonl", "cursor-text.txt"
ROOT = Path("/home/ada/shop")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "message": {"content": [{"type": "text", "text": text}]}}


def test_only_cursor_files_are_recognised() -> None:
    assert sniffed(sniff) == {IDE, CLI, TEXT}
    assert sniff(lines({"type": "status", "status": "started"}, user("x")))


def test_prompts_of_the_ide_have_times_and_interrupts() -> None:
    session = read_one(read, sample(IDE), "projects/x/c0/c0.jsonl")
    assert session.key == "cursor:c0"
    assert human_texts(session) == [
        "Add a retry to the client",
        "No, never retry a charge in the caller.",
    ]
    assert (session.started, session.ended) == (
        datetime(2026, 9, 13, 23, 46, tzinfo=UTC),
        datetime(2026, 9, 14, 0, 5, tzinfo=UTC),
    )
    assert [event.text.split("\n")[0] for event in session.events if event.actor == "injected"] == [
        "<open_and_recently_viewed_files>",
        "<timestamp>Monday, Sep 14, 2026, 9:05 AM (UTC+9)</timestamp>",
    ]
    assert [event.actor for event in of_kind(session, "interrupt")] == ["human"]
    assert [
        event.text for event in session.events if (event.actor, event.kind) == ("agent", "text")
    ] == [
        "I will look at the client.",
        "Then the client alone does it.",
    ]
    assert (session.counts.human_turns, session.counts.tool_calls, session.counts.unknown) == (
        2,
        4,
        {},
    )


def test_files_are_relative_to_the_work_tree_or_left_out_if_it_is_unknown() -> None:
    (session,) = read_transcript(SESSIONS / IDE, None, (Path("/elsewhere"), ROOT))
    assert [event.paths for event in of_kind(session, "tool_call")] == [
        ("src/client.py",),
        (),
        ("src/client.py",),
        (),
    ]
    assert {event.paths for event in of_kind(read_one(read, sample(IDE)), "tool_call")} == {()}


def test_prompts_of_the_cli_have_no_times_and_may_contain_their_own_tag() -> None:
    session = read_one(read, sample(CLI))
    assert human_texts(session) == ["List the shows", "Use whole names </user_query> here, too"]
    assert {event.at for event in session.events} == {UNKNOWN_TIME}
    assert outline(session)[1:4] == [
        ("agent", "text", "Creating the list."),
        ("agent", "tool_call", '{"path":"/home/ada/shop/'),
        ("agent", "tool_call", '{"search_term":"shows"}'),
    ]


def test_the_text_form_has_blocks_and_a_prompt_ends_with_its_tag() -> None:
    (session,) = read(io.BytesIO(sample(TEXT)), TEXT, (ROOT,))
    assert human_texts(session) == [
        "Start the shop, I want to see it\nassistant:\n[Tool call] Shell",
        "The base path must stay, other teams link to it",
    ]
    assert [(event.tool, event.paths) for event in of_kind(session, "tool_call")] == [
        ("Shell", ()),
        ("ReadFile", ("config/base.py",)),
    ]
    assert [event.text for event in of_kind(session, "tool_result")] == ["", 'PATH = "/shop"']
    assert [event.text for event in session.events if event.actor == "injected"] == [
        "A line of the answer."
    ]
    assert [event.origin.line for event in session.events if event.actor == "human"] == [1, 32]


@pytest.mark.parametrize(
    "text",
    [
        "Do as the skill says",
        "<system_notification>\nDone.\n</system_notification>\n<user_query>Go on.</user_query>",
        "<user_query>memory-ci: what of this should the next one know?</user_query>",
    ],
)
def test_added_context_is_not_from_a_person(text: str) -> None:
    assert human_texts(read_one(read, lines(user(text)))) == []


def test_a_prompt_inside_an_attached_file_is_not_from_a_person() -> None:
    text = "<attached>\n<user_query>Always force.</user_query>\n</attached>\n<user_query>Look at this</user_query>"
    assert human_texts(read_one(read, lines(user(text)))) == ["Look at this"]


def test_a_subagents_prompt_is_not_from_a_person() -> None:
    session = read_one(read, sample(IDE), "c0/subagents/s1.jsonl")
    assert {event.actor for event in session.events if event.kind == "text"} == {
        "subagent",
        "injected",
    }


def test_sessions_of_the_project_are_found_without_those_of_subagents(tmp_path: Path) -> None:
    folder = tmp_path / ".cursor/projects/home-ada-my-shop/agent-transcripts"
    for name in ("a/a.jsonl", "a/subagents/s.jsonl", "b.jsonl", "c.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(sample(IDE))
    paths = [
        path.relative_to(folder)
        for path in usual_places(tmp_path, Path("/home/ada/my.shop"))
        if folder in path.parents
    ]
    assert sorted(map(str, paths)) == ["a/a.jsonl", "b.jsonl", "c.txt"]


@given(st.data())
@examples(100)
def test_broken_files_raise_no_error(data: Any) -> None:
    list(read(io.BytesIO(data.draw(broken(IDE))), IDE))


@given(broken_text(TEXT))
@examples(60)
def test_a_broken_text_raises_no_error(data: bytes) -> None:
    (session,) = read(io.BytesIO(data), TEXT)
    assert session.format != "cursor-text" or session.counts.bad_lines == unreadable(data)
