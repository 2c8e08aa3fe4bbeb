"""Tests of `memory-ci hook agent`: hooks in the home directory, and settings that a session changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_ci.sources.agent_events import NAMES_BY_KIND
from tests.command_line import Run
from tests.commands.agents.hooks_at_work import ASK, context
from tests.project import Project
from tests.repos import make_repo

pytestmark = pytest.mark.in_project


def test_a_hook_in_the_home_answers_once_and_says_nothing_elsewhere(
    run: Run, shop: Project
) -> None:
    def ask(cwd: str) -> str:
        hook_event = {
            "session_id": "s1",
            "cwd": cwd,
            "hook_event_name": "UserPromptSubmit",
            "prompt": ASK,
        }
        result = run(
            "hook", "agent", "--for", "claude-code", "--user", stdin=json.dumps(hook_event)
        )
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    assert ask("/") == ""
    assert "Charge a card once" in context(ask(str(shop.path)))
    assert run("init", "--clone", "--agent", "claude-code", "--without", "hooks").exit_code == 0
    assert ask(str(shop.path)) == ""


def ask_plugin(run: Run, shop: Project, event: str = "UserPromptSubmit") -> str:
    """Return the output of the plugin's hook."""
    hook_event = {
        "session_id": "s1",
        "cwd": str(shop.path),
        "hook_event_name": event,
        "prompt": ASK,
    }
    call = ("hook", "agent", "--for", "claude-code", "--plugin", "--event", event)
    result = run(*call, stdin=json.dumps(hook_event))
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_a_plugin_answers_where_nothing_else_is_set_up(run: Run, shop: Project) -> None:
    assert "Charge a card once" in context(ask_plugin(run, shop))


@pytest.mark.parametrize("place", ["--clone", "--user"])
def test_a_plugin_leaves_events_to_the_hooks_of_init(run: Run, shop: Project, place: str) -> None:
    wired = run("init", place, "--agent", "claude-code")
    assert wired.exit_code == 0, wired.output
    for event in ("SessionStart", "UserPromptSubmit", "Stop"):
        assert ask_plugin(run, shop, event) == ""


def test_a_plugin_says_nothing_where_no_memory_is_kept(
    run: Run, shop: Project, tmp_path: Path
) -> None:
    bare = make_repo(tmp_path / "bare")
    hook_event = {"session_id": "s1", "cwd": str(bare.path), "hook_event_name": "SessionStart"}
    call = ("hook", "agent", "--for", "claude-code", "--plugin")
    assert run(*call, stdin=json.dumps(hook_event)).output == ""


def test_the_home_is_written_by_the_command_and_cleaned_again(run: Run, shop: Project) -> None:
    settings = Path.home() / ".claude/settings.json"
    assert run("init", "--clone", "--user").exit_code == 2
    assert run("init", "--clone", "--user", "--agent", "claude-code").exit_code == 0
    assert "--for claude-code --user; exit 0" in settings.read_text()
    assert shop.status() == ""
    assert run("init", "--remove", "--clone", "--user").exit_code == 0
    assert not settings.exists()


def test_settings_are_as_before_after_sessions_of_every_agent(run: Run, shop: Project) -> None:
    files = (
        ".claude/settings.local.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        "opencode.json",
        ".mcp.json",
    )
    before = {file: "a = 1" if file.endswith("toml") else '{\r\n\t"a":  [1,2]}' for file in files}
    for file, text in before.items():
        shop.write(file, text)
    assert run("init", "--clone", "--agent", "all", "--without", "hooks").exit_code == 0
    for agent in NAMES_BY_KIND:
        for event in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"):
            hook_event = {
                "session_id": agent,
                "cwd": str(shop.path),
                "hook_event_name": event,
                "prompt": f"No, never {ASK}.",
            }
            assert run("hook", "agent", "--for", agent, stdin=json.dumps(hook_event)).exit_code == 0
    assert run("init", "--remove", "--clone").exit_code == 0
    assert {file: (shop.path / file).read_bytes().decode() for file in files} == before
    assert {line[3:] for line in shop.status().splitlines()} == {
        ".claude/",
        ".codex/",
        ".gemini/",
        "opencode.json",
        ".mcp.json",
    }
