"""Tests of the native commit-msg hook, which refuses a commit that violates a check of level fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memory_ci.commands.setup.hooks import hook_text
from memory_ci.records.check import CheckLevel, WithCheck
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import IMPORTED_FROM, Project

pytestmark = pytest.mark.in_project


@pytest.fixture
def shop(project: Project) -> Project:
    """Return a project with our hook and a staged file."""
    hook = project.path / ".git/hooks/commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(hook_text("commit-msg", sys.executable))
    hook.chmod(0o755)
    return project


def put_rule(shop: Project, level: CheckLevel, path: str = "MEMORY.md") -> None:
    check = WithCheck(("src/**",), ("CHANGELOG.md",))
    entry = make_entry(1, title="Say what changed", check=check, level=level)
    shop.commit("Rule", {path: format_entry(entry)})


def commit(shop: Project, message: str, path: str | None = None) -> tuple[int, str]:
    """Commit a new file with a message, and return git's exit status and output."""
    shop.write("src/new.py", "x\n")
    shop.git("add", "src/new.py")
    env = {**os.environ, "PYTHONPATH": IMPORTED_FROM, "PYTHONSAFEPATH": ""}
    if path is not None:
        env["PATH"] = path
    git = shutil.which("git")
    assert git is not None
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    completed = subprocess.run(
        [git, *author, "commit", "-q", "-m", message],
        cwd=shop.path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return completed.returncode, completed.stderr


@pytest.mark.parametrize("path", ["MEMORY.md", "src/api/MEMORY.md", ".memory/inbox/1.md"])
def test_a_violation_of_level_fail_stops_the_commit(shop: Project, path: str) -> None:
    put_rule(shop, "fail", path)
    before = shop.sha()
    status, printed = commit(shop, "Work")
    assert status == 1
    assert "memory-ci: error: CHANGELOG.md is not touched" in printed
    assert shop.sha() == before


@pytest.mark.parametrize("level", ["remind", "warn"])
def test_other_levels_print_a_line(shop: Project, level: CheckLevel) -> None:
    put_rule(shop, level)
    status, printed = commit(shop, "Work")
    assert (status, "memory-ci: note: CHANGELOG.md" in printed) == (0, True)


def test_a_skip_in_the_message_passes(shop: Project) -> None:
    put_rule(shop, "fail")
    assert commit(shop, "Work\n\nMemory-Skip: 0000 nobody sees it")[0] == 0


def test_a_check_in_a_file_that_a_scope_names_counts(shop: Project) -> None:
    shop.commit("Scope", {".memory-ci.yaml": "scopes:\n  project: [docs/rules.md]\n"})
    put_rule(shop, "fail", "docs/rules.md")
    assert commit(shop, "Work")[0] == 1


def test_without_a_check_no_python_is_started(shop: Project) -> None:
    hook = shop.path / ".git/hooks/commit-msg"
    hook.write_text(hook.read_text().replace(sys.executable, "/missing/python"))
    assert commit(shop, "Work") == (0, "")


def test_the_commit_is_made_if_our_python_is_missing(shop: Project, tmp_path: Path) -> None:
    put_rule(shop, "fail")
    hook = shop.path / ".git/hooks/commit-msg"
    hook.write_text(hook.read_text().replace(sys.executable, str(tmp_path / "missing")))
    assert commit(shop, "Work")[0] == 0
