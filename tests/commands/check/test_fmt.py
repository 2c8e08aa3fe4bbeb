"""Tests of the formatting of memory files in a work tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.commands.check.fix import format_memory
from memory_ci.errors import MemoryCIError, RepositoryError, UsageError
from memory_ci.memory.workspace import open_workspace
from memory_ci.store.document import MemoryFile, parse_memory_file
from tests.make import format_all_keys, make_entry, make_id
from tests.project import Project

MESSY = format_all_keys(make_entry(1)).replace("importance: 0.5", "importance: .50")
LEGACY = "projects/web/.sessions/1/MEMORY.md"


@pytest.fixture
def messy(project: Project) -> Project:
    """Return a project with an entry that is not canonical in three files, one of them read-only."""
    inbox = f".memory/inbox/{make_id(1)}.md"
    project.commit(
        "Write by hand", dict.fromkeys(("src/MEMORY.md", inbox, LEGACY, "README.md"), MESSY)
    )
    return project


def test_only_memory_files_that_may_be_written_are_formatted(messy: Project) -> None:
    report = format_memory(messy.workspace)
    assert set(report.changed) == {"src/MEMORY.md", f".memory/inbox/{make_id(1)}.md"}
    assert {line[3:] for line in messy.status().splitlines()} == set(report.changed)
    assert (messy.path / "src/MEMORY.md").read_text() == format_all_keys(make_entry(1))


def test_a_second_run_changes_nothing(messy: Project) -> None:
    format_memory(messy.workspace)
    assert format_memory(messy.workspace).changed == ()


def test_a_dry_run_names_the_files_and_writes_none(messy: Project) -> None:
    assert len(format_memory(messy.workspace, dry_run=True).changed) == 2
    assert messy.status() == ""


def test_only_the_named_files_are_formatted(messy: Project) -> None:
    report = format_memory(messy.workspace, [messy.path / "src" / "MEMORY.md"])
    assert (report.files, report.changed) == (1, ("src/MEMORY.md",))


@pytest.mark.parametrize("name", ["README.md", LEGACY, "../elsewhere.md"])
def test_another_file_is_refused(messy: Project, name: str) -> None:
    with pytest.raises(UsageError) as raised:
        format_memory(messy.workspace, [messy.path / name])
    assert raised.value.slug == "not-a-memory-file"


def test_a_symbolic_link_is_not_replaced_by_a_file(project: Project) -> None:
    project.commit("Write by hand", {"notes/mine.md": MESSY})
    (project.path / "src" / "MEMORY.md").symlink_to(project.path / "notes" / "mine.md")
    assert format_memory(project.workspace).changed == ()
    assert (project.path / "notes/mine.md").read_text() == MESSY


def test_unreadable_text_is_named_and_the_entries_around_it_are_formatted(project: Project) -> None:
    broken = MESSY.replace("status: active", "status: unheard-of").replace(make_id(1), make_id(2))
    project.write("src/MEMORY.md", f"{broken}\n{MESSY}")
    report = format_memory(project.workspace)
    assert [finding.code for finding in report.findings] == ["bad-value"]
    assert (
        project.path / "src/MEMORY.md"
    ).read_text() == f"{broken}\n{format_all_keys(make_entry(1))}"


def test_when_one_file_cannot_be_written_safely_none_is(
    messy: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No known file makes the formatter fail, so a reader that returns other entries takes its place."""
    canonical = format_all_keys(make_entry(1)).encode()

    def misread(path: str, data: bytes) -> MemoryFile:
        return parse_memory_file(path, b"" if path and data == canonical else data)

    monkeypatch.setattr("memory_ci.store.edits.parse_memory_file", misread)
    with pytest.raises(MemoryCIError) as raised:
        format_memory(messy.workspace)
    assert raised.value.slug == "unsafe-rewrite"
    assert messy.status() == ""


def test_a_bare_repository_has_nothing_to_format(project: Project, tmp_path: Path) -> None:
    bare = project.bare(tmp_path / "bare.git")
    with pytest.raises(RepositoryError) as raised:
        format_memory(open_workspace(bare.path, is_named=True))
    assert raised.value.slug == "bare-repository"
