"""Tests of restored caches: a right answer needs none, and a wrong cache changes no answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from memory_ci.commands.check.verify import verify_change
from memory_ci.memory.index import build_index
from memory_ci.memory.workspace import index_path
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import DECIDED, Project, copy_project, make_project

CACHED = ("index.db", "index.db.seal", "tasks.mpk")
TASK = "retry a charge in the client"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with recorded memory and a merged change that is not recorded yet."""
    project = make_project(tmp_path_factory.mktemp("caches") / "shop")
    project.record()
    project.merge_work(DECIDED.format(name="mail"), "mail", 150)
    return project


@pytest.fixture(scope="module")
def foreign_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the caches of another project, which a restore key with a prefix may match."""
    other_project = make_project(tmp_path_factory.mktemp("other") / "shop")
    other_project.commit(
        "Memory", {"MEMORY.md": format_entry(make_entry(7, title="Retry a charge twice"))}
    )
    build_index(other_project.workspace, None)
    other_project.retrieve(TASK)
    return index_path(other_project.workspace).parent


@pytest.fixture
def cold(template: Project, tmp_path: Path) -> Project:
    return copy_project(template, tmp_path / "cold")


@pytest.fixture(params=["foreign", "damaged"])
def wrong(
    template: Project, foreign_cache: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Project:
    """Return the same project with the caches of another project."""
    project = copy_project(template, tmp_path / "wrong")
    place = index_path(project.workspace).parent
    place.mkdir(exist_ok=True)
    for name in CACHED:
        if request.param == "damaged":
            (place / name).write_bytes(b"no cache \0\xff" * 100)
        elif (foreign_cache / name).exists():
            shutil.copy(foreign_cache / name, place / name)
    return project


def test_record_commits_the_same_with_a_wrong_cache(cold: Project, wrong: Project) -> None:
    cold.record()
    wrong.record()
    assert wrong.git("rev-parse", "HEAD^{tree}") == cold.git("rev-parse", "HEAD^{tree}")


def test_verify_finds_the_same_with_a_wrong_cache(cold: Project, wrong: Project) -> None:
    entry = format_entry(make_entry(9, title="Broken", status="retired"))
    for project in (cold, wrong):
        project.branch("topic")
        project.commit("Add", {"src/MEMORY.md": entry + "\n<<<<<<< a\n"})
    findings = verify_change(cold.workspace, "main", "HEAD").findings
    assert findings
    assert verify_change(wrong.workspace, "main", "HEAD").findings == findings


def test_retrieve_serves_the_same_with_a_wrong_cache(cold: Project, wrong: Project) -> None:
    served = [hit.located.entry.id for hit in cold.retrieve(TASK).hits]
    assert served
    assert [hit.located.entry.id for hit in wrong.retrieve(TASK).hits] == served
