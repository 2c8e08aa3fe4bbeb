"""Tests of failures of the commit writer: a moved branch, a full disk and refused paths change nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.repo import Repository, find_repository
from memory_ci.memory.workspace import open_unconfigured
from tests.gitrepo.writing import MAIN, refused, series, state, write
from tests.repos import RepoBuilder, make_repo

pytestmark = pytest.mark.usefixtures("scratch", "check_nothing_left_behind")


def test_an_outdated_expected_commit_is_refused(builder: RepoBuilder, repo: Repository) -> None:
    old = builder.sha()
    builder.commit("Someone else", {"MEMORY.md": "theirs\n"})
    assert refused(repo, series({"MEMORY.md": b"m\n"}), expected=old).slug == "ref-moved"
    assert (
        refused(repo, series({"MEMORY.md": b"m\n"}), ref="refs/heads/none", expected=old).slug
        == "ref-moved"
    )


def test_a_branch_that_moves_while_the_commits_are_made_is_not_overwritten(
    builder: RepoBuilder, repo: Repository, wrap_git: Callable[[str], None]
) -> None:
    base = builder.sha()
    theirs = builder.commit("Someone else", {"theirs.md": "t\n"})
    builder.git("reset", "-q", "--hard", base)
    wrap_git(f'case "$*" in *commit-tree*) "$GIT" update-ref {MAIN} {theirs};; esac')
    with pytest.raises(RepositoryError) as failure:
        write(repo, series({"MEMORY.md": b"m\n"}))
    assert failure.value.slug == "ref-moved"
    assert builder.sha("main") == theirs
    assert not (builder.path / "MEMORY.md").exists()


def test_one_of_two_concurrent_writers_succeeds_and_the_other_gets_an_error(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    repo = find_repository(builder.bare(tmp_path / "bare.git").path, is_named=True)
    base, start, outcomes = builder.sha(), Barrier(2), list[str]()

    def run(name: str) -> None:
        start.wait()
        try:
            outcomes.append(write(repo, series({f"{name}.md": b"x\n"}), expected=base))
        except RepositoryError as error:
            outcomes.append(error.slug)

    threads = [Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes, key=len) == ["ref-moved", RepoBuilder(repo.cwd).sha("main")]


@pytest.mark.parametrize(
    "step", ["hash-object", "read-tree", "update-index", "write-tree", "commit-tree", "update-ref"]
)
def test_a_failing_step_changes_nothing(
    builder: RepoBuilder, repo: Repository, wrap_git: Callable[[str], None], step: str
) -> None:
    wrap_git(
        f'case "$*" in *core.hooksPath*" {step} "*) echo "No space left on device" >&2; exit 128;; esac'
    )
    if step == "write-tree":
        wrap_git(
            'case "$*" in *core.hooksPath*write-tree) echo "No space left on device" >&2; exit 128;; esac'
        )
    error = refused(repo, series({"MEMORY.md": b"m\n"}))
    assert error.slug == "git-failed"
    assert "No space left on device" in error.message


LIMITED = """
import resource, sys
from datetime import UTC, datetime
from pathlib import Path
import memory_ci.gitrepo.writer as writer
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.repo import find_repository, resolve_commit
repo = find_repository(Path(sys.argv[1]), is_named=True)
tip = resolve_commit(repo, "HEAD")
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
plan = [writer.PlannedCommit({"MEMORY.md": b"m" * 5000}, "memory")]
who, when = writer.Identity("a", "b"), datetime(2026, 1, 1, tzinfo=UTC)
try:
    writer.commit_series(repo, ref="refs/heads/main", expected=tip, commits=plan, identity=who, when=when)
except RepositoryError as error:
    print(error.slug)
"""


@pytest.mark.parametrize(("limit", "slug"), [(1000, "write-failed"), (6000, "git-failed")])
def test_a_full_disk_changes_nothing(
    builder: RepoBuilder, scratch: Path, monkeypatch: pytest.MonkeyPatch, limit: int, slug: str
) -> None:
    builder.commit("Many", {f"a-name-to-fill-the-index-{number}": "x" for number in range(100)})
    before = state(builder)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    completed = subprocess.run(
        [sys.executable, "-c", LIMITED, str(builder.path), str(limit)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.strip() == slug
    assert state(builder) == before
    assert list(builder.path.glob(".git/*.lock")) == []


@pytest.mark.parametrize("step", ["checkout-index", "update-index"])
def test_nothing_is_committed_if_the_files_cannot_be_written(
    builder: RepoBuilder, repo: Repository, wrap_git: Callable[[str], None], step: str
) -> None:
    builder.commit("Memory", {"MEMORY.md": "m\n", "old name.md": "o\n"})
    before = state(builder)
    wrap_git(f'case "$GIT_INDEX_FILE $*" in " "*{step}*) exit 128;; esac')
    with pytest.raises(RepositoryError) as failure:
        write(repo, series({"MEMORY.md": b"n\n", "old name.md": None}))
    assert failure.value.slug == "write-failed"
    wrap_git("")
    assert open_unconfigured(builder.path).findings == ()
    assert state(builder) == before


def test_the_files_are_unchanged_if_the_branch_cannot_move(
    builder: RepoBuilder, repo: Repository, wrap_git: Callable[[str], None]
) -> None:
    builder.commit("Memory", {"MEMORY.md": "m\n", "old name.md": "o\n"})
    before = state(builder)
    wrap_git('case "$*" in *update-ref*) exit 128;; esac')
    with pytest.raises(RepositoryError):
        write(repo, series({"MEMORY.md": b"n\n", "new.md": b"n\n", "old name.md": None}))
    assert state(builder) == before


def special(builder: RepoBuilder, path: Path) -> None:
    """Commit a link to a file, a link to a directory, a submodule and an executable."""
    module = make_repo(path / "module")
    module.commit("Module", {"x.md": "x\n"})
    builder.git("update-index", "--add", "--cacheinfo", f"160000,{module.sha()},module")
    builder.commit("Files", {"docs/mem.md": "m\n"})
    (builder.path / "MEMORY.md").symlink_to("docs/mem.md")
    (builder.path / "linked").symlink_to("docs")
    builder.git("add", "MEMORY.md", "linked")
    builder.commit("Links")


@pytest.mark.parametrize(
    ("path", "obstacle"),
    [
        ("MEMORY.md", "MEMORY.md"),
        ("module", "module"),
        ("docs", "docs"),
        ("linked/MEMORY.md", "linked"),
        ("module/a/MEMORY.md", "module"),
        ("README.md/MEMORY.md", "README.md"),
    ],
)
@pytest.mark.parametrize("data", [b"new\n", None])
def test_a_link_a_submodule_and_a_directory_are_not_replaced_by_a_file(
    builder: RepoBuilder,
    repo: Repository,
    tmp_path: Path,
    path: str,
    obstacle: str,
    data: bytes | None,
) -> None:
    special(builder, tmp_path)
    builder.checkout("--detach")
    error = refused(repo, series({"good.md": b"g\n", path: data}))
    assert error.slug == "not-a-plain-file"
    assert error.message.startswith(f"{obstacle} in ")


@pytest.mark.parametrize("path", [".GIT/x", "./MEMORY.md", "a//x", "a/../x", "a/.git/x"])
def test_a_path_that_git_refuses_is_an_error(
    builder: RepoBuilder, repo: Repository, path: str
) -> None:
    error = refused(repo, series({"good.md": b"g\n", path: b"new\n"}))
    assert error.slug == "git-failed"
    assert repr(path) in error.message


def test_two_conflicting_paths_of_one_commit_are_an_error(
    builder: RepoBuilder, repo: Repository
) -> None:
    assert refused(repo, series({"a": b"1\n", "a/b.md": b"2\n"})).slug == "git-failed"
