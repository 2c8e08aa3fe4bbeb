"""Tests of finding files and tasks in a text that the repository does not have any more."""

from __future__ import annotations

import pytest

from memory_ci.memory.gone_names import describe_gone_name
from tests.project import Project

pytestmark = pytest.mark.in_project

SCRIPTS = '{"scripts": {"lint": "eslint ."}}'


def find(project: Project, text: str) -> str:
    """Return the name in a text that is gone, or an empty text."""
    return describe_gone_name(project.workspace.at(project.sha()), text)


def test_a_file_that_was_removed_is_gone(project: Project) -> None:
    project.commit("Write a guide", {"docs/style.md": "Short sentences.\n"})
    project.git("rm", "-q", "docs/style.md")
    project.commit("Drop the guide")
    assert find(project, "Follow docs/style.md when you write") == "docs/style.md is gone"
    assert find(project, "Follow style.md when you write") == "style.md is gone"


def test_an_existing_file_is_not_gone(project: Project) -> None:
    project.commit("Write a guide", {"docs/style.md": "Short sentences.\n"})
    assert find(project, "Follow `style.md` when you write") == ""


def test_a_file_that_was_renamed_is_not_gone(project: Project) -> None:
    project.commit("Write a guide", {"docs/style.md": "Short sentences.\n" * 9})
    project.git("mv", "docs/style.md", "docs/voice.md")
    project.commit("Rename the guide")
    assert find(project, "Follow style.md when you write") == ""


def test_a_name_that_history_never_had_is_not_gone(project: Project) -> None:
    assert find(project, "Use Node.js 20, e.g. for tests") == ""


def test_a_task_that_was_removed_from_the_file_of_its_runner_is_gone(project: Project) -> None:
    project.commit("Begin", {"package.json": '{"scripts": {"fmt": "x"}}', "Makefile": "check:\n"})
    project.commit("Drop tasks", {"package.json": SCRIPTS, "Makefile": "test:\n\tpytest\n"})
    assert find(project, "Always run npm run fmt first") == "npm run fmt is gone"
    assert find(project, "Always run `make check` first") == "make check is gone"


def test_a_task_that_no_file_ever_defined_is_not_gone(project: Project) -> None:
    project.commit("Lint", {"package.json": SCRIPTS})
    assert find(project, "Always run npm run fmt first") == ""


@pytest.mark.parametrize("text", ["Run npm run lint.", "Run npm run lint: it is fast"])
def test_punctuation_after_a_task_is_not_part_of_its_name(project: Project, text: str) -> None:
    project.commit("Lint", {"package.json": '{"scripts": {"lint.": "x", "lint:": "x"}}'})
    project.commit("Lint", {"package.json": SCRIPTS})
    assert find(project, text) == ""


@pytest.mark.parametrize(
    "text", ["Run npm run lint first", "Run `make test` first", "Make sure to pull, make it short"]
)
def test_a_task_that_is_defined_and_a_phrase_are_not_gone(project: Project, text: str) -> None:
    project.commit("Lint", {"package.json": SCRIPTS, "Makefile": "test:\n\tpytest\n"})
    assert find(project, text) == ""


def test_a_task_of_a_runner_without_a_file_is_not_gone(project: Project) -> None:
    assert find(project, "Run npm run lint first") == ""
