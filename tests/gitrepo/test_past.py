"""Tests of earlier states: the commit of a day or a name, and the merge base of two histories."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.log import read_commit_time
from memory_ci.gitrepo.past import (
    find_commit_of_day,
    find_commits_of_days,
    resolve_merge_base,
    resolve_past,
)
from memory_ci.gitrepo.repo import Repository, find_repository
from tests.repos import RepoBuilder, make_repo


@pytest.fixture
def builder(tmp_path: Path) -> RepoBuilder:
    """Return a repository with commits of 10 and 20 January 2026, late in the day."""
    repo = make_repo(tmp_path / "repo")
    for day in (10, 20):
        repo.at(datetime(2026, 1, day, 23, 30, tzinfo=UTC)).commit(f"Day {day}", {"a": str(day)})
    return repo


def opened(builder: RepoBuilder) -> Repository:
    return find_repository(builder.path)


def shallow(builder: RepoBuilder, path: Path) -> Repository:
    builder.git("clone", "-q", "--depth=1", f"file://{builder.path}", str(path))
    return find_repository(path)


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (date(2026, 1, 9), None),
        (date(2026, 1, 10), "HEAD~1"),
        (date(2026, 1, 19), "HEAD~1"),
        (date(2026, 1, 20), "HEAD"),
        (date(9999, 12, 31), "HEAD"),
        (date(1969, 12, 31), None),
        (date(1, 1, 1), None),
    ],
)
def test_the_commit_of_a_day_is_the_last_one_until_its_end(
    builder: RepoBuilder, day: date, expected: str | None
) -> None:
    commit_sha = find_commit_of_day(opened(builder), "HEAD", day)
    assert commit_sha == (builder.sha(expected) if expected else None)


def test_one_walk_finds_the_commits_of_many_days(builder: RepoBuilder) -> None:
    builder.at(datetime(2026, 1, 12, tzinfo=UTC)).commit("Clock set back", {"c": "c"})
    repo = opened(builder)
    days = [*(date(2026, 1, number) for number in range(8, 25)), date(1969, 12, 31)]
    expected = {day: find_commit_of_day(repo, "HEAD", day) for day in days}
    expected_commits = {day: sha for day, sha in expected.items() if sha}
    assert find_commits_of_days(repo, "HEAD", days) == expected_commits


def test_days_before_the_history_of_a_shallow_clone_have_no_commit(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    repo = shallow(builder, tmp_path / "clone")
    days = [date(2026, 1, 20), date(2026, 1, 15)]
    assert find_commits_of_days(repo, "HEAD", days) == {days[0]: builder.sha()}


def test_only_first_parents_are_searched(builder: RepoBuilder) -> None:
    main = builder.sha()
    builder.branch("topic", "HEAD~1")
    builder.at(datetime(2026, 1, 25, tzinfo=UTC)).commit("Topic", {"b": "b"})
    builder.checkout("main")
    builder.at(datetime(2026, 1, 30, tzinfo=UTC)).merge("topic")
    assert find_commit_of_day(opened(builder), "HEAD", date(2026, 1, 26)) == main


def test_an_empty_repository_has_no_commit_of_a_day(tmp_path: Path) -> None:
    assert find_commit_of_day(opened(make_repo(tmp_path / "new")), "HEAD", date(2026, 1, 1)) is None


def test_the_day_of_a_commit(builder: RepoBuilder) -> None:
    assert read_commit_time(opened(builder), builder.sha()).date() == date(2026, 1, 20)


def test_the_error_for_a_shallow_clone_names_what_to_fetch(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    repo, old = shallow(builder, tmp_path / "clone"), builder.sha("HEAD~1")
    assert find_commit_of_day(repo, "HEAD", date(2026, 1, 20)) == builder.sha()
    asks: list[Callable[[], object]] = [
        lambda: find_commit_of_day(repo, "HEAD", date(2026, 1, 15)),
        lambda: resolve_past(repo, old),
        lambda: resolve_merge_base(repo, "HEAD", old),
    ]
    for ask in asks:
        with pytest.raises(RepositoryError) as raised:
            ask()
        assert raised.value.slug == "shallow-clone"
        assert "git fetch --unshallow" in raised.value.hint


def test_two_histories_have_a_merge_base_or_none(builder: RepoBuilder) -> None:
    base = builder.sha()
    builder.branch("topic")
    builder.commit("Topic")
    assert resolve_merge_base(opened(builder), "topic", "main") == base
    builder.git("checkout", "-q", "--orphan", "other")
    builder.commit("Other")
    with pytest.raises(RepositoryError) as raised:
        resolve_merge_base(opened(builder), "HEAD", "main")
    assert raised.value.slug == "unrelated-histories"


def test_an_unknown_name_is_an_error(builder: RepoBuilder) -> None:
    with pytest.raises(RepositoryError) as raised:
        resolve_past(opened(builder), "nowhere")
    assert raised.value.slug == "unknown-revision"


def test_an_impossible_time_is_later_than_all_days(builder: RepoBuilder) -> None:
    last = builder.sha()
    tree = builder.git("rev-parse", "HEAD^{tree}")
    late_identity = "A <a@b.c> 999999999999999 +0000"
    lines = (
        f"tree {tree}",
        f"parent {last}",
        f"author {late_identity}",
        f"committer {late_identity}",
        "",
        "Late\n",
    )
    data = "\n".join(lines).encode()
    sha = builder.git("hash-object", "-t", "commit", "-w", "--stdin", input=data)
    days = [date(2026, 1, 20), date(9999, 12, 31)]
    assert find_commits_of_days(opened(builder), sha, days) == dict.fromkeys(days, last)
