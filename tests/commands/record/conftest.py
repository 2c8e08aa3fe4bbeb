"""Fixtures: a project with two known entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.records.plan import Plan
from memory_ci.store.edits import format_entry
from tests.commands.record.episodes_at_work import GIVEN
from tests.make import make_entry
from tests.project import Project, copy_project


@pytest.fixture(scope="session")
def recorded_template(
    project_template: Project, tmp_path_factory: pytest.TempPathFactory
) -> Project:
    project = copy_project(project_template, tmp_path_factory.mktemp("known") / "shop")
    first = make_entry(
        1, title="Send a key with each charge", cites=(f"src/client.py@{project.sha()[:12]}",)
    )
    second = make_entry(
        2, title="Name branches after their issue", body="So that they can be found."
    )
    project.commit("Remember", {"MEMORY.md": "\n".join(map(format_entry, (first, second)))})
    project.record()
    project.git("repack", "-adq")
    return project


@pytest.fixture(scope="session")
def first_plan(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return the plan of the first run on `project`."""
    return copy_project(project_template, tmp_path_factory.mktemp("planned") / "shop").plan()


@pytest.fixture(scope="session")
def charged_template(
    recorded_template: Project, tmp_path_factory: pytest.TempPathFactory
) -> Project:
    project = copy_project(recorded_template, tmp_path_factory.mktemp("charged") / "shop")
    project.merge_work(f"Charge once\n\n{GIVEN}", "once", 150)
    project.record()
    return project


@pytest.fixture
def charged(charged_template: Project, tmp_path: Path) -> Project:
    """Return `recorded_project` after a run that recorded #150, which used the first entry; its merge is HEAD~1."""
    return copy_project(charged_template, tmp_path / "shop")


@pytest.fixture
def recorded_project(recorded_template: Project, tmp_path: Path) -> Project:
    """Return a project with two entries, the first about src/client.py, whose history is recorded."""
    return copy_project(recorded_template, tmp_path / "shop")
