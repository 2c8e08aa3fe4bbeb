"""Fixtures of the git floor: a repository, a git that counts its starts, and a watch over what is left behind."""

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
    """A repository on `main` with one commit."""
    return builder_template.copy(tmp_path / "repo")


@pytest.fixture
def repo(builder: RepoBuilder) -> Repository:
    """The same repository, as the code sees it."""
    return find_repository(builder.path)


@pytest.fixture
def wrap_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`wrap_git(script)` puts a git on PATH that runs a shell script, in which $GIT is the real one, and then git."""
    return make_git_wrapper(tmp_path, monkeypatch)


@pytest.fixture
def git_calls(tmp_path: Path, wrap_git: Callable[[str], None]) -> Callable[[], list[str]]:
    """The command lines that git was started with since the test began."""
    log = tmp_path / "calls"
    log.touch()
    wrap_git(f'echo "$@" >> {log}')
    return lambda: log.read_text().splitlines()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of its own, so that a test can ask what was left in it."""
    path = tmp_path / "scratch"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


@pytest.fixture
def nothing_is_left_behind(tmp_path: Path, scratch: Path) -> object:
    """After each test: no temporary file, no lock, and sound repositories."""
    yield
    assert list(scratch.iterdir()) == []
    assert list(tmp_path.glob("**/sharedindex.*")) == []
    for head in tmp_path.glob("**/HEAD"):
        if (head.parent / "objects").is_dir():
            RepoBuilder(head.parent).git("fsck", "--strict", "--no-dangling")
