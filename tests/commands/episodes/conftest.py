"""Fixtures: a project that writes episodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import Project, copy_project
from tests.repos import make_repo


@pytest.fixture(scope="session")
def shop_template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    repo = make_repo(tmp_path_factory.mktemp("template") / "shop")
    shop = Project(repo.path, repo.clock)
    shop.commit("Start", {"README.md": "Shop\n", "src/client.py": "one\n" * 9})
    return shop


@pytest.fixture
def shop(shop_template: Project, tmp_path: Path) -> Project:
    """Return a project with one commit and no episode."""
    return copy_project(shop_template, tmp_path / "shop")
