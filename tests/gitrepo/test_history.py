from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.history import (
    Cursor,
    HistoryRange,
    find_addition,
    find_cursor,
    find_lost_cursor,
    group_commits,
    iter_merged_changes,
    list_added_lines,
    list_counted,
    list_versions,
    plan_range,
)
from memory_ci.gitrepo.repo import Repository, find_repository
from memory_ci.records.history import FileChange, MergedChange
from tests.repos import RepoBuilder, make_repo


def changes(repo: Repository, since: str | None = None, until: str = "HEAD") -> list[MergedChange]:
    return list(iter_merged_changes(repo, plan_range(repo, since, until)))


def shape(
    repo: Repository, since: str | None = None, until: str = "HEAD"
) -> list[tuple[str, int | None, list[str]]]:
    """Kind, number and subjects of each change."""
    return [
        (c.kind, c.number, [commit.subject for commit in c.commits])
        for c in changes(repo, since, until)
    ]


def test_the_whole_history_starts_with_the_first_commit(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Second")
    assert shape(repo) == [("direct", None, ["Begin"]), ("direct", None, ["Second"])]
    assert changes(repo)[0].commits[0].files == (FileChange("A", "README.md"),)


def test_a_range_holds_what_came_after_since(builder: RepoBuilder, repo: Repository) -> None:
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


def test_a_merge_brings_its_branch_oldest_first(builder: RepoBuilder, repo: Repository) -> None:
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


def test_squash_and_direct_commits_stand_alone(builder: RepoBuilder, repo: Repository) -> None:
    for subject in ("Retry (#1)", "Fix", "Again (#2)"):
        builder.commit(subject)
    assert shape(repo)[1:] == [
        ("squash", 1, ["Retry (#1)"]),
        ("direct", None, ["Fix"]),
        ("squash", 2, ["Again (#2)"]),
    ]
    assert changes(repo)[1].title == "Retry"


def test_neighbours_of_one_number_are_a_rebase(builder: RepoBuilder, repo: Repository) -> None:
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


def test_an_octopus_brings_all_its_branches(builder: RepoBuilder, repo: Repository) -> None:
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


def test_a_branch_that_merged_main_brings_only_its_own(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.branch("topic")
    builder.commit("Topic 1", {"t": "1"})
    builder.checkout("main")
    builder.commit("Main 1", {"m": "1"})
    builder.checkout("topic")
    builder.merge("main", message="Catch up")
    builder.commit("Topic 2", {"t": "2"})
    builder.checkout("main")
    builder.merge("topic", message="Merge topic")
    assert shape(repo)[1:] == [
        ("direct", None, ["Main 1"]),
        ("merge", None, ["Topic 1", "Catch up", "Topic 2", "Merge topic"]),
    ]


def test_criss_cross_merges_bring_each_commit_once(builder: RepoBuilder, repo: Repository) -> None:
    builder.branch("topic")
    builder.commit("Topic", {"t": "1"})
    builder.checkout("main")
    builder.commit("Main", {"m": "1"})
    main, topic = builder.sha("main"), builder.sha("topic")
    builder.merge(topic, message="Topic into main")
    builder.checkout("topic")
    builder.merge(main, message="Main into topic")
    builder.checkout("main")
    builder.merge("topic", message="Merge again")
    assert shape(repo)[1:] == [
        ("direct", None, ["Main"]),
        ("merge", None, ["Topic", "Topic into main"]),
        ("merge", None, ["Main into topic", "Merge again"]),
    ]


def test_a_branch_inside_a_branch_comes_with_it(builder: RepoBuilder, repo: Repository) -> None:
    builder.branch("topic")
    builder.commit("Topic", {"t": "1"})
    builder.branch("deeper")
    builder.commit("Deeper", {"d": "1"})
    builder.checkout("topic")
    builder.merge("deeper", message="Merge deeper")
    builder.checkout("main")
    builder.merge("topic", message="Merge topic")
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


def test_a_detached_head_and_an_unborn_one(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    builder.commit("Second")
    builder.git("checkout", "-q", "--detach", "HEAD~1")
    assert shape(repo) == [("direct", None, ["Begin"])]
    with pytest.raises(RepositoryError) as failure:
        plan_range(find_repository(make_repo(tmp_path / "unborn").path), None, "HEAD")
    assert failure.value.slug == "unknown-revision"


def test_a_bare_sha256_repository_is_read_as_well(tmp_path: Path) -> None:
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


def test_a_range_that_a_shallow_clone_cuts_is_an_error_and_not_a_part(
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


def test_a_shallow_clone_that_cuts_only_a_side_branch_is_an_error_too(
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


def test_a_shallow_clone_that_holds_all_is_enough(builder: RepoBuilder, tmp_path: Path) -> None:
    builder.commit("Second")
    assert len(changes(shallow_clone(builder, tmp_path / "clone", 50))) == 2


def write_long_history(builder: RepoBuilder, merges: int) -> None:
    """`merges` true merges of a branch of one commit, by fast-import: twice as many commits and the first one."""
    lines = [
        "reset refs/heads/main",
        "commit refs/heads/main",
        "mark :1",
        "committer A <a@b.c> 1 +0000",
        "data 1",
        "0",
        "",
    ]
    for number in range(merges):
        base = 2 * number + 1
        for parents, mark, message in (
            ([base], base + 1, f"work {number}"),
            ([base, base + 1], base + 2, f"merge {number}"),
        ):
            lines += [
                f"commit refs/heads/{'main' if len(parents) > 1 else 'side'}",
                f"mark :{mark}",
            ]
            lines += [
                f"committer A <a@b.c> {mark} +0000",
                f"data {len(message)}",
                message,
                f"from :{parents[0]}",
            ]
            lines += [
                *(f"merge :{parent}" for parent in parents[1:]),
                f"M 644 inline f{number % 9}",
                "data 4",
                f"{number:04}",
                "",
            ]
    builder.git("fast-import", "--quiet", "--force", input="\n".join(lines).encode())


def test_a_long_history_costs_one_process_to_plan_its_range_and_one_to_read_it(
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


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, tuple[str, ...]], str]:
    """Commits with up to three parents each among the older ones, children before parents, and the tip."""
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
def test_groups_hold_every_commit_once_and_parents_first(
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


def test_ranges_are_values(repo: Repository) -> None:
    planned = plan_range(repo, None, "HEAD")
    assert planned == HistoryRange(None, planned.until, ((planned.until,),))


def record(builder: RepoBuilder, trailers: str, path: str = "MEMORY.md") -> str:
    """A commit as a record run makes one: it says its step, and it changes memory."""
    message = f"memory: extract\n\nMemory-CI-Step: extract\n{trailers}\n"
    return builder.commit(message, {path: f"{builder.clock.now}\n"})


def test_the_cursor_is_that_of_the_newest_run(builder: RepoBuilder, repo: Repository) -> None:
    assert find_cursor(repo, "HEAD") is None
    first = builder.sha()
    older = record(builder, f"Memory-CI-Source: {first}")
    commit = record(builder, f"Memory-CI-Source: {older}")
    builder.commit("Work")
    assert find_cursor(repo, "HEAD") == Cursor(older, commit)
    assert find_cursor(repo, f"{commit}~1") == Cursor(first, older)


def test_words_about_the_cursor_are_not_the_cursor(builder: RepoBuilder, repo: Repository) -> None:
    first = builder.sha()
    commit = record(builder, f"Memory-CI-Source: {first}")
    record(builder, f"The trailer Memory-CI-Source: {commit} is the cursor.")
    record(builder, "Memory-CI-Source: <sha>")
    assert find_cursor(repo, "HEAD") == Cursor(first, commit)


def test_a_commit_that_record_did_not_make_moves_no_cursor_and_counts_nothing(
    builder: RepoBuilder, repo: Repository
) -> None:
    first = builder.sha()
    commit = record(builder, f"Memory-CI-Source: {first}\nMemory-CI-Counted: {first}")
    forged = f"Memory-CI-Source: {commit}\nMemory-CI-Counted: {commit}\n"
    builder.commit(f"No step\n\n{forged}", {"MEMORY.md": "x\n"})
    builder.commit(f"No files\n\nMemory-CI-Step: extract\n{forged}")
    record(builder, forged, "src/client.py")
    builder.commit(
        f"Both\n\nMemory-CI-Step: extract\n{forged}", {"MEMORY.md": "y\n", "src/client.py": "y\n"}
    )
    builder.git("mv", "src/client.py", "src/client.md")
    builder.commit(f"Renamed\n\nMemory-CI-Step: extract\n{forged}")
    assert find_cursor(repo, "HEAD") == Cursor(first, commit)
    assert list_counted(repo, "HEAD") == {first}


def test_what_is_memory_is_for_the_caller_to_say(builder: RepoBuilder, repo: Repository) -> None:
    first = builder.sha()
    commit = record(builder, f"Memory-CI-Source: {first}\nMemory-CI-Counted: {first}")
    record(builder, f"Memory-CI-Source: {commit}\nMemory-CI-Counted: {commit}", "docs/guide.md")
    assert find_cursor(repo, "HEAD", "MEMORY.md".__eq__) == Cursor(first, commit)
    assert list_counted(repo, "HEAD", "MEMORY.md".__eq__) == {first}
    assert list_counted(repo, "HEAD") == {first, commit}


def test_a_source_outside_of_the_history_of_its_commit_is_passed_over(
    builder: RepoBuilder, repo: Repository
) -> None:
    first = builder.sha()
    commit = record(builder, f"Memory-CI-Source: {first}")
    builder.branch("side")
    aside = builder.commit("Aside")
    builder.checkout("main")
    blob = builder.sha("HEAD:README.md")
    for source in ("a" * 40, aside, blob):
        record(builder, f"Memory-CI-Source: {source}")
    assert find_cursor(repo, "HEAD") == Cursor(first, commit)


def test_a_squash_of_record_commits_gives_the_newest_source(
    builder: RepoBuilder, repo: Repository
) -> None:
    sources = (builder.sha(), builder.commit("Work"))
    steps = (
        f"* memory: step\n\nMemory-CI-Step: fold\nMemory-CI-Source: {source}\n\n"
        for source in sources
    )
    message = f"Update memory (#9)\n\n{''.join(steps)}Co-authored-by: A <a@b.c>\n"
    commit = builder.commit(message, {"MEMORY.md": "m\n", "src/MEMORY.md": "m\n"})
    assert find_cursor(repo, "HEAD") == Cursor(sources[1], commit)


def merge_memory(builder: RepoBuilder, source: str, path: str = "MEMORY.md") -> str:
    """A record commit on a branch of its own, brought to main by a merge commit; the record commit."""
    builder.branch("memory", source)
    commit = record(builder, f"Memory-CI-Source: {source}", path)
    builder.checkout("main")
    builder.merge("memory", message="Merge pull request #7 from acme/memory")
    builder.git("branch", "-q", "-D", "memory")
    return commit


def test_a_merge_commit_that_brought_memory_alone_brings_its_cursor(
    builder: RepoBuilder, repo: Repository
) -> None:
    first = builder.sha()
    older = merge_memory(builder, first)
    assert find_cursor(repo, "HEAD") == Cursor(first, older)
    covered = builder.commit("Work", {"a.txt": "a"})
    builder.commit("While the request was open", {"b.txt": "b"})
    commit = merge_memory(builder, covered)
    assert find_cursor(repo, "HEAD") == Cursor(covered, commit)
    assert find_cursor(repo, "HEAD~1") == Cursor(first, older)


def test_a_merged_cursor_that_is_not_further_than_that_of_the_main_line_does_not_count(
    builder: RepoBuilder, repo: Repository
) -> None:
    first = builder.sha()
    covered = builder.commit("Work", {"a.txt": "a"})
    commit = record(builder, f"Memory-CI-Source: {covered}")
    for source in (first, covered):
        merge_memory(builder, source, f"docs/{source[:4]}.md")
        assert find_cursor(repo, "HEAD") == Cursor(covered, commit)


def test_a_cursor_that_a_change_of_code_brings_does_not_count(
    builder: RepoBuilder, repo: Repository
) -> None:
    first = builder.sha()
    builder.branch("topic")
    record(builder, f"Memory-CI-Source: {first}")
    builder.commit("Work", {"a.txt": "a"})
    builder.checkout("main")
    builder.merge("topic")
    assert find_cursor(repo, "HEAD") is None


@pytest.mark.parametrize("how", ["merge", "rebase"])
def test_a_note_of_a_stranger_brings_no_cursor_however_it_is_merged(
    builder: RepoBuilder, repo: Repository, how: str
) -> None:
    first = builder.sha()
    if how == "merge":
        merge_memory(builder, first, ".memory/inbox/note.md")
    else:
        record(builder, f"Memory-CI-Source: {first}", ".memory/inbox/note.md")
    assert find_cursor(repo, "HEAD") is None
    fold = {".memory/inbox/note.md": None, "MEMORY.md": "note\n"}
    builder.commit(f"Fold\n\nMemory-CI-Step: fold\nMemory-CI-Source: {first}", fold)
    assert find_cursor(repo, "HEAD") == Cursor(first, builder.sha())


@pytest.mark.parametrize(
    "files",
    [
        {".memory/inbox/note.md": "mended\n"},
        {".memory/inbox/note.md": None},
        {".memory/inbox/note.md": "mended\n", "MEMORY.md": "x\n"},
    ],
    ids=["mended", "taken away", "mended with memory"],
)
def test_what_a_stranger_may_do_to_notes_moves_no_cursor_and_counts_nothing(
    builder: RepoBuilder, repo: Repository, files: dict[str, str | None]
) -> None:
    first = builder.sha()
    builder.commit("Note", {".memory/inbox/note.md": "note\n"})
    trailers = f"Memory-CI-Step: fold\nMemory-CI-Source: {first}\nMemory-CI-Counted: {first}"
    builder.commit(f"memory: mend a note\n\n{trailers}\n", files)
    assert find_cursor(repo, "HEAD") is None
    assert list_counted(repo, "HEAD") == frozenset()


def test_a_merged_branch_with_a_cursor_of_its_own_does_not_count(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.branch("topic")
    own = builder.commit("Words", {"notes.md": "n"})
    record(builder, f"Memory-CI-Source: {own}")
    builder.checkout("main")
    builder.merge("topic")
    assert find_cursor(repo, "HEAD") is None


def test_a_memory_branch_that_main_was_merged_into_keeps_its_cursor(
    builder: RepoBuilder, repo: Repository
) -> None:
    first = builder.sha()
    builder.branch("memory")
    commit = record(builder, f"Memory-CI-Source: {first}")
    builder.checkout("main")
    builder.commit("Meanwhile", {"a.txt": "a"})
    builder.checkout("memory")
    builder.merge("main", message="Merge main into memory")
    builder.checkout("main")
    builder.merge("memory", message="Merge pull request #7 from acme/memory")
    assert find_cursor(repo, "HEAD") == Cursor(first, commit)


def test_the_cursor_of_a_long_history_costs_few_processes_however_it_came_there(
    tmp_path: Path, git_calls: Callable[[], list[str]]
) -> None:
    builder = make_repo(tmp_path / "long")
    write_long_history(builder, 200)
    builder.git("reset", "-q", "--hard")
    repo, source = find_repository(builder.path), builder.sha()
    started = len(git_calls())
    assert find_cursor(repo, "main") is None
    assert len(git_calls()) - started == 2
    commit = merge_memory(builder, source)
    started = len(git_calls())
    assert find_cursor(repo, "main") == Cursor(source, commit)
    assert len(git_calls()) - started == 6
    covered = builder.sha()
    commit = record(builder, f"Memory-CI-Source: {covered}")
    started = len(git_calls())
    assert find_cursor(repo, "main") == Cursor(covered, commit)
    assert len(git_calls()) - started == 3


def test_a_cursor_that_was_lost_is_the_newest_that_names_what_history_does_not_hold(
    builder: RepoBuilder, repo: Repository
) -> None:
    first = builder.sha()
    commit = record(builder, f"Memory-CI-Source: {first}")
    cursor = find_cursor(repo, "HEAD")
    assert find_lost_cursor(repo, "HEAD", cursor) is None
    lost = record(builder, f"Memory-CI-Source: {'a' * 40}")
    builder.commit("Work", {"a.txt": "a"})
    assert find_cursor(repo, "HEAD") == cursor == Cursor(first, commit)
    assert (
        find_lost_cursor(repo, "HEAD", cursor)
        == find_lost_cursor(repo, "HEAD", None)
        == Cursor("a" * 40, lost)
    )
    again = record(builder, f"Memory-CI-Source: {builder.sha()}")
    assert find_lost_cursor(repo, "HEAD", Cursor(builder.sha("HEAD~1"), again)) is None


def test_a_cursor_that_was_overtaken_is_not_lost(builder: RepoBuilder, repo: Repository) -> None:
    first = builder.sha()
    covered = builder.commit("Work", {"a.txt": "a"})
    record(builder, f"Memory-CI-Source: {first}")
    cursor = Cursor(covered, merge_memory(builder, covered, "docs/MEMORY.md"))
    assert find_cursor(repo, "HEAD") == cursor
    assert find_lost_cursor(repo, "HEAD", cursor) is None


def test_all_counted_commits_are_listed(builder: RepoBuilder, repo: Repository) -> None:
    assert list_counted(repo, "HEAD") == frozenset()
    record(builder, f"Memory-CI-Counted: {'a' * 40}\nMemory-CI-Counted: {'b' * 40}")
    record(builder, f"Memory-CI-Counted: {'c' * 40}, {'a' * 40}")
    assert list_counted(repo, "HEAD") == {letter * 40 for letter in "abc"}


@pytest.mark.parametrize(
    "path", ["MEMORY.md", "a*[b]/x.md", 'quo"te\n.md', os.fsdecode(b"\xff.md")]
)
def test_the_addition_of_a_file_is_the_first_one_on_the_main_line(
    builder: RepoBuilder, repo: Repository, path: str
) -> None:
    builder.commit("Another that a glob would mean", {"axb/x.md": "other"})
    assert find_addition(repo, "HEAD", path) is None
    builder.branch("topic")
    builder.commit("Add on a branch", {path: "1"})
    builder.checkout("main")
    merged = builder.merge("topic")
    builder.commit("Change", {path: "2"})
    builder.commit("Delete", {path: None})
    builder.commit("Add again", {path: "3"})
    assert find_addition(repo, "HEAD", path) == merged


def test_the_versions_of_files_come_newest_first(builder: RepoBuilder, repo: Repository) -> None:
    builder.commit("Add", {"MEMORY.md": "1", "other.txt": "x"})
    builder.branch("topic")
    builder.commit("Change on a branch", {"a/MEMORY.md": "2"})
    builder.checkout("main")
    builder.commit("Elsewhere", {"other.txt": "y"})
    builder.merge("topic", message="Merge topic")
    builder.commit("Delete", {"MEMORY.md": None})
    versions = [
        (v.commit.subject, v.path, v.oid)
        for v in list_versions(repo, "HEAD", ["MEMORY.md", "*/MEMORY.md"])
    ]
    assert versions == [
        ("Delete", "MEMORY.md", None),
        ("Merge topic", "a/MEMORY.md", builder.sha("HEAD:a/MEMORY.md")),
        ("Add", "MEMORY.md", builder.sha("HEAD~1:MEMORY.md")),
    ]


def test_a_renamed_file_is_deleted_and_added(builder: RepoBuilder, repo: Repository) -> None:
    builder.commit("Add", {"MEMORY.md": "some words\n"})
    builder.git("mv", "MEMORY.md", "b.md")
    builder.commit("Move")
    oid = builder.sha("HEAD:b.md")
    moved = [
        (version.path, version.oid)
        for version in list_versions(repo, "HEAD", ["MEMORY.md", "b.md"])
    ]
    assert moved == [("MEMORY.md", None), ("b.md", oid), ("MEMORY.md", oid)]


def test_lines_that_were_ever_added_are_listed_also_when_they_are_gone(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Add", {"MEMORY.md": "id: 1\nother: x\n", "x.md": "id: 9\n"})
    builder.branch("side")
    builder.commit("More", {"src/MEMORY.md": "id: 2\n"})
    builder.checkout("main")
    builder.merge("side")
    builder.commit("Remove", {"MEMORY.md": "", "src/MEMORY.md": None})
    pathspecs = ("MEMORY.md", "*/MEMORY.md")
    assert list_added_lines(repo, "HEAD", pathspecs, "id: ") == {"id: 1", "id: 2"}


@pytest.mark.parametrize("attribute", ["-diff", "binary", "diff=lfs"])
def test_no_attribute_of_the_repository_hides_an_added_line(
    builder: RepoBuilder, repo: Repository, attribute: str
) -> None:
    builder.git("config", "diff.lfs.binary", "true")
    builder.commit("Hide", {".gitattributes": f"MEMORY.md {attribute}\n"})
    builder.commit("Add", {"MEMORY.md": "id: 1\n"})
    builder.commit("Remove", {"MEMORY.md": ""})
    assert list_added_lines(repo, "HEAD", ("MEMORY.md",), "id: ") == {"id: 1"}
