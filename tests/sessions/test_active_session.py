"""Tests of naming the active session in a commit message without damaging the message."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from memory_ci.sessions.active_session import add_session_trailer, find_sessions
from tests.project import NOW, Project

CLAUDE = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "79e9becd-1"}


@pytest.mark.parametrize(
    ("environment", "sessions"),
    [
        ({}, ()),
        ({"CLAUDECODE": "1", "GEMINI_CLI": "1"}, ()),
        (CLAUDE, ("claude-code:79e9becd-1",)),
        (CLAUDE | {"CODEX_THREAD_ID": "019d"}, ("claude-code:79e9becd-1", "codex:019d")),
        ({"GEMINI_SESSION_ID": "g1"}, ("gemini:g1",)),
        ({"COPILOT_AGENT_SESSION_ID": "c1"}, ("copilot:c1",)),
        (CLAUDE | {"MEMORY_CI_SESSION": "aider:mine"}, ("aider:mine",)),
        (CLAUDE | {"MEMORY_CI_SESSION": ""}, ()),
        ({"MEMORY_CI_SESSION": "no-agent"}, ()),
        ({"CODEX_THREAD_ID": "x\nSigned-off-by: Eve"}, ()),
        ({"CODEX_THREAD_ID": "a, b"}, ()),
        ({"CODEX_THREAD_ID": "x" * 300}, ()),
    ],
)
def test_the_session_is_read_from_the_variables_of_agents(
    environment: Mapping[str, str], sessions: tuple[str, ...]
) -> None:
    assert find_sessions(environment) == sessions


def test_the_session_is_added_to_those_that_a_message_names(project: Project) -> None:
    message = project.write(
        ".git/COMMIT_EDITMSG", "Do it\n\nMemory-Session: codex:one\n# a comment\n"
    )
    assert add_session_trailer(project.workspace, message, CLAUDE, NOW)
    assert (
        message.read_text()
        == "Do it\n\nMemory-Session: codex:one, claude-code:79e9becd-1\n# a comment\n"
    )


def test_an_empty_message_and_a_commit_without_a_session_are_unchanged(
    project: Project,
) -> None:
    message = project.write(".git/COMMIT_EDITMSG", "\n# a comment\n")
    assert not add_session_trailer(project.workspace, message, CLAUDE, NOW)
    assert message.read_text() == "\n# a comment\n"
    assert not add_session_trailer(project.workspace, project.path / "nowhere", {}, NOW)
