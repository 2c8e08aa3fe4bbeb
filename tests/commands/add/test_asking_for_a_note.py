"""Tests of the hook that asks an agent to add what a person corrected: when it asks, and when not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.command_line import Run
from tests.commands.add.sessions_at_work import (
    CORRECTION,
    PROMPTS,
    Add,
    Hook,
    Write,
    correct,
    edit,
    result,
    user,
)
from tests.project import Project

pytestmark = pytest.mark.in_project


STOPS = {"claude-code": "Stop", "codex": "Stop", "gemini": "AfterAgent", "copilot": "agentStop"}


@pytest.mark.parametrize("agent", PROMPTS)
def test_a_steering_prompt_is_answered_with_a_request_for_a_note_at_most_three_times(
    hook: Hook, agent: str
) -> None:
    for number in range(5):
        reminder = correct(hook, agent)
        assert ("memory-ci add" in reminder and "--quote" in reminder) == (number < 3), number
        assert len(reminder) < 10_000
    assert "memory-ci add" not in correct(
        hook, agent, "Show me the failing test of the client.", session_id="s2"
    )


def test_the_request_for_a_note_is_short(hook: Hook) -> None:
    request = correct(hook).partition("memory-ci: this prompt")
    assert request[1]
    assert len("".join(request[1:]).split()) < 60
    assert len("".join(request[1:])) < 400


@pytest.mark.parametrize(
    ("agent", "decision"),
    [("claude-code", None), ("codex", "block"), ("gemini", "deny"), ("copilot", "block")],
)
def test_the_end_of_a_turn_asks_once_in_the_dialect_of_the_agent(
    run: Run, hook: Hook, project: Project, agent: str, decision: str | None
) -> None:
    correct(hook, agent)
    fields = {"session_id": "s1", "cwd": str(project.path), "hook_event_name": STOPS[agent]}
    again = json.dumps({**fields, "stop_hook_active": True})
    assert run("hook", "agent", "--for", agent, stdin=again).stdout == "", (
        "a hook made it go on already"
    )
    answer = json.loads(run("hook", "agent", "--for", agent, stdin=json.dumps(fields)).stdout)
    reason = answer["reason"] if decision else answer["hookSpecificOutput"]["additionalContext"]
    assert answer.get("decision") == decision
    assert reason.startswith("memory-ci: ")
    assert "--quote" in reason
    assert hook(agent, STOPS[agent]) == ""
    assert correct(hook, agent, reason) == "", "our own text is nobody's"


def test_the_end_of_a_turn_asks_nothing_without_a_correction_or_after_a_note(
    hook: Hook, run: Run
) -> None:
    correct(hook, prompt="Show me the failing test of the client.")
    assert hook("claude-code", "Stop") == ""
    correct(hook)
    assert run("add", "Retry a POST in the client alone").exit_code == 0
    assert hook("claude-code", "Stop") == ""
    correct(hook)
    assert hook("claude-code", "Stop") != "", "another correction"


@pytest.mark.parametrize("entrypoint", ["sdk-cli", "sdk-py"])
def test_a_session_of_a_program_is_not_asked_for_a_note(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, entrypoint: str
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", entrypoint)
    assert "memory-ci add" not in correct(hook)
    assert hook("claude-code", "Stop") == ""
    assert "memory-ci add" in correct(hook, "codex"), "the variable is Claude Code's"


def test_sub_agents_and_hooks_with_no_ask_are_not_asked(hook: Hook) -> None:
    fields = {"prompt": CORRECTION}
    assert "memory-ci add" not in hook("claude-code", "UserPromptSubmit", "--no-ask", **fields)
    assert hook("claude-code", "Stop", "--no-ask") == ""
    assert "memory-ci add" not in hook(
        "claude-code", "UserPromptSubmit", agent_id="sub-1", **fields
    )
    assert hook("claude-code", "Stop") == ""


REFUSAL = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\nuse the client for retries"
)


def refusal(text: str = REFUSAL) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": text, "is_error": True}
    message = {"role": "user", "content": [block]}
    return {"type": "user", "message": message, "toolDenialKind": "user-rejected"}


@pytest.mark.parametrize(
    ("records", "is_asked"),
    [
        ([refusal()], True),
        ([refusal(), user("Now show me the tests")], False),
        ([refusal(REFUSAL.partition(" To tell")[0])], False),
        ([result(f"src/hook.py:3: {REFUSAL}")], False),
        ([], False),
    ],
    ids=["refused", "an earlier turn", "without a word", "a tool's text", "none"],
)
def test_a_refused_tool_call_counts_as_a_correction_at_the_end_of_the_turn(
    hook: Hook, transcript: Write, add: Add, records: list[dict[str, Any]], is_asked: bool
) -> None:
    path = str(transcript(user("Fix the client"), edit("src/client.py"), *records))
    correct(hook, prompt="Fix the client", transcript_path=path)
    assert ("--quote" in hook("claude-code", "Stop", transcript_path=path)) == is_asked
    if is_asked:
        assert add("--quote", "use the client for retries").exit_code == 0
