"""Fixtures for tests of native hooks: a repository with all of them installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memory_ci.commands.setup.hooks import HOOKS
from memory_ci.commands.setup.install import install
from memory_ci.memory.prewarm import prewarm
from memory_ci.store.layout import fragment_path
from tests.integration.native_hooks.hooked import NOTING, note
from tests.make import make_id
from tests.processes import Background
from tests.project import IMPORTED_FROM, NOW, Project, copy_project, make_project


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a repository with main, three branches with their own memory, and local changes; no hooks."""
    new_project = make_project(tmp_path_factory.mktemp("template") / "shop")
    new_project.commit("Base", {"MEMORY.md": note(1), "src/client.py": "base\n"})
    start = new_project.sha()
    for number, name in enumerate(("ahead", "beside", "clash"), 2):
        new_project.branch(name, start)
        new_project.commit(name, {fragment_path(make_id(number)): note(number)})
    new_project.commit("clash", {"src/client.py": "clash\n"})
    new_project.checkout("main")
    new_project.git("merge", "-q", "--ff-only", start)
    new_project.commit("On main", {"MEMORY.md": note(7), "src/client.py": "main\n"})
    new_project.git("branch", "-qf", "ahead", "main")
    new_project.checkout("ahead")
    new_project.commit("Ahead", {fragment_path(make_id(8)): note(8)})
    new_project.checkout("main")
    new_project.write(
        ".git/info/exclude", ".gitattributes\n"
    )  # which `install` makes: nothing else may tell the copies apart
    new_project.write("MEMORY.md", note(9))
    new_project.write("src/client.py", "changed\n")
    return new_project


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which hooks write their names."""
    fired = tmp_path / "fired"
    fired.touch()
    monkeypatch.setenv("FIRED", str(fired))
    monkeypatch.setenv("PYTHONPATH", IMPORTED_FROM)
    monkeypatch.setenv("GIT_AUTHOR_DATE", NOW.isoformat())
    monkeypatch.setenv("GIT_COMMITTER_DATE", NOW.isoformat())
    return fired


@pytest.fixture(scope="session")
def installed(template: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return the template with all hooks installed and the index built."""
    new_project = copy_project(template, tmp_path_factory.mktemp("installed") / "shop")
    for hook in HOOKS:
        new_project.write(f".git/hooks/{hook}", NOTING).chmod(0o755)
    install(new_project.workspace, sys.executable)
    prewarm(new_project.path)
    return new_project


@pytest.fixture
def project(installed: Project, tmp_path: Path, mark: Path, background: Background) -> Project:
    """Return a copy with all hooks installed and the index built."""
    return copy_project(installed, tmp_path / "shop")
