"""Fixtures: a project for the tests of the MCP server."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import Project, copy_project, make_project


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with a norm, an entry about zebras, and an entry of a session."""
    project = make_project(tmp_path_factory.mktemp("mcp") / "shop")
    files = {
        "institutional.md": format_entry(
            make_entry(1, title="Money is an integer number of cents")
        ),
        "MEMORY.md": format_entry(
            make_entry(2, title="Zebra crossings need a light", body="At night.")
        ),
        ".teaparty/jobs/job-7/institutional.md": format_entry(
            make_entry(3, title="Zebra of job seven")
        ),
    }
    project.commit("Zoo", files)
    return project


@pytest.fixture
def zoo(template: Project, tmp_path: Path) -> Project:
    return copy_project(template, tmp_path / "shop")
