"""Tests of `memory-ci hook agent`: the input of each agent's hook, and the answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from memory_ci.gitrepo import repo as repo_module
from memory_ci.memory import workspace as workspace_module
from memory_ci.sessions.active_session import find_index, list_committing_sessions
from memory_ci.sessions.session_note import lock_hooks, note_served
from memory_ci.sources.agent_events import NAMES_BY_KIND, AgentEvent, parse_event
from tests.command_line import Run
from tests.commands.agents.hooks_at_work import ASK, Call, context
from tests.make import make_id
from tests.project import IMPORTED_FROM, NOW, Project

pytestmark = pytest.mark.in_project


@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini", "opencode", "vscode"])
def test_memory_is_read_at_the_start_at_a_prompt_and_at_a_file_once(call: Call, agent: str) -> None:
    prompt = "BeforeAgent" if agent == "gemini" else "UserPromptSubmit"
    tool = {
        "hook_event_name": "AfterTool" if agent == "gemini" else "PostToolUse",
        "tool_name": "read_file",
    }
    start = call(agent, hook_event_name="SessionStart", source="startup")
    assert json.loads(start)["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert "Never push to main" in context(start)
    served_text = context(call(agent, hook_event_name=prompt, prompt=ASK))
    assert ("Charge a card once" in served_text, "Never push to main" in served_text) == (
        True,
        False,
    )
    assert "Feed the hen" in context(call(agent, **tool, tool_input={"file_path": "src/client.py"}))
    assert call(agent, **tool, tool_input={"file_path": "src/client.py"}) == ""
    assert call(agent, hook_event_name=prompt, prompt=ASK) == ""


def test_copilot_is_answered_flat_and_before_the_tool(call: Call) -> None:
    common = {"sessionId": "c1", "session_id": ""}
    start = call("copilot", **common, source="new", hook_event_name="sessionStart")
    assert "Never push to main" in json.loads(start)["additionalContext"]
    tool = {**common, "toolName": "view", "toolArgs": json.dumps({"path": "src/client.py"})}
    assert call("copilot", **tool, hook_event_name="postToolUse") == ""
    assert "Feed the hen" in context(call("copilot", **tool, hook_event_name="preToolUse"))


def test_copilot_s_hooks_get_no_event_so_their_command_names_it(run: Run, shop: Project) -> None:
    assert run("init", "--clone", "--agent", "copilot", "--without", "mcp").exit_code == 0
    hooks = json.loads((shop.path / ".github/hooks/memory-ci.json").read_text())["hooks"]
    common = {"sessionId": "c1", "timestamp": 1795336129601, "cwd": str(shop.path)}
    told_event: dict[str, dict[str, Any]] = {
        "sessionStart": {"source": "new", "initialPrompt": ASK},
        "userPromptSubmitted": {"prompt": ASK, "timestamp": 1795336129602},
        "preToolUse": {"toolName": "view", "toolArgs": {"path": str(shop.path / "src/client.py")}},
        "agentStop": {"stopReason": "end_turn", "stop_hook_active": False},
    }
    assert hooks.keys() == told_event.keys()
    answers = {}
    for event, [hook] in hooks.items():
        words = hook["bash"].partition(" -m memory_ci ")[2].removesuffix("; exit 0").split()
        answers[event] = context(
            run(*words, stdin=json.dumps({**common, **told_event[event]})).stdout
        )
    assert "Never push to main" in answers["sessionStart"]
    assert "Charge a card once" in answers["userPromptSubmitted"]
    assert "Feed the hen" in answers["preToolUse"]
    assert answers["agentStop"] == ""


def test_cursor_is_served_at_the_start_and_after_tools(call: Call) -> None:
    start = call("cursor", conversation_id="c2", session_id="", hook_event_name="sessionStart")
    assert "Never push to main" in json.loads(start)["additional_context"]
    assert call("cursor", hook_event_name="beforeSubmitPrompt", prompt=ASK) == "", (
        "it takes no context there"
    )


def test_the_environment_names_the_caller_and_the_first_of_two_hooks_answers(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPILOT_CLI", "1")
    prompt = {"prompt": ASK, "session_id": "c1"}
    first = call(
        "claude-code",
        **prompt,
        hook_event_name="UserPromptSubmit",
        timestamp="2026-11-22T08:28:47.921Z",
    )
    assert json.loads(first)["additionalContext"]
    second = call(
        "copilot", **prompt, hook_event_name="userPromptSubmitted", timestamp=1795336127921
    )
    assert second == ""


def test_of_two_concurrent_hooks_one_serves_the_norms(shop: Project) -> None:
    told_event = {
        "session_id": "s1",
        "cwd": str(shop.path),
        "hook_event_name": "SessionStart",
        "source": "startup",
    }
    program = """import sys
from memory_ci.sessions import session_note
lock_file = session_note.lock_file

def lock_aloud(handle, *, wait):
    print("waits", file=sys.stderr, flush=True)
    return lock_file(handle, wait=wait)

session_note.lock_file = lock_aloud
sys.argv = ["memory-ci", "hook", "agent"]
from memory_ci.__main__ import main
main()"""
    pipe = subprocess.PIPE
    with lock_hooks(shop.workspace):
        other_process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        assert other_process.stdin
        assert other_process.stderr
        other_process.stdin.write(json.dumps(told_event))
        other_process.stdin.close()
        other_process.stdin = None
        assert other_process.stderr.readline() == "waits\n"
        note_served(shop.workspace, "s1", shop.retrieve("hen"), NOW)
    assert other_process.communicate()[0] == ""


def test_after_compaction_the_session_is_served_again(call: Call) -> None:
    event = {"hook_event_name": "UserPromptSubmit", "prompt": ASK}
    assert call("claude-code", **event)
    assert call("claude-code", **event) == ""
    assert "Never push to main" in context(
        call("claude-code", hook_event_name="SessionStart", source="compact")
    )
    assert "Charge a card once" in context(call("claude-code", **event))


@pytest.mark.parametrize(
    "tool",
    [
        {"tool_name": "Bash", "tool_input": {"command": "cat src/client.py | head"}},
        {
            "tool_name": "apply_patch",
            "tool_input": {"input": "*** Begin Patch\n*** Update File: src/client.py\n@@\n"},
        },
        {
            "tool_name": "shell",
            "tool_input": {"command": ["bash", "-lc", "sed -n 1,9p src/client.py"]},
        },
        {
            "tool_name": "Edit",
            "tool_input": {"file_path": "{root}/src/client.py", "old_string": "x"},
        },
    ],
    ids=["bash", "patch", "argv", "absolute"],
)
def test_the_file_comes_from_the_input_of_the_tool(
    call: Call, shop: Project, tool: dict[str, Any]
) -> None:
    text = json.dumps(tool).replace("{root}", str(shop.path))
    assert "Feed the hen" in context(
        call("codex", hook_event_name="PostToolUse", **json.loads(text))
    )


@pytest.mark.parametrize(
    "event_fields",
    [
        {"hook_event_name": "UserPromptSubmit", "prompt": "memory-ci: is it kept? " + ASK},
        {"hook_event_name": "UserPromptSubmit", "prompt": ASK, "agent_id": "sub-1"},
        {"hook_event_name": "PreToolUse", "tool_input": {"file_path": "src/client.py"}},
        {"hook_event_name": "PostToolUse", "tool_input": {"file_path": "/etc/passwd"}},
        {"hook_event_name": "PostToolUse", "tool_input": {"file_path": "src/none.py"}},
        {"hook_event_name": "PostToolUse", "tool_input": 5},
        {"hook_event_name": "Notification"},
        {},
    ],
    ids=[
        "our own text",
        "sub-agent",
        "before a tool",
        "outside",
        "no file",
        "odd",
        "another event",
        "no event",
    ],
)
def test_a_prompt_without_words_is_served_nothing(call: Call, event_fields: dict[str, Any]) -> None:
    assert call("claude-code", **event_fields) == ""


@pytest.mark.parametrize(
    "stdin", ["", "[]", "{", '{"hook_event_name": 5}', '{"cwd": "/nowhere", "prompt": "\\ud800"}']
)
def test_any_input_lets_the_agent_continue(run: Run, shop: Project, stdin: str) -> None:
    result = run("hook", "agent", "--for", "codex", stdin=stdin)
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize(
    ("agent", "event_fields"),
    [
        ("claude-code", {"hook_event_name": "SessionStart", "source": "compact"}),
        ("claude-code", {"hook_event_name": "UserPromptSubmit", "prompt": ASK}),
        (
            "claude-code",
            {
                "hook_event_name": "PostToolUse",
                "tool_name": "Edit",
                "tool_input": {"file_path": "src/client.py"},
            },
        ),
        ("claude-code", {"hook_event_name": "SessionEnd", "transcript_path": "s1.jsonl"}),
        ("codex", {"hook_event_name": "Stop", "transcript_path": "s1.jsonl"}),
    ],
)
def test_an_event_opens_the_repository_once(
    call: Call,
    shop: Project,
    monkeypatch: pytest.MonkeyPatch,
    agent: str,
    event_fields: dict[str, Any],
) -> None:
    monkeypatch.chdir(shop.path)
    records = {
        "claude-code": {"type": "user", "cwd": str(shop.path), "sessionId": "s1", "uuid": "1"}
        | {
            "timestamp": "2026-11-20T10:00:00Z",
            "message": {"role": "user", "content": "Never retry a POST."},
        },
        "codex": {"timestamp": "2026-11-20T10:00:00Z", "type": "session_meta"}
        | {"payload": {"id": "s1", "cwd": str(shop.path), "originator": "codex_cli_rs"}},
    }
    turn = {"type": "user_message", "message": "Never retry a POST."}
    record = {"timestamp": "2026-11-20T10:00:00Z", "type": "event_msg", "payload": turn}
    lines = [
        json.dumps(records[agent]),
        *([json.dumps(record)] if agent == "codex" else []),
    ]
    shop.write("s1.jsonl", "".join(f"{line}\n" for line in lines))
    call("claude-code", hook_event_name="UserPromptSubmit", prompt="Now feed the hen")
    opened: list[str] = []
    for module, name in (
        (repo_module, "_discover"),
        (workspace_module, "configure_from_work_tree"),
    ):
        monkeypatch.setattr(module, name, _noting(getattr(module, name), opened, name))
    call(agent, **event_fields)
    assert opened == ["_discover", "configure_from_work_tree"]


def _noting(function: Callable[..., Any], calls: list[str], name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        return function(*arguments, **options)

    return call


def test_served_entries_are_noted_for_the_trailer(call: Call, shop: Project) -> None:
    call("claude-code", hook_event_name="UserPromptSubmit", prompt=ASK)
    assert make_id(1) in (shop.path / ".git/memory-ci/retrieved.jsonl").read_text()


def test_each_agent_is_known() -> None:
    for agent in NAMES_BY_KIND:
        event = parse_event(b'{"hook_event_name": "SessionStart", "session_id": "x"}', agent, {})
        assert event == AgentEvent(agent=agent, name="SessionStart", kind="start", session="x")


def test_it_is_answered_without_click(shop: Project) -> None:
    output = json.dumps(
        {"hook_event_name": "UserPromptSubmit", "prompt": ASK, "cwd": str(shop.path)}
    )
    program = (
        "import sys; from memory_ci.commands.shortcut import run_shortcut;"
        "assert run_shortcut(['hook', 'agent', '--for', 'codex'], {}); assert 'click' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": IMPORTED_FROM}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=output.encode(),
        capture_output=True,
        env=env,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Charge a card once" in done.stdout


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "/etc/passwd", "x" * 5_000, "a\0b", "", ".git/config"]
)
def test_a_forged_edit_stops_nothing_and_is_nobody_s_work(
    call: Call, shop: Project, path: str
) -> None:
    call("codex", hook_event_name="UserPromptSubmit", prompt=ASK)
    tool = {"tool_name": "Write", "tool_input": {"file_path": path}}
    call("codex", hook_event_name="PostToolUse", **tool)
    shop.git("add", "-A")
    assert list_committing_sessions(shop.workspace, find_index(shop.workspace, {}), NOW) == ()
