"""Tests of `sessions`: the sessions found, people's words, and no secrets."""

from __future__ import annotations

from pathlib import Path

from memory_ci.sessions.transcripts import list_sessions
from tests.sources.transcripts.claude import make_agent, make_lines, make_user


def test_sessions_contain_only_words_of_people_without_credentials(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2" * 9
    lines = make_lines(
        make_user(f"use {key} or mail ada@example.com"), make_agent({"type": "text", "text": "No"})
    )
    (tmp_path / "s.jsonl").write_bytes(lines)
    (session,) = list_sessions([tmp_path], tmp_path, tmp_path).sessions
    assert [event.text for event in session.events] == [
        "use [redacted:github-token] or mail [redacted:email]"
    ]
    assert (session.counts.human_turns, session.counts.agent_texts) == (1, 1)


def test_checkpoints_of_a_session_are_one_session_with_their_path(tmp_path: Path) -> None:
    for place in ("00/full.jsonl", "11/full.jsonl"):
        (tmp_path / place).parent.mkdir()
        (tmp_path / place).write_bytes(make_lines(make_user("go")))
    (session,) = list_sessions([tmp_path], tmp_path, tmp_path).sessions
    assert (session.path, session.counts.human_turns, session.counts.duplicates) == (
        "00/full.jsonl",
        1,
        1,
    )


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(make_lines(make_user("go")))
    (session,) = list_sessions([path, tmp_path], tmp_path, tmp_path).sessions
    assert (session.counts.records, session.counts.duplicates) == (1, 0)


def test_only_a_given_file_is_reported_as_not_a_transcript(tmp_path: Path) -> None:
    path = tmp_path / "LICENSE"
    path.write_text("MIT")
    assert list_sessions([path], tmp_path, tmp_path).skipped == (str(path),)
    assert list_sessions([tmp_path], tmp_path, tmp_path).skipped == ()


def test_without_a_path_the_sessions_of_the_project_are_read(home: Path, tmp_path: Path) -> None:
    assert list_sessions([], home, tmp_path).sessions == ()
    place = (
        home
        / ".claude/projects"
        / "".join(char if char.isalnum() else "-" for char in str(tmp_path))
    )
    place.mkdir(parents=True)
    (place / "s.jsonl").write_bytes(make_lines(make_user("go")))
    assert len(list_sessions([], home, tmp_path).sessions) == 1
