"""Tests of buried trailers: a squash or rebase is matched with the commits it was made from, and with no others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.repo import find_repository
from memory_ci.gitrepo.squash_trailers import BuriedTrailers, OriginalCommit, list_patch_ids
from memory_ci.records.history import MergedChange
from tests.repos import RepoBuilder, make_repo

GIVEN = ("Memory-Retrieved", "k1, k2")
USED = ("Memory-Used", "k1")
TRAILERS = "Memory-Retrieved: k1, k2\nMemory-Used: k1\n"
LINES = "".join(f"line {number}\n" for number in range(40))

Calls = Callable[[], list[str]]


@pytest.fixture
def builder(topic_template: RepoBuilder, tmp_path: Path) -> RepoBuilder:
    """Return a repository with a file on `main` and a branch `topic` of two commits; the first has trailers."""
    return topic_template.copy(tmp_path / "repo")


@pytest.fixture(scope="module")
def topic_template(
    builder_template: RepoBuilder, tmp_path_factory: pytest.TempPathFactory
) -> RepoBuilder:
    """Make a repository with a branch `topic` of two commits; the first has trailers."""
    builder = builder_template.copy(tmp_path_factory.mktemp("topic") / "repo")
    builder.commit("Code", {"app.py": LINES})
    builder.branch("topic")
    builder.commit(f"Retry\n\n{TRAILERS}", {"app.py": LINES.replace("line 3\n", "retry\n")})
    builder.commit("Test it", {"test_app.py": "assert True\n"})
    builder.checkout("main")
    return builder


def squash(builder: RepoBuilder, branch: str = "topic", message: str = "Retry charges (#1)") -> str:
    builder.git("merge", "-q", "--squash", branch)
    return builder.commit(message)


def move_on(builder: RepoBuilder) -> None:
    """Commit to main: a change of another part of the same file, and a new file."""
    builder.commit(
        "Meanwhile", {"app.py": LINES.replace("line 35\n", "other\n"), "other.py": "1\n"}
    )


def list_changes(builder: RepoBuilder, since: str | None = None) -> list[MergedChange]:
    repo = find_repository(builder.path)
    return list(iter_merged_changes(repo, plan_range(repo, since, "main")))


def search(builder: RepoBuilder) -> BuriedTrailers:
    return BuriedTrailers(find_repository(builder.path), builder.sha("main"))


def find(builder: RepoBuilder, request: Collection[str] = ()) -> tuple[OriginalCommit, ...]:
    """Return the commits that are matched with the newest change of main."""
    return search(builder).find(list_changes(builder)[-1], request)


# -- ways to join


def test_a_squash_is_matched_by_its_tree(builder: RepoBuilder) -> None:
    squash(builder)
    assert find(builder) == (OriginalCommit(builder.sha("topic~1"), "tree", (GIVEN, USED)),)


def test_a_squash_after_other_commits_is_matched_by_its_patch(builder: RepoBuilder) -> None:
    move_on(builder)
    squash(builder)
    assert find(builder) == (OriginalCommit(builder.sha("topic~1"), "patch-id", (GIVEN, USED)),)


def test_a_branch_that_merged_main_is_matched_by_its_patch_against_main(
    builder: RepoBuilder,
) -> None:
    move_on(builder)
    builder.checkout("topic")
    builder.merge("main")
    builder.checkout("main")
    builder.commit("More of others", {"more.py": "1\n"})
    squash(builder)
    assert find(builder) == (OriginalCommit(builder.sha("topic~2"), "patch-id", (GIVEN, USED)),)


def test_all_commits_with_trailers_of_a_branch_count_oldest_first(
    builder: RepoBuilder,
) -> None:
    builder.checkout("topic")
    builder.commit("Log it\n\nMemory-Session: claude-code:79e9\n", {"log.py": "1\n"})
    builder.checkout("main")
    squash(builder)
    session = (("Memory-Session", "claude-code:79e9"),)
    assert find(builder) == (
        OriginalCommit(builder.sha("topic~2"), "tree", (GIVEN, USED)),
        OriginalCommit(builder.sha("topic"), "tree", session),
    )


def test_commits_of_a_rebase_are_matched_one_by_one(builder: RepoBuilder) -> None:
    """A forge may reword the commits of a rebase. The second commit is changed, too."""
    builder.checkout("topic")
    builder.commit(f"Log it\n\n{TRAILERS}", {"log.py": "1\n"})
    builder.commit(f"Say it\n\n{TRAILERS}", {"say.py": "1\n"})
    builder.checkout("main")
    move_on(builder)
    for number, commit in enumerate(("topic~3", "topic~2", "topic~1", "topic"), start=1):
        builder.git("cherry-pick", "-n", commit)
        builder.commit(f"Part {number} (#1)", {"log.py": "2\n"} if commit == "topic~1" else None)
    assert list_changes(builder)[-1].kind == "rebase"
    assert [(commit.sha, commit.how) for commit in find(builder)] == [
        (builder.sha("topic~3"), "patch-id"),
        (builder.sha("topic"), "patch-id"),
    ]


def test_a_cherry_picked_commit_is_matched_alone(builder: RepoBuilder) -> None:
    builder.checkout("topic")
    builder.commit(f"Log it\n\n{TRAILERS}", {"log.py": "1\n"})
    builder.checkout("main")
    builder.git("cherry-pick", "-n", "topic~2")
    builder.commit("Retry, as on the topic")
    assert [(commit.sha, commit.how) for commit in find(builder)] == [
        (builder.sha("topic~2"), "patch-id")
    ]


def test_a_binary_file_is_matched_by_its_content(builder: RepoBuilder) -> None:
    for name, data in (("one", b"\0one"), ("two", b"\0two")):
        builder.branch(name, "main")
        builder.commit(f"Icon {name}\n\n{TRAILERS}", {"icon.png": data, "icon.txt": "icon\n"})
    builder.checkout("main")
    move_on(builder)
    squash(builder, "one")
    assert [commit.sha for commit in find(builder)] == [builder.sha("one")]
    builder.git("branch", "-D", "one")
    assert find(builder) == ()


def test_a_request_names_commits_that_no_branch_holds(builder: RepoBuilder) -> None:
    squash(builder, message="Words of its own")
    listed = [
        builder.sha("topic~1"),
        builder.sha("topic"),
        "0" * 40,
        "--all",
        "topic",
        "HEAD\n^HEAD",
    ]
    builder.git("branch", "-D", "topic")
    assert find(builder, listed) == (OriginalCommit(listed[0], "pull request", (GIVEN, USED)),)


def test_commits_of_the_request_precede_similar_commits(builder: RepoBuilder) -> None:
    builder.branch("other")
    listed = builder.commit(f"Other\n\n{TRAILERS}", {"other.py": "1\n"})
    builder.checkout("main")
    squash(builder)
    assert [(commit.sha, commit.how) for commit in find(builder, [listed])] == [
        (listed, "pull request")
    ]


def test_commits_of_a_request_that_are_on_main_belong_to_another_change(
    builder: RepoBuilder,
) -> None:
    builder.git("merge", "-q", "--ff-only", "topic")
    builder.commit("Next (#2)", {"next.py": "1\n"})
    assert find(builder, [builder.sha("topic~1")]) == ()


@pytest.mark.parametrize(
    "ref", ["refs/pull/1/head", "refs/merge-requests/1/head", "refs/remotes/origin/pr/1"]
)
def test_the_ref_of_a_request_is_searched_like_its_branch(builder: RepoBuilder, ref: str) -> None:
    commit = builder.sha("topic~1")
    builder.git("update-ref", ref, "topic")
    builder.git("branch", "-D", "topic")
    builder.git("merge", "-q", "--squash", ref)
    builder.commit("Retry charges (#1)")
    assert [(commit.sha, commit.how) for commit in find(builder)] == [(commit, "tree")]


@pytest.mark.parametrize("message", ["Retry charges (#2)", "Retry charges"])
def test_the_ref_of_another_request_is_ignored(builder: RepoBuilder, message: str) -> None:
    """Anybody can open a request with the same content and any trailers."""
    squash(builder, message=message)
    builder.git("update-ref", "refs/pull/1/head", "topic")
    builder.git("branch", "-D", "topic")
    assert find(builder) == ()


def test_remote_branches_are_searched(builder: RepoBuilder, tmp_path: Path) -> None:
    squash(builder)
    builder.git("clone", "-q", ".", str(tmp_path / "clone"))
    assert [commit.how for commit in find(RepoBuilder(tmp_path / "clone", builder.clock))] == [
        "tree"
    ]


# -- what is not joined


def test_a_branch_with_other_changes_is_not_matched(builder: RepoBuilder) -> None:
    builder.commit("Retry otherwise (#1)", {"app.py": LINES.replace("line 3\n", "try again\n")})
    assert find(builder) == ()


@pytest.mark.parametrize("texts", [[None], ["away\n", LINES]])
def test_an_empty_change_matches_nothing(builder: RepoBuilder, texts: list[str | None]) -> None:
    """Neither an empty commit matches, nor a branch whose tree equals that of main."""
    builder.git("branch", "-D", "topic")
    builder.branch("empty")
    builder.commit(f"Nothing\n\n{TRAILERS}")
    builder.branch("same", "main~1")
    builder.commit(f"The same code\n\n{TRAILERS}", {"app.py": LINES})
    builder.checkout("main")
    for text in texts:
        builder.commit("There and back (#1)", {"app.py": text} if text else None)
    assert find(builder) == ()


def test_a_branch_without_changes_does_not_match_a_commit_that_restores_its_tree(
    builder: RepoBuilder,
) -> None:
    builder.git("branch", "-D", "topic")
    builder.branch("empty")
    builder.commit(f"Nothing\n\n{TRAILERS}")
    builder.checkout("main")
    builder.commit("There", {"app.py": "away\n"})
    builder.commit("And back (#2)", {"app.py": LINES})
    assert builder.sha("main^{tree}") == builder.sha("empty^{tree}")
    assert find(builder) == ()


def test_a_merge_has_its_own_commits(builder: RepoBuilder) -> None:
    builder.merge("topic", message="Merge pull request #1 from ann/topic")
    assert find(builder) == (OriginalCommit(builder.sha("topic~1"), "commit", (GIVEN, USED)),)


def test_merges_are_not_searched(builder: RepoBuilder) -> None:
    builder.branch("plain")
    squash(builder, message="Without trailers")
    builder.merge_back("plain", message="Merge pull request #1 from ann/plain")
    assert find(builder) == ()
    assert [commit.how for commit in find(builder, [builder.sha("topic~1")])] == ["pull request"]


def test_a_merge_of_main_into_a_branch_does_not_match_changes_of_main(builder: RepoBuilder) -> None:
    """Its patch against the first parent equals that of main, and a hook adds the branch's trailers to it."""
    builder.commit("Of others (#1)", {"other.py": "1\n"})
    builder.checkout("topic")
    builder.merge("main", message=f"Merge branch 'main' into topic\n\n{TRAILERS}")
    builder.checkout("main")
    assert find(builder) == ()


def test_the_root_commit_matches_nothing(builder: RepoBuilder) -> None:
    builder.checkout("topic")
    builder.commit(f"Greet\n\n{TRAILERS}", {"README.md": "hi\n"})
    builder.checkout("main")
    assert search(builder).find(list_changes(builder)[0]) == ()


def test_a_deleted_branch_is_not_found(builder: RepoBuilder) -> None:
    squash(builder)
    builder.git("branch", "-D", "topic")
    assert find(builder, ["1" * 40]) == ()


def test_a_shallow_clone_matches_only_complete_commits(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    """The start of a branch is missing there, so neither its tree nor its patch can be compared."""
    start = builder.sha("main")
    squash(builder)
    path = tmp_path / "clone"
    builder.git(
        "clone", "-q", "--depth=2", "--no-single-branch", f"file://{builder.path}", str(path)
    )
    clone = RepoBuilder(path, builder.clock)
    (change,) = list_changes(builder, start)
    assert search(clone).find(change) == ()
    assert [commit.how for commit in search(clone).find(change, [builder.sha("topic~1")])] == [
        "pull request"
    ]


def test_a_ref_to_a_missing_object_is_ignored(builder: RepoBuilder) -> None:
    squash(builder)
    (builder.path / ".git" / "refs" / "heads" / "broken").write_text("1" * 40 + "\n")
    assert [commit.how for commit in find(builder)] == ["tree"]


def test_unrelated_histories_are_ignored(builder: RepoBuilder) -> None:
    builder.git("checkout", "-q", "--orphan", "other", "topic")
    builder.commit(f"All at once\n\n{TRAILERS}")
    builder.checkout("main")
    squash(builder)
    assert [commit.sha for commit in find(builder)] == [builder.sha("topic~1")]


# -- which of several


def test_of_two_branches_with_equal_trees_the_newest_counts(builder: RepoBuilder) -> None:
    builder.branch("again", "topic~2")
    builder.git("checkout", "-q", "topic", "--", ".")
    newest = builder.commit(f"Retry, in one commit\n\n{TRAILERS}")
    builder.checkout("main")
    squash(builder)
    assert [commit.sha for commit in find(builder)] == [newest]


def test_a_commit_is_matched_with_one_change_only(builder: RepoBuilder) -> None:
    squash(builder)
    builder.git("revert", "--no-edit", "main")
    builder.git("revert", "--no-edit", "main")
    finder = search(builder)
    assert [len(finder.find(change)) for change in list_changes(builder)] == [0, 0, 1, 0, 0]


def test_a_squash_with_its_own_trailer_of_served_entries_is_not_searched(
    builder: RepoBuilder, git_calls: Calls
) -> None:
    squash_commit = squash(builder, message=f"Retry charges (#1)\n\n* Retry\n\n  {TRAILERS}")
    (change,) = list_changes(builder)[-1:]
    finder, started = search(builder), len(git_calls())
    assert finder.find(change, [builder.sha("topic~1")]) == (
        OriginalCommit(squash_commit, "commit", (GIVEN, USED)),
    )
    assert len(git_calls()) == started + 1, "the test's own"


def test_other_trailers_of_the_squash_come_first(builder: RepoBuilder) -> None:
    squash_commit = squash(builder, message="Retry charges (#1)\n\nMemory-Used: k1\n")
    assert [(commit.sha, commit.how) for commit in find(builder)] == [
        (squash_commit, "commit"),
        (builder.sha("topic~1"), "tree"),
    ]


# -- what it costs, and what may not disturb it


def test_without_candidates_git_is_called_once(builder: RepoBuilder, git_calls: Calls) -> None:
    squash(builder)
    move_on(builder)
    builder.git("branch", "-D", "topic")
    changes, finder = list_changes(builder), search(builder)
    started = len(git_calls())
    assert not any(finder.find(change) for change in changes)
    (call,) = git_calls()[started:]
    assert "log -z" in call
    assert "-n2000" in call


def test_a_search_takes_few_git_calls_and_repeats_none(
    builder: RepoBuilder, git_calls: Calls
) -> None:
    move_on(builder)
    squash(builder)
    (change,) = list_changes(builder)[-1:]
    finder = search(builder)
    started = len(git_calls())
    assert finder.find(change)
    once = [
        next(word for word in line.split() if word in COMMANDS) for line in git_calls()[started:]
    ]
    assert once == ["log", "for-each-ref", "log", "diff-tree", "patch-id"]
    assert finder.find(change) == ()
    assert len(git_calls()) == started + len(once), "all is given away"


COMMANDS = ("log", "for-each-ref", "cat-file", "diff-tree", "patch-id", "merge-base")


def test_patches_are_not_computed_if_paths_differ(builder: RepoBuilder, git_calls: Calls) -> None:
    builder.commit("Another (#1)", {"other.py": "1\n"})
    assert find(builder) == ()
    assert not any("diff-tree" in line for line in git_calls())


def test_the_newest_200_branches_are_searched(builder: RepoBuilder) -> None:
    squash(builder)
    start, old = builder.sha("main~1"), builder.sha("topic~1")
    branches = "".join(
        f"commit refs/heads/b{number}\ncommitter A <a@example.com> {2_000_000_000 + number} +0000\n"
        f"data {len(TRAILERS)}\n{TRAILERS}\nfrom {start}\nM 644 inline n\ndata 3\n{number}\n\n"
        for number in range(100, 300)
    )
    builder.git("fast-import", "--quiet", input=branches.encode())
    assert find(builder) == ()
    builder.git("branch", "-q", "-D", "b200")
    assert [commit.sha for commit in find(builder)] == [old]


def test_settings_of_the_user_do_not_change_the_result(builder: RepoBuilder) -> None:
    builder.commit(
        "Blank lines", {"app.py": LINES.replace("line 4\n", "\n").replace("line 1\n", "\n")}
    )
    builder.branch("next")
    text = (builder.path / "app.py").read_text()
    builder.commit(f"Next\n\n{TRAILERS}", {"app.py": text.replace("line 3\n", "next\n")})
    builder.checkout("main")
    builder.commit("Meanwhile", {"app.py": text.replace("line 35\n", "other\n")})
    squash(builder, "next")
    builder.write(".gitattributes", "*.py diff=loud\n")
    plain = list_patch_ids(
        find_repository(builder.path), [(builder.sha("next"), builder.sha("next~1"))]
    )
    for name, value in (
        *(
            ("diff.external", "false"),
            ("diff.loud.command", "false"),
            ("diff.loud.textconv", "false"),
        ),
        *(
            ("diff.suppressBlankEmpty", "true"),
            ("diff.noprefix", "true"),
            ("diff.renames", "copies"),
        ),
        *(
            ("diff.context", "0"),
            ("diff.algorithm", "patience"),
            ("color.ui", "always"),
            ("color.diff", "always"),
        ),
        *(
            ("log.showSignature", "true"),
            ("patchid.verbatim", "true"),
            ("diff.orderFile", "missing"),
        ),
        *(
            ("grep.patternType", "perl"),
            ("log.date", "human"),
            ("format.pretty", "%s"),
            ("diff.relative", "true"),
        ),
    ):
        builder.git("config", name, value)
    assert (
        list_patch_ids(
            find_repository(builder.path), [(builder.sha("next"), builder.sha("next~1"))]
        )
        == plain
    )
    assert [commit.how for commit in find(builder)] == ["patch-id"]


def test_hostile_names_and_messages_are_handled(builder: RepoBuilder) -> None:
    hostile = (
        "Retry\n\n\x1b[31mcommit 1234\ndiff --git a/x b/x\nMemory-Retrieved: $(touch x) --all\n"
    )
    builder.branch("x;$(touch${IFS}y)`z`", "topic")
    builder.git("update-ref", "refs/heads/--all", "topic")
    newest = builder.commit(hostile, {"weird\nname\t--x": "commit 1234\n"})
    builder.checkout("main")
    move_on(builder)
    squash(builder, builder.sha("refs/heads/x;$(touch${IFS}y)`z`"))
    commits = find(builder)
    assert [commit.sha for commit in commits] == [builder.sha("refs/heads/topic~1"), newest]
    assert commits[-1].trailers == (("Memory-Retrieved", "$(touch x) --all"),)


def test_a_squash_is_matched_by_its_patch_in_a_sha256_repository(tmp_path: Path) -> None:
    builder = make_repo(tmp_path / "long", "sha256")
    builder.commit("Begin", {"a": "a\n"})
    builder.branch("topic")
    commit = builder.commit(f"Topic\n\n{TRAILERS}", {"a": "b\n"})
    builder.checkout("main")
    builder.commit("Meanwhile", {"b": "b\n"})
    squash(builder)
    assert [(commit.sha, commit.how) for commit in find(builder)] == [(commit, "patch-id")]
