"""Tests of what is kept in memory of history: commits and ranges that were read once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from memory_ci.gitrepo.history import (
    HistoryRange,
    find_addition,
    find_cached_commits,
    has_version,
    iter_merged_changes,
    list_first_parents,
    list_parents,
    plan_range,
)
from memory_ci.gitrepo.history_cache import MAX_CHARS, MAX_PARENTS, HistoryCache
from memory_ci.gitrepo.log import EPOCH
from memory_ci.gitrepo.repo import (
    Repository,
    find_repository,
    is_ancestor,
    list_outside_history,
    resolve_commit,
)
from memory_ci.records.history import Commit
from tests.gitrepo.histories import changes
from tests.repos import RepoBuilder, make_repo


def make_commit(sha: str, message: str = "") -> Commit:
    return Commit(
        sha=sha,
        parents=(),
        author="A",
        email="a@b.c",
        authored_at=EPOCH,
        committed_at=EPOCH,
        message=message,
    )


def test_a_range_is_planned_and_read_once(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    builder.branch("topic")
    builder.commit("Work", {"a.py": "a"})
    builder.checkout("main")
    builder.merge("topic", message="Merge topic")
    first = changes(repo, None, builder.sha())
    started = len(git_calls())
    assert changes(repo, None, builder.sha()) == first
    assert len(git_calls()) == started


def test_of_a_longer_range_only_the_new_commits_are_read(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    old = builder.commit("Old", {"a.py": "a"})
    changes(repo, None, old)
    newer = builder.commit("Newer", {"b.py": "b"})
    started = len(git_calls())
    longer = changes(repo, None, newer)
    log_calls = [call for call in git_calls()[started:] if "--no-walk" in call]
    assert len(log_calls) == 1
    assert [change.tip.sha for change in longer][-2:] == [old, newer]
    assert longer == changes(find_repository(builder.path), None, newer)


def test_a_branch_that_moved_is_read_anew(builder: RepoBuilder, repo: Repository) -> None:
    changes(repo, None, "main")
    moved = builder.commit("Moved")
    assert changes(repo, None, "main")[-1].tip.sha == moved
    assert moved in list_parents(repo, None, "main")


def test_a_shallow_clone_shows_new_parents_once_it_is_deepened(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    for number in range(4):
        builder.commit(f"Commit {number}", {f"{number}.py": "a"})
    clone_path = tmp_path / "clone"
    builder.git("clone", "-q", "--depth=2", f"file://{builder.path}", str(clone_path))
    clone = find_repository(clone_path)
    tip = builder.sha()
    assert len(list_parents(clone, None, tip)) == 2
    cut = builder.sha("HEAD~1")
    whole = HistoryRange(None, tip, ((cut,), (tip,)))
    assert next(iter_merged_changes(clone, whole)).tip.parents == ()
    RepoBuilder(clone_path).git("fetch", "-q", "--unshallow")
    assert len(plan_range(clone, None, tip).groups) == 5
    by_sha = {change.tip.sha: change.tip for change in changes(clone, None, tip)}
    assert by_sha[cut].parents == (builder.sha("HEAD~2"),)
    assert [file.path for file in by_sha[cut].files] == ["2.py"]


def write_tangled_history(builder: RepoBuilder, commits: int) -> None:
    """Write commits `c1` to `c<commits>` with one to three parents each among the ten before."""
    chooser = random.Random(1)  # noqa: S311 - no secret
    lines: list[str] = []
    for number in range(1, commits + 1):
        lines += [f"commit refs/heads/c{number}", f"mark :{number}"]
        lines += [f"committer A <a@b.c> {number} +0000", "data 1", "x"]
        earlier = range(max(1, number - 10), number)
        parents = chooser.sample(earlier, min(len(earlier), chooser.choice([1, 1, 2, 3])))
        for position, parent in enumerate(parents):
            lines.append(f"merge :{parent}" if position else f"from :{parent}")
        lines += [f"M 644 inline f{number}", "data 1", "x", ""]
    builder.git("fast-import", "--quiet", "--force", input="\n".join(lines).encode())


def test_a_part_of_a_cached_range_is_as_git_lists_it(
    tmp_path: Path, git_calls: Callable[[], list[str]]
) -> None:
    builder = make_repo(tmp_path / "tangled")
    write_tangled_history(builder, 50)
    repo = find_repository(builder.path)
    tip = resolve_commit(repo, "c50")
    shas = list(list_parents(repo, None, tip))
    for sha in shas:
        assert resolve_commit(repo, sha) == sha
    started = len(git_calls())
    parts = {sha: list(list_parents(repo, sha, tip).items()) for sha in shas}
    assert len(git_calls()) == started
    for sha in shas[::5]:
        fresh = find_repository(builder.path)
        assert parts[sha] == list(list_parents(fresh, sha, tip).items())


def test_a_range_that_begins_on_another_branch_is_not_taken_from_a_cached_one(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.branch("topic")
    side = builder.commit("Side", {"side": "a"})
    builder.checkout("main")
    start = builder.commit("Start")
    tip = builder.merge("topic", message="Merge topic")
    assert list(list_parents(repo, resolve_commit(repo, start), tip)) == [tip, side]
    after_side = list_parents(repo, resolve_commit(repo, side), resolve_commit(repo, tip))
    assert list(after_side) == [tip, start]


def test_the_commits_of_a_part_of_what_was_read_are_found(
    builder: RepoBuilder, repo: Repository
) -> None:
    since = builder.commit("Since")
    tip = builder.commit("Tip")
    assert find_cached_commits(repo, since, tip) is None
    changes(repo, None, tip)
    read = find_cached_commits(repo, since, tip)
    assert read is not None
    assert [commit.sha for commit in read] == [tip]


def test_the_commit_that_added_a_file_is_found_in_what_was_read(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    builder.commit("Other", {"a.yml": "text of its own"})
    builder.git("mv", "a.yml", "b.yml")
    renamed = builder.commit("Rename")
    builder.commit("Remove", {"b.yml": None})
    tip = builder.commit("Again", {"b.yml": "new"})
    assert find_addition(find_repository(builder.path), tip, "b.yml") == renamed
    changes(repo, None, tip)
    started = len(git_calls())
    assert find_addition(repo, tip, "b.yml") == renamed
    assert find_addition(repo, tip, "c.yml") is None
    assert len(git_calls()) == started


def test_versions_in_a_range_that_was_read_are_found_without_git(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    since = builder.commit("Begin", {"old/INTENT.md": "same text"})
    builder.branch("topic")
    builder.commit("Work", {"side.md": "a"})
    builder.checkout("main")
    builder.commit("Main")
    builder.merge("topic", message="Merge topic")
    builder.git("mv", "old", "new")
    until = builder.commit("Move")
    specs = ("old/*.md", "new/", "side.md", "*/INTENT.md", "README.md", "new/INTENT.md/x")
    answers = [has_version(find_repository(builder.path), since, until, [spec]) for spec in specs]
    assert answers == [True, True, True, True, False, False]
    changes(repo, since, until)
    started = len(git_calls())
    assert [has_version(repo, since, until, [spec]) for spec in specs] == answers
    assert len(git_calls()) == started


def test_a_range_that_was_planned_tells_which_commits_are_ancestors(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    older, newer = builder.commit("Older"), builder.commit("Newer")
    plan_range(repo, None, newer)
    started = len(git_calls())
    assert is_ancestor(repo, older, newer)
    assert not is_ancestor(repo, newer, older)
    assert list_outside_history(repo, [older, newer], newer) == frozenset()
    assert len(git_calls()) == started


def test_the_first_parents_of_a_planned_range_take_no_process(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    builder.branch("topic")
    builder.commit("Work", {"a.py": "a"})
    builder.checkout("main")
    tip = builder.merge("topic", message="Merge topic")
    expected = list_first_parents(repo, None, tip)
    plan_range(repo, None, tip)
    started = len(git_calls())
    assert list_first_parents(repo, None, tip) == expected
    assert len(git_calls()) == started


def test_the_oldest_ranges_are_dropped_when_the_cache_is_full() -> None:
    cache = HistoryCache()
    half = {str(number): () for number in range(MAX_PARENTS // 2)}
    for tip in ("a", "b", "c"):
        cache.add_parents(None, tip, half)
    assert cache.find_parents(None, "a") is None
    assert cache.find_parents(None, "b") == cache.find_parents(None, "c") == half


def test_a_range_that_would_fill_the_cache_is_not_kept() -> None:
    cache = HistoryCache()
    cache.add_parents(None, "a", {str(number): () for number in range(MAX_PARENTS + 1)})
    assert cache.find_parents(None, "a") is None


def test_the_oldest_commits_are_dropped_when_the_cache_is_full() -> None:
    cache = HistoryCache()
    long_message = "x" * (MAX_CHARS // 10)
    for number in range(6):
        cache.add_commit(make_commit(str(number), long_message))
    assert [number for number in range(6) if cache.find_commit(str(number))] == [2, 3, 4, 5]


def test_a_huge_commit_is_not_kept() -> None:
    cache = HistoryCache()
    cache.add_commit(make_commit("a", "x" * MAX_CHARS))
    assert cache.find_commit("a") is None
