"""Tests of the launcher of the plugin's hooks, with and without the program memory-ci."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from memory_ci import __version__

LAUNCHER = Path(__file__).parents[2] / "plugin/launch.sh"
START = {"hook_event_name": "SessionStart", "source": "startup"}
LINE = f"pipx install 'memory-ci[mcp] @ git+https://github.com/OWNER/memory-ci@v{__version__}'"
PROGRAM = """#!/bin/sh
printf '%s\\n' "$@" >"${0%/*}/arguments"
cat >"${0%/*}/input"
echo answer
echo error >&2
exit 2
"""


class Machine(NamedTuple):
    """A home directory, and the only directory on the PATH."""

    home: Path
    programs: Path

    def put_program(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory-ci").write_text(PROGRAM)
        (folder / "memory-ci").chmod(0o755)

    def launch(self, agent: str, event: str, **event_input: str) -> str:
        """Run the launcher from another folder, and return what it prints."""
        completed = subprocess.run(
            [shutil.which("sh") or "sh", str(LAUNCHER), agent, event],
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": str(self.programs)},
            input=json.dumps(event_input, separators=(",", ":")),
            capture_output=True,
            text=True,
        )
        assert completed.returncode == 0
        return completed.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    new_machine = Machine(tmp_path / "home", tmp_path / "programs")
    for folder in new_machine:
        folder.mkdir()
    for name in ("cat", "sed", "dirname"):
        (new_machine.programs / name).symlink_to(os.path.realpath(shutil.which(name) or name))
    return new_machine


def read_call(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the input of the program in a folder."""
    arguments = (folder / "arguments").read_text().split()
    return arguments, json.loads((folder / "input").read_text())


def test_the_installed_program_handles_the_event(machine: Machine) -> None:
    machine.put_program(machine.programs)
    assert machine.launch("codex", "Stop", turn_id="t1") == "answer\n"
    arguments, event = read_call(machine.programs)
    assert arguments == ["hook", "agent", "--for", "codex", "--plugin", "--event", "Stop"]
    assert event == {"turn_id": "t1"}


def test_a_program_in_the_home_is_found_without_the_path(machine: Machine) -> None:
    folder = machine.home / ".local/bin"
    machine.put_program(folder)
    assert machine.launch("copilot", "agentStop") == "answer\n"
    assert read_call(folder)[0][3] == "copilot"


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_without_the_program_one_line_is_shown_at_the_start(machine: Machine, agent: str) -> None:
    answer = json.loads(machine.launch(agent, "SessionStart", **START))
    assert list(answer) == ["systemMessage"]
    assert LINE in answer["systemMessage"]
    assert "\n" not in answer["systemMessage"]


def test_the_model_of_copilot_is_asked_to_show_the_line(machine: Machine) -> None:
    answer = json.loads(machine.launch("copilot", "sessionStart", source="new"))
    assert list(answer) == ["additionalContext"]
    assert LINE in answer["additionalContext"]


@pytest.mark.parametrize("source", ["resume", "compact", "clear"])
def test_a_resumed_session_shows_no_line(machine: Machine, source: str) -> None:
    assert machine.launch("claude-code", "SessionStart", source=source) == ""


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PreToolUse", "Stop", "preToolUse"])
def test_other_events_show_no_line(machine: Machine, event: str) -> None:
    assert machine.launch("claude-code", event, prompt="SessionStart") == ""


def test_a_prompt_that_contains_the_word_source_does_not_hide_the_line(machine: Machine) -> None:
    start = {"source": "new", "initialPrompt": 'Why is it "resume" here?'}
    assert LINE in machine.launch("copilot", "sessionStart", **start)
