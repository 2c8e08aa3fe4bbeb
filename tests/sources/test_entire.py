"""Tests of Entire's checkpoints: the part of a session that belongs to one commit."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.sources.entire import Checkpoint, read_checkpoint
from tests.make import examples

ID = "d0161e0df1cb"
FOLDER = "d0/161e0df1cb"
ROOT = f"{FOLDER}/metadata.json"


def make_turn_line(number: int) -> bytes:
    """Return a line with a turn of a Claude Code session."""
    message = {"role": "user", "content": f"turn {number}"}
    record = {
        "type": "user",
        "uuid": f"u{number}",
        "sessionId": "s1",
        "gitBranch": "main",
        "message": message,
    }
    return json.dumps(record | {"timestamp": f"2026-09-01T10:00:0{number}Z"}).encode() + b"\n"


TRANSCRIPT = b"".join(map(make_turn_line, range(1, 5)))


def make_files(
    folder: str = f"{FOLDER}/0", transcript: bytes = TRANSCRIPT, **metadata: Any
) -> dict[str, bytes]:
    """Return the files of a checkpoint with one session, with additional metadata."""
    return {
        ROOT: b"{}",
        f"{folder}/full.jsonl": transcript,
        f"{folder}/metadata.json": json.dumps({"agent": "Gemini CLI"} | metadata).encode(),
    }


def read_one_checkpoint(files: dict[str, bytes], name: str = ID) -> Checkpoint:
    return read_checkpoint(
        lambda folder: [path for path in files if path.startswith(folder)], files.get, name
    )


def list_texts(checkpoint_read: Checkpoint) -> list[str]:
    return [event.text for session, _ in checkpoint_read.sessions for event in session.events]


def test_a_checkpoint_without_a_start_is_the_whole_session() -> None:
    checkpoint_read = read_one_checkpoint(make_files())
    assert list_texts(checkpoint_read) == ["turn 1", "turn 2", "turn 3", "turn 4"]
    assert checkpoint_read.problems == ()


def test_a_session_number_out_of_bounds_is_ignored() -> None:
    named = {"sessions": [{"transcript": f"/{FOLDER}/{'9' * 5000}/full.jsonl"}]}
    checkpoint_read = read_one_checkpoint(make_files() | {ROOT: json.dumps(named).encode()})
    assert list_texts(checkpoint_read) == ["turn 1", "turn 2", "turn 3", "turn 4"]


@pytest.mark.parametrize("name", ["transcript_lines_at_start", "checkpoint_transcript_start"])
def test_only_the_part_after_the_start_belongs_to_the_checkpoint(name: str) -> None:
    checkpoint_read = read_one_checkpoint(
        make_files() | {f"{FOLDER}/0/metadata.json": json.dumps({name: 2}).encode()}
    )
    ((session, start),) = checkpoint_read.sessions
    assert (list_texts(checkpoint_read), start) == (["turn 3", "turn 4"], 2)
    assert [event.seq for event in session.events] == [0, 1]
    assert (session.counts.human_turns, session.counts.records) == (2, 4)
    assert session.started is not None
    assert session.started.second == 3


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("client", ["opencode", "gemini"])
def test_of_an_export_the_start_counts_messages(client: str, indent: int | None) -> None:
    words = ["use pnpm", "small commits", "no merges"]
    if client == "opencode":
        parts = [
            [{"id": f"prt_{number}", "type": "text", "text": word}]
            for number, word in enumerate(words)
        ]
        messages = [
            {"info": {"id": f"msg_{at}", "role": "user"}, "parts": part}
            for at, part in enumerate(parts)
        ]
        export: dict[str, object] = {"info": {"id": "ses_1"}, "messages": messages}
    else:
        export = {
            "sessionId": "a19d",
            "projectHash": "ff",
            "startTime": "2026-09-01T12:00:00Z",
            "messages": [
                {"id": f"m{at}", "type": "user", "content": word} for at, word in enumerate(words)
            ],
        }
    transcript = json.dumps(export, indent=indent).encode()
    checkpoint_read = read_one_checkpoint(
        make_files(transcript=transcript, checkpoint_transcript_start=1)
    )
    assert checkpoint_read.problems == ()
    assert list_texts(checkpoint_read) == ["small commits", "no merges"]


@pytest.mark.parametrize("start", [9, -1, "2", True, [1]])
def test_an_invalid_start_is_a_problem_and_the_whole_session_is_read(start: object) -> None:
    checkpoint_read = read_one_checkpoint(make_files(transcript_lines_at_start=start))
    assert len(list_texts(checkpoint_read)) == 4
    assert "where the part starts" in checkpoint_read.problems[0]


def test_the_agent_is_recognised_by_content_not_by_label() -> None:
    ((session, _),) = read_one_checkpoint(make_files()).sessions
    assert (session.key, session.branch, session.path) == (
        "claude-code:s1",
        "main",
        f"{FOLDER}/0/full.jsonl",
    )


def test_a_models_summary_is_text_of_the_agent_with_a_label() -> None:
    summary = {
        "intent": "Fix it.",
        "learnings": {"code": [{"path": "a.go", "finding": "It leaks."}], "repo": ["R."]},
    }
    ((session, _),) = read_one_checkpoint(
        make_files(summary=summary, transcript_lines_at_start=4)
    ).sessions
    assert [(event.actor, event.kind, event.text, event.paths) for event in session.events] == [
        ("agent", "text", "Fix it.", ()),
        ("agent", "text", "It leaks.", ("a.go",)),
        ("agent", "text", "R.", ()),
    ]
    assert {event.labels[0] for event in session.events} == {("part", "summary")}
    assert {event.origin.path for event in session.events} == {f"{FOLDER}/0/metadata.json"}


def test_a_long_transcript_continues_in_numbered_files() -> None:
    files = make_files(transcript=make_turn_line(1).rstrip(), transcript_lines_at_start=1)
    files |= {
        f"{FOLDER}/0/full.jsonl.001": make_turn_line(2).rstrip(),
        f"{FOLDER}/0/full.jsonl.002": make_turn_line(3),
    }
    assert list_texts(read_one_checkpoint(files)) == ["turn 2", "turn 3"]


def test_a_hash_that_does_not_match_is_a_problem_but_the_session_is_read() -> None:
    path = f"{FOLDER}/0/content_hash.txt"
    good = b"sha256:" + sha256(TRANSCRIPT).hexdigest().encode() + b"\n"
    assert read_one_checkpoint(make_files() | {path: good}).problems == ()
    checkpoint_read = read_one_checkpoint(make_files() | {path: b"sha256:0"})
    assert (len(checkpoint_read.sessions), checkpoint_read.problems) == (
        1,
        (f"{path} is not the hash of the transcript",),
    )


def test_missing_sessions_are_problems_and_the_others_are_read() -> None:
    named = [{"transcript": f"/{FOLDER}/{number}/full.jsonl"} for number in (0, 2, 10)]
    checkpoint_read = read_one_checkpoint(
        make_files(f"{FOLDER}/2") | {ROOT: json.dumps({"sessions": named}).encode()}
    )
    assert len(checkpoint_read.sessions) == 1
    assert checkpoint_read.problems == (
        f"{FOLDER}/0/full.jsonl is missing",
        f"{FOLDER}/10/full.jsonl is missing",
    )


def test_the_oldest_layout_has_its_session_in_the_checkpoint_s_own_folder() -> None:
    files = make_files(FOLDER, transcript_lines_at_start=3)
    assert list_texts(read_one_checkpoint(files)) == ["turn 4"]


@pytest.mark.parametrize("folder", ["ab/cdef012345/0", "0"])
def test_a_path_outside_the_checkpoint_is_not_read(folder: str) -> None:
    files = make_files(folder) | {
        ROOT: json.dumps({"sessions": [{"transcript": f"/{folder}/full.jsonl"}]}).encode()
    }
    assert read_one_checkpoint(files).problems == (f"{FOLDER}/ holds no session",)


@pytest.mark.parametrize("name", ["", "d0161e0df1c", "D0161E0DF1CB", "../../etc/pw"])
def test_an_invalid_id_is_a_problem(name: str) -> None:
    checkpoint_read = read_one_checkpoint(make_files(), name)
    assert (checkpoint_read.sessions, checkpoint_read.problems) == (
        (),
        (f"{name!r} is no checkpoint id",),
    )


def test_a_transcript_in_no_known_format_is_a_problem() -> None:
    assert read_one_checkpoint(make_files(transcript=b"hello\n")).problems == (
        f"{FOLDER}/0/full.jsonl is in no known format",
    )


VALUES: Any = st.recursive(
    st.none() | st.integers() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=2)
)


@given(
    st.dictionaries(
        st.sampled_from(
            ["sessions", "summary", "transcript_lines_at_start", "created_at", "branch"]
        ),
        VALUES,
    ),
    st.binary(max_size=20),
)
@examples(60)
def test_a_broken_checkpoint_raises_no_error(metadata: dict[str, Any], end: bytes) -> None:
    files = make_files(transcript=TRANSCRIPT + end, **metadata) | {
        ROOT: json.dumps(metadata).encode()
    }
    checkpoint_read = read_one_checkpoint(files)
    assert len(checkpoint_read.sessions) == 1
