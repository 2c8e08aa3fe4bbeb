"""Fixtures: a project with memory to measure."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from tests.commands.health.measured_projects import rewrite
from tests.project import Project, make_project


@pytest.fixture(scope="session")
def measured_template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project that recorded two pull requests; the entry learned from the first is about the second, too."""
    project = make_project(tmp_path_factory.mktemp("health") / "shop")
    project.at(datetime(2026, 11, 10, tzinfo=UTC))
    project.merge_work(
        "fix: retry a charge when the gateway answers late", "late", 129, "src/gateway.py"
    )
    project.record()
    rewrite(project, last_reinforced=date(2026, 11, 10))
    return project
