"""Tests of the cursor: how far `record` has read the history, as its commits state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.gitrepo import record_commits
from memory_ci.gitrepo.record_commits import Cursor, CursorSearch, is_markdown
from memory_ci.gitrepo.repo import Repository, find_repository, resolve_commit
from tests.gitrepo.histories import changes, write_long_history
from tests.repos import RepoBuilder, make_repo


def record(builder: RepoBuilder, trailers: str, path: str = "MEMORY.md") -> str:
    """Make a commit like those of a record run: it names its step and changes memory."""
    message = f"memory: extract\n\nMemory-CI-Step: extract\n{trailers}\n"
    return builder.commit(message, {path: f"{builder.clock.now}\n"})


IsMemory = Callable[[str], bool]


def search_cursors(repo: Repository, rev: str, is_memory: IsMemory = is_markdown) -> CursorSearch:
    """Search for cursors by a name, by a full id, and in commits that were read: all are equal."""
    found = record_commits.search_cursors(repo, rev, is_memory)
    sha = resolve_commit(repo, rev)
    assert record_commits.search_cursors(repo, sha, is_memory) == found
    changes(repo, None, sha)
    assert record_commits.search_cursors(repo, sha, is_memory) == found
    return found


def find_cursor(repo: Repository, rev: str, is_memory: IsMemory = is_markdown) -> Cursor | None:
    return search_cursors(repo, rev, is_memory).cursor


def list_counted_commits(
    repo: Repository, rev: str, since: str | None = None, is_memory: IsMemory = is_markdown
) -> frozenset[str]:
    """List counted commits by a name, and in commits that were read: both are equal."""
    found = record_commits.list_counted_commits(repo, rev, since, is_memory)
    sha = resolve_commit(repo, rev)
    changes(repo, None, sha)
    assert record_commits.list_counted_commits(repo, sha, since, is_memory) == found
    return found


def test_the_cursor_is_that_of_the_newest_run(builder: RepoBuilder, repo: Repository) -> None:
    assert find_cursor(repo, "HEAD") is None
    first = builder.sha()
    older = record(builder, f"Memory-CI-Source: {first}")
    commit = record(builder, f"Memory-CI-Source: {older}")
    builder.commit("Work")
    assert find_cursor(repo, "HEAD") == Cursor(older, commit)
    assert find_cursor(repo, f"{commit}~1") == Cursor(first, older)


def test_the_cursor_is_found_behind_the_commits_that_were_read(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    first = builder.sha()
    commit = record(builder, f"Memory-CI-Source: {first}")
    older = builder.commit("Older work")
    tip = builder.commit("Work")
    changes(repo, older, tip)
    started = len(git_calls())
    assert record_commits.find_cursor(repo, tip) == Cursor(first, commit)
    log_calls = [call for call in git_calls()[started:] if "--grep" in call]
    assert [f"--end-of-options {older} --" in call for call in log_calls] == [True]


def test_a_mention_of_the_cursor_is_not_the_cursor(builder: RepoBuilder, repo: Repository) -> None:
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
    assert list_counted_commits(repo, "HEAD") == {first}


def test_the_caller_decides_which_paths_are_memory(builder: RepoBuilder, repo: Repository) -> None:
    first = builder.sha()
    commit = record(builder, f"Memory-CI-Source: {first}\nMemory-CI-Counted: {first}")
    record(builder, f"Memory-CI-Source: {commit}\nMemory-CI-Counted: {commit}", "docs/guide.md")
    assert find_cursor(repo, "HEAD", "MEMORY.md".__eq__) == Cursor(first, commit)
    assert list_counted_commits(repo, "HEAD", is_memory="MEMORY.md".__eq__) == {first}
    assert list_counted_commits(repo, "HEAD") == {first, commit}


def test_only_counts_after_a_commit_are_searched(builder: RepoBuilder, repo: Repository) -> None:
    first = builder.sha()
    older = record(builder, f"Memory-CI-Counted: {first}")
    record(builder, f"Memory-CI-Counted: {older}")
    assert list_counted_commits(repo, "HEAD", since=older) == {older}


def test_a_source_outside_the_history_of_its_commit_is_ignored(
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
    """Merge a branch with a record commit into main, and return the sha of the record commit."""
    builder.branch("memory", source)
    commit = record(builder, f"Memory-CI-Source: {source}", path)
    builder.merge_back("memory", message="Merge pull request #7 from acme/memory")
    builder.git("branch", "-q", "-D", "memory")
    return commit


def test_a_merge_of_memory_only_moves_the_cursor(builder: RepoBuilder, repo: Repository) -> None:
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


def test_a_cursor_in_a_merge_with_code_does_not_count(
    builder: RepoBuilder, repo: Repository
) -> None:
    first = builder.sha()
    builder.branch("topic")
    record(builder, f"Memory-CI-Source: {first}")
    builder.commit("Work", {"a.txt": "a"})
    builder.merge_back("topic")
    assert find_cursor(repo, "HEAD") is None


@pytest.mark.parametrize("how", ["merge", "rebase"])
def test_a_strangers_note_moves_no_cursor_however_it_is_merged(
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
    ids=["changed", "deleted", "changed with memory"],
)
def test_notes_edited_by_a_stranger_move_no_cursor_and_count_nothing(
    builder: RepoBuilder, repo: Repository, files: dict[str, str | None]
) -> None:
    first = builder.sha()
    builder.commit("Note", {".memory/inbox/note.md": "note\n"})
    trailers = f"Memory-CI-Step: fold\nMemory-CI-Source: {first}\nMemory-CI-Counted: {first}"
    builder.commit(f"memory: mend a note\n\n{trailers}\n", files)
    assert find_cursor(repo, "HEAD") is None
    assert list_counted_commits(repo, "HEAD") == frozenset()


def test_a_merged_branch_with_a_cursor_of_its_own_does_not_count(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.branch("topic")
    branch_commit = builder.commit("Words", {"notes.md": "n"})
    record(builder, f"Memory-CI-Source: {branch_commit}")
    builder.merge_back("topic")
    assert find_cursor(repo, "HEAD") is None


def test_a_memory_branch_with_a_merge_of_main_keeps_its_cursor(
    builder: RepoBuilder, repo: Repository
) -> None:
    first = builder.sha()
    builder.branch("memory")
    commit = record(builder, f"Memory-CI-Source: {first}")
    builder.checkout("main")
    builder.commit("Meanwhile", {"a.txt": "a"})
    builder.checkout("memory")
    builder.merge("main", message="Merge main into memory")
    builder.merge_back("memory", message="Merge pull request #7 from acme/memory")
    assert find_cursor(repo, "HEAD") == Cursor(first, commit)


def test_finding_the_cursor_of_a_long_history_takes_few_processes(
    tmp_path: Path, git_calls: Callable[[], list[str]]
) -> None:
    builder = make_repo(tmp_path / "long")
    write_long_history(builder, 200)
    builder.git("reset", "-q", "--hard")
    repo, source = find_repository(builder.path), builder.sha()
    started = len(git_calls())
    assert record_commits.find_cursor(repo, "main") is None
    assert len(git_calls()) - started == 2
    commit = merge_memory(builder, source)
    started = len(git_calls())
    assert record_commits.find_cursor(repo, "main") == Cursor(source, commit)
    assert len(git_calls()) - started == 6
    covered = builder.sha()
    commit = record(builder, f"Memory-CI-Source: {covered}")
    started = len(git_calls())
    assert record_commits.find_cursor(repo, "main") == Cursor(covered, commit)
    assert len(git_calls()) - started == 3


def test_a_lost_cursor_is_the_newest_whose_source_is_not_in_the_history(
    builder: RepoBuilder, repo: Repository
) -> None:
    first = builder.sha()
    commit = record(builder, f"Memory-CI-Source: {first}")
    cursor = Cursor(first, commit)
    assert search_cursors(repo, "HEAD") == CursorSearch(cursor, lost=None)
    lost = record(builder, f"Memory-CI-Source: {'a' * 40}")
    builder.commit("Work", {"a.txt": "a"})
    assert search_cursors(repo, "HEAD") == CursorSearch(cursor, Cursor("a" * 40, lost))
    record(builder, f"Memory-CI-Source: {'b' * 40}")
    assert search_cursors(repo, "HEAD~1").lost == Cursor("a" * 40, lost)
    newest = builder.sha()
    assert search_cursors(repo, "HEAD").lost == Cursor("b" * 40, newest)
    record_commit = record(builder, f"Memory-CI-Source: {newest}")
    assert search_cursors(repo, "HEAD") == CursorSearch(Cursor(newest, record_commit), lost=None)


def test_a_cursor_with_a_newer_one_is_not_lost(builder: RepoBuilder, repo: Repository) -> None:
    first = builder.sha()
    covered = builder.commit("Work", {"a.txt": "a"})
    record(builder, f"Memory-CI-Source: {first}")
    cursor = Cursor(covered, merge_memory(builder, covered, "docs/MEMORY.md"))
    assert search_cursors(repo, "HEAD") == CursorSearch(cursor, lost=None)


def test_a_lost_cursor_that_was_overtaken_is_not_lost(
    builder: RepoBuilder, repo: Repository
) -> None:
    record(builder, f"Memory-CI-Source: {'a' * 40}")
    covered = builder.commit("Work", {"a.txt": "a"})
    cursor = Cursor(covered, merge_memory(builder, covered, "docs/MEMORY.md"))
    assert search_cursors(repo, "HEAD") == CursorSearch(cursor, lost=None)


def test_all_counted_commits_are_listed(builder: RepoBuilder, repo: Repository) -> None:
    assert list_counted_commits(repo, "HEAD") == frozenset()
    record(builder, f"Memory-CI-Counted: {'a' * 40}\nMemory-CI-Counted: {'b' * 40}")
    record(builder, f"Memory-CI-Counted: {'c' * 40}, {'a' * 40}")
    assert list_counted_commits(repo, "HEAD") == {letter * 40 for letter in "abc"}
