"""Tests of the layout: the scope of each memory path, and the file of each target scope."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import UsageError
from memory_ci.gitrepo.blobs import matches_pathspecs
from memory_ci.records.config import ScopePatterns
from memory_ci.records.entry import ScopeOf
from memory_ci.store.layout import (
    classify_scope,
    is_canonical_path,
    is_fragment,
    is_legacy,
    memory_pathspecs,
    parse_target,
    scope_path,
)

DEFAULT = ScopePatterns()
PLACES = [
    ("MEMORY.md", "project", ""),
    ("institutional.md", "institutional", ""),
    ("./src/../MEMORY.md", "project", ""),
    ("src/MEMORY.md", "team", "src"),
    ("src/api/MEMORY.md", "team", "src/api"),
    (".teaparty/jobs/j7/institutional.md", "session", "j7"),
    (
        ".teaparty/jobs/j7/tasks/t1/worktree/MEMORY.md",
        "team",
        ".teaparty/jobs/j7/tasks/t1/worktree",
    ),
    ("projects/web/MEMORY.md", "team", "projects/web"),
    (
        "projects/shop/.sessions/20260101/tasks/notes.md",
        "team",
        "projects/shop/.sessions/20260101/tasks",
    ),
]
NOT_MEMORY = [
    "README.md",
    "src/institutional.md",
    "MEMORY.md.bak",
    "memory.md",
    "../MEMORY.md",
    "/MEMORY.md",
    ".git/MEMORY.md",
    ".memory/inbox/MEMORY.md",
    ".memory/episodes/2026-11/MEMORY.md",
    "",
    "\n",
]


@pytest.mark.parametrize(("path", "name", "where"), PLACES)
def test_a_memory_file_belongs_to_its_scope(path: str, name: str, where: str) -> None:
    scope = classify_scope(path, DEFAULT)
    assert scope is not None
    assert (scope.name, scope.where) == (name, where)


@pytest.mark.parametrize("path", NOT_MEMORY)
def test_other_paths_have_no_scope(path: str) -> None:
    assert classify_scope(path, DEFAULT) is None


NAMES = st.sampled_from(
    ["projects", ".teaparty", "jobs", "tasks", "worktree", "packages", "web", "a b"]
)


@given(st.lists(NAMES, min_size=1, max_size=7).map("/".join))
def test_the_memory_file_of_a_team_is_in_its_directory(directory: str) -> None:
    scope = classify_scope(f"{directory}/MEMORY.md", DEFAULT)
    assert scope == ScopeOf("team", directory)
    assert scope_path(scope, DEFAULT) == f"{directory}/MEMORY.md"


@given(st.text(max_size=60))
def test_any_string_is_accepted_as_a_path(path: str) -> None:
    classify_scope(path, DEFAULT)


@pytest.mark.parametrize("path", [path for path, _, _ in PLACES if not path.startswith("./")])
def test_the_pathspecs_match_every_memory_file(path: str) -> None:
    assert matches_pathspecs(path, memory_pathspecs(DEFAULT))


def test_the_patterns_are_configurable() -> None:
    patterns = ScopePatterns(project=("docs/MEMORY.md",), team=("**/notes/{where}.md",))
    assert classify_scope("docs/MEMORY.md", patterns) == ScopeOf("project")
    assert classify_scope("a/b/notes/x.md", patterns) == ScopeOf("team", "x")
    assert classify_scope("MEMORY.md", patterns) is None
    assert scope_path(ScopeOf("project"), patterns) == "docs/MEMORY.md"
    assert matches_pathspecs("a/b/notes/x.md", memory_pathspecs(patterns))


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("project", "MEMORY.md"),
        ("institutional", "institutional.md"),
        ("team:src/api", "src/api/MEMORY.md"),
        ("team:src//api/", "src/api/MEMORY.md"),
        ("session:j7", ".teaparty/jobs/j7/institutional.md"),
        ("global", None),
    ],
)
def test_a_target_has_its_file(target: str, path: str | None) -> None:
    assert scope_path(parse_target(target), DEFAULT) == path


@pytest.mark.parametrize(
    "target",
    [
        "",
        "team",
        "team:",
        "team:.",
        "team:../x",
        "team:/etc",
        "team:.git/hooks",
        "project:x",
        "world",
        "team:a\nb",
    ],
)
def test_a_target_outside_of_the_tree_is_refused(target: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_target(target)
    assert raised.value.slug == "bad-scope"


@given(st.sampled_from(["project", "institutional", "team:src", "team:a/b", "session:x y"]))
def test_formatting_is_the_inverse_of_parsing(target: str) -> None:
    assert parse_target(target).target == target


def test_only_files_directly_in_the_inbox_are_fragments() -> None:
    assert is_fragment(".memory/inbox/x.md")
    assert not is_fragment(".memory/inbox/deeper/x.md")
    assert not is_fragment(".memory/inbox/x.txt")


GUARDED = [
    ".git", ".GIT", ".Git ", ".git.", ".git . .", "git~1", "GIT~1.", ".git::$INDEX_ALLOCATION", ".git :x", ".g\u200cit"
]  # fmt: skip


@pytest.mark.parametrize("name", GUARDED)
def test_no_path_that_git_protects_on_any_system_is_memory(name: str) -> None:
    for path in (f"{name}/MEMORY.md", f"src/{name}/hooks/MEMORY.md"):
        assert not is_canonical_path(path)
        assert classify_scope(path, DEFAULT) is None
    with pytest.raises(UsageError):
        parse_target(f"team:src/{name}")


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "/MEMORY.md",
        "./MEMORY.md",
        "a//b",
        "a/./b",
        "a/../b",
        "../b",
        "a/",
        "a\\b",
        "a\nb",
        "a\x7f",
        "a./b",
        "a /b",
    ],
)
def test_a_path_in_another_spelling_is_not_canonical(path: str) -> None:
    assert not is_canonical_path(path)


@pytest.mark.parametrize(
    "path",
    ["MEMORY.md", ".gitlab/MEMORY.md", "a b/c:d/é.md", ".memory/inbox/x.md", "git~10", "...x"],
)
def test_an_ordinary_path_is_canonical(path: str) -> None:
    assert is_canonical_path(path)


@pytest.mark.parametrize(
    "target", ["team:.", "team:..", "team:a/../..", "session:j\x7f", "team:src.", "team:src/ "]
)
def test_a_target_that_is_not_a_plain_directory_is_refused(target: str) -> None:
    with pytest.raises(UsageError):
        parse_target(target)


@given(st.text("a/.\\~1giT :", max_size=20))
def test_a_canonical_path_is_unchanged(path: str) -> None:
    patterns = ScopePatterns(project=(), institutional=(), session=(), team=("{where}",))
    scope = classify_scope(path, patterns)
    assert not is_canonical_path(path) or scope == ScopeOf("team", path)


def test_the_old_layout_is_read_and_never_written() -> None:
    for where in (
        "shop/.sessions/20260101",
        "projects/shop/.sessions/20260101",
        "shop/.sessions/1/tasks",
    ):
        path = scope_path(ScopeOf("team", where), DEFAULT)
        assert path is None or not is_legacy(path)
    assert scope_path(ScopeOf("team", "projects/shop/.sessions/1"), DEFAULT) is None


@pytest.mark.parametrize("where", ["odd\n\tname", "src.", "src /api"])
def test_an_unusual_directory_is_read_but_not_written(where: str) -> None:
    assert classify_scope(f"{where}/MEMORY.md", DEFAULT) == ScopeOf("team", where)
    assert scope_path(ScopeOf("team", where), DEFAULT) is None
