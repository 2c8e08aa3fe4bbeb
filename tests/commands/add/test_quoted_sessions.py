"""Tests of `add --quote`: the session and the transcript that are searched, for each agent."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.commands.add.sessions_at_work import (
    CORRECTION,
    SAID,
    Add,
    Hook,
    Write,
    at_work,
    correct,
    slug,
    user,
)
from tests.project import Project
from tests.sources.transcripts.samples import write_opencode

pytestmark = pytest.mark.in_project


ROOT = Path(__file__).parents[3]


def test_the_quoted_session_is_from_the_environment_or_the_only_active_one(
    hook: Hook, transcript: Write, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slug(add("--quote", SAID)) == "no-session"
    at_work(hook, transcript(user(SAID)))
    at_work(hook, transcript(user("Never use floats for money."), session="s2"), "s2")
    assert slug(add("--quote", SAID)) == "no-session", "two are at work"
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s2")
    assert slug(add("--quote", SAID)) == "quote-not-said", "it is of the other session"
    assert add("--quote", "Never use floats for money").exit_code == 0
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID")
    hook("claude-code", "SessionEnd", session_id="s2")
    assert add("--quote", SAID).exit_code == 0
    monkeypatch.setenv(
        "SOURCE_DATE_EPOCH", str(int(datetime(2026, 11, 21, 20, 1, tzinfo=UTC).timestamp()))
    )
    assert slug(add("--quote", SAID)) == "no-session", "eight hours later"


def test_a_session_without_hooks_is_found_where_the_agent_keeps_it(
    transcript: Write, add: Add, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "0a1b2c3d-9")
    assert slug(add("--quote", SAID)) == "no-transcript"
    sessions_directory = (
        Path.home() / ".claude/projects" / re.sub("[^A-Za-z0-9]", "-", str(project.path))
    )
    sessions_directory.mkdir(parents=True)
    transcript(user(SAID), session="0a1b2c3d-9").rename(sessions_directory / "0a1b2c3d-9.jsonl")
    assert add("--quote", SAID).exit_code == 0


def test_the_transcript_of_copilot_is_found_by_the_id_of_its_session(
    hook: Hook, add: Add, project: Project
) -> None:
    key = "c0000000-0000-4000-8000-000000000004"
    text = (
        (ROOT / "tests/transcripts/copilot-events.jsonl")
        .read_text()
        .replace("/home/dev/shop", str(project.path))
    )
    place = Path.home() / ".copilot/session-state" / key
    place.mkdir(parents=True)
    (place / "workspace.yaml").write_text("no transcript\n")
    (place / "events.jsonl").write_text(text)
    correct(hook, "copilot", session_id="", sessionId=key)
    assert add("--quote", "never retry a charge in the caller").exit_code == 0
    hook("copilot", "agentStop", session_id="", sessionId=key)
    assert f"sessions/copilot/{key}" in project.git("for-each-ref", "--format=%(refname)")
    hook("copilot", "agentStop", session_id="", sessionId="../../etc")  # nothing is read outside


def test_one_session_of_the_database_of_opencode_is_quoted_and_captured(
    hook: Hook, add: Add, project: Project
) -> None:
    export = json.loads((ROOT / "tests/transcripts/opencode-export.json").read_text())
    key, words = export["info"]["id"], "never retry a charge in the caller"
    here, there = (
        {**export, "info": {**export["info"], **changes}} for changes in ({}, {"id": "ses_other"})
    )
    here["info"]["directory"] = str(project.path)
    write_opencode(
        Path.home() / ".local/share/opencode/opencode.db", here, {**there, "messages": []}
    )
    hook("opencode", "UserPromptSubmit", prompt=CORRECTION, session_id=key)
    added = add("--quote", words)
    assert json.loads(added.stdout)["entry"]["evidence"] == [f"session:opencode:{key}#3 {words}"]
    assert hook("opencode", "Stop", session_id=key) == ""
    hook("opencode", "UserPromptSubmit", prompt=CORRECTION, session_id=key)
    assert hook("opencode", "Stop", session_id=key) == "", (
        "its plugin has no answer to the end of a turn"
    )
    refs = project.git("for-each-ref", "--format=%(refname)", "refs/memory-ci/sessions").split()
    assert refs == [f"refs/memory-ci/sessions/opencode/{key}"]


def test_later_edits_and_prompts_of_a_session_do_not_hide_its_transcript(
    hook: Hook, transcript: Write, add: Add, project: Project
) -> None:
    at_work(hook, transcript(user(SAID)))
    hook("claude-code", "PostToolUse", tool_name="Edit", tool_input={"file_path": "src/client.py"})
    hook(
        "claude-code",
        "UserPromptSubmit",
        prompt="Look at how the client sends a charge and its idempotency key",
    )
    assert add("--quote", SAID).exit_code == 0


def test_a_transcript_in_the_work_tree_proves_nothing(
    add: Add, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "tests/transcripts/specstory.md").read_text()
    project.write(".specstory/history/5f3b2a10.md", text)
    monkeypatch.setenv("MEMORY_CI_SESSION", "claude-code:5f3b2a10-0000-4000-8000-000000000001")
    assert slug(add("--quote", "use pytest -q, the Makefile is gone")) == "no-transcript"


@pytest.mark.parametrize(
    ("name", "key", "words", "line"),
    [
        (
            "codex-new.jsonl",
            "codex:0199a000-0000-7000-8000-000000000001",
            "Now write the change log",
            20,
        ),
        (
            "gemini-events.jsonl",
            "gemini:5d1c0000-0000-4000-8000-000000000003",
            "Only delete the cache",
            15,
        ),
        (
            "copilot-events.jsonl",
            "copilot:c0000000-0000-4000-8000-000000000004",
            "never retry a charge in the",
            12,
        ),
    ],
)
def test_transcripts_of_other_agents_are_read_too(
    hook: Hook, add: Add, project: Project, name: str, key: str, words: str, line: int
) -> None:
    agent, _, session = key.partition(":")
    text = (ROOT / "tests/transcripts" / name).read_text()
    text = re.sub(r'"cwd": ?"[^"]*"', f'"cwd":"{project.path}"', text)
    text = re.sub(r"[0-9a-f]{64}", hashlib.sha256(bytes(project.path)).hexdigest(), text)
    correct(hook, agent, transcript_path=str(project.write(".git/t", text)), session_id=session)
    added = add("--quote", words)
    assert added.exit_code == 0, added.stderr
    assert json.loads(added.stdout)["entry"]["evidence"] == [f"session:{key}#{line} {words}"]


def test_a_transcript_of_another_session_or_project_proves_nothing(
    hook: Hook, transcript: Write, add: Add, tmp_path: Path
) -> None:
    at_work(hook, transcript(user(SAID), session="s2"))
    assert slug(add("--quote", SAID)) == "no-transcript"
    at_work(hook, transcript(user(SAID), cwd=str(tmp_path)))
    assert slug(add("--quote", SAID)) == "foreign-transcript"
    at_work(hook, tmp_path / "none.jsonl")
    assert slug(add("--quote", SAID)) == "transcript-unreadable"


def test_a_transcript_that_is_being_written_is_read_as_far_as_it_is(
    hook: Hook, transcript: Write, add: Add
) -> None:
    path = transcript(user(SAID))
    with path.open("a") as stream:
        stream.write('{"type": "user", "sessionId": "s1", "message": {"role": "us')
    at_work(hook, path)
    assert add("--quote", SAID).exit_code == 0
