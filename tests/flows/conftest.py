"""Repositories that the corridors run over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.project import Project, copy_project, make_project


@pytest.fixture(scope="session")
def project_template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("template") / "shop")


@pytest.fixture
def project(project_template: Project, tmp_path: Path) -> Project:
    """A repository with memory set up, and one merged pull request whose author marked what was learned."""
    return copy_project(project_template, tmp_path / "shop")
