"""What an agent is asked when a person corrects it, and the note that comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.flows.project import Project

CORRECTION = "No, never retry a charge in the caller: the client alone knows the key."
PROMPTS = {"claude-code": "UserPromptSubmit", "codex": "UserPromptSubmit", "gemini": "BeforeAgent"}
STOPS = {"claude-code": "Stop", "codex": "Stop", "gemini": "AfterAgent", "copilot": "agentStop"}
Hook = Callable[..., str]


@pytest.fixture
def hook(run: Run, project: Project, monkeypatch: pytest.MonkeyPatch) -> Hook:
    """`hook("codex", "Stop")` gives what the agent is told, whatever its dialect."""
    for name in ("COPILOT_CLI", "CURSOR_VERSION", "CLAUDE_CODE_ENTRYPOINT"):
        monkeypatch.delenv(name, raising=False)

    def call(agent: str, event: str, *flags: str, **told: Any) -> str:  # noqa: ANN401 - any JSON
        given = {"session_id": "s1", "cwd": str(project.path), "hook_event_name": event, **told}
        result = run("hook", "agent", "--for", agent, *flags, stdin=json.dumps(given))
        assert (result.exit_code, result.stderr) == (0, "")
        answer = json.loads(result.stdout or "{}")
        named = answer.get("hookSpecificOutput", {}).get("additionalContext")
        return str(answer.get("reason") or answer.get("additionalContext") or named or "")

    return call


def correct(hook: Hook, agent: str = "claude-code", prompt: str = CORRECTION, **told: Any) -> str:  # noqa: ANN401 - any JSON
    return hook(agent, PROMPTS.get(agent, "userPromptSubmitted"), prompt=prompt, **told)


@pytest.mark.parametrize("agent", PROMPTS)
def test_a_prompt_that_steers_is_answered_by_what_to_do_with_it_three_times(hook: Hook, agent: str) -> None:
    for number in range(5):
        said = correct(hook, agent)
        assert ("memory-ci add" in said and "--quote" in said) == (number < 3), number
        assert len(said) < 10_000
    assert "memory-ci add" not in correct(hook, agent, "Show me the failing test of the client.", session_id="s2")


def test_what_is_asked_takes_fewer_than_a_hundred_tokens(hook: Hook) -> None:
    asked = correct(hook).partition("memory-ci: this prompt")
    assert asked[1]
    assert len("".join(asked[1:]).split()) < 60
    assert len("".join(asked[1:])) < 400


@pytest.mark.parametrize(
    ("agent", "decision"), [("claude-code", None), ("codex", "block"), ("gemini", "deny"), ("copilot", "block")]
)
def test_the_end_of_a_turn_asks_once_in_the_dialect_of_the_agent(
    run: Run, hook: Hook, project: Project, agent: str, decision: str | None
) -> None:
    correct(hook, agent)
    told = {"session_id": "s1", "cwd": str(project.path), "hook_event_name": STOPS[agent]}
    again = json.dumps({**told, "stop_hook_active": True})
    assert run("hook", "agent", "--for", agent, stdin=again).stdout == "", "a hook made it go on already"
    answer = json.loads(run("hook", "agent", "--for", agent, stdin=json.dumps(told)).stdout)
    reason = answer["reason"] if decision else answer["hookSpecificOutput"]["additionalContext"]
    assert answer.get("decision") == decision
    assert reason.startswith("memory-ci: ")
    assert ("--quote" in reason) == (agent != "copilot"), "its transcripts are not read"
    assert hook(agent, STOPS[agent]) == ""
    assert correct(hook, agent, reason) == "", "our own text is nobody's"


def test_nothing_is_asked_at_the_end_where_nobody_steered_or_a_note_was_added_since(hook: Hook, run: Run) -> None:
    correct(hook, prompt="Show me the failing test of the client.")
    assert hook("claude-code", "Stop") == ""
    correct(hook)
    assert run("add", "Retry a POST in the client alone").exit_code == 0
    assert hook("claude-code", "Stop") == ""
    correct(hook)
    assert hook("claude-code", "Stop") != "", "another correction"


@pytest.mark.parametrize("entrypoint", ["sdk-cli", "sdk-py"])
def test_a_program_is_asked_nothing(hook: Hook, monkeypatch: pytest.MonkeyPatch, entrypoint: str) -> None:
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", entrypoint)
    assert "memory-ci add" not in correct(hook)
    assert hook("claude-code", "Stop") == ""
    assert "memory-ci add" in correct(hook, "codex"), "the variable is Claude Code's"


def test_who_is_not_to_be_asked_is_not(hook: Hook) -> None:
    told = {"prompt": CORRECTION}
    assert "memory-ci add" not in hook("claude-code", "UserPromptSubmit", "--no-ask", **told)
    assert hook("claude-code", "Stop", "--no-ask") == ""
    assert "memory-ci add" not in hook("claude-code", "UserPromptSubmit", agent_id="sub-1", **told)
    assert hook("claude-code", "Stop") == ""
