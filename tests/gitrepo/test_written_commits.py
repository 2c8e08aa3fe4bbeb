"""Tests of the commits that the writer makes: files, message, identity, time, and odd paths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory_ci.gitrepo.repo import Repository, find_repository
from tests.gitrepo.writing import WHEN, series, state, write
from tests.repos import RepoBuilder, make_repo

pytestmark = pytest.mark.usefixtures("scratch", "check_nothing_left_behind")


def test_each_step_is_a_commit_with_its_files_message_identity_and_time(
    builder: RepoBuilder, repo: Repository
) -> None:
    base = builder.sha()
    tip = write(
        repo,
        series(
            {"MEMORY.md": b"one\n"},
            {"MEMORY.md": b"two\n", "a/b/c.md": b"c\n"},
            {"README.md": None},
        ),
    )
    assert tip == builder.sha("main")
    assert builder.git("rev-list", "--reverse", f"{base}..main").splitlines()[-1] == tip
    log = builder.git(
        "log",
        "--reverse",
        "--name-status",
        "--format=%s|%an|%ae|%cn|%ce|%ad|%cd",
        "--date=raw",
        f"{base}..",
    )
    who = "memory-ci|memory-ci@example.com|memory-ci|memory-ci@example.com"
    date = f"{int(WHEN.timestamp())} +0530"
    assert log == (
        f"memory: step 1|{who}|{date}|{date}\n\nA\tMEMORY.md\n"
        f"memory: step 2|{who}|{date}|{date}\n\nM\tMEMORY.md\nA\ta/b/c.md\n"
        f"memory: step 3|{who}|{date}|{date}\n\nD\tREADME.md"
    )
    assert builder.show("main~2", "MEMORY.md") == "one\n"
    assert builder.show("main", "MEMORY.md") == "two\n"
    assert builder.git("reflog", "-1", "--format=%gs", "main") == "memory-ci: record"


def test_the_work_tree_is_updated_and_the_status_stays_clean(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Inbox", {".memory/inbox/1.md": "1\n", ".memory/inbox/2.md": "2\n"})
    write(
        repo,
        series(
            {"MEMORY.md": b"1\n", ".memory/inbox/1.md": None},
            {"MEMORY.md": b"1\n2\n", ".memory/inbox/2.md": None},
        ),
    )
    assert (builder.path / "MEMORY.md").read_bytes() == b"1\n2\n"
    assert not (builder.path / ".memory").exists()
    assert builder.git("status", "--porcelain") == ""
    assert builder.path.is_dir()


def test_the_same_series_gives_the_same_commit_id(tmp_path: Path) -> None:
    tips = set()
    for name in ("one", "two"):
        builder = make_repo(tmp_path / name)
        builder.commit("Begin", {"README.md": "hello\n"})
        tips.add(write(find_repository(builder.path), series({"b.md": b"b", "a.md": b"a"})))
    assert len(tips) == 1


def test_a_commit_without_changes_is_left_out(builder: RepoBuilder, repo: Repository) -> None:
    base = builder.sha()
    tip = write(
        repo,
        series(
            {"README.md": b"hello\n"},
            {"MEMORY.md": b"m\n"},
            {"MEMORY.md": b"m\n"},
            {},
            {"gone.md": None},
        ),
    )
    assert builder.git("log", "--format=%s", f"{base}..{tip}") == "memory: step 2"


def test_a_series_without_changes_does_not_move_the_branch(
    builder: RepoBuilder, repo: Repository
) -> None:
    before = (state(builder), builder.git("reflog"))
    assert write(repo, series({"README.md": b"hello\n"})) == write(repo, []) == builder.sha()
    assert (state(builder), builder.git("reflog")) == before


def test_a_sha256_repository_is_written(tmp_path: Path) -> None:
    builder = make_repo(tmp_path / "repo", "sha256")
    builder.commit("Begin", {"old.md": "o\n", "MEMORY.md": "1\n"})
    tip = write(
        find_repository(builder.path),
        series({"MEMORY.md": b"2\n", "old.md": None, "new.md": b"n\n", "x": None}),
    )
    assert len(tip) == 64
    assert builder.git("status", "--porcelain") == ""
    assert builder.git("ls-files") == "MEMORY.md\nnew.md"


def test_line_ends_are_those_of_the_work_tree_and_the_blob_is_the_planned_text(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.git("config", "core.autocrlf", "true")
    builder.write("MEMORY.md", "one\r\n")
    builder.git("add", "MEMORY.md")
    builder.commit("Memory")
    write(repo, series({"MEMORY.md": b"one\ntwo\n", "a.md": b"a\n", "theirs.md": b"as given\r\n"}))
    assert builder.show("main", "MEMORY.md") == "one\ntwo\n"
    assert builder.show("main", "theirs.md") == "as given\r\n"
    assert (builder.path / "MEMORY.md").read_bytes() == b"one\r\ntwo\r\n"
    assert builder.git("status", "--porcelain") == ""


ODD = (
    'quo"te.md',
    "new\nline/tab\t.md",
    "café.md",
    os.fsdecode(b"latin\xe9/x.md"),
    "*.md",
    " lead.md",
    "-x.md",
    ":!x.md",
)


def test_odd_paths_are_written_and_deleted(builder: RepoBuilder, repo: Repository) -> None:
    builder.commit("More", {"x.md": "x\n"})
    write(repo, series(dict.fromkeys(ODD, b"odd\n")))
    assert all((builder.path / path).read_text() == "odd\n" for path in ODD)
    assert builder.git("status", "--porcelain") == ""
    write(repo, series(dict.fromkeys(ODD)))
    assert builder.git("ls-files").splitlines() == ["README.md", "x.md"]
    assert sorted(path.name for path in builder.path.iterdir()) == [".git", "README.md", "x.md"]


def test_an_executable_file_stays_executable(builder: RepoBuilder, repo: Repository) -> None:
    builder.write("MEMORY.md", "m\n").chmod(0o755)
    builder.git("add", "MEMORY.md")
    builder.commit("Executable")
    write(repo, series({"MEMORY.md": b"n\n"}))
    assert builder.git("ls-tree", "main", "MEMORY.md").startswith("100755 ")
    assert builder.git("status", "--porcelain") == ""


def test_a_sparse_checkout_does_not_stop_the_run(builder: RepoBuilder, repo: Repository) -> None:
    builder.commit("Memory", {"in/MEMORY.md": "in\n", "out/MEMORY.md": "out\n"})
    builder.git("sparse-checkout", "set", "in")
    write(repo, series({"out/MEMORY.md": b"new\n", "in/MEMORY.md": b"new\n"}))
    assert builder.show("main", "out/MEMORY.md") == "new\n"
    assert builder.git("status", "--porcelain") == ""
