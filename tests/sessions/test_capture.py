"""Tests of capture: a transcript of this project becomes a ref, redacted; foreign, hostile and old ones do not."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from memory_ci.errors import UsageError
from memory_ci.gitrepo.sessionrefs import list_stored, read_stored
from memory_ci.sessions import capture as module
from memory_ci.sessions.capture import Captured, capture, find_newest_transcript, parse_hook_input
from memory_ci.sources.transcripts.registry import OPENCODE
from tests.project import NOW, Project
from tests.sources.transcripts.samples import SESSIONS, write_opencode

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
WORDS = ("Charge the card once.", f"The token is {TOKEN}")


def write_transcript(
    path: Path,
    cwd: Path,
    words: Sequence[str] = WORDS,
    session: str = "79e9becd",
    now: datetime = NOW,
) -> Path:
    """Write a transcript of Claude Code with a human turn for each text, a minute apart."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "type": "user",
            "uuid": f"u{number}",
            "parentUuid": None,
            "sessionId": session,
            "timestamp": (now - timedelta(minutes=30 - number)).isoformat(),
            "cwd": str(cwd),
            "version": "2.1.132",
            "isSidechain": False,
            "userType": "external",
            "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(words)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def capture_file(
    project: Project, path: Path, now: datetime = NOW, *, dry_run: bool = False
) -> Captured:
    (captured,) = capture(project.workspace, path, now, dry_run=dry_run)
    return captured


@pytest.fixture
def transcript(project: Project, tmp_path: Path) -> Path:
    return write_transcript(tmp_path / "79e9becd.jsonl", project.path / "src")


def slug_of(project: Project, path: Path, *, cwd: str = "") -> str:
    with pytest.raises(UsageError) as caught:
        capture(project.workspace, path, NOW, cwd=cwd)
    assert list_stored(project.workspace.repo) == ()
    return caught.value.slug


def stored_text(project: Project) -> str:
    return "".join(
        data.decode()
        for _, data in read_stored(project.workspace.repo, list_stored(project.workspace.repo))
    )


def test_a_session_is_stored_redacted_and_the_work_tree_is_unchanged(
    project: Project, transcript: Path
) -> None:
    status = project.status()
    captured = capture_file(project, transcript)
    assert (captured.session, captured.human_turns, captured.is_new) == (
        "claude-code:79e9becd",
        2,
        True,
    )
    assert project.git("ls-tree", "--name-only", captured.ref) == "digest.jsonl"
    text = stored_text(project)
    assert "Charge the card once." in text
    assert TOKEN not in text
    assert project.status() == status


def test_a_session_is_stored_once_and_replaced_when_it_grows(
    project: Project, transcript: Path
) -> None:
    capture_file(project, transcript)
    assert not capture_file(project, transcript).is_new
    write_transcript(transcript, project.path, [*WORDS, "And use a key."])
    assert capture_file(project, transcript).is_new
    assert len(list_stored(project.workspace.repo)) == 1
    assert "And use a key." in stored_text(project)


def test_a_dry_run_stores_nothing(project: Project, transcript: Path) -> None:
    assert capture_file(project, transcript, dry_run=True).bytes > 0
    assert list_stored(project.workspace.repo) == ()


def test_sessions_of_other_projects_in_a_database_are_not_captured(
    project: Project, home: Path
) -> None:
    project.write(".memory-ci.yaml", "sessions:\n  keep_days: 0\n")
    path, export = home / OPENCODE, json.loads((SESSIONS / "opencode-export.json").read_text())
    elsewhere = {**export, "info": {**export["info"], "id": "ses_elsewhere"}}
    write_opencode(path, elsewhere)
    assert slug_of(project, path) == "foreign-transcript"
    with pytest.raises(UsageError, match="no transcript"):
        find_newest_transcript(project.workspace, home)
    path.unlink()
    write_opencode(
        path,
        elsewhere,
        {**export, "info": {**export["info"], "directory": str(project.path / "src")}},
    )
    captured = capture_file(project, find_newest_transcript(project.workspace, home))
    assert captured.session == f"opencode:{export['info']['id']}"


def test_a_digest_keeps_its_limit(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_ci.sessions.capture.DIGEST_SIZE", 3000)
    path = write_transcript(
        tmp_path / "long.jsonl", project.path, [f"Turn {n} " + "x" * 200 for n in range(40)]
    )
    assert capture_file(project, path).bytes <= 3000
    assert "Turn 0 " in stored_text(project)
    assert "Turn 39 " in stored_text(project)


def test_sessions_past_retention_are_deleted_by_the_next_capture(
    project: Project, tmp_path: Path
) -> None:
    capture_file(project, write_transcript(tmp_path / "a.jsonl", project.path, session="old"))
    young = write_transcript(tmp_path / "b.jsonl", project.path, session="young")
    capture_file(project, young, NOW + timedelta(days=89))
    assert [stored.id for stored in list_stored(project.workspace.repo)] == ["old", "young"]
    later = NOW + timedelta(days=91)
    capture_file(
        project,
        write_transcript(tmp_path / "c.jsonl", project.path, session="next", now=later),
        later,
    )
    assert [stored.id for stored in list_stored(project.workspace.repo)] == ["next"]


def test_a_transcript_of_another_project_is_refused(project: Project, tmp_path: Path) -> None:
    transcript = write_transcript(tmp_path / "other.jsonl", tmp_path / "other")
    assert slug_of(project, transcript) == "foreign-transcript"
    sibling_transcript = write_transcript(tmp_path / "beside.jsonl", Path(f"{project.path}-secret"))
    assert slug_of(project, sibling_transcript) == "foreign-transcript"
    escaping = write_transcript(tmp_path / "escaping.jsonl", project.path / ".." / "other")
    assert slug_of(project, escaping) == "foreign-transcript"


def test_the_directory_in_a_transcript_overrides_that_of_the_hook(
    project: Project, tmp_path: Path
) -> None:
    transcript = write_transcript(tmp_path / "other.jsonl", tmp_path / "other")
    assert slug_of(project, transcript, cwd=str(project.path)) == "foreign-transcript"


def test_words_in_a_transcript_are_not_its_directory(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "sly.jsonl"
    write_transcript(path, tmp_path / "other", [json.dumps({"cwd": str(project.path)})])
    lines = path.read_text().splitlines()
    lines[0] = json.dumps(
        dict(reversed(json.loads(lines[0]).items()))
    )  # the message before the directory
    path.write_text("\n".join(lines))
    assert slug_of(project, path) == "foreign-transcript"


def test_a_session_in_a_linked_work_tree_belongs_to_the_repository(
    project: Project, tmp_path: Path
) -> None:
    linked = project.worktree(tmp_path / "linked", "side")
    assert capture_file(project, write_transcript(tmp_path / "a.jsonl", linked.path)).is_new


def test_a_project_that_is_named_by_its_hash_only_must_be_this_one(
    project: Project, tmp_path: Path
) -> None:
    def write(root: Path) -> Path:
        content = {"sessionId": "g1", "projectHash": hashlib.sha256(os.fsencode(root)).hexdigest()}
        turn = {
            "id": "1",
            "timestamp": NOW.isoformat(),
            "type": "user",
            "content": "Charge the card once.",
        }
        path = tmp_path / "session-g1.json"
        path.write_text(json.dumps({**content, "startTime": NOW.isoformat(), "messages": [turn]}))
        return path

    assert slug_of(project, write(tmp_path / "other")) == "foreign-transcript"
    assert capture_file(project, write(project.path)).session == "gemini:g1"


@pytest.mark.parametrize("kind", ["missing", "directory", "link", "pipe", "large", "null"])
def test_a_path_that_is_not_a_readable_file_is_refused(
    project: Project, transcript: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ("a\0b" if kind == "null" else kind)
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(transcript)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        path.write_bytes(b"x" * 11)
        monkeypatch.setattr(module, "MAX_TRANSCRIPT_BYTES", 10)
    assert slug_of(project, path) == "transcript-unreadable"


def test_a_file_of_an_unknown_format_is_refused(project: Project, tmp_path: Path) -> None:
    unknown = tmp_path / "notes.txt"
    unknown.write_text("hello\n")
    assert slug_of(project, unknown) == "unknown-transcript"


def test_the_newest_transcript_of_this_project_is_found(
    project: Project, home: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        find_newest_transcript(project.workspace, home)
    assert caught.value.slug == "no-transcript"
    places = home / ".codex" / "sessions"
    old = write_transcript(places / "old.jsonl", project.path)
    new = write_transcript(places / "new.jsonl", project.path)
    foreign = write_transcript(places / "foreign.jsonl", tmp_path / "other")
    for age, path in enumerate((foreign, new, old)):
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    assert find_newest_transcript(project.workspace, home) == new


def test_additional_fields_in_the_input_of_a_hook_are_ignored(home: Path) -> None:
    hook_input = {
        "session_id": "s",
        "transcript_path": "~/a.jsonl",
        "cwd": "/shop",
        "hook_event_name": "SessionEnd",
        "x": 1,
    }
    assert parse_hook_input(json.dumps(hook_input).encode()) == (home / "a.jsonl", "/shop")


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"transcript_path": null}', b'{"transcript_path": 1}', b"\xff"]
)
def test_invalid_input_of_a_hook_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        parse_hook_input(data)
    assert caught.value.slug == "bad-hook-input"


def test_a_session_older_than_the_retention_is_not_stored(project: Project, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "a.jsonl", project.path)
    captured = capture_file(project, path, NOW + timedelta(days=91))
    assert (captured.is_expired, captured.is_new) == (True, False)
    assert list_stored(project.workspace.repo) == ()


def test_secrets_in_ids_and_names_are_stored_nowhere(project: Project, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "a.jsonl", project.path, session=f"s-{TOKEN}")
    used = {"type": "tool_use", "id": "t", "name": f"mcp {TOKEN}", "input": {}}
    turn = {
        "type": "assistant",
        "uuid": TOKEN,
        "timestamp": NOW.isoformat(),
        "gitBranch": TOKEN,
        "message": {"role": "assistant", "content": [used]},
    }
    with path.open("a") as stream:
        stream.write(json.dumps(turn) + "\n" + json.dumps({"type": TOKEN}) + "\n")
    captured = capture_file(project, path)
    assert len(stored_text(project).splitlines()) == 4
    written = f"{captured.session} {captured.ref} {stored_text(project)} {project.git('log', '-1', captured.ref)}"
    assert TOKEN[8:] not in written


def test_a_secret_that_is_cut_into_parts_of_one_message_is_masked(
    project: Project, tmp_path: Path
) -> None:
    path = write_transcript(tmp_path / "a.jsonl", project.path, ["x"])
    record = json.loads(path.read_text())
    parts = ["Take", f" {TOKEN[:20]}", TOKEN[20:]]
    record["message"]["content"] = [{"type": "text", "text": part} for part in parts]
    path.write_text(json.dumps(record) + "\n")
    capture_file(project, path)
    assert "Take\\n\\n[redacted:github-token]" in stored_text(project)
    assert TOKEN[20:] not in stored_text(project)


@pytest.mark.parametrize("session", ["a\0b\nc", "\0"])
def test_an_id_is_stored_without_unprintable_characters(
    project: Project, tmp_path: Path, session: str
) -> None:
    captured = capture_file(
        project, write_transcript(tmp_path / "a.jsonl", project.path, session=session)
    )
    assert captured.session.isprintable()
    assert len(list_stored(project.workspace.repo)) == 1


@pytest.mark.parametrize("cwd", ["/a\0b", "/\ud800", "loop"])
def test_an_impossible_directory_is_not_in_this_project(
    project: Project, tmp_path: Path, cwd: str
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    path = write_transcript(tmp_path / "a.jsonl", Path(str(loop) if cwd == "loop" else cwd))
    assert slug_of(project, path) == "foreign-transcript"


def test_the_home_of_an_unknown_user_is_an_ordinary_path(project: Project) -> None:
    path, _ = parse_hook_input(b'{"transcript_path": "~nobody-has-this-name/a.jsonl"}')
    assert slug_of(project, path) == "transcript-unreadable"
