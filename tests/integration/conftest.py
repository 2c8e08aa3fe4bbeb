"""Fixtures for attacks: a project with honest work, and an attacker of a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.attacker import Attacker, do_honest_work
from tests.project import Project, copy_project, make_project


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Make a project with a marked commit and a session, both honest, from which nothing is recorded yet."""
    folder = tmp_path_factory.mktemp("scene")
    project = make_project(folder / "shop")
    do_honest_work(project, folder)
    return project


@pytest.fixture
def attacker(scene: Project, tmp_path: Path) -> Attacker:
    return Attacker(copy_project(scene, tmp_path / "shop"), tmp_path / "attacker")
