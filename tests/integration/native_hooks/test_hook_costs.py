"""Tests of the costs of native hooks: started processes, loaded modules and git calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_ci.commands.setup.hooks import HOOKS
from memory_ci.memory.prewarm import prewarm, warmed_path
from memory_ci.sessions.served_ids import record_served
from tests.integration.native_hooks.hooked import count_starts, warmed
from tests.make import make_id
from tests.processes import CAN_ADOPT, Background
from tests.project import NOW, Project

pytestmark = pytest.mark.skipif(
    not CAN_ADOPT, reason="no way to wait for what goes on in the background"
)


ROOT = Path(__file__).parents[3]
BACKGROUND = ("post-checkout", "post-commit", "post-merge", "post-rewrite")


def test_a_commit_without_memory_starts_no_interpreter(
    project: Project, background: Background, tmp_path: Path
) -> None:
    assert (
        count_starts(
            project, tmp_path, background, "commit src/client.py -m x", "commit --amend -m y"
        )
        == []
    )


def test_a_commit_of_memory_starts_one_interpreter_and_the_next_commit_none(
    project: Project, background: Background, tmp_path: Path
) -> None:
    assert count_starts(
        project, tmp_path, background, "commit -a -m x", "commit --allow-empty -m y"
    ) == ["sync"]


def test_a_changed_configuration_builds_the_index(
    project: Project, background: Background, tmp_path: Path
) -> None:
    project.write(".memory-ci.yaml", "scopes:\n  project: [NOTES.md]\n")
    project.git("add", ".memory-ci.yaml")
    assert count_starts(project, tmp_path, background, "commit .memory-ci.yaml -m x") == ["sync"]
    assert "NOTES.md" in warmed_path(project.workspace).read_text().splitlines()


@pytest.mark.parametrize("lost", ["index.db", "warmed"])
def test_an_index_that_was_deleted_is_built_again(
    project: Project, background: Background, tmp_path: Path, lost: str
) -> None:
    (project.path / ".git/memory-ci" / lost).unlink()
    assert count_starts(project, tmp_path, background, "commit --allow-empty -m x") == ["sync"]


def test_a_new_episode_builds_the_index(
    project: Project, background: Background, tmp_path: Path
) -> None:
    project.write(".memory/episodes/2026-11/pr-1.md", "An episode.\n")
    project.git("add", ".memory")
    assert count_starts(project, tmp_path, background, "commit .memory -m x") == ["sync"]
    assert warmed(project) == project.sha()


def test_a_missing_indexed_commit_builds_the_index(
    project: Project, background: Background, tmp_path: Path
) -> None:
    path = warmed_path(project.workspace)
    path.write_text(path.read_text().replace(warmed(project), "1" * 40))
    assert count_starts(project, tmp_path, background, "commit --allow-empty -m x") == ["sync"]
    assert warmed(project) == project.sha()


def test_in_ci_no_index_is_built(
    project: Project, background: Background, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    assert count_starts(project, tmp_path, background, "commit -a -m x") == []


def test_the_hooks_that_build_the_index_have_the_same_text() -> None:
    assert len({(ROOT / "hooks" / hook).read_bytes() for hook in BACKGROUND}) == 1
    assert {path.name for path in (ROOT / "hooks").iterdir()} == set(HOOKS)


@pytest.mark.parametrize("work", ["sync", "pre-push", "prepare-commit-msg"])
def test_a_hook_loads_no_slow_library(project: Project, work: str) -> None:
    record_served(project.workspace, [make_id(1)], NOW)
    argv = ["hook", work, *([".git/COMMIT_EDITMSG"] if work == "prepare-commit-msg" else [])]
    program = (
        "import sys; from memory_ci.commands.root import main;"
        f"main.main({argv}, standalone_mode=False); print(*sys.modules)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], cwd=project.path, capture_output=True, check=True
    )
    loaded = set(completed.stdout.decode().split())
    assert "memory_ci.commands.agents.hook" in loaded
    assert not loaded & {"git", "anthropic", "urllib3", "numpy", "asyncio"}


def test_updating_a_current_index_takes_three_git_calls(project: Project, tmp_path: Path) -> None:
    project.git("stash", "-q")
    prewarm(project.path)
    trace = tmp_path / "trace"
    command = [sys.executable, "-m", "memory_ci", "hook", "sync"]
    subprocess.run(
        command, cwd=project.path, env={**os.environ, "GIT_TRACE": str(trace)}, check=True
    )
    lines = [
        line.partition("built-in: git ")[2]
        for line in trace.read_text().splitlines()
        if "built-in" in line
    ]
    assert [line.split()[0] for line in lines] == [
        "rev-parse",
        "ls-files",
        "for-each-ref",
    ]
