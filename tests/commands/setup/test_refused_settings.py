"""Tests of settings of agents that are refused and left as they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.commands.setup.install import uninstall
from memory_ci.errors import RepositoryError, UsageError
from tests.commands.setup.agent_settings import FILES, set_up
from tests.project import Project


def test_a_plugin_of_its_owner_is_not_replaced(project: Project) -> None:
    path = project.write(FILES["opencode"], "export const Mine = 1\n")
    with pytest.raises(UsageError) as caught:
        set_up(project, "opencode")
    assert caught.value.slug == "agent-settings"
    uninstall(project.workspace)
    assert path.read_text() == "export const Mine = 1\n"


@pytest.mark.parametrize(
    "text", ['{"a": 1, // mine\n}', "[]", '{"hooks": []}', '{"hooks": {"SessionEnd": {}}}', "{"]
)
def test_settings_in_an_unknown_form_are_left_unchanged(project: Project, text: str) -> None:
    path = project.write(FILES["gemini"], text)
    with pytest.raises(UsageError) as caught:
        set_up(project, "gemini")
    assert caught.value.slug == "agent-settings"
    assert path.read_text() == text
    assert not (project.path / ".gitattributes").exists(), "refused before anything was written"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            '{"hooks":{"SessionEnd":"x"}}',
            "the value of `hooks.SessionEnd` must be a list",
            "Make it what the agent",
        ),
        ('{"hooks": 7}', "the value of `hooks` must be an object", "Make it what the agent"),
        ("[]", "the file must be an object", "Make it what the agent"),
        ('{"a": 1, // mine\n}', "is not the plain JSON", "Take comments out"),
    ],
)
def test_the_fault_in_settings_is_named(
    project: Project, text: str, message: str, hint: str
) -> None:
    project.write(FILES["gemini"], text)
    with pytest.raises(UsageError) as caught:
        set_up(project, "gemini")
    assert message in caught.value.message
    assert caught.value.hint.startswith(hint)


def test_a_link_that_came_with_a_branch_leads_nobody_out(project: Project, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (project.path / ".claude").symlink_to(tmp_path / "outside")
    with pytest.raises(RepositoryError) as caught:
        set_up(project, "claude-code")
    assert caught.value.slug == "outside-repository"
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"hooks": {"SessionEnd": [{"b": 1, "b": 1}]}}', "[" * 100_000]
)
def test_settings_that_readers_understand_differently_are_left_alone(
    project: Project, text: str
) -> None:
    path = project.write(FILES["gemini"], text)
    with pytest.raises(UsageError) as caught:
        set_up(project, "gemini")
    assert caught.value.slug == "agent-settings"
    assert path.read_text() == text


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_settings_that_are_no_file_are_refused(
    project: Project, make: Callable[[Path], None]
) -> None:
    path = project.path / FILES["gemini"]
    path.parent.mkdir()
    make(path)
    with pytest.raises(RepositoryError) as caught:
        set_up(project, "gemini")
    assert caught.value.slug == "not-a-file"


def test_settings_behind_a_link_are_not_replaced_by_a_file(
    project: Project, tmp_path: Path
) -> None:
    real = tmp_path / "settings.json"
    real.write_text("{}")
    path = project.path / FILES["gemini"]
    path.parent.mkdir()
    path.symlink_to(real)
    with pytest.raises(UsageError) as caught:
        set_up(project, "gemini")
    assert caught.value.slug == "agent-settings"
    assert "symbolic link" in caught.value.message
    assert (path.is_symlink(), real.read_text()) == (True, "{}")
