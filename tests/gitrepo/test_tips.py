"""Tests of the tips of the default branch and the current work, read by one process."""

from __future__ import annotations

from pathlib import Path

from memory_ci.gitrepo.repo import find_repository, read_tips
from tests.repos import RepoBuilder, make_repo


def read_both_tips(repo: RepoBuilder) -> tuple[str | None, str]:
    tips_read = read_tips(find_repository(repo.path))
    return tips_read.commit, tips_read.work_branch


def test_the_current_work_is_a_branch_other_than_the_default(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    assert read_both_tips(repo) == (None, ""), "nothing is committed yet"
    start = repo.commit("Start")
    assert read_both_tips(repo) == (start, "")
    repo.branch("feat/retry")
    repo.commit("Retry")
    assert read_both_tips(repo) == (start, "feat/retry")
    repo.git("checkout", "-q", "--detach")
    assert read_both_tips(repo) == (start, "")


def test_the_remote_defines_the_default_branch(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    repo.commit("Start")
    repo.branch("next/2")
    newest = repo.commit("Newest")
    repo.git("clone", "-q", ".", str(tmp_path / "clone"))
    clone = RepoBuilder(tmp_path / "clone", repo.clock)
    assert read_both_tips(clone) == (newest, "")
    clone.branch("main", "origin/main")
    assert read_both_tips(clone) == (newest, "main")
    assert read_tips(find_repository(clone.path)).default == "refs/remotes/origin/next/2"


def test_without_a_default_branch_there_is_no_tip(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    repo.git("checkout", "-q", "-b", "trunk")
    repo.commit("Start")
    assert read_both_tips(repo) == (None, "trunk")
