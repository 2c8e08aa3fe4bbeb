"""A project with honest work, and who attacks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.attacker import Attacker, do_honest_work
from tests.project import Project, copy_project, make_project


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a marked learning and a session that are honest, and nothing recorded yet."""
    folder = tmp_path_factory.mktemp("scene")
    project = make_project(folder / "shop")
    do_honest_work(project, folder)
    return project


@pytest.fixture
def attacker(scene: Project, tmp_path: Path) -> Attacker:
    return Attacker(copy_project(scene, tmp_path / "shop"), tmp_path / "attacker")
