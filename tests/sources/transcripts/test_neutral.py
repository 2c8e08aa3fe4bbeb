"""Tests of the neutral JSON format, and of readers that packages provide."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from memory_ci.records.event import REFUSED, Session
from memory_ci.sources.transcripts import neutral, registry
from memory_ci.sources.transcripts.builder import SessionBuilder

MANUAL = Path(__file__).parents[3] / "docs" / "agents.md"


def sample() -> bytes:
    (block,) = re.findall(
        r"^```json\n(\{\n  \"memory-ci-transcript\".*?)^```$",
        MANUAL.read_text("utf-8"),
        re.M | re.S,
    )
    return str(block).encode()


def test_the_sample_of_the_manual_is_read() -> None:
    (session,) = registry.read_stream(io.BytesIO(sample()), "s.json")
    assert (session.key, session.format, session.branch) == (
        "myagent:5f3b2a10",
        "neutral-json",
        "retry",
    )
    assert [(event.actor, event.kind, event.text) for event in session.events] == [
        ("human", "text", "Never retry a POST."),
        ("agent", "tool_call", "git push"),
        ("human", "rejection", "pull first"),
    ]
    assert session.events[-1].labels == ((REFUSED, "git push"),)
    assert session.events[1].paths == ("src/retry.py",)
    assert [event.origin.line for event in session.events] == [8, 9, 10]


@pytest.mark.parametrize(
    "event", [{"actor": "boss", "text": "x"}, {"actor": "human", "kind": "commit"}, "x", None]
)
def test_unknown_events_are_counted_and_skipped(event: object) -> None:
    data = json.dumps({"memory-ci-transcript": 1, "events": [event]}).encode()
    (session,) = neutral.read(io.BytesIO(data), "s.json")
    assert (session.id, session.events, sum(session.counts.unknown.values())) == ("s", (), 1)


def test_a_package_can_provide_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader:
        @staticmethod
        def sniff(head: bytes) -> bool:
            return head.startswith(b"AMP")

        @staticmethod
        def read(stream: object, name: str) -> list[Session]:
            return [SessionBuilder("amp", "amp", name, "1").build()]

    class Point:
        @staticmethod
        def load() -> type[Reader]:
            return Reader

    monkeypatch.setattr(
        "importlib.metadata.entry_points",
        lambda group: [Point] if group == "memory_ci.transcripts" else [],
    )
    assert [session.key for session in registry.read_stream(io.BytesIO(b"AMP"), "s")] == ["amp:1"]
