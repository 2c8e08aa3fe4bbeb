"""A project with code that entries cite."""

from __future__ import annotations

import pytest

from tests.memory.cited_code import CLIENT
from tests.project import Project


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with a client of some lines, about which nothing is remembered yet."""
    project.commit("Write the client", {"src/client.py": CLIENT, "src/other.py": "x = 1\n"})
    return project
