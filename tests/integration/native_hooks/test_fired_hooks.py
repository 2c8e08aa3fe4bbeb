"""Tests of the native hooks that git runs for each command: which run, and that they print nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from memory_ci.commands.setup.hooks import name_previous_hook
from memory_ci.commands.setup.install import install
from memory_ci.sessions.served_ids import record_served
from tests.integration.git_in_background import Done, run_git
from tests.integration.native_hooks.hooked import warmed
from tests.make import make_id
from tests.processes import CAN_ADOPT, Background
from tests.project import NOW, Project, copy_project

pytestmark = pytest.mark.skipif(
    not CAN_ADOPT, reason="no way to wait for what goes on in the background"
)


class Case(NamedTuple):
    """Git commands, whose last is tested, with the hooks that it runs, and whether memory changes."""

    name: str
    commands: Sequence[str]
    fired: Sequence[str]
    is_memory_new: bool = True
    status: int = 0


PICKED = ("prepare-commit-msg", "post-commit")
COMMIT = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
CASES = [
    Case("commit", ["add .", "commit -m x"], COMMIT),
    Case("commit -a", ["commit -a -m x"], COMMIT),
    Case("commit of a path", ["commit MEMORY.md -m x"], COMMIT),
    Case("commit without memory", ["commit src/client.py -m x"], COMMIT, is_memory_new=False),
    Case("amend", ["commit -a --amend --no-edit"], (*COMMIT, "post-rewrite")),
    Case(
        "nothing to commit",
        ["stash", "commit -m x"],
        ("pre-commit",),
        is_memory_new=False,
        status=1,
    ),
    Case("fast-forward", ["stash", "merge ahead"], ("post-merge",)),
    Case(
        "true merge",
        ["stash", "merge --no-edit beside"],
        ("prepare-commit-msg", "commit-msg", "post-merge"),
    ),
    Case("squash merge", ["stash", "merge --squash beside"], ("post-merge",), is_memory_new=False),
    Case("conflicted merge", ["stash", "merge --no-edit clash"], (), is_memory_new=False, status=1),
    Case("conflict resolved", ["stash", "merge clash", "add .", "commit --no-edit"], COMMIT),
    Case("checkout of a branch", ["stash", "checkout ahead"], ("post-checkout",)),
    Case("new branch here", ["checkout -b new"], ("post-checkout",), is_memory_new=False),
    Case("checkout of a file", ["checkout -- MEMORY.md"], ("post-checkout",), is_memory_new=False),
    Case(
        "rebase",
        ["stash", "checkout beside", "rebase main"],
        ("post-checkout", *PICKED, "post-rewrite"),
    ),
    Case("cherry-pick", ["stash", "cherry-pick beside"], PICKED),
    Case("revert", ["stash", "revert --no-edit HEAD"], PICKED),
    Case("stash", ["stash"], (), is_memory_new=False),
    Case("stash pop", ["stash", "stash pop"], (), is_memory_new=False),
    Case("reset", ["reset --hard ahead"], (), is_memory_new=False),
    Case("worktree add", ["worktree add ../linked-{0} ahead"], ("post-checkout",)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_git_runs_these_hooks_without_any_output(
    case: Case,
    template: Project,
    project: Project,
    mark: Path,
    tmp_path: Path,
    background: Background,
) -> None:
    plain = copy_project(template, tmp_path / "plain")
    *before, last = [command.format("x") for command in case.commands]
    for command in before:
        run_git(project.path, command)
        run_git(plain.path, command.replace("linked", "plain"))
    background.wait()
    mark.write_text("")
    start = warmed(project)
    result = run_git(project.path, last)
    expected = run_git(plain.path, last.replace("linked", "plain"))
    assert result == expected, "git's exit status and words are those it has without us"
    assert result.status == case.status
    background.wait()
    fired = mark.read_text().split()
    assert [name.removesuffix(".memory-ci-previous") for name in fired] == list(case.fired)
    place = project.path if "worktree" not in last else tmp_path / "linked-x"
    head = Project(place).sha()
    assert warmed(project) == (head if case.is_memory_new else start)


def test_a_push_runs_only_the_pre_push_hook(project: Project, mark: Path, tmp_path: Path) -> None:
    project.git("remote", "add", "origin", str(project.bare(tmp_path / "origin.git").path))
    mark.write_text("")
    assert run_git(project.path, "push -q origin main") == Done(0, "")
    assert mark.read_text().split() == [name_previous_hook("pre-push")]


def test_hooks_are_silent_if_the_package_was_removed(
    project: Project, mark: Path, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No module named memory_ci >&2\nexit 1\n")
    python.chmod(0o755)
    install(project.workspace, str(python))
    record_served(project.workspace, [make_id(1)], NOW)
    assert run_git(project.path, "commit -q -a -m x") == Done(0, "")
    project.git("remote", "add", "origin", str(project.bare(tmp_path / "origin.git").path))
    assert run_git(project.path, "push -q origin main") == Done(0, "")


def test_hooks_are_silent_if_the_interpreter_was_removed(
    project: Project, background: Background
) -> None:
    install(project.workspace, "/nowhere/bin/python")
    record_served(project.workspace, [make_id(1)], NOW)
    assert run_git(project.path, "commit -q -a -m x") == Done(0, "")
    assert run_git(project.path, "checkout -q ahead") == Done(0, "")
    background.wait()
