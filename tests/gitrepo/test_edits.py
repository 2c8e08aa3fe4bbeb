"""Tests of finding the last commit that changed a place."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from memory_ci.gitrepo.edits import LastEdit, Spot, blame_lines, find_last_edits
from memory_ci.gitrepo.repo import find_repository
from tests.repos import RepoBuilder, make_repo

CODE = "import a\n\n\ndef one():\n    x()\n    y()\n\n\ndef two():\n    z()\n"


@pytest.fixture
def repo(tmp_path: Path) -> RepoBuilder:
    built = make_repo(tmp_path / "repo")
    built.commit("Start", {"README": "x\n"})
    built.commit("Code", {"a.py": CODE})
    return built


def find_last(repo: RepoBuilder, spot: Spot, rev: str | None = "HEAD") -> LastEdit | None:
    return find_last_edits(find_repository(repo.path), rev, [spot]).get(spot)


def test_lines_are_followed_through_edits_above_and_below_them(repo: RepoBuilder) -> None:
    sha = repo.commit("Edit (#5)", {"a.py": CODE.replace("y()", "yy()")})
    shifted = CODE.replace("y()", "yy()").replace("import a\n", "import a\nimport b\nimport c\n")
    repo.commit("Above", {"a.py": shifted})
    repo.commit("Below", {"a.py": shifted.replace("z()", "zz()")})
    assert find_last(repo, Spot("a.py", "a.py", 6, 8)) == LastEdit(sha, "Edit (#5)\n")


@pytest.mark.parametrize(
    ("gone", "is_touched"), [("    y()\n", True), ("\n\ndef two():\n    z()\n", False)]
)
def test_removing_the_end_of_a_place_is_an_edit_and_removing_a_neighbour_is_not(
    repo: RepoBuilder, gone: str, *, is_touched: bool
) -> None:
    before = repo.commit("Edit", {"a.py": CODE.replace("x()", "xx()")})
    sha = repo.commit("Cut", {"a.py": CODE.replace("x()", "xx()").replace(gone, "")})
    edit = find_last(repo, Spot("a.py", "a.py", 4, 5 if is_touched else 6))
    assert edit is not None
    assert edit.sha == (sha if is_touched else before)


def test_a_message_without_an_end_and_content_that_looks_like_a_patch_are_read(
    repo: RepoBuilder,
) -> None:
    hostile = CODE.replace("x()", "x()\n-- a/a.py\n++ b/a.py\n@@ -1 +1 @@\ndiff --git a/b b/b")
    sha = repo.commit("Hostile", {"a.py": hostile})
    tree = repo.git("rev-parse", "HEAD^{tree}")
    repo.git("reset", "-q", "--hard", repo.git("commit-tree", tree, "-p", "HEAD", input=b"no end"))
    repo.commit("Below", {"a.py": hostile.replace("z()", "zz()")})
    edit = find_last(repo, Spot("a.py", "a.py", 4, 10))
    assert edit is not None
    assert edit.sha == sha


def test_a_path_is_not_a_pattern(repo: RepoBuilder) -> None:
    sha = repo.commit("Odd", {"über *?[x] b.py": CODE})
    edit = repo.commit("Edit", {"über *?[x] b.py": "x\n"})
    assert find_last(repo, Spot("über *?[x] b.py", "über *?[x] b.py")) == LastEdit(edit, "Edit\n")
    assert sha != edit


def test_the_boundary_commit_of_a_shallow_clone_is_not_the_edit(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    repo.commit("Edit", {"a.py": CODE.replace("y()", "yy()")})
    repo.commit("Other", {"README": "y\n"})
    repo.git("clone", "-q", "--depth=1", f"file://{repo.path}", str(tmp_path / "shallow"))
    assert find_last(RepoBuilder(tmp_path / "shallow"), Spot("a.py", "a.py", 4, 6)) is None


def test_an_edit_by_a_commit_with_an_impossible_date_has_the_first_day(repo: RepoBuilder) -> None:
    repo.commit("Late", {"b.py": "x\n"})
    commit = repo.git("cat-file", "commit", "HEAD") + "\n"
    late_commit = re.sub(r"(?m)^(committer .*>) \d+", r"\1 999999999999999", commit)
    sha = repo.git("hash-object", "-t", "commit", "-w", "--stdin", input=late_commit.encode())
    (line,) = blame_lines(find_repository(repo.path), "b.py", None, sha)
    assert line.day == date(1970, 1, 1)


def test_a_unicode_line_separator_does_not_end_a_line(repo: RepoBuilder) -> None:
    repo.commit("Line", {"b.py": f"a\u2028{'0' * 40} 1 1 1\n"})
    (line,) = blame_lines(find_repository(repo.path), "b.py", None, "HEAD")
    assert line.subject == "Line"
