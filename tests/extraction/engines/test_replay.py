"""Tests of recorded replies: they are found by their prompt, and name the model that wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_ci.errors import EngineError
from memory_ci.extraction.engines.replay import ReplayEngine, record_reply
from memory_ci.extraction.prompt import request_key
from memory_ci.records.candidate import EngineReply, Usage
from tests.extraction.engines.make import make_request

REPLY = EngineReply(
    text='{"learnings": []}', stop_reason="end_turn", usage=Usage(10, 7), model="claude-haiku-5-5"
)


@pytest.mark.parametrize("name", ["replies", "replies.jsonl"])
def test_a_recorded_reply_is_returned(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    record_reply(
        path, make_request("another"), EngineReply(text="x", stop_reason="end_turn", model="m")
    )
    record_reply(path, make_request(), REPLY)
    reply = ReplayEngine(path).extract(make_request())
    assert (reply.text, reply.stop_reason, reply.usage) == (REPLY.text, "end_turn", Usage(10, 7))
    assert reply.model == "claude-haiku-5-5"


@pytest.mark.parametrize("name", ["replies", "replies.jsonl"])
def test_of_two_recordings_of_one_prompt_the_last_counts(tmp_path: Path, name: str) -> None:
    for text in ("first", "second"):
        record_reply(
            tmp_path / name,
            make_request(),
            EngineReply(text=text, stop_reason="end_turn", model="m"),
        )
    assert ReplayEngine(tmp_path / name).extract(make_request()).text == "second"


def test_a_recording_names_the_model_that_wrote_it(tmp_path: Path) -> None:
    record_reply(tmp_path, make_request(), REPLY, is_hand_written=True)
    recorded = json.loads((tmp_path / f"{request_key(make_request())}.json").read_text())
    assert (recorded["origin"], recorded["change"]) == ("hand-written", "#128")
    assert ReplayEngine(tmp_path).extract(make_request()).model == "hand-written"


def test_a_prompt_without_a_recording_fails_with_the_path_for_its_reply(
    tmp_path: Path,
) -> None:
    record_reply(tmp_path, make_request(), REPLY)
    with pytest.raises(EngineError) as caught:
        ReplayEngine(tmp_path).extract(make_request("never seen"))
    key = request_key(make_request("never seen"))
    assert caught.value.slug == "replay-miss"
    assert key in caught.value.message
    assert str(tmp_path / f"{key}.json") in caught.value.hint


BAD = [
    "not JSON",
    "{}",
    json.dumps({"key": "a" * 64, "text": ""}),
    json.dumps({"key": "a" * 64, "origin": "me"}),
]


@pytest.mark.parametrize("line", BAD)
def test_a_bad_recording_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "replies.jsonl"
    record_reply(path, make_request(), REPLY)
    path.write_text(f"{path.read_text()}\n{line}\n")
    with pytest.raises(EngineError, match=r"replies\.jsonl:3: ") as caught:
        ReplayEngine(path).extract(make_request())
    assert caught.value.slug == "replay-unreadable"


def test_a_missing_file_of_recordings_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        ReplayEngine(tmp_path / "nowhere").extract(make_request())
    assert caught.value.slug == "replay-unreadable"
