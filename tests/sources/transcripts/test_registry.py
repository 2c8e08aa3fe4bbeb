"""Tests of finding transcripts in directories, and recognising them by content."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from memory_ci.errors import UsageError
from memory_ci.sources.transcripts import registry
from memory_ci.sources.transcripts.registry import (
    default_places,
    find_transcripts,
    read_stream,
    read_transcript,
)
from tests.sources.transcripts.claude import make_lines, make_user


def test_a_wrong_file_name_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "gemini-session.md"
    path.write_bytes(make_lines(make_user("go")))
    (session,) = read_transcript(path, "chats/gemini-session.md")
    assert (session.agent, session.path) == ("claude-code", "chats/gemini-session.md")


def test_an_unknown_format_gives_no_session() -> None:
    assert read_stream(io.BytesIO(b"MIT License\n\nCopyright"), "LICENSE") == ()
    assert read_stream(io.BytesIO(bytes(range(256)) * 300), "image.bin") == ()
    assert read_stream(io.BytesIO(b""), "empty") == ()


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    for read in (read_transcript, lambda path: list(find_transcripts([path]))):
        with pytest.raises(UsageError) as caught:
            read(tmp_path / "gone.jsonl")
        assert caught.value.slug == "transcript-unreadable"


def test_directories_are_walked_in_order_without_links_git_and_empty_files(tmp_path: Path) -> None:
    for name in ("b/2.jsonl", "b/1.jsonl", "a.jsonl", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "b" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl")
    paths = [path.relative_to(tmp_path).as_posix() for path in find_transcripts([tmp_path])]
    assert paths == ["a.jsonl", "b/1.jsonl", "b/2.jsonl"]


def test_a_huge_file_is_read_only_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_FILE_BYTES", 3)
    (tmp_path / "huge.jsonl").write_text("four")
    assert list(find_transcripts([tmp_path])) == []
    assert list(find_transcripts([tmp_path / "huge.jsonl"])) == [tmp_path / "huge.jsonl"]


def test_the_default_places_are_those_that_exist_for_this_project(
    home: Path, tmp_path: Path
) -> None:
    project = tmp_path / "my.shop"
    escaped = "".join(char if char.isalnum() else "-" for char in str(project))
    expected_places = [
        home / ".claude/projects" / escaped,
        home / ".codex/sessions",
        home / ".gemini/tmp/0a1b/chats",
        project / ".specstory/history",
    ]
    for place in [*expected_places, home / ".claude/projects/-another"]:
        place.mkdir(parents=True)
    history = project / ".aider.chat.history.md"
    history.write_text("# aider chat started at 2026-09-01 12:00:00\n")
    assert default_places(home, project) == (*expected_places, history)
