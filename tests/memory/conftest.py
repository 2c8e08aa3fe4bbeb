"""Fixtures for tests of the memory: a project with code that entries cite."""

from __future__ import annotations

import pytest

from tests.memory.cited_code import CLIENT
from tests.project import Project


@pytest.fixture
def shop(project: Project) -> Project:
    """Return a project with `src/client.py`, which no entry cites yet."""
    project.commit("Write the client", {"src/client.py": CLIENT, "src/other.py": "x = 1\n"})
    return project
