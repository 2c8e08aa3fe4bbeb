"""Fixtures: a project in which everything is set up, for doctor to check."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from memory_ci.commands.setup.install import install
from tests.agents_at_work import WORDS, keep_session, make_session
from tests.project import NOW, Project, copy_project, make_project


@pytest.fixture(scope="session")
def healthy_template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project after init, install, a captured session with a merged change, and a record run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CI", "true")  # no hook starts anything in the background
        return set_up(tmp_path_factory)


def set_up(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("healthy")
    project = make_project(folder / "shop")
    project.git("config", "user.name", "Ada")
    project.git("config", "user.email", "ada@example.com")
    install(project.workspace, sys.executable, agents=["claude-code"])
    project.git("add", ".gitattributes")
    project.commit("Merge memory files by entries")
    key = keep_session(project, folder, make_session(WORDS, at=project.clock.now))
    project.merge_work(f"Refund once\n\nMemory-Session: {key}", "refund", 129, "src/refund.py")
    project.at(NOW - timedelta(hours=1))
    project.record()
    return project


@pytest.fixture
def healthy(healthy_template: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("CI", "true")
    return copy_project(healthy_template, tmp_path / "shop")
