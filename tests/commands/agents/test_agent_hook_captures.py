"""Tests of `memory-ci hook agent`: what it captures at the end of a turn and of a session."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from memory_ci.sessions.session_note import list_activities
from tests.command_line import Run
from tests.commands.agents.hooks_at_work import Call
from tests.project import Project

pytestmark = pytest.mark.in_project


def test_a_session_that_ends_is_captured(call: Call, shop: Project) -> None:
    records = [
        {
            "type": "user",
            "cwd": str(shop.path),
            "sessionId": "s1",
            "timestamp": "2026-11-20T10:00:00Z",
            "uuid": "1",
        }
        | {"message": {"role": "user", "content": "Never retry a POST without a key."}}
    ]
    transcript = shop.write("s1.jsonl", "".join(f"{json.dumps(record)}\n" for record in records))
    assert (
        call(
            "claude-code",
            hook_event_name="SessionEnd",
            transcript_path=str(transcript),
            reason="exit",
        )
        == ""
    )
    assert "refs/memory-ci/sessions/claude-code" in shop.git("for-each-ref", "--format=%(refname)")


CURSOR_END = [
    {"hook_event_name": "sessionEnd", "session_id": "c2", "reason": "completed"},
    {"hook_event_name": "stop", "status": "completed", "loop_count": 0},
]
CURSOR_TURN = {"type": "text", "text": "<user_query>\nNever retry a POST.\n</user_query>"}
CURSOR_SAID = json.dumps({"role": "user", "message": {"content": [CURSOR_TURN]}}) + "\n"


@pytest.mark.parametrize("event_fields", CURSOR_END, ids=["end", "turn"])
@pytest.mark.parametrize("place", ["{0}.jsonl", "{0}/{0}.jsonl"], ids=["command line", "window"])
@pytest.mark.parametrize("is_named", [True, False])
def test_a_session_of_cursor_is_captured_at_the_end_of_a_turn_and_of_itself(
    run: Run, shop: Project, home: Path, event_fields: dict[str, Any], place: str, is_named: bool
) -> None:
    slug = re.sub(r"[^A-Za-z0-9]+", "-", str(shop.path)).strip("-")
    transcript = home / ".cursor/projects" / slug / "agent-transcripts" / place.format("c2")
    transcript.parent.mkdir(parents=True)
    transcript.write_text(CURSOR_SAID)
    common = {
        "conversation_id": "c2",
        "generation_id": "g1",
        "cursor_version": "2026.02.13",
        "user_email": "ada@x.io",
    }
    named = {
        "workspace_roots": [str(shop.path)],
        "transcript_path": str(transcript) if is_named else None,
    }
    done = run(
        "hook", "agent", "--for", "cursor", stdin=json.dumps({**common, **named, **event_fields})
    )
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    refs = shop.git("for-each-ref", "--format=%(refname)", "refs/memory-ci/sessions")
    assert refs == "refs/memory-ci/sessions/cursor/c2"
    assert "Never retry a POST." in shop.git("grep", "-h", "Never retry", refs)


@pytest.mark.parametrize("session", ["../c2", "", "c2/x", "none"])
def test_a_session_of_cursor_without_a_transcript_is_left_alone(
    run: Run, shop: Project, session: str
) -> None:
    event = {
        "conversation_id": session,
        "hook_event_name": "sessionEnd",
        "workspace_roots": [str(shop.path)],
    }
    done = run(
        "hook", "agent", "--for", "cursor", stdin=json.dumps({**event, "transcript_path": None})
    )
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert shop.git("for-each-ref", "refs/memory-ci/sessions") == ""


@pytest.mark.parametrize("roots", [[], ["/nowhere"], [7], {}, None])
def test_a_workspace_that_cursor_names_badly_stops_nothing(
    run: Run, shop: Project, roots: Any
) -> None:
    event = {"conversation_id": "c2", "hook_event_name": "sessionEnd", "workspace_roots": roots}
    assert run("hook", "agent", "--for", "cursor", stdin=json.dumps(event)).exit_code == 0


def test_cursor_calls_hooks_at_the_end_of_turns_and_sessions(run: Run, shop: Project) -> None:
    run("init", "--clone", "--agent", "cursor")
    hooks = json.loads((shop.path / ".cursor/hooks.json").read_text())["hooks"]
    assert list(hooks) == ["sessionStart", "postToolUse", "stop", "sessionEnd"]
    run("init", "--clone", "--agent", "cursor", "--without", "retrieve")
    hooks = json.loads((shop.path / ".cursor/hooks.json").read_text())["hooks"]
    assert list(hooks) == ["stop", "sessionEnd"]


def test_a_patch_inside_a_shell_command_of_codex_is_noted_at_the_end_of_the_turn(
    call: Call, shop: Project
) -> None:
    patch = (
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: {}\n@@\n-a\n+b\n*** End Patch\nEOF"
    )
    prompts = [
        ("session_meta", {"id": "s1", "cwd": str(shop.path), "originator": "codex_cli_rs"}),
        *(
            item
            for file, prompt in (
                ("src/old.py", "Begin with the old one"),
                ("src/client.py", "Now charge it"),
            )
            for item in (
                (
                    "response_item",
                    {"type": "message", "role": "user", "content": [{"text": prompt}]},
                ),
                ("event_msg", {"type": "user_message", "message": prompt}),
                (
                    "response_item",
                    {
                        "type": "function_call",
                        "name": "exec_command",
                        "arguments": json.dumps({"cmd": patch.format(file)}),
                        "call_id": file,
                    },
                ),
            )
        ),
    ]
    records = [
        {"timestamp": "2026-11-20T10:00:00Z", "type": kind, "payload": payload}
        for kind, payload in prompts
    ]
    path = shop.write(
        ".git/rollout-s1.jsonl", "".join(f"{json.dumps(record)}\n" for record in records)
    )
    call(
        "codex",
        hook_event_name="UserPromptSubmit",
        prompt="Now charge it",
        transcript_path=str(path),
    )
    call("codex", hook_event_name="Stop", transcript_path=str(path))
    edited = [sign.edited for sign in list_activities(shop.workspace, "s1") if sign.edited]
    assert edited == [("src/client.py",)], "of this turn, once"
