"""Tests of cached replies: a prompt is paid for once."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from memory_ci.errors import EngineError
from memory_ci.extraction.engines.replay import CachingEngine
from memory_ci.records.candidate import EngineReply, ExistingEntry, Request, Usage
from tests.extraction.make import make_piece

GOOD = '{"learnings": []}'


class Counting:
    """An engine that gives a fixed answer and counts its requests."""

    def __init__(self, text: str = GOOD, stop_reason: str = "end_turn") -> None:
        self.text, self.stop_reason, self.requests = text, stop_reason, 0

    def extract(self, request: Request) -> EngineReply:
        self.requests += 1
        return EngineReply(
            text=self.text, stop_reason=self.stop_reason, usage=Usage(7, 3), model="some-model"
        )


def ask(engine: Counting, directory: Path, text: str = "fix: x") -> EngineReply:
    """Send a request in a run of its own, without the cache in memory."""
    return CachingEngine(engine, directory).extract(
        Request(change="#1", evidence=(make_piece(text),))
    )


def test_the_same_prompt_is_sent_and_paid_once(tmp_path: Path) -> None:
    engine = Counting()
    first, second = ask(engine, tmp_path / "replies"), ask(engine, tmp_path / "replies")
    assert engine.requests == 1
    assert (second.text, second.model) == (first.text, "some-model")
    assert (first.usage.input_tokens, first.tries) == (7, 1)
    assert (second.usage, second.tries) == (Usage(), 0)


def test_the_same_prompt_is_sent_once_within_a_run(tmp_path: Path) -> None:
    engine = Counting()
    caching_engine, request = (
        CachingEngine(engine, tmp_path / "replies"),
        Request(change="#1", evidence=(make_piece(),)),
    )
    assert [caching_engine.extract(request).tries, caching_engine.extract(request).tries] == [1, 0]
    assert engine.requests == 1


def test_a_request_with_other_existing_entries_is_sent_again_unless_replies_are_reused(
    tmp_path: Path,
) -> None:
    engine, request = Counting(), Request(change="#1", evidence=(make_piece(),))
    grown = replace(request, existing=(ExistingEntry("0f6f1f0e", "Retry once"),))
    CachingEngine(engine, tmp_path).extract(request)
    assert CachingEngine(engine, tmp_path, is_reusing=True).extract(grown).tries == 0
    assert engine.requests == 1
    CachingEngine(engine, tmp_path).extract(grown)
    assert engine.requests == 2
    other_request = replace(grown, evidence=(make_piece("fix: y"),))
    CachingEngine(engine, tmp_path, is_reusing=True).extract(other_request)
    assert engine.requests == 3


def test_another_prompt_is_sent(tmp_path: Path) -> None:
    engine = Counting()
    ask(engine, tmp_path, "fix: x")
    ask(engine, tmp_path, "fix: y")
    assert engine.requests == 2


@pytest.mark.parametrize(
    ("text", "stop_reason"), [(GOOD, "max_tokens"), (GOOD, "refusal"), ("sorry", "end_turn")]
)
def test_an_incomplete_reply_is_not_cached(tmp_path: Path, text: str, stop_reason: str) -> None:
    engine = Counting(text, stop_reason)
    ask(engine, tmp_path)
    ask(engine, tmp_path)
    assert engine.requests == 2


def test_failures_are_not_cached_and_an_unwritable_cache_is_ignored(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    engine = Counting()
    assert ask(engine, tmp_path / "file" / "replies").text == GOOD

    class Failing:
        def extract(self, request: Request) -> EngineReply:
            raise EngineError("no", slug="engine-failed")

    with pytest.raises(EngineError, match="no"):
        CachingEngine(Failing(), tmp_path / "replies").extract(
            Request(change="#1", evidence=(make_piece(),))
        )
    assert not (tmp_path / "replies").exists()


def test_a_broken_cached_reply_is_requested_again(tmp_path: Path) -> None:
    engine = Counting()
    ask(engine, tmp_path)
    for file in tmp_path.iterdir():
        file.write_text("{")
    assert ask(engine, tmp_path).text == GOOD
    assert engine.requests == 2


BAD = '{"title": "x", "quotes": "none"}'
FINE = '{"title": "x", "quotes": []}'


@pytest.mark.parametrize(("learnings", "expected_requests"), [(BAD, 2), (f"{BAD}, {FINE}", 1)])
def test_an_unreadable_reply_is_not_cached(
    tmp_path: Path, learnings: str, expected_requests: int
) -> None:
    engine = Counting(f'{{"learnings": [{learnings}]}}')
    ask(engine, tmp_path)
    ask(engine, tmp_path)
    assert engine.requests == expected_requests
