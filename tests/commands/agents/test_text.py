"""Tests of the table of sessions: the ids that it prints are unique."""

from __future__ import annotations

from memory_ci.commands.agents.text import render_human, render_sessions
from memory_ci.records.event import Session, SessionCounts


def make_session(number: str) -> Session:
    counts = SessionCounts(unknown={"b\x07": 2})
    return Session(
        agent="aider", id=number, format="aider-md", path="h.md", events=(), counts=counts
    )


def test_sessions_in_one_file_have_different_names() -> None:
    ids = ["aider-chat-history-2026-09-01-12-00-00", "aider-chat-history-2026-09-01-12-30-00"]
    first, second = render_sessions([make_session(number) for number in ids]).splitlines()[1:]
    assert first != second
    assert "  01234567  " in render_sessions([make_session("01234567-0000-4000-8000-000000000000")])


def test_an_unknown_time_is_a_dash_and_a_name_moves_no_cursor() -> None:
    row = render_sessions([make_session("x")]).splitlines()[1]
    assert row.split()[3] == "-"
    assert row.endswith(r"b\x07 2")


def test_no_session_prints_nothing() -> None:
    assert render_sessions([]) == render_human([]) == ""
