"""Tests of incomplete ranges of commits, and of the processes for a long history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.past import plan_newest
from memory_ci.gitrepo.record_commits import Cursor, find_cursor
from memory_ci.gitrepo.repo import Repository, find_repository
from tests.gitrepo.histories import changes, shape, write_long_history
from tests.repos import RepoBuilder, make_repo


def test_a_bare_sha256_repository_is_read(tmp_path: Path) -> None:
    builder = make_repo(tmp_path / "repo", "sha256")
    builder.commit("Begin", {"a.md": "a"})
    trailers = f"Memory-CI-Step: fold\nMemory-CI-Source: {builder.sha()}"
    tip = builder.commit(f"memory: x\n\n{trailers}", {"b.md": "b"})
    repo = find_repository(builder.bare(tmp_path / "bare.git").path, is_named=True)
    assert shape(repo, None, "main") == [
        ("direct", None, ["Begin"]),
        ("direct", None, ["memory: x"]),
    ]
    assert find_cursor(repo, "main") == Cursor(builder.sha("HEAD~1"), tip)


def test_a_cursor_of_rewritten_history_is_unreachable(
    builder: RepoBuilder, repo: Repository
) -> None:
    lost = builder.commit("Rewritten")
    builder.git("reset", "-q", "--hard", "HEAD~1")
    for since in (lost, "1" * 40):
        with pytest.raises(RepositoryError) as failure:
            plan_range(repo, since, "HEAD")
        assert failure.value.slug == "unreachable-cursor"
        assert since in failure.value.message


def shallow_clone(builder: RepoBuilder, path: Path, depth: int) -> Repository:
    builder.git("clone", "-q", f"--depth={depth}", f"file://{builder.path}", str(path))
    return find_repository(path)


def test_a_range_that_a_shallow_clone_cuts_is_an_error(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    first = builder.sha()
    for number in range(5):
        builder.commit(f"Commit {number}")
    clone = shallow_clone(builder, tmp_path / "clone", 3)
    for since in (None, first):
        with pytest.raises(RepositoryError) as failure:
            plan_range(clone, since, "HEAD")
        assert failure.value.slug == "shallow-clone"
        assert "fetch-depth: 0" in failure.value.hint
        assert "git fetch --unshallow" in failure.value.hint
    assert shape(clone, "HEAD~2") == [
        ("direct", None, ["Commit 3"]),
        ("direct", None, ["Commit 4"]),
    ]


def test_a_shallow_clone_that_cuts_only_a_side_branch_is_an_error(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    builder.branch("topic")
    for number in range(4):
        builder.commit(f"Topic {number}", {f"t{number}": "t"})
    builder.checkout("main")
    covered = builder.commit("Covered", {"m": "m"})
    builder.merge("topic", message="Merge topic")
    clone = shallow_clone(builder, tmp_path / "clone", 2)
    with pytest.raises(RepositoryError) as failure:
        plan_range(clone, covered, "HEAD")
    assert failure.value.slug == "shallow-clone"


def test_a_shallow_clone_that_contains_the_whole_range_is_enough(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    builder.commit("Second")
    assert len(changes(shallow_clone(builder, tmp_path / "clone", 50))) == 2


def test_the_newest_changes_are_those_within_an_age(builder: RepoBuilder, repo: Repository) -> None:
    old = builder.commit("Old")
    builder.clock.now += timedelta(days=40)
    new = [builder.commit(f"New {number}") for number in range(3)]
    today = builder.clock.now.date()
    history = plan_newest(repo, builder.sha(), "30d", today, limit=100)
    assert history.since == old
    assert [group[-1] for group in history.groups] == new


def test_at_most_a_number_of_newest_changes_is_read(builder: RepoBuilder, repo: Repository) -> None:
    shas = [builder.commit(f"Commit {number}") for number in range(5)]
    today = builder.clock.now.date()
    history = plan_newest(repo, builder.sha(), "1y", today, limit=2)
    assert history.since == shas[2]
    assert [group[-1] for group in history.groups] == shas[3:]


def test_a_short_history_is_read_whole(builder: RepoBuilder, repo: Repository) -> None:
    first = builder.sha()
    second = builder.commit("Work")
    today = builder.clock.now.date()
    history = plan_newest(repo, second, "1y", today, limit=2)
    assert history.since is None
    assert [group[-1] for group in history.groups] == [first, second]


def test_the_newest_changes_of_a_shallow_clone_are_read_if_it_has_them(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    for number in range(5):
        builder.commit(f"Commit {number}")
    clone = shallow_clone(builder, tmp_path / "clone", 4)
    today = builder.clock.now.date()
    assert len(plan_newest(clone, builder.sha(), "1y", today, limit=3).groups) == 3
    with pytest.raises(RepositoryError) as failure:
        plan_newest(clone, builder.sha(), "1y", today, limit=4)
    assert failure.value.slug == "shallow-clone"


def test_a_long_history_takes_one_process_to_plan_its_range_and_one_to_read_it(
    tmp_path: Path, git_calls: Callable[[], list[str]]
) -> None:
    builder = make_repo(tmp_path / "long")
    write_long_history(builder, 1000)
    repo = find_repository(builder.path)
    started = len(git_calls())
    planned = plan_range(repo, None, "main")
    read = list(iter_merged_changes(repo, planned))
    assert [line.split()[0] for line in git_calls()[started:]] == ["-c", "rev-list", "-c"]
    assert (sum(map(len, planned.groups)), planned.change_count, len(read)) == (2001, 1001, 1001)
    assert [commit.subject for commit in read[700].commits] == ["work 699", "merge 699"]
    assert sum(len(change.commits) for change in read) == 2001


def test_reading_may_stop_early(tmp_path: Path) -> None:
    builder = make_repo(tmp_path / "long")
    write_long_history(builder, 1000)
    repo = find_repository(builder.path)
    reading = iter_merged_changes(repo, plan_range(repo, None, "main"))
    assert next(reading).commits[0].subject == "0"
    del reading  # a process left behind would be a ResourceWarning, and warnings are errors
