"""Tests of reading the lines that a change adds, whatever the user's settings."""

from __future__ import annotations

import io

import pytest

from memory_ci.gitrepo import diffs
from memory_ci.gitrepo.diffs import Addition, read_additions, read_patch
from tests.project import Project

PATCH = b"""\
--- a/a.py
+++ b/a.py
@@ -1,4 +1,4 @@
-1
+one
 2

-4
+four
--- a/b.py
+++ b/b.py
@@ -0,0 +1 @@
+new
"""


@pytest.mark.in_project
def test_hunks_that_a_setting_joins_are_read(project: Project) -> None:
    start = project.commit("Numbers", {"a.py": "1\n2\n3\n", "b.py": "1\n"})
    end = project.commit("Words", {"a.py": "one\n2\nthree\n", "b.py": "one\n"})
    project.git("config", "diff.interHunkContext", "5")
    additions = read_additions(project.workspace.repo, start, end, lambda _: True)
    assert additions.lines == (
        Addition("a.py", 1, "one"),
        Addition("a.py", 3, "three"),
        Addition("b.py", 1, "one"),
    )


def test_a_line_of_context_counts_on_both_sides() -> None:
    additions, header = read_patch(io.BytesIO(PATCH), lambda _: True)
    assert additions.lines == (
        Addition("a.py", 1, "one"),
        Addition("a.py", 4, "four"),
        Addition("b.py", 1, "new"),
    )
    assert header == b""


@pytest.mark.in_project
def test_an_added_line_that_the_change_removes_elsewhere_is_moved(project: Project) -> None:
    start = project.commit("Call", {"a.py": "print(1)\n", "b.py": "x = 1\n"})
    files = {"a.py": "y = 1\n", "b.py": "x = 1\n    print(1)\nprint(2)\n"}
    end = project.commit("Move the call", files)
    additions = read_additions(project.workspace.repo, start, end, lambda _: True)
    assert [line.text.strip() for line in additions.lines if line.moved_from] == ["print(1)"]


@pytest.mark.in_project
def test_of_two_equal_lines_one_is_moved_if_one_was_removed(project: Project) -> None:
    start = project.commit("Call", {"a.py": "print(1)\n"})
    end = project.commit("Call twice", {"a.py": "y\n  print(1)\nz\n  print(1)\n"})
    additions = read_additions(project.workspace.repo, start, end, lambda _: True)
    assert [line.moved_from for line in additions.lines] == ["", "a.py", "", ""]


@pytest.mark.in_project
def test_a_line_of_a_file_that_is_not_read_is_not_moved(project: Project) -> None:
    start = project.commit("Call", {"a.py": "print(1)\n", "b.py": "x = 1\n"})
    end = project.commit("Move the call", {"a.py": "y = 1\n", "b.py": "print(1)\n"})
    additions = read_additions(project.workspace.repo, start, end, lambda path: path == "b.py")
    assert [line.moved_from for line in additions.lines] == [""]


def test_removed_lines_are_kept_up_to_the_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffs, "MAX_BYTES", 15)
    patch = b"+++ b/a.py\n@@ -1,2 +1,2 @@\n-1 first\n-2 second\n+1 first\n+2 second\n"
    additions, _ = read_patch(io.BytesIO(patch), lambda _: True)
    assert [line.moved_from for line in additions.lines] == ["a.py", ""]
