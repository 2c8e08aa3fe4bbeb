"""The agents' command lines: how each is set up for a model on localhost, started and left, and its names of tools."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.clients.model import Call, Json

KEY = "sk-ant-api03-none-0123456789abcdefghij"
PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: {0.path}\n@@\n-{0.old}\n+{0.new}\n*** End Patch\nEOF"
Tools = Mapping[str, Callable[[Call], tuple[str, Json]]]
SetUp = Callable[[Path, Path, str], Mapping[str, str]]


class Client(NamedTuple):
    """An agent's command line.

    Attributes:
        name: its name in `init --clone --agent`.
        settings: a project's own settings, in the form of their owner.
        cannot: the reasons, by test, why it is expected to fail.
        unasked: the options with which it runs any shell command without confirmation.
    """

    name: str
    package: str
    version: str
    command: tuple[str, ...]
    headless: tuple[str, ...]
    leave: str
    set_up: SetUp
    tools: Tools
    settings: Mapping[str, str] = {}
    boot: float = 8
    cannot: Mapping[str, str] = {}
    unasked: tuple[str, ...] = ()


UNTOLD = {"a_program_is_asked_nothing": "its hooks are not told whether a person is there"}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _trees(folder: Path) -> list[Path]:
    """Return the work tree and the linked work tree."""
    return [folder, folder.with_name("tree")]


def _claude(home: Path, folder: Path, url: str) -> Mapping[str, str]:
    settings = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY[-20:]]},
    }
    trusted = {"projects": {str(tree): {"hasTrustDialogAccepted": True} for tree in _trees(folder)}}
    _write(home / ".claude.json", json.dumps({**settings, **trusted}))
    _write(home / ".claude/settings.json", '{"enableAllProjectMcpServers": true}')
    calm = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, **calm}


def _codex(home: Path, folder: Path, url: str) -> Mapping[str, str]:
    provider = f'[model_providers.stub]\nname = "stub"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "KEY"\n'
    trust = "".join(f'[projects."{tree}"]\ntrust_level = "trusted"\n' for tree in _trees(folder))
    head = 'model = "stub"\nmodel_provider = "stub"\ncheck_for_update_on_startup = false\n'
    _write(home / ".codex/config.toml", f"{head}{provider}{trust}")
    return {"KEY": "none"}


def _gemini(home: Path, folder: Path, url: str) -> Mapping[str, str]:
    calm = {"enableAutoUpdate": False, "enableAutoUpdateNotification": False}
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": calm}
    _write(
        home / ".gemini/settings.json",
        json.dumps({**settings, "privacy": {"usageStatisticsEnabled": False}}),
    )
    return {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _copilot(home: Path, folder: Path, url: str) -> Mapping[str, str]:
    _write(
        home / ".copilot/config.json",
        json.dumps({"trusted_folders": [*map(str, _trees(folder))], "banner": "never"}),
    )
    model = {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_MODEL": "gpt-4.1"}
    return {"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false", **model}


def _opencode(home: Path, folder: Path, url: str) -> Mapping[str, str]:
    options = {"baseURL": f"{url}/v1", "apiKey": "none"}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": options,
        "models": {"stub": {"tool_call": True}},
    }
    calm = {"autoupdate": False, "share": "disabled"}
    settings = {
        "provider": {"stub": provider},
        "model": "stub/stub",
        "small_model": "stub/stub",
        **calm,
    }
    _write(home / ".config/opencode/opencode.json", json.dumps(settings))
    return {"OPENCODE_DISABLE_MODELS_FETCH": "true", "OPENCODE_DISABLE_LSP_DOWNLOAD": "true"}


def _shell(name: str, **more: str) -> Callable[[Call], tuple[str, Json]]:
    return lambda call: (name, {"command": call.command, **more})


CLIENTS = (
    Client(
        "claude-code",
        "@anthropic-ai/claude-code",
        "2.1.197",
        ("claude", "--permission-mode", "acceptEdits"),
        ("claude", "--permission-mode", "acceptEdits", "-p"),
        "/exit",
        _claude,
        {
            "read": lambda call: ("Read", {"file_path": call.path}),
            "edit": lambda call: (
                "Edit",
                {"file_path": call.path, "old_string": call.old, "new_string": call.new},
            ),
            "shell": _shell("Bash", description="note"),
        },
        {".claude/settings.local.json": '{"permissions": {"deny": ["WebFetch"],\t"allow": []}}'},
        unasked=("--allowedTools", "Bash"),
    ),
    Client(
        "codex",
        "@openai/codex",
        "0.169.0",
        ("codex", "--dangerously-bypass-hook-trust", "-a", "never", "-s", "danger-full-access"),
        ("codex", "exec", "-s", "danger-full-access"),
        "/exit",
        _codex,
        {
            "read": lambda call: ("exec_command", {"cmd": f"cat {call.path}"}),
            "edit": lambda call: ("exec_command", {"cmd": PATCH.format(call)}),
            "shell": lambda call: ("exec_command", {"cmd": call.command}),
        },
        {".codex/config.toml": "# ours\nhide_agent_reasoning = true"},
    ),
    Client(
        "gemini",
        "@google/gemini-cli",
        "0.61.0",
        ("gemini", "--skip-trust", "-m", "gemini-2.5-flash", "--approval-mode", "auto_edit"),
        ("gemini", "--skip-trust", "-m", "gemini-2.5-flash", "--approval-mode", "auto_edit", "-p"),
        "/quit",
        _gemini,
        {
            "read": lambda call: ("read_file", {"file_path": call.path}),
            "edit": lambda call: (
                "replace",
                {
                    "file_path": call.path,
                    "old_string": call.old,
                    "new_string": call.new,
                    "instruction": "edit",
                },
            ),
            "shell": _shell("run_shell_command", description="note"),
        },
        {".gemini/settings.json": '{ "ui": {"hideTips": true} }\n\n'},
        cannot={
            **UNTOLD,
            "a_commit_that_violates_a_check_of_level_fail_is_refused": "its shell runs no hook of git",
        },
        unasked=("--allowed-tools", "run_shell_command"),
    ),
    Client(
        "copilot",
        "@github/copilot",
        "1.0.102",
        ("copilot", "--allow-all-tools"),
        ("copilot", "--allow-all-tools", "-p"),
        "/exit",
        _copilot,
        {
            "read": lambda call: ("view", {"path": call.path}),
            "edit": lambda call: (
                "edit",
                {"path": call.path, "old_str": call.old, "new_str": call.new},
            ),
            "shell": _shell("bash", description="note"),
        },
        cannot=UNTOLD,
    ),
    Client(
        "opencode",
        "opencode-ai",
        "1.18.33",
        ("opencode",),
        ("opencode", "run"),
        "/exit",
        _opencode,
        {
            "read": lambda call: ("read", {"filePath": call.path}),
            "edit": lambda call: (
                "edit",
                {"filePath": call.path, "oldString": call.old, "newString": call.new},
            ),
            "shell": _shell("bash", description="note"),
        },
        {"opencode.json": '{"$schema": "https://opencode.ai/config.json", "username": "ann"}'},
        boot=20,
        cannot={
            "the_second_question_is_not_asked": "its plugin has no answer to the end of a turn: none is asked",
        },
    ),
)


def environment(
    client: Client, home: Path, folder: Path, url: str, programs: list[Path]
) -> dict[str, str]:
    """Return the environment of a client: without variables of a calling program, and with the client's own."""
    path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CI", "PYTEST", "NODE"))
    }
    client_environ = client.set_up(home, folder, url)
    return {
        **inherited,
        "HOME": str(home),
        "TERM": "xterm-256color",
        "PATH": path,
        **client_environ,
    }


if __name__ == "__main__":  # what npm is to install: these versions, or those of a tag ("latest")
    print(*(f"{client.package}@{(sys.argv[1:] or [client.version])[0]}" for client in CLIENTS))  # noqa: T201
