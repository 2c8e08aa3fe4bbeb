"""Fixtures for tests of gitrepo: a repository, a log of git calls, and a check for files left behind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.gitrepo.repo import Repository, find_repository
from tests.gitrepo.wrapped_git import make_git_wrapper
from tests.repos import RepoBuilder, make_repo


@pytest.fixture(scope="session")
def builder_template(tmp_path_factory: pytest.TempPathFactory) -> RepoBuilder:
    repo = make_repo(tmp_path_factory.mktemp("template") / "repo")
    repo.commit("Begin", {"README.md": "hello\n"})
    return repo


@pytest.fixture
def builder(builder_template: RepoBuilder, tmp_path: Path) -> RepoBuilder:
    """Return a repository on `main` with one commit."""
    return builder_template.copy(tmp_path / "repo")


@pytest.fixture
def repo(builder: RepoBuilder) -> Repository:
    """Open the repository with the package's own class."""
    return find_repository(builder.path)


@pytest.fixture
def wrap_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace git on PATH: `wrap_git(script)` runs a shell script ($GIT is the real git) and then git."""
    return make_git_wrapper(tmp_path, monkeypatch)


@pytest.fixture
def git_calls(tmp_path: Path, wrap_git: Callable[[str], None]) -> Callable[[], list[str]]:
    """Return a function that lists the arguments of all git calls since the test began."""
    log = tmp_path / "calls"
    log.touch()
    wrap_git(f'echo "$@" >> {log}')
    return lambda: log.read_text().splitlines()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let `tempfile` use an empty directory, so that a test can see which files were left."""
    path = tmp_path / "scratch"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


@pytest.fixture
def check_nothing_left_behind(tmp_path: Path, scratch: Path) -> object:
    """Check after the test that no temporary file or lock is left, and that the repositories are valid."""
    yield
    assert list(scratch.iterdir()) == []
    assert list(tmp_path.glob("**/sharedindex.*")) == []
    for head in tmp_path.glob("**/HEAD"):
        if (head.parent / "objects").is_dir():
            RepoBuilder(head.parent).git("fsck", "--strict", "--no-dangling")
