"""Tests of the merge driver run by git, of merges without it, and of the inbox, which needs none."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from memory_ci.commands.setup.install import install
from memory_ci.records.entry import Entry
from memory_ci.store.document import parse_memory_file
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import fragment_path
from memory_ci.store.merge_driver import driver_command
from tests.make import make_entry, make_id
from tests.project import Project, copy_project, make_project
from tests.repos import RepoBuilder

INTRO = "# Memory\n"


def numbered(number: int, **fields: object) -> Entry:
    return make_entry(number, created_at=date(2026, 9, 1), **fields)


def text_of(*entries: Entry) -> str:
    return "\n".join([INTRO, *map(format_entry, entries)])


def list_ids(project: RepoBuilder, rev: str = "HEAD") -> list[str]:
    return [
        entry.id for entry in parse_memory_file("", project.show(rev, "MEMORY.md").encode()).entries
    ]


def commit_entries(project: Project, *entries: Entry) -> str:
    return project.commit("Write", {"MEMORY.md": text_of(*entries)})


def diverge(project: Project, base: int = 1) -> Project:
    """Make two branches, `main` (checked out) and `side`, that each add an entry and reinforce entry 1 once."""
    before = [numbered(number) for number in range(1, base + 1)]
    counted = [numbered(1, reinforcement_count=1), *before[1:]]
    commit_entries(project, *before)
    project.branch("side")
    commit_entries(project, *counted, numbered(base + 2))
    project.checkout("main")
    commit_entries(project, *counted, numbered(base + 1))
    return project


def expected(base: int = 1) -> str:
    """Return the merge of `main` and `side`."""
    numbers = range(2, base + 3)
    return text_of(numbered(1, reinforcement_count=2), *(numbered(number) for number in numbers))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("template") / "shop")


@pytest.fixture
def plain(template: Project, tmp_path: Path) -> Project:
    """Return a clone in which nothing is installed."""
    return copy_project(template, tmp_path / "shop")


@pytest.fixture
def installed(plain: Project) -> Project:
    install(plain.workspace, sys.executable, with_hooks=False)
    plain.git("add", ".gitattributes")
    plain.commit("Merge memory by entries")
    return plain


@pytest.mark.parametrize("count", [10, 100, 900])
def test_two_branches_that_add_to_one_file_merge_with_every_entry_intact(
    installed: Project, count: int
) -> None:
    diverge(installed, count).merge("side")
    assert installed.show("HEAD", "MEMORY.md") == expected(count)
    assert installed.check().is_ok


def test_a_rebase_gives_the_same_file_as_a_merge(installed: Project) -> None:
    diverge(installed).checkout("side")
    installed.git("rebase", "-q", "main")
    assert installed.show("HEAD", "MEMORY.md") == expected()


def test_a_cherry_pick_adds_the_entry(installed: Project) -> None:
    diverge(installed).git("cherry-pick", "side")
    assert installed.show("HEAD", "MEMORY.md") == expected()


def test_a_stash_is_popped_onto_a_file_that_has_changed(installed: Project) -> None:
    commit_entries(installed, numbered(1))
    installed.write("MEMORY.md", text_of(numbered(1), numbered(3)))
    installed.git("stash", "-q")
    commit_entries(installed, numbered(1), numbered(2))
    installed.git("stash", "pop", "-q")
    assert (installed.path / "MEMORY.md").read_text() == text_of(*map(numbered, (1, 2, 3)))


def test_a_merge_of_criss_cross_histories_adds_nothing_twice(installed: Project) -> None:
    diverge(installed)
    main, side = installed.sha("main"), installed.sha("side")
    installed.merge(side)
    installed.checkout("side")
    installed.merge(main)
    commit_entries(installed, *installed.entries(), numbered(5))
    installed.checkout("main")
    commit_entries(installed, *installed.entries(), numbered(4))
    installed.merge("side")
    assert list_ids(installed) == [make_id(number) for number in (1, 2, 3, 4, 5)]


def test_an_entry_that_both_changed_stops_the_merge_with_markers_around_it_alone(
    installed: Project,
) -> None:
    commit_entries(installed, *map(numbered, (1, 2, 3)))
    installed.branch("side")
    commit_entries(installed, numbered(1), numbered(2, body="Theirs."), numbered(3))
    installed.checkout("main")
    commit_entries(installed, numbered(1), numbered(2, body="Ours."), numbered(3))
    with pytest.raises(AssertionError):
        installed.merge("side")
    text = (installed.path / "MEMORY.md").read_text()
    assert text.startswith(text_of(numbered(1)) + "\n<<<<<<< ours\n---\n")
    assert text.endswith(">>>>>>> theirs\n\n" + format_entry(numbered(3)))
    assert installed.status() == "UU MEMORY.md"
    assert {finding.code for finding in installed.check().findings} == {"conflict-marker"}


def test_the_driver_imports_no_module_of_the_merged_work_tree(installed: Project) -> None:
    diverge(installed)
    for trap in ("memory_ci/__init__.py", "click.py", "msgspec.py"):
        installed.write(trap, "import pathlib\npathlib.Path('trapped').touch()\n")
    installed.merge("side")
    assert not (installed.path / "trapped").exists()
    assert installed.show("HEAD", "MEMORY.md") == expected()


@pytest.mark.parametrize("python", ["/nowhere/bin/python", "/bin/false"])
def test_a_driver_that_cannot_start_leaves_the_merge_to_git(
    installed: Project, python: str
) -> None:
    installed.git("config", "merge.memory-ci.driver", driver_command(python))
    diverge(installed)
    with pytest.raises(AssertionError):
        installed.merge("side")
    text = (installed.path / "MEMORY.md").read_text()
    assert "<<<<<<< " in text
    assert make_id(2) in text
    assert make_id(3) in text


def test_the_driver_prints_the_file_and_its_result(tmp_path: Path) -> None:
    for name, body in (("base", ""), ("ours", "a"), ("theirs", "b")):
        (tmp_path / name).write_text(text_of(numbered(1, body=body)))
    command = [
        sys.executable,
        "-m",
        "memory_ci",
        "hook",
        "merge",
        "base",
        "ours",
        "theirs",
        "src/MEMORY.md",
    ]
    completed = subprocess.run(
        command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert (completed.returncode, completed.stdout, completed.stderr) == (
        1,
        "",
        "memory-ci: 1 conflict left in src/MEMORY.md\n",
    )


def test_without_the_driver_check_finds_committed_markers(plain: Project) -> None:
    diverge(plain)
    with pytest.raises(AssertionError):
        plain.merge("side")
    plain.git("add", "MEMORY.md")
    plain.commit("Never mind")
    assert "conflict-marker" in {finding.code for finding in plain.check("HEAD").findings}


def test_without_the_driver_check_finds_an_entry_duplicated_by_a_text_merge(
    plain: Project,
) -> None:
    commit_entries(plain, *map(numbered, (1, 5)))
    plain.branch("side")
    commit_entries(plain, *map(numbered, (1, 5, 9)))
    plain.checkout("main")
    commit_entries(plain, *map(numbered, (9, 1, 5)))
    plain.merge("side")
    assert {finding.code for finding in plain.check("HEAD").findings} == {"duplicate-id"}


def merge_on_server(bare: RepoBuilder, branch: str) -> None:
    """Merge a branch into main like a forge: in a bare repository, without work tree and driver.

    git merge-tree needs git 2.38; it exits with 1, and the helper raises, if anything conflicts.
    """
    tree = bare.git("merge-tree", "--write-tree", "main", branch).splitlines()[0]
    commit = bare.git("commit-tree", tree, "-p", "main", "-p", branch, "-m", f"Merge {branch}")
    bare.git("update-ref", "refs/heads/main", commit)


def merge_in_scratch_clone(bare: RepoBuilder, branch: str, scratch: Path) -> None:
    """Merge like `merge_on_server` with an older git: in a clone without driver and attributes."""
    if not scratch.exists():
        bare.git("clone", "-q", str(bare.path), str(scratch))
    clone = RepoBuilder(scratch, bare.clock)
    clone.git("pull", "-q", "--no-rebase", "--no-edit", "origin", branch)
    clone.git("push", "-q", "origin", "main")


@pytest.mark.parametrize(
    ("branch_count", "entries_per_branch"),
    [(5, 5), pytest.param(20, 1, marks=pytest.mark.slow)],
)
def test_branches_that_add_to_the_inbox_merge_through_a_bare_repository(
    plain: Project, tmp_path: Path, branch_count: int, entries_per_branch: int
) -> None:
    commit_entries(plain, *map(numbered, range(1, 11)))
    names = [f"work-{number}" for number in range(branch_count)]
    numbers = range(100, 100 + branch_count * entries_per_branch)
    for place, name in enumerate(names):
        plain.branch(name, "main")
        branch_entries = [
            numbered(number, scope="project")
            for number in numbers[place * entries_per_branch : (place + 1) * entries_per_branch]
        ]
        plain.commit(
            "Note", {fragment_path(entry.id): format_entry(entry) for entry in branch_entries}
        )
    plain.checkout("main")
    bare = plain.bare(tmp_path / "hub.git")
    has_merge_tree = tuple(map(int, plain.git("version").split()[2].split(".")[:2])) >= (2, 38)
    for name in names:
        if has_merge_tree:
            merge_on_server(bare, name)
        else:
            merge_in_scratch_clone(bare, name, tmp_path / "scratch")
    plain.git("pull", "-q", str(bare.path), "main")
    assert plain.check("HEAD").findings == ()
    plain.record()
    assert list_ids(plain)[:10] == [make_id(number) for number in range(1, 11)]
    assert {make_id(number) for number in numbers} <= set(list_ids(plain))
    assert plain.git("ls-tree", "-r", "--name-only", "HEAD", ".memory/inbox") == ""


def test_the_same_branches_conflict_on_a_server_if_they_append_to_the_file(
    plain: Project, tmp_path: Path
) -> None:
    bare = diverge(plain).bare(tmp_path / "hub.git")
    if tuple(map(int, plain.git("version").split()[2].split(".")[:2])) >= (2, 38):
        with pytest.raises(AssertionError):
            merge_on_server(bare, "side")
    else:
        with pytest.raises(AssertionError):
            merge_in_scratch_clone(bare, "side", tmp_path / "scratch")
