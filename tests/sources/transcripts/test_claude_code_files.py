"""Tests of recognising transcripts of Claude Code, and of reading broken records."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.sources.transcripts.claude_code import HANDLERS, read, sniff
from tests.sources.transcripts.claude import (
    NAME,
    SESSION,
    Record,
    make_lines,
    make_queue,
    make_user,
    read_one,
)


def test_a_pull_request_that_the_session_made_is_named() -> None:
    assert read_one({"type": "pr-link", "sessionId": SESSION, "prNumber": 141}).pull_requests == (
        141,
    )


def test_a_repeated_record_a_bad_line_and_an_unknown_type_are_counted() -> None:
    turn = make_user("go")
    session = read_one(
        turn, turn, '{"type": "user", "mess', "[]", {"type": "hologram", "sessionId": SESSION}, ""
    )
    counts = session.counts
    assert (counts.duplicates, counts.bad_lines, counts.unknown, counts.human_turns) == (
        1,
        2,
        {"hologram": 1},
        1,
    )


def test_two_sessions_in_a_file_are_separate() -> None:
    second_turn = make_user("and here", 2, sessionId="another")
    sessions = list(read(io.BytesIO(make_lines(make_user("go"), second_turn)), NAME))
    assert [session.id for session in sessions] == [SESSION, "another"]


def test_a_file_that_names_no_session_is_named_after_itself() -> None:
    line = make_user("go")
    del line["sessionId"]
    assert read_one(line).id == "0b1c2d3e"


@pytest.mark.parametrize(
    "record", [make_user("go"), make_queue("enqueue", "go"), {"type": "summary", "leafUuid": "x"}]
)
def test_a_session_is_recognised_by_its_first_lines(record: Record) -> None:
    assert sniff(make_lines({"type": "mode"}, record))


def test_a_transcript_whose_first_line_exceeds_the_read_head_is_recognized() -> None:
    assert sniff(make_lines(make_user("x" * 90_000)).replace(b": ", b":")[:65_536])


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"# Notes\n" + make_lines(make_user("go")),
        b'{"type":"session_meta","payload":{"id":"x"}}\n',
        b'{"sessionId":"x","messages":[{"type":"user","content":"go"}]}',
        b'[{"type":"user"}]',
    ],
)
def test_other_files_are_not_recognized_as_transcripts(head: bytes) -> None:
    assert not sniff(head)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "content"]), inner)
    ),
    max_leaves=6,
)

KEYS = [
    "message",
    "data",
    "attachment",
    "content",
    "operation",
    "uuid",
    "prNumber",
    "timestamp",
    "origin",
    "prompt",
]


@given(
    st.lists(
        st.tuples(st.sampled_from([*HANDLERS, "x"]), st.dictionaries(st.sampled_from(KEYS), JSON)),
        max_size=3,
    )
)
def test_records_of_any_shape_raise_no_error(records: list[tuple[str, Record]]) -> None:
    session = read_one(
        make_user("go"),
        *({"sessionId": SESSION, "type": kind} | fields for kind, fields in records),
    )
    assert session.counts.records == len(records) + 1
    assert sum(session.counts.unknown.values()) == [kind for kind, _ in records].count("x")
