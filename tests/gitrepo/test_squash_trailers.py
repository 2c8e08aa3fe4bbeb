"""Buried trailers: a squash or a rebase is joined with the commits that it was made from, and with no others."""

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
    """`main` with a file, and a branch `topic` of two commits on it, of which the first has trailers."""
    return topic_template.copy(tmp_path / "repo")


@pytest.fixture(scope="module")
def topic_template(
    builder_template: RepoBuilder, tmp_path_factory: pytest.TempPathFactory
) -> RepoBuilder:
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
    """Main moves on, in another part of the same file and in one of its own."""
    builder.commit(
        "Meanwhile", {"app.py": LINES.replace("line 35\n", "other\n"), "other.py": "1\n"}
    )


def list_changes(builder: RepoBuilder, since: str | None = None) -> list[MergedChange]:
    repo = find_repository(builder.path)
    return list(iter_merged_changes(repo, plan_range(repo, since, "main")))


def search(builder: RepoBuilder) -> BuriedTrailers:
    return BuriedTrailers(find_repository(builder.path), builder.sha("main"))


def find(builder: RepoBuilder, request: Collection[str] = ()) -> tuple[OriginalCommit, ...]:
    """What is found for the newest change of main."""
    return search(builder).find(list_changes(builder)[-1], request)


# -- ways to join


def test_a_squash_is_joined_by_its_tree(builder: RepoBuilder) -> None:
    squash(builder)
    assert find(builder) == (OriginalCommit(builder.sha("topic~1"), "tree", (GIVEN, USED)),)


def test_a_squash_on_a_branch_that_moved_on_is_joined_by_its_patch(builder: RepoBuilder) -> None:
    move_on(builder)
    squash(builder)
    assert find(builder) == (OriginalCommit(builder.sha("topic~1"), "patch-id", (GIVEN, USED)),)


def test_a_branch_that_took_main_in_is_known_by_its_patch_against_it(builder: RepoBuilder) -> None:
    move_on(builder)
    builder.checkout("topic")
    builder.merge("main")
    builder.checkout("main")
    builder.commit("More of others", {"more.py": "1\n"})
    squash(builder)
    assert find(builder) == (OriginalCommit(builder.sha("topic~2"), "patch-id", (GIVEN, USED)),)


def test_all_commits_of_a_branch_that_have_trailers_count_oldest_first(
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


def test_commits_of_a_rebase_are_joined_one_by_one(builder: RepoBuilder) -> None:
    """As a forge does that words them anew; the second one was changed on the way."""
    builder.checkout("topic")
    builder.commit(f"Log it\n\n{TRAILERS}", {"log.py": "1\n"})
    builder.commit(f"Say it\n\n{TRAILERS}", {"say.py": "1\n"})
    builder.checkout("main")
    move_on(builder)
    for number, commit in enumerate(("topic~3", "topic~2", "topic~1", "topic"), start=1):
        builder.git("cherry-pick", "-n", commit)
        builder.commit(f"Part {number} (#1)", {"log.py": "2\n"} if commit == "topic~1" else None)
    assert list_changes(builder)[-1].kind == "rebase"
    assert [(one.sha, one.how) for one in find(builder)] == [
        (builder.sha("topic~3"), "patch-id"),
        (builder.sha("topic"), "patch-id"),
    ]


def test_a_commit_that_was_picked_onto_main_is_joined_alone(builder: RepoBuilder) -> None:
    builder.checkout("topic")
    builder.commit(f"Log it\n\n{TRAILERS}", {"log.py": "1\n"})
    builder.checkout("main")
    builder.git("cherry-pick", "-n", "topic~2")
    builder.commit("Retry, as on the topic")
    assert [(one.sha, one.how) for one in find(builder)] == [(builder.sha("topic~2"), "patch-id")]


def test_a_binary_file_is_known_by_what_it_holds(builder: RepoBuilder) -> None:
    for name, data in (("one", b"\0one"), ("two", b"\0two")):
        builder.branch(name, "main")
        builder.commit(f"Icon {name}\n\n{TRAILERS}", {"icon.png": data, "icon.txt": "icon\n"})
    builder.checkout("main")
    move_on(builder)
    squash(builder, "one")
    assert [one.sha for one in find(builder)] == [builder.sha("one")]
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


def test_a_request_goes_before_what_is_merely_alike(builder: RepoBuilder) -> None:
    builder.branch("other")
    listed = builder.commit(f"Other\n\n{TRAILERS}", {"other.py": "1\n"})
    builder.checkout("main")
    squash(builder)
    assert [(one.sha, one.how) for one in find(builder, [listed])] == [(listed, "pull request")]


def test_what_a_request_lists_and_main_holds_belongs_to_another_change(
    builder: RepoBuilder,
) -> None:
    builder.git("merge", "-q", "--ff-only", "topic")
    builder.commit("Next (#2)", {"next.py": "1\n"})
    assert find(builder, [builder.sha("topic~1")]) == ()


@pytest.mark.parametrize(
    "ref", ["refs/pull/1/head", "refs/merge-requests/1/head", "refs/remotes/origin/pr/1"]
)
def test_the_ref_of_a_request_stands_for_its_branch(builder: RepoBuilder, ref: str) -> None:
    commit = builder.sha("topic~1")
    builder.git("update-ref", ref, "topic")
    builder.git("branch", "-D", "topic")
    builder.git("merge", "-q", "--squash", ref)
    builder.commit("Retry charges (#1)")
    assert [(one.sha, one.how) for one in find(builder)] == [(commit, "tree")]


@pytest.mark.parametrize("message", ["Retry charges (#2)", "Retry charges"])
def test_the_ref_of_another_request_proves_nothing(builder: RepoBuilder, message: str) -> None:
    """Anybody may open a request with the same content and trailers of their liking."""
    squash(builder, message=message)
    builder.git("update-ref", "refs/pull/1/head", "topic")
    builder.git("branch", "-D", "topic")
    assert find(builder) == ()


def test_a_remote_branch_is_a_branch(builder: RepoBuilder, tmp_path: Path) -> None:
    squash(builder)
    builder.git("clone", "-q", ".", str(tmp_path / "clone"))
    assert [one.how for one in find(RepoBuilder(tmp_path / "clone", builder.clock))] == ["tree"]


# -- what is not joined


def test_a_branch_that_does_something_else_is_not_joined(builder: RepoBuilder) -> None:
    builder.commit("Retry otherwise (#1)", {"app.py": LINES.replace("line 3\n", "try again\n")})
    assert find(builder) == ()


@pytest.mark.parametrize("texts", [[None], ["away\n", LINES]])
def test_what_changes_nothing_is_joined_with_nothing(
    builder: RepoBuilder, texts: list[str | None]
) -> None:
    """Neither with an empty commit, nor with a branch that ends where main stands anyway."""
    builder.git("branch", "-D", "topic")
    builder.branch("empty")
    builder.commit(f"Nothing\n\n{TRAILERS}")
    builder.branch("same", "main~1")
    builder.commit(f"The same code\n\n{TRAILERS}", {"app.py": LINES})
    builder.checkout("main")
    for text in texts:
        builder.commit("There and back (#1)", {"app.py": text} if text else None)
    assert find(builder) == ()


def test_a_branch_without_changes_is_not_joined_with_a_return_to_its_tree(
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


def test_a_merge_brings_its_commits_along(builder: RepoBuilder) -> None:
    builder.merge("topic", message="Merge pull request #1 from ann/topic")
    assert find(builder) == (OriginalCommit(builder.sha("topic~1"), "commit", (GIVEN, USED)),)


def test_a_merge_is_not_searched_for(builder: RepoBuilder) -> None:
    builder.branch("plain")
    squash(builder, message="Without trailers")
    builder.merge_back("plain", message="Merge pull request #1 from ann/plain")
    assert find(builder) == ()
    assert [one.how for one in find(builder, [builder.sha("topic~1")])] == ["pull request"]


def test_a_merge_of_main_into_a_branch_is_not_what_main_did(builder: RepoBuilder) -> None:
    """Against its first parent it is the same patch as that of main, and a hook gives it the branch's trailers."""
    builder.commit("Of others (#1)", {"other.py": "1\n"})
    builder.checkout("topic")
    builder.merge("main", message=f"Merge branch 'main' into topic\n\n{TRAILERS}")
    builder.checkout("main")
    assert find(builder) == ()


def test_the_first_commit_of_all_is_joined_with_nothing(builder: RepoBuilder) -> None:
    builder.checkout("topic")
    builder.commit(f"Greet\n\n{TRAILERS}", {"README.md": "hi\n"})
    builder.checkout("main")
    assert search(builder).find(list_changes(builder)[0]) == ()


def test_a_deleted_branch_gives_nothing(builder: RepoBuilder) -> None:
    squash(builder)
    builder.git("branch", "-D", "topic")
    assert find(builder, ["1" * 40]) == ()


def test_a_shallow_clone_gives_what_it_holds(builder: RepoBuilder, tmp_path: Path) -> None:
    """No branch begins anywhere there, so that neither its tree nor its patch says what it did."""
    start = builder.sha("main")
    squash(builder)
    path = tmp_path / "clone"
    builder.git(
        "clone", "-q", "--depth=2", "--no-single-branch", f"file://{builder.path}", str(path)
    )
    clone = RepoBuilder(path, builder.clock)
    (change,) = list_changes(builder, start)
    assert search(clone).find(change) == ()
    assert [one.how for one in search(clone).find(change, [builder.sha("topic~1")])] == [
        "pull request"
    ]


def test_a_ref_to_what_is_not_there_is_passed_over(builder: RepoBuilder) -> None:
    squash(builder)
    (builder.path / ".git" / "refs" / "heads" / "broken").write_text("1" * 40 + "\n")
    assert [one.how for one in find(builder)] == ["tree"]


def test_unrelated_histories_are_passed_over(builder: RepoBuilder) -> None:
    builder.git("checkout", "-q", "--orphan", "other", "topic")
    builder.commit(f"All at once\n\n{TRAILERS}")
    builder.checkout("main")
    squash(builder)
    assert [one.sha for one in find(builder)] == [builder.sha("topic~1")]


# -- which of several


def test_of_two_branches_with_one_tree_the_newest_counts(builder: RepoBuilder) -> None:
    builder.branch("again", "topic~2")
    builder.git("checkout", "-q", "topic", "--", ".")
    newest = builder.commit(f"Retry, in one commit\n\n{TRAILERS}")
    builder.checkout("main")
    squash(builder)
    assert [one.sha for one in find(builder)] == [newest]


def test_a_commit_is_given_to_one_change(builder: RepoBuilder) -> None:
    squash(builder)
    builder.git("revert", "--no-edit", "main")
    builder.git("revert", "--no-edit", "main")
    finder = search(builder)
    assert [len(finder.find(change)) for change in list_changes(builder)] == [0, 0, 1, 0, 0]


def test_own_trailers_end_the_search_if_they_say_what_was_given(
    builder: RepoBuilder, git_calls: Calls
) -> None:
    own = squash(builder, message=f"Retry charges (#1)\n\n* Retry\n\n  {TRAILERS}")
    (change,) = list_changes(builder)[-1:]
    finder, started = search(builder), len(git_calls())
    assert finder.find(change, [builder.sha("topic~1")]) == (
        OriginalCommit(own, "commit", (GIVEN, USED)),
    )
    assert len(git_calls()) == started + 1, "the test's own"


def test_other_trailers_of_its_own_come_first(builder: RepoBuilder) -> None:
    own = squash(builder, message="Retry charges (#1)\n\nMemory-Used: k1\n")
    assert [(one.sha, one.how) for one in find(builder)] == [
        (own, "commit"),
        (builder.sha("topic~1"), "tree"),
    ]


# -- what it costs, and what may not disturb it


def test_without_candidates_git_is_asked_once(builder: RepoBuilder, git_calls: Calls) -> None:
    squash(builder)
    move_on(builder)
    builder.git("branch", "-D", "topic")
    changes, finder = list_changes(builder), search(builder)
    started = len(git_calls())
    assert not any(finder.find(change) for change in changes)
    (call,) = git_calls()[started:]
    assert "log -z" in call
    assert "-n2000" in call


def test_a_search_asks_for_few_things_and_never_twice(
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


def test_patches_are_not_asked_for_where_paths_differ(
    builder: RepoBuilder, git_calls: Calls
) -> None:
    builder.commit("Another (#1)", {"other.py": "1\n"})
    assert find(builder) == ()
    assert not any("diff-tree" in line for line in git_calls())


def test_the_newest_200_branches_are_looked_through(builder: RepoBuilder) -> None:
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
    assert [one.sha for one in find(builder)] == [old]


def test_the_settings_of_a_user_change_nothing(builder: RepoBuilder) -> None:
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
    assert [one.how for one in find(builder)] == ["patch-id"]


def test_hostile_names_and_messages_do_no_harm(builder: RepoBuilder) -> None:
    hostile = (
        "Retry\n\n\x1b[31mcommit 1234\ndiff --git a/x b/x\nMemory-Retrieved: $(touch x) --all\n"
    )
    builder.branch("x;$(touch${IFS}y)`z`", "topic")
    builder.git("update-ref", "refs/heads/--all", "topic")
    newest = builder.commit(hostile, {"weird\nname\t--x": "commit 1234\n"})
    builder.checkout("main")
    move_on(builder)
    squash(builder, builder.sha("refs/heads/x;$(touch${IFS}y)`z`"))
    found = find(builder)
    assert [one.sha for one in found] == [builder.sha("refs/heads/topic~1"), newest]
    assert found[-1].trailers == (("Memory-Retrieved", "$(touch x) --all"),)


def test_a_squash_is_joined_by_its_patch_in_a_repository_of_long_ids(tmp_path: Path) -> None:
    builder = make_repo(tmp_path / "long", "sha256")
    builder.commit("Begin", {"a": "a\n"})
    builder.branch("topic")
    commit = builder.commit(f"Topic\n\n{TRAILERS}", {"a": "b\n"})
    builder.checkout("main")
    builder.commit("Meanwhile", {"b": "b\n"})
    squash(builder)
    assert [(one.sha, one.how) for one in find(builder)] == [(commit, "patch-id")]
