"""Fixtures: a project with a bare repository as its remote, and a double of GitHub's API for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import Project
from tests.remote import GitHubDouble, Publisher, Remote, make_remote
from tests.servers import Server, serve


@pytest.fixture
def remote(project: Project, tmp_path: Path) -> Remote:
    return make_remote(project, tmp_path / "shop.git")


@pytest.fixture
def forge(remote: Remote, tmp_path: Path) -> GitHubDouble:
    return GitHubDouble(remote, tmp_path / "forge")


@pytest.fixture
def server(forge: GitHubDouble) -> Iterator[Server]:
    with serve(forge) as running:
        yield running


@pytest.fixture
def publish(project: Project, forge: GitHubDouble, server: Server) -> Publisher:
    return Publisher(project, forge.environ(server.url))
