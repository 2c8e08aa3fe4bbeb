"""Tests of listing and reading the files of commits, the index and the work tree."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.blobs import (
    FileContent,
    Tree,
    TreeFile,
    find_obstacle,
    list_staged,
    list_worktree,
    matches_pathspecs,
    read_files,
)
from memory_ci.gitrepo.repo import Repository, find_repository, find_setting
from memory_ci.memory.draft import Draft
from memory_ci.memory.workspace import open_workspace
from memory_ci.records.entry import ScopeOf
from tests.repos import RepoBuilder, make_repo

MEMORY = ("MEMORY.md", "*/MEMORY.md")
ODD_PATHS = (
    'quo"te.md',
    "new\nline.md",
    "tab\t.md",
    "café.md",
    os.fsdecode(b"latin\xe9.md"),
    " lead.md",
    "-x.md",
)
FILES = (
    "MEMORY.md",
    "a/MEMORY.md",
    "a/b/MEMORY.md",
    "xMEMORY.md",
    "a/MEMORY.md.txt",
    ".memory/inbox/x/1.md",
    "docs/a.md",
)
PATHSPECS = (
    MEMORY,
    ("*.md",),
    (".memory/inbox/*.md",),
    ("docs",),
    ("docs/",),
    ("?/MEMORY.md",),
    ("[ad]*/*.md",),
    ("[!a]*",),
    ("memory.md",),
    ("*",),
    (),
)


def paths(files: tuple[TreeFile, ...]) -> list[str]:
    return [file.path for file in files]


@pytest.mark.parametrize("pathspecs", PATHSPECS)
def test_pathspecs_select_the_same_files_as_in_git(
    builder: RepoBuilder, repo: Repository, pathspecs: tuple[str, ...]
) -> None:
    builder.commit("Files", dict.fromkeys(FILES, "text\n"))
    expected = builder.git("ls-files", "--", *pathspecs).splitlines()
    assert paths(Tree(repo, "HEAD").select(pathspecs)) == expected
    assert paths(list_staged(repo, pathspecs)) == paths(list_worktree(repo, pathspecs)) == expected
    assert sorted(
        path for path in (*FILES, "README.md") if matches_pathspecs(path, pathspecs)
    ) == sorted(expected)


def test_odd_paths_are_listed_and_read_everywhere(builder: RepoBuilder, repo: Repository) -> None:
    builder.commit("Odd", {path: path.encode("utf-8", "surrogateescape") for path in ODD_PATHS})
    for listed in (
        Tree(repo, "HEAD").select(["*.md"]),
        list_staged(repo, ["*.md"]),
        list_worktree(repo, ["*.md"]),
    ):
        contents = {content.file.path: content.data for content in read_files(repo, listed, 100)}
        assert contents.keys() == {*ODD_PATHS, "README.md"}
        assert all(contents[path] == path.encode("utf-8", "surrogateescape") for path in ODD_PATHS)


def test_a_changed_odd_path_is_read_from_disk(builder: RepoBuilder, repo: Repository) -> None:
    builder.commit("Odd", dict.fromkeys(ODD_PATHS, "old"))
    for path in ODD_PATHS:
        builder.write(path, "new")
    listed = list_worktree(repo, ["*.md"])
    assert {
        content.file.path for content in read_files(repo, listed, 9) if content.data == b"new"
    } == set(ODD_PATHS)


def test_symbolic_links_and_submodules_are_left_out(builder: RepoBuilder, repo: Repository) -> None:
    (builder.path / "MEMORY.md").symlink_to("/etc/hostname")
    builder.git("add", "MEMORY.md")
    builder.git("update-index", "--add", "--cacheinfo", f"160000,{builder.sha()},sub/MEMORY.md")
    builder.commit("Links")
    (builder.path / "a").mkdir()
    (builder.path / "a" / "MEMORY.md").symlink_to("/etc/hostname")
    for listed in (
        Tree(repo, "HEAD").select(MEMORY),
        list_staged(repo, MEMORY),
        list_worktree(repo, MEMORY),
    ):
        assert listed == ()


def test_a_tree_is_listed_from_a_sub_directory_and_in_a_bare_repository(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    builder.commit("Memory", {"a/MEMORY.md": "text\n"})
    bare = find_repository(builder.bare(tmp_path / "bare.git").path, is_named=True)
    listed = Tree(find_repository(builder.path / "a"), "HEAD").select(MEMORY)
    assert paths(listed) == ["a/MEMORY.md"]
    assert Tree(bare, "main").select(MEMORY) == listed
    assert [content.data for content in read_files(bare, listed, 100)] == [b"text\n"]


def test_the_index_is_listed_and_not_the_work_tree(builder: RepoBuilder, repo: Repository) -> None:
    builder.write("MEMORY.md", "staged\n")
    builder.git("add", "MEMORY.md")
    builder.write("MEMORY.md", "not staged\n")
    assert [content.data for content in read_files(repo, list_staged(repo, MEMORY), 100)] == [
        b"staged\n"
    ]


def test_a_hook_may_name_another_index(
    builder: RepoBuilder, repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_index = tmp_path / "next-index"
    builder.commit("Memory", {"MEMORY.md": "old\n"})
    builder.write("MEMORY.md", "new\n")
    # `git commit -a` builds another index and names it to its hooks.
    (builder.path / ".git" / "hooks").mkdir()
    hook = builder.path / ".git" / "hooks" / "pre-commit"
    hook.write_text(f'#!/bin/sh\ncp "$GIT_INDEX_FILE" {other_index}\nexit 1\n')
    hook.chmod(0o755)
    with pytest.raises(AssertionError):
        builder.git("commit", "-a", "-m", "never made")
    monkeypatch.setenv("GIT_INDEX_FILE", str(other_index))
    assert [content.data for content in read_files(repo, list_staged(repo, MEMORY), 100)] == [
        b"old\n"
    ]
    assert [
        content.data for content in read_files(repo, list_staged(repo, MEMORY, other_index), 100)
    ] == [b"new\n"]


def conflict(builder: RepoBuilder, ours: str | None, theirs: str | None) -> None:
    builder.commit("Base", {"MEMORY.md": "base\n"})
    builder.branch("topic")
    builder.commit("Theirs", {"MEMORY.md": theirs})
    builder.checkout("main")
    builder.commit("Ours", {"MEMORY.md": ours})
    with pytest.raises(AssertionError):
        builder.merge("topic")


@pytest.mark.parametrize(
    ("ours", "theirs", "listed"),
    [
        ("ours\n", "theirs\n", b"ours\n"),
        ("ours\n", None, b"ours\n"),
        (None, "theirs\n", b"theirs\n"),
    ],
)
def test_an_unmerged_file_is_listed_once_with_our_side_if_there_is_one(
    builder: RepoBuilder, repo: Repository, ours: str | None, theirs: str | None, listed: bytes
) -> None:
    conflict(builder, ours, theirs)
    assert [content.data for content in read_files(repo, list_staged(repo, MEMORY), 100)] == [
        listed
    ]


def test_an_unmerged_file_of_the_work_tree_is_read_from_disk(
    builder: RepoBuilder, repo: Repository
) -> None:
    conflict(builder, "ours\n", "theirs\n")
    (content,) = read_files(repo, list_worktree(repo, MEMORY), 1000)
    assert content.file.on_disk
    assert content.data is not None
    assert b"<<<<<<<" in content.data


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_the_work_tree_is_listed_with_its_local_changes(tmp_path: Path, object_format: str) -> None:
    builder = make_repo(tmp_path / "repo", object_format)
    builder.commit(
        "Memory",
        {f"{name}/MEMORY.md": f"{name}\n" for name in ("same", "changed", "deleted", "touched")},
    )
    builder.write(".gitignore", "ignored/\n")
    builder.write("ignored/MEMORY.md", "x\n")
    builder.write("changed/MEMORY.md", "changed on disk\n")
    builder.write("new/MEMORY.md", "new\n")
    builder.write("touched/MEMORY.md", "touched\n")
    os.utime(builder.path / "touched/MEMORY.md", (0, 0))
    (builder.path / "deleted/MEMORY.md").unlink()
    listed = list_worktree(find_repository(builder.path), MEMORY)
    expected = {"changed": True, "new": True, "same": False, "touched": False}
    assert {file.path: file.on_disk for file in listed} == {
        f"{name}/MEMORY.md": disk for name, disk in expected.items()
    }
    assert {file.path: file.oid for file in listed} == {
        file.path: builder.git("hash-object", "--no-filters", file.path) for file in listed
    }
    assert paths(listed) == sorted(paths(listed))


def test_a_file_that_was_staged_and_then_changed_back_is_read_from_disk(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Memory", {"MEMORY.md": "committed\n"})
    builder.write("MEMORY.md", "staged\n")
    builder.git("add", "MEMORY.md")
    builder.write("MEMORY.md", "committed\n")
    assert [content.data for content in read_files(repo, list_worktree(repo, MEMORY), 100)] == [
        b"committed\n"
    ]


def test_a_link_that_replaces_a_file_and_a_file_that_replaces_a_link(
    builder: RepoBuilder, repo: Repository
) -> None:
    (builder.path / "link").mkdir()
    (builder.path / "link" / "MEMORY.md").symlink_to("nowhere")
    builder.git("add", "link")
    builder.commit("Both", {"file/MEMORY.md": "text\n"})
    for name in ("link", "file"):
        (builder.path / name / "MEMORY.md").unlink()
    (builder.path / "file" / "MEMORY.md").symlink_to("nowhere")
    builder.write("link/MEMORY.md", "a file now\n")
    assert paths(list_worktree(repo, MEMORY)) == ["link/MEMORY.md"]


def test_a_file_outside_of_a_sparse_checkout_is_still_listed(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Memory", {"in/MEMORY.md": "in\n", "out/MEMORY.md": "out\n"})
    builder.git("sparse-checkout", "set", "in")
    assert not (builder.path / "out").exists()
    assert [content.data for content in read_files(repo, list_worktree(repo, MEMORY), 100)] == [
        b"in\n",
        b"out\n",
    ]


def test_listing_a_work_tree_takes_one_process_clean_or_not(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    list_worktree(repo, ["*.md"])
    assert len(git_calls()) == 1
    builder.write("MEMORY.md", "new\n")
    list_worktree(repo, ["*.md"])
    assert len(git_calls()) == 2


def test_a_bare_repository_has_no_work_tree_to_list(builder: RepoBuilder, tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="work tree"):
        list_worktree(
            find_repository(builder.bare(tmp_path / "bare.git").path, is_named=True), MEMORY
        )


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_an_unreadable_file_is_kept_and_is_a_problem_when_read(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.write("MEMORY.md", "secret\n").chmod(0)
    listed = list_worktree(repo, MEMORY)
    assert listed == (TreeFile("MEMORY.md", "", on_disk=True),)
    assert [content.problem for content in read_files(repo, listed, 9)] == [
        "cannot be read: Permission denied"
    ]


def test_contents_are_read_by_one_process_in_the_requested_order(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    builder.commit("Files", {f"f{number:03}.md": f"text {number}\n" for number in range(200)})
    builder.write("f100.md", "on disk\n")
    listed = list_worktree(repo, ["f*.md"])[::-1]
    started = len(git_calls())
    contents = list(read_files(repo, listed, 100))
    assert [content.file for content in contents] == list(listed)
    assert [content.data for content in contents][98:101] == [
        b"text 101\n",
        b"on disk\n",
        b"text 99\n",
    ]
    assert len(git_calls()) == started + 1


def test_nothing_to_read_starts_no_git(
    repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    assert list(read_files(repo, (), 100)) == []
    assert git_calls() == []


def test_content_over_the_limit_is_a_problem_and_the_next_file_is_read(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Files", {"a.md": "a" * 300_000, "b.md": "b", "empty.md": ""})
    builder.write("c.md", "c" * 11)
    read = [
        (c.file.path, c.data, c.problem)
        for c in read_files(repo, list_worktree(repo, ["[a-e]*.md"]), 10)
    ]
    assert read == [
        ("a.md", None, "is 300000 bytes, over the limit of 10"),
        ("b.md", b"b", ""),
        ("c.md", None, "is 11 bytes, over the limit of 10"),
        ("empty.md", b"", ""),
    ]


def test_a_missing_object_a_vanished_file_and_a_tree_are_problems_not_crashes(
    builder: RepoBuilder, repo: Repository
) -> None:
    gone, tree = TreeFile("gone.md", "1" * 40), TreeFile("tree", builder.sha("HEAD^{tree}"))
    vanished, present = (
        TreeFile("vanished.md", "2" * 40, on_disk=True),
        TreeFile("x", builder.sha("HEAD:README.md")),
    )
    assert list(read_files(repo, (gone, vanished, tree, present), 100)) == [
        FileContent(gone, None, f"is missing from the repository (object {'1' * 40})"),
        FileContent(vanished, None, "cannot be read: No such file or directory"),
        FileContent(tree, None, "is a tree, not a file"),
        FileContent(present, b"hello\n"),
    ]


def add_special(builder: RepoBuilder) -> None:
    builder.git("update-index", "--add", "--cacheinfo", f"160000,{builder.sha()},module")
    builder.commit("Files", {"docs/mem.md": "m\n"})
    (builder.path / "MEMORY.md").symlink_to("docs/mem.md")
    (builder.path / "linked").symlink_to("docs")
    builder.git("add", "MEMORY.md", "linked")
    builder.commit("Links")


def test_everything_in_a_tree_is_listed_with_its_mode(
    builder: RepoBuilder, repo: Repository
) -> None:
    add_special(builder)
    assert Tree(repo, "HEAD").modes == {
        "MEMORY.md": "120000",
        "README.md": "100644",
        "docs": "040000",
        "docs/mem.md": "100644",
        "linked": "120000",
        "module": "160000",
    }


OBSTACLES = {
    "README.md": None,
    "new.md": None,
    "docs/mem.md": None,
    "docs/new/MEMORY.md": None,
    "MEMORY.md": "MEMORY.md",
    "docs": "docs",
    "linked/MEMORY.md": "linked",
    "module/a/MEMORY.md": "module",
    "README.md/a/MEMORY.md": "README.md",
}


def test_only_a_plain_file_below_plain_directories_can_be_written(
    builder: RepoBuilder, repo: Repository
) -> None:
    add_special(builder)
    modes = Tree(repo, "HEAD").modes
    assert {path: find_obstacle(path, modes) for path in OBSTACLES} == OBSTACLES


def test_a_scope_whose_file_is_a_link_or_below_a_link_has_no_file(builder: RepoBuilder) -> None:
    add_special(builder)
    workspace = open_workspace(builder.path)
    draft = Draft(workspace.at("HEAD"))
    assert draft.path_of(ScopeOf("project")) is None
    assert draft.path_of(ScopeOf("team", "linked")) is None
    assert draft.path_of(ScopeOf("team", "module")) is None
    assert draft.path_of(ScopeOf("team", "README.md")) is None
    assert draft.path_of(ScopeOf("team", "docs")) == "docs/MEMORY.md"


def test_no_program_of_the_configuration_runs_when_files_are_listed(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    program = tmp_path / "monitor"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    builder.git("config", "core.fsmonitor", str(program))
    builder.git("config", "core.hooksPath", str(tmp_path / "hooks"))
    list_worktree(repo, MEMORY)
    assert not (tmp_path / "ran").exists()
    assert find_setting(repo, "core.fsmonitor") == str(program), (
        "the setting itself can still be asked for"
    )
    assert find_setting(repo, "core.hooksPath") == str(tmp_path / "hooks")
