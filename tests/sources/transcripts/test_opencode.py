"""Tests of reading opencode: exports and databases give the same events."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.event import Session
from memory_ci.sources.transcripts.opencode import read, sniff
from memory_ci.sources.transcripts.registry import read_transcript
from tests.make import examples
from tests.sources.transcripts.samples import (
    SESSIONS,
    broken,
    human_texts,
    of_kind,
    read_one,
    sample,
    sniffed,
    write_opencode,
)

NAME = "opencode-export.json"
KEY = "opencode:ses_dfa0000000ffe0000000000001"
EXPORT = json.loads((SESSIONS / NAME).read_text())


@pytest.fixture(params=["export", "database"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    if request.param == "export":
        return read_one(read, sample(NAME), NAME)
    write_opencode(tmp_path / "opencode.db", EXPORT)
    (session_read,) = read_transcript(tmp_path / "opencode.db")
    return session_read


def test_only_opencode_files_are_recognised() -> None:
    assert sniffed(sniff) == {NAME}


def test_typed_turns_are_a_persons_and_additions_of_a_plugin_are_not(session: Session) -> None:
    assert session.key == KEY
    assert human_texts(session) == [
        "Add a retry to the client",
        "No, never retry a charge in the caller.",
    ]
    injected = [event.text[:10] for event in session.events if event.actor == "injected"]
    assert injected == ["<recalled-", "memory-ci:", "Called the", "not sent", "", "The person"]
    assert [
        event.text for event in session.events if event.actor == "agent" and event.kind == "text"
    ] == ["I read it first."]
    assert session.counts.unknown == {}
    assert str(session.started) == "2026-11-21 22:26:41+00:00"


def test_tool_events_have_the_files_of_the_project_and_their_success(session: Session) -> None:
    assert [(event.tool, event.paths) for event in of_kind(session, "tool_call")] == [
        ("read", ("src/client.py",)),
        ("edit", ("src/client.py",)),
        ("apply_patch", ("src/rate.py",)),
        ("bash", ()),
        ("bash", ()),
        ("write", ()),
        ("notes_find", ()),
        ("bash", ()),
    ]
    assert [(event.tool, event.ok) for event in of_kind(session, "tool_result")] == [
        ("read", True),
        ("edit", True),
        ("apply_patch", True),
        ("bash", False),
        ("notes_find", False),
    ]


def test_a_refusal_is_a_persons_unless_a_server_wrote_it(session: Session) -> None:
    assert [(event.actor, event.tool, event.text) for event in of_kind(session, "rejection")] == [
        ("human", "bash", "pull first"),
        ("human", "write", ""),
    ]
    assert [event.actor for event in of_kind(session, "interrupt")] == ["human"]


def test_a_child_session_has_no_words_of_a_person() -> None:
    inner = {**EXPORT, "info": {**EXPORT["info"], "parentID": "ses_1"}}
    session_read = read_one(read, json.dumps(inner).encode(), NAME)
    assert {event.actor for event in session_read.events} == {"injected", "subagent", "tool"}


def test_line_numbers_of_a_database_are_message_numbers_and_stay_stable(
    tmp_path: Path,
) -> None:
    path = tmp_path / "opencode.db"
    write_opencode(path, EXPORT)

    def place() -> list[int]:
        (session_read,) = read_transcript(path)
        return [
            event.origin.line or 0
            for event in session_read.events
            if event.text.startswith("No, never")
        ]

    assert place() == [3]
    with closing(sqlite3.connect(path)) as base:
        later_part = (
            "prt_z",
            EXPORT["messages"][1]["info"]["id"],
            "",
            json.dumps({"type": "text", "text": "Late."}),
        )
        base.execute("INSERT INTO part VALUES (?, ?, ?, ?)", later_part)
        base.commit()
    assert place() == [3]


def test_from_a_database_the_sessions_of_the_project_or_a_named_session_are_read(
    tmp_path: Path,
) -> None:
    path, shop = tmp_path / "opencode.db", Path("/home/dev/shop")
    infos = ({"id": "ses_e2"}, {"id": "ses_e3", "directory": "/home/dev/shop-2"})
    write_opencode(
        path, EXPORT, *({"info": EXPORT["info"] | info, "messages": []} for info in infos)
    )
    assert [session.key for session in read_transcript(path, roots=(shop,))] == [
        KEY,
        "opencode:ses_e2",
    ]
    assert [
        session.key for session in read_transcript(path, roots=(shop,), session_id="ses_e2")
    ] == ["opencode:ses_e2"]
    assert [
        session.key for session in read_transcript(path, roots=(shop,), session_id="ses_e3")
    ] == []


def test_other_and_broken_databases_give_no_session(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as base:
        base.execute("CREATE TABLE session (id text)")
    assert read_transcript(tmp_path / "other.db") == ()
    (tmp_path / "torn.db").write_bytes((tmp_path / "other.db").read_bytes()[:100] + b"x" * 4000)
    assert read_transcript(tmp_path / "torn.db") == ()


@given(st.data())
@examples(150)
def test_broken_files_raise_no_error(data: Any) -> None:
    list(read(io.BytesIO(data.draw(broken(NAME))), NAME))


def test_parts_whose_ids_were_masked_are_all_read() -> None:
    texts = ["use pnpm here", "and small commits", "and no merges"]
    messages = [
        {
            "info": {"id": "REDACTED", "role": "user"},
            "parts": [{"type": "text", "id": key, "text": text}],
        }
        for key, text in zip(["REDACTED", "REDACTED", "x"], texts, strict=True)
    ]
    export = {"info": {"id": "ses_1"}, "messages": messages}
    (session,) = read(io.BytesIO(json.dumps(export).encode()), "export.json")
    assert human_texts(session) == texts


def test_calls_and_interrupts_whose_ids_were_masked_are_all_read() -> None:
    state = {"status": "completed", "input": {"command": "make"}, "output": "done"}
    message = {
        "info": {"id": "x", "role": "assistant", "error": {"name": "MessageAbortedError"}},
        "parts": [{"type": "tool", "tool": "bash", "id": "x", "state": state}],
    }
    export = {"info": {"id": "ses_1"}, "messages": [message, message]}
    (session,) = read(io.BytesIO(json.dumps(export).encode()), "export.json")
    assert [event.kind for event in session.events] == ["tool_call", "tool_result", "interrupt"] * 2


def test_the_text_of_a_command_is_not_from_a_person() -> None:
    part = {
        "type": "text",
        "id": "prt_1",
        "text": "<command-instruction>\nAlways deploy.\n</command-instruction>",
    }
    message = {"info": {"id": "msg_1", "role": "user"}, "parts": [part]}
    export = {"info": {"id": "ses_1"}, "messages": [message]}
    (session,) = read(io.BytesIO(json.dumps(export).encode()), "export.json")
    assert human_texts(session) == []
