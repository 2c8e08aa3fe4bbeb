"""Fixtures: a project whose first run opened a memory pull request, made once and copied for each test."""

from __future__ import annotations

import pytest

from memory_ci.records.plan import Published
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import Project
from tests.remote import GitHubDouble, Publisher, Remote, SavedRequest, open_request


@pytest.fixture(scope="session")
def saved_request(
    project_template: Project, tmp_path_factory: pytest.TempPathFactory
) -> SavedRequest:
    return open_request(project_template, tmp_path_factory.mktemp("opened"))


@pytest.fixture(scope="session")
def saved_use(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> SavedRequest:
    """Return the state after a run that reinforced an entry of the base, "Known before"."""

    def use(project: Project) -> None:
        known_entry = make_entry(7, title="Known before")
        project.commit("Keep", {"MEMORY.md": format_entry(known_entry)})
        project.commit(f"Use it\n\nMemory-Used: {make_id(7)}\n", {"a.txt": "a"})

    return open_request(project_template, tmp_path_factory.mktemp("used"), use)


@pytest.fixture
def opened(
    saved_request: SavedRequest, publish: Publisher, remote: Remote, forge: GitHubDouble
) -> Published:
    """Return what the first run of `publish` returned, after `publish("pr")`: a request with two entries."""
    saved_request.restore(publish.project, remote, forge)
    return saved_request.published
