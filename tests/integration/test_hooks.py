"""Tests of the native hooks in a real `git commit`, and of the manifest for pre-commit."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from memory_ci.commands.root import main
from memory_ci.sessions.served_ids import record_served
from tests.make import make_id
from tests.project import IMPORTED_FROM, NOW, Project, make_project

ROOT = Path(__file__).parent.parent.parent
STAGES = {
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "prepare-commit-msg",
    "post-checkout",
    "post-commit",
    "post-merge",
    "post-rewrite",
    "commit-msg",
    "manual",
}
KEYS = {
    "id",
    "name",
    "description",
    "entry",
    "language",
    "files",
    "pass_filenames",
    "require_serial",
    "stages",
    "always_run",
    "minimum_pre_commit_version",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with our native hook, and this checkout's `memory-ci` on the PATH."""
    new_project = make_project(tmp_path / "shop")
    hooks = new_project.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    shutil.copy(ROOT / "hooks" / "prepare-commit-msg", hooks)
    command = tmp_path / "bin" / "memory-ci"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="{IMPORTED_FROM}" exec "{sys.executable}" -m memory_ci "$@"\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    return new_project


def test_a_commit_names_the_served_entries(project: Project) -> None:
    record_served(project.workspace, [make_id(1)], NOW)
    project.commit("Do it", {"x.txt": "x"})
    assert project.git(
        "log", "-1", "--format=%(trailers:key=Memory-Retrieved,valueonly)"
    ).strip() == make_id(1)
    project.commit("Do more", {"x.txt": "y"})
    assert "Memory-Retrieved" not in project.git("log", "-1", "--format=%B")


def test_the_hook_is_silent_without_memory_ci(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    record_served(project.workspace, [make_id(1)], NOW)
    project.commit("Do it", {"x.txt": "x"})
    assert project.git("log", "-1", "--format=%B").strip() == "Do it"


def test_every_native_hook_can_be_run(project: Project) -> None:
    for path in (ROOT / "hooks").iterdir():
        assert path.stat().st_mode & stat.S_IXUSR, path.name
        assert path.read_text().startswith("#!/bin/sh\n")
        assert path.read_text().endswith("exit 0\n")


def test_every_hook_of_the_manifest_is_ours_with_valid_keys_and_stages() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in hooks] == [
        "memory-ci-check",
        "memory-ci-fix",
        "memory-ci-notes",
        "memory-ci-trailers",
        "memory-ci-rules",
        "memory-ci-push",
        "memory-ci-sync",
    ]
    for hook in hooks:
        assert hook.keys() <= KEYS
        assert set(hook["stages"]) <= STAGES
        assert hook.get("always_run") or hook.get("files")
        program, command, *_ = hook["entry"].split()
        assert program == "memory-ci"
        assert main.get_command(main.make_context("memory-ci", ["list"]), command) is not None


def test_the_index_is_built_silently_after_git_moved_the_work_tree(
    project: Project,
) -> None:
    hook = project.path / ".git" / "hooks" / "post-checkout"
    hook.write_text('#!/bin/sh\nmemory-ci hook sync "$@" 2>&1\n')
    hook.chmod(0o755)
    done = project.git("checkout", "-q", "-b", "topic")
    assert done == ""
    assert (project.path / ".git" / "memory-ci" / "index.db").exists()


def test_an_index_that_cannot_be_built_stops_no_command(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    command = ["memory-ci", "hook", "sync"]
    completed = subprocess.run(command, cwd=outside, capture_output=True, check=False)
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, b"", b"")
