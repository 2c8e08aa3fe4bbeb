"""Tests of the merged changes of a range: merges, squashes, rebases and unrelated histories."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.history import (
    HistoryRange,
    group_commits,
    iter_merged_changes,
    plan_range,
)
from memory_ci.gitrepo.repo import Repository, find_repository
from memory_ci.records.history import FileChange
from tests.gitrepo.histories import changes, shape
from tests.repos import RepoBuilder, make_repo


def test_the_whole_history_starts_with_the_first_commit(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Second")
    assert shape(repo) == [("direct", None, ["Begin"]), ("direct", None, ["Second"])]
    assert changes(repo)[0].commits[0].files == (FileChange("A", "README.md"),)


def test_a_range_contains_the_commits_after_its_start(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Covered")
    builder.commit("New")
    assert shape(repo, "HEAD~1", "main") == [("direct", None, ["New"])]
    planned = plan_range(repo, "HEAD~1", "main")
    assert (planned.since, planned.until) == (builder.sha("HEAD~1"), builder.sha())
    assert (sum(map(len, planned.groups)), planned.change_count) == (1, 1)


def test_an_empty_range_has_no_changes_and_starts_no_log(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    planned = plan_range(repo, "HEAD", "HEAD")
    started = len(git_calls())
    assert sum(map(len, planned.groups)) == 0
    assert list(iter_merged_changes(repo, planned)) == []
    assert len(git_calls()) == started


def test_a_merge_has_the_commits_of_its_branch_oldest_first(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.branch("topic")
    builder.commit("One", {"a": "1"})
    builder.commit("Two", {"b": "2"})
    builder.checkout("main")
    builder.commit("Meanwhile", {"c": "3"})
    tip = builder.merge("topic", message="Merge pull request #7 from ann/topic\n\nTeach it\n")
    assert shape(repo)[1:] == [
        ("direct", None, ["Meanwhile"]),
        ("merge", 7, ["One", "Two", "Merge pull request #7 from ann/topic"]),
    ]
    change = changes(repo)[-1]
    assert (change.tip.sha, change.title, change.label) == (tip, "Teach it", "#7")
    assert [file.path for file in change.tip.files] == ["a", "b"]


def test_squash_and_direct_commits_are_changes_of_one_commit(
    builder: RepoBuilder, repo: Repository
) -> None:
    for subject in ("Retry (#1)", "Fix", "Again (#2)"):
        builder.commit(subject)
    assert shape(repo)[1:] == [
        ("squash", 1, ["Retry (#1)"]),
        ("direct", None, ["Fix"]),
        ("squash", 2, ["Again (#2)"]),
    ]
    assert changes(repo)[1].title == "Retry"


def test_adjacent_commits_with_one_request_number_are_a_rebase(
    builder: RepoBuilder, repo: Repository
) -> None:
    for subject in ("A (#1)", "B (#1)", "C (#2)", "Fix", "D (#2)", "E (#3)", "F (#3)", "G (#3)"):
        builder.commit(subject)
    assert shape(repo)[1:] == [
        ("rebase", 1, ["A (#1)", "B (#1)"]),
        ("squash", 2, ["C (#2)"]),
        ("direct", None, ["Fix"]),
        ("squash", 2, ["D (#2)"]),
        ("rebase", 3, ["E (#3)", "F (#3)", "G (#3)"]),
    ]
    assert changes(repo)[-1].tip.subject == "G (#3)"


def test_an_octopus_has_the_commits_of_all_its_branches(
    builder: RepoBuilder, repo: Repository
) -> None:
    for name in ("a", "b", "c"):
        builder.branch(name, "main")
        builder.commit(f"On {name}", {name: name})
    builder.checkout("main")
    builder.commit("Meanwhile", {"m": "m"})
    builder.merge("a", "b", "c", message="Merge all")
    (kind, _, subjects) = shape(repo)[-1]
    assert kind == "merge"
    assert sorted(subjects) == ["Merge all", "On a", "On b", "On c"]
    assert subjects[-1] == "Merge all"


def test_a_branch_that_merged_main_has_only_its_own_commits(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.branch("topic")
    builder.commit("Topic 1", {"t": "1"})
    builder.checkout("main")
    builder.commit("Main 1", {"m": "1"})
    builder.checkout("topic")
    builder.merge("main", message="Catch up")
    builder.commit("Topic 2", {"t": "2"})
    builder.merge_back("topic", message="Merge topic")
    assert shape(repo)[1:] == [
        ("direct", None, ["Main 1"]),
        ("merge", None, ["Topic 1", "Catch up", "Topic 2", "Merge topic"]),
    ]


def test_criss_cross_merges_have_each_commit_once(builder: RepoBuilder, repo: Repository) -> None:
    builder.branch("topic")
    builder.commit("Topic", {"t": "1"})
    builder.checkout("main")
    builder.commit("Main", {"m": "1"})
    main, topic = builder.sha("main"), builder.sha("topic")
    builder.merge(topic, message="Topic into main")
    builder.checkout("topic")
    builder.merge(main, message="Main into topic")
    builder.merge_back("topic", message="Merge again")
    assert shape(repo)[1:] == [
        ("direct", None, ["Main"]),
        ("merge", None, ["Topic", "Topic into main"]),
        ("merge", None, ["Main into topic", "Merge again"]),
    ]


def test_a_branch_merged_into_a_branch_is_part_of_the_same_change(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.branch("topic")
    builder.commit("Topic", {"t": "1"})
    builder.branch("deeper")
    builder.commit("Deeper", {"d": "1"})
    builder.checkout("topic")
    builder.merge("deeper", message="Merge deeper")
    builder.merge_back("topic", message="Merge topic")
    assert shape(repo)[1:] == [("merge", None, ["Topic", "Deeper", "Merge deeper", "Merge topic"])]


def test_a_range_may_start_on_a_side_branch(builder: RepoBuilder, repo: Repository) -> None:
    builder.branch("topic")
    builder.commit("Topic 1", {"t": "1"})
    covered = builder.sha()
    builder.commit("Topic 2", {"t": "2"})
    builder.checkout("main")
    builder.commit("Main", {"m": "1"})
    builder.merge("topic", message="Merge topic")
    assert shape(repo, covered) == [
        ("direct", None, ["Main"]),
        ("merge", None, ["Topic 2", "Merge topic"]),
    ]


def test_unrelated_histories_can_be_merged(builder: RepoBuilder, repo: Repository) -> None:
    builder.git("checkout", "-q", "--orphan", "other")
    builder.commit("Other root")
    builder.checkout("main")
    builder.git("merge", "-q", "--allow-unrelated-histories", "-m", "Join", "other")
    assert shape(repo)[1:] == [("merge", None, ["Other root", "Join"])]


def test_a_detached_head_has_a_history_and_an_unborn_branch_has_none(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    builder.commit("Second")
    builder.git("checkout", "-q", "--detach", "HEAD~1")
    assert shape(repo) == [("direct", None, ["Begin"])]
    with pytest.raises(RepositoryError) as failure:
        plan_range(find_repository(make_repo(tmp_path / "unborn").path), None, "HEAD")
    assert failure.value.slug == "unknown-revision"


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, tuple[str, ...]], str]:
    """Draw commits with up to three older parents each, children before parents, and return them with the tip."""
    size = draw(st.integers(1, 25))
    parents: dict[str, tuple[str, ...]] = {}
    for number in range(size):
        older = st.integers(max(0, number - 6), number - 1) if number else st.nothing()
        chosen = draw(st.lists(older, max_size=3, unique=True)) if number else []
        parents[str(number)] = tuple(map(str, chosen))
    tip, reachable, waiting = str(size - 1), set[str](), [str(size - 1)]
    while waiting:
        commit = waiting.pop()
        reachable.add(commit)
        waiting.extend(parents[commit])
    return {name: parents[name] for name in reversed(parents) if name in reachable}, tip


@given(histories())
def test_merged_changes_contain_every_commit_once_and_parents_first(
    history: tuple[dict[str, tuple[str, ...]], str],
) -> None:
    parents, tip = history
    groups = group_commits(parents, tip)
    order = [commit for group in groups for commit in group]
    assert sorted(order) == sorted(parents)
    place = {commit: number for number, commit in enumerate(order)}
    assert all(place[parent] < place[commit] for commit in parents for parent in parents[commit])
    tips = [group[-1] for group in groups]
    assert tips[-1] == tip
    assert all(parents[new][0] == old for old, new in pairwise(tips))
    assert all(len(parents[group[-1]]) > 1 for group in groups if len(group) > 1)


def test_a_planned_range_is_comparable(repo: Repository) -> None:
    planned = plan_range(repo, None, "HEAD")
    assert planned == HistoryRange(None, planned.until, ((planned.until,),))
