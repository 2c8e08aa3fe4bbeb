"""Tests of hostile files in place of the index: retrieval neither waits for, nor trusts, nor fails on them."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_ci.commands import former
from memory_ci.commands.root import main
from memory_ci.errors import RepositoryError
from memory_ci.memory.forgotten import copy_path, read_tombstones_here
from memory_ci.memory.index import build_index, verify_index
from memory_ci.memory.workspace import index_path
from memory_ci.sessions.served_ids import list_ids_without_trailer, record_path
from tests.project import Project, copy_project, make_project

TASK = "retry a charge in the client"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("hostile") / "shop")
    project.record()
    return project


@pytest.fixture
def project(template: Project, tmp_path: Path) -> Project:
    copy = copy_project(template, tmp_path / "shop")
    build_index(copy.workspace, None)
    return copy


def titles(project: Project) -> list[str]:
    return [hit.located.entry.title for hit in project.retrieve(TASK).hits]


def test_a_schema_that_is_not_text_counts_as_damage(project: Project) -> None:
    before, path = titles(project), index_path(project.workspace)
    data = path.read_bytes()
    at = data.index(b"CREATE TABLE")
    path.write_bytes(data[: at + 2] + b"\xa0" + data[at + 3 :])
    assert titles(project) == before != []


@pytest.mark.parametrize(
    "name", ["index.db", "index.db.seal", "index.db-journal", "tasks.mpk", "episodes.mpk"]
)
def test_no_command_waits_for_a_pipe_in_place_of_our_files(project: Project, name: str) -> None:
    before = titles(project)
    place = index_path(project.workspace).with_name(name)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    assert titles(project) == before != []
    assert place.is_fifo()


def test_a_row_of_vectors_with_a_wrong_type_is_ignored(project: Project) -> None:
    path = index_path(project.workspace)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO vectors VALUES ('ollama:x', 'x', 'y', 'z')")
    assert titles(project) != []


def test_verify_reports_a_line_that_is_not_a_number(project: Project) -> None:
    with closing(
        sqlite3.connect(index_path(project.workspace), isolation_level=None)
    ) as connection:
        connection.execute("UPDATE entries SET line = 'abc'")
    assert [finding.code for finding in verify_index(project.workspace, None, None)] == [
        "index-differs"
    ]


def test_an_invalid_tree_is_refused_whatever_the_entries_cite(project: Project) -> None:
    with pytest.raises(RepositoryError) as caught:
        project.retrieve(TASK, tree="garbage")
    assert caught.value.slug == "unknown-revision"


@pytest.mark.parametrize("data", [b'\xef\xbb\xbf{"prompt": "%s"}', b'{"prompt": "\\ud800 %s"}'])
def test_an_agents_hook_serves_memory_despite_a_lone_surrogate(
    project: Project, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    hook_input = data.replace(b"%s", TASK.encode())
    result = CliRunner().invoke(
        main, list(former.RETRIEVE_HOOK), input=hook_input, prog_name="memory-ci"
    )
    assert (result.exit_code, "recalled-memory" in result.stdout) == (0, True)


def test_the_seal_is_not_written_through_a_link(project: Project, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_text("mine\n")
    place = index_path(project.workspace).with_name("index.db.seal")
    place.unlink()
    place.symlink_to(private)
    assert titles(project) != []
    assert private.read_text() == "mine\n"


def test_a_pipe_in_place_of_forgotten_or_served_ids_is_not_read(project: Project) -> None:
    for path in (copy_path(project.workspace), record_path(project.workspace)):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    assert not read_tombstones_here(project.workspace)
    assert list_ids_without_trailer(project.workspace) == ()
