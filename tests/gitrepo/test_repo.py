"""Tests of finding a repository, its commits, its work trees and its HEAD."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.repo import (
    Contents,
    Repository,
    Worktree,
    find_commit,
    find_repository,
    head_branch,
    is_ancestor,
    is_shallow,
    list_worktrees,
    resolve_commit,
)
from memory_ci.gitrepo.writer import Identity, PlannedCommit, commit_series
from tests.repos import RepoBuilder, make_repo


def test_a_repository_is_found_from_its_root_and_from_below(builder: RepoBuilder) -> None:
    root, git_dir = builder.path, builder.path / ".git"
    deep = root / "a" / "b c"
    deep.mkdir(parents=True)
    assert find_repository(root) == find_repository(deep) == Repository(root, git_dir, git_dir)


def test_a_bare_repository_has_no_root(builder: RepoBuilder, tmp_path: Path) -> None:
    bare = builder.bare(tmp_path / "bare.git").path
    repository = find_repository(bare, is_named=True)
    assert repository == Repository(None, bare, bare)
    assert repository.cwd == bare


@pytest.mark.parametrize("place", [".", "refs"])
def test_a_bare_repository_that_is_not_named_is_refused(
    builder: RepoBuilder, tmp_path: Path, place: str
) -> None:
    bare = builder.bare(tmp_path / "bare.git").path
    with pytest.raises(RepositoryError) as caught:
        find_repository(bare / place)
    assert caught.value.slug == "unnamed-repository"
    assert "GIT_DIR" in caught.value.hint


def test_git_dir_names_a_bare_repository(
    builder: RepoBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = builder.bare(tmp_path / "bare.git").path
    monkeypatch.setenv("GIT_DIR", str(bare))
    assert find_repository(tmp_path) == Repository(None, bare, bare)


def test_the_directory_dot_git_belongs_to_its_repository(builder: RepoBuilder) -> None:
    git_dir = builder.path / ".git"
    assert find_repository(git_dir / "refs") == Repository(None, git_dir, git_dir)


def test_a_folder_of_a_clone_that_looks_like_a_repository_is_refused(builder: RepoBuilder) -> None:
    fixture = builder.path / "docs" / "fixture"
    for name in ("objects", "refs"):
        (fixture / name).mkdir(parents=True)
    (fixture / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (fixture / "config").write_text("[core]\n\tbare = false\n\tworktree = ..\n", encoding="utf-8")
    for place in (fixture, fixture / "objects"):
        with pytest.raises(RepositoryError) as caught:
            find_repository(place)
        assert caught.value.slug == "unnamed-repository"


def test_a_filter_that_the_configuration_names_is_not_run(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    builder.commit("One", {"MEMORY.md": "one\n", ".gitattributes": "*.md filter=x\n"})
    ran = tmp_path / "ran"
    for setting in ("clean", "smudge", "process"):
        builder.git("config", f"filter.x.{setting}", f"touch {ran}; cat")
    builder.git("config", "filter.x.required", "true")
    builder.write("MEMORY.md", "two\n")
    repo = find_repository(builder.path)
    listed = run_git(repo.cwd, "ls-files", "--modified").decode().split()
    run_git(repo.cwd, "checkout-index", "--force", "MEMORY.md")
    assert listed == ["MEMORY.md"]
    assert not ran.exists()


def test_a_linked_work_tree_has_its_own_git_dir_and_shares_the_common_one(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    linked = builder.worktree(tmp_path / "linked", "topic")
    main = builder.path / ".git"
    assert find_repository(linked.path) == Repository(
        linked.path, main / "worktrees" / "linked", main
    )


def test_a_symlinked_path_gives_the_real_root(builder: RepoBuilder, tmp_path: Path) -> None:
    (builder.path / "sub").mkdir()
    (tmp_path / "way").symlink_to(builder.path / "sub")
    assert find_repository(tmp_path / "way").root == builder.path


def test_a_repository_is_found_with_one_process(
    builder: RepoBuilder, git_calls: Callable[[], list[str]]
) -> None:
    find_repository(builder.path)
    assert len(git_calls()) == 1


def test_git_dir_of_a_calling_hook_is_ignored(
    builder: RepoBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_repo = make_repo(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other_repo.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other_repo.path))
    assert find_repository(builder.path).root == builder.path


def test_the_error_outside_of_a_repository_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError) as failure:
        find_repository(tmp_path)
    assert failure.value.slug == "not-a-repository"
    assert str(tmp_path) in failure.value.message
    assert "git init" in failure.value.hint


def test_a_repository_of_another_owner_is_refused_with_gits_message(
    builder: RepoBuilder, wrap_git: Callable[[str], None]
) -> None:
    wrap_git("export GIT_TEST_ASSUME_DIFFERENT_OWNER=1")
    with pytest.raises(RepositoryError, match="ownership") as failure:
        find_repository(builder.path)
    assert "safe.directory" in failure.value.message


def test_a_commit_is_found_by_every_kind_of_name(builder: RepoBuilder) -> None:
    builder.git("tag", "-a", "v1", "-m", "one")
    repo, sha = find_repository(builder.path), builder.sha()
    assert {
        find_commit(repo, name) for name in ("HEAD", "main", "refs/heads/main", "v1", sha, sha[:9])
    } == {sha}


@pytest.mark.parametrize(
    "rev", ["nowhere", "--all", "-x", "^HEAD", "HEAD:README.md", "HEAD..HEAD", "", "a\0b", "0" * 40]
)
def test_a_name_of_no_commit_is_an_unknown_revision(repo: Repository, rev: str) -> None:
    assert find_commit(repo, rev) is None
    with pytest.raises(RepositoryError) as failure:
        resolve_commit(repo, rev)
    assert failure.value.slug == "unknown-revision"


def test_head_is_on_a_branch_even_before_its_first_commit_and_on_none_when_detached(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    unborn = find_repository(make_repo(tmp_path / "unborn").path)
    assert head_branch(unborn) == "refs/heads/main"
    assert find_commit(unborn, "HEAD") is None
    builder.branch("feature/ü")
    assert head_branch(find_repository(builder.path)) == "refs/heads/feature/ü"
    builder.git("checkout", "-q", "--detach")
    assert head_branch(find_repository(builder.path)) is None


def test_ancestry_includes_the_commit_itself(builder: RepoBuilder, repo: Repository) -> None:
    old, new = builder.sha(), builder.commit("More")
    assert is_ancestor(repo, old, new)
    assert is_ancestor(repo, new, new)
    assert not is_ancestor(repo, new, old)


def test_a_clone_of_limited_depth_is_shallow(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    builder.commit("More")
    builder.git("clone", "-q", "--depth=1", f"file://{builder.path}", str(tmp_path / "shallow"))
    assert is_shallow(find_repository(tmp_path / "shallow"))
    assert not is_shallow(repo)


def test_all_work_trees_are_listed_the_main_one_first(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    builder.worktree(tmp_path / "with space", "topic")
    builder.worktree(tmp_path / "free", "other").git("checkout", "-q", "--detach")
    first, *linked = list_worktrees(repo)
    assert first == Worktree(builder.path, "refs/heads/main", False)
    assert sorted(linked, key=lambda tree: tree.path) == [
        Worktree(tmp_path / "free", None, False),
        Worktree(tmp_path / "with space", "refs/heads/topic", False),
    ]


def test_a_bare_repository_is_listed_as_such(builder: RepoBuilder, tmp_path: Path) -> None:
    bare = builder.bare(tmp_path / "bare.git")
    bare.worktree(tmp_path / "linked", "main")
    listed = list_worktrees(find_repository(bare.path, is_named=True))
    assert listed == (
        Worktree(bare.path, None, True),
        Worktree(tmp_path / "linked", "refs/heads/main", False),
    )


def test_a_separate_git_directory_is_not_the_work_tree(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    RepoBuilder(work).git("init", "-q", "-b", "main", f"--separate-git-dir={tmp_path / 'store'}")
    assert list_worktrees(find_repository(work)) == (Worktree(work, "refs/heads/main", False),)


def test_a_safe_directory_in_the_environment_is_accepted(
    builder: RepoBuilder, wrap_git: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrap_git("export GIT_TEST_ASSUME_DIFFERENT_OWNER=1")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(builder.path))
    repo = find_repository(builder.path)
    assert repo.root == builder.path
    identity = Identity("memory-ci", "memory-ci@example.com")
    planned = [PlannedCommit({"MEMORY.md": b"m\n"}, "memory: x\n")]
    base = find_commit(repo, "main")
    assert base
    tip = commit_series(
        repo,
        ref="refs/heads/main",
        expected=base,
        commits=planned,
        identity=identity,
        when=builder.clock.now,
    )
    assert find_commit(repo, "main") == tip != base


# -- what is kept of git's answers


def test_a_name_is_resolved_again_each_time(builder: RepoBuilder, repo: Repository) -> None:
    old = builder.sha()
    assert (find_commit(repo, "HEAD"), is_ancestor(repo, "HEAD", old)) == (old, True)
    new = builder.commit("Move on")
    assert (find_commit(repo, "HEAD"), is_ancestor(repo, "HEAD", old)) == (new, False)
    assert is_ancestor(repo, old, new)
    assert repo.ancestor_pairs == {(old, new)}


def test_a_missing_commit_is_searched_again(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    other_repo = make_repo(tmp_path / "other")
    sha = other_repo.commit("Elsewhere")
    assert find_commit(repo, sha) is None
    builder.git("fetch", "-q", str(other_repo.path), "main")
    assert find_commit(repo, sha) == sha


def test_contents_are_cached_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_ci.gitrepo.repo.MAX_KEPT", 100)
    contents = Contents()
    for number in range(50):
        contents.add(f"{number}", b"x" * 20)
        assert sum(map(len, contents.values())) <= 100
    contents.add("large", b"x" * 26)
    assert "large" not in contents


@pytest.mark.parametrize("state", ["branch", "nested", "detached", "linked"])
def test_head_is_read_without_a_process(
    builder: RepoBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    path = builder.path
    if state == "nested":
        builder.git("checkout", "-qb", "team/topic")
        builder.commit("On it", {"a.md": "a\n"})
    elif state == "detached":
        builder.git("checkout", "-q", "--detach")
    elif state == "linked":
        path = tmp_path / "linked"
        builder.git("worktree", "add", "-q", "-b", "other", str(path))
    repo = find_repository(path)
    expected = run_git(path, "rev-parse", "HEAD").decode().strip()
    monkeypatch.setenv("PATH", "/nonexistent")
    assert find_commit(repo, "HEAD") == expected


def test_head_on_a_packed_branch_is_read_by_git(builder: RepoBuilder) -> None:
    expected = builder.sha()
    builder.git("pack-refs", "--all")
    assert not list((builder.path / ".git/refs/heads").iterdir())
    assert find_commit(find_repository(builder.path), "HEAD") == expected


@pytest.mark.parametrize("head", ["ref: refs/heads/none\n", "ref: refs/heads/../../HEAD\n", ""])
def test_head_without_a_commit_is_none(builder: RepoBuilder, head: str) -> None:
    repo = find_repository(builder.path)
    (builder.path / ".git/HEAD").write_text(head)
    assert find_commit(repo, "HEAD") is None
