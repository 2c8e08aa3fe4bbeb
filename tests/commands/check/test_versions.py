"""Tests of two format versions in one repository: files of 0.1 and of the next format lose nothing."""

from __future__ import annotations

import json
from datetime import date

import pytest
from click.testing import CliRunner, Result

from memory_ci.commands.check import migrate as migrate_module
from memory_ci.commands.check.migrate import FormatStep, migrate
from memory_ci.commands.root import main
from memory_ci.errors import UsageError
from memory_ci.memory.merge import merge_texts
from tests.make import format_all_keys, make_entry, make_id
from tests.project import NOW, Project

CONFIGS = {
    "0.1": "retrieve:\n  max_chars: 9000\n",
    "next": "format: 2\nretrieve:\n  max_chars: 9000\n  reranker: {name: x, depth: [1, 2]}\nagents:\n  - name: a\n",
}
UNKNOWN = {
    "0.1": "",
    "next": "confidence: 0.7   # by the next version\nreviewers:\n- ada\n- {name: bob}\n",
}


def text_of(version: str, number: int, **fields: object) -> str:
    entry = make_entry(number, created_at=date(2026, 9, 1), body=f"Body of {number}.", **fields)
    return format_all_keys(entry).replace("status: active\n", f"status: active\n{UNKNOWN[version]}")


def run(*args: str) -> Result:
    result = CliRunner().invoke(main, args, prog_name="memory-ci")
    assert result.exit_code == 0, (args, result.output)
    return result


@pytest.fixture(params=CONFIGS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mixed(project: Project, version: str, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with files of a version: two entries, a note, and work that was served the first entry."""
    monkeypatch.chdir(project.path)
    files = {
        ".memory-ci.yaml": CONFIGS[version],
        "MEMORY.md": f"# Memory\n\n{text_of(version, 1)}\n{text_of(version, 2)}",
    }
    project.commit(
        "Write", files | {f".memory/inbox/{make_id(3)}.md": text_of(version, 3, scope="project")}
    )
    project.merge_work(f"Use it\n\nMemory-Used: {make_id(1)}", "use", 130)
    return project


def count_unknown(project: Project, version: str) -> int:
    text = (project.path / "MEMORY.md").read_text()
    return text.count(UNKNOWN[version]) if UNKNOWN[version] else text.count("\nstatus: active\n")


def test_they_are_read(mixed: Project, version: str) -> None:
    checked = run("check").stdout
    warned = [
        line
        for line in ("newer-format", "'retrieve.reranker'", "'agents'", "'confidence'")
        if line in checked
    ]
    assert len(warned) == (4 if version == "next" else 0)
    given_result = run("retrieve", "learning", "number")
    assert "Body of 1." in given_result.stdout
    assert ("unknown key 'agents'" in given_result.stderr) == (version == "next")
    assert run("hook", "sync").stderr == "", "git is not told each time"
    run("list", "--json")
    run("verify", "--base", "HEAD~1")
    assert mixed.status() == ""


def test_they_are_written_and_no_field_is_lost(mixed: Project, version: str) -> None:
    unknown_fields = count_unknown(mixed, version)
    recorded = run("record")
    assert ("newer-format" in recorded.stdout) == (version == "next")
    assert {entry.id for entry in mixed.entries()} >= {make_id(1), make_id(2), make_id(3)}
    assert (
        next(entry for entry in mixed.entries() if entry.id == make_id(1)).reinforcement_count == 1
    )
    assert count_unknown(mixed, version) == unknown_fields + 1
    assert mixed.show("HEAD", ".memory-ci.yaml") == CONFIGS[version]
    for command in ("fmt", "compact", "promote", "retire"):
        run(command)
    assert all(
        text in (mixed.path / "MEMORY.md").read_text() for text in UNKNOWN[version].splitlines()
    )
    run("check")


def test_they_are_merged_and_no_field_is_lost(version: str) -> None:
    base = f"# Memory\n\n{text_of(version, 1)}"
    ours = f"{base}\n{text_of(version, 2)}".replace(
        "reinforcement_count: 0", "reinforcement_count: 1", 1
    )
    theirs = f"{base}\n{text_of('next', 3)}".replace(
        "reinforcement_count: 0", "reinforcement_count: 2", 1
    )
    merged, conflicts = merge_texts(base.encode(), ours.encode(), theirs.encode())
    assert conflicts == 0
    expected = base.replace("reinforcement_count: 0", "reinforcement_count: 3")
    assert merged.decode() == f"{expected}\n{text_of(version, 2)}\n{text_of('next', 3)}"


def test_there_is_one_format_and_nothing_to_migrate(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    assert run("check", "--migrate").stdout == "Nothing to do: the files are of format 1.\n"
    project.commit("Next", {".memory-ci.yaml": CONFIGS["next"]})
    with pytest.raises(UsageError) as caught:
        migrate(project.workspace, None, None, NOW)
    assert caught.value.slug == "unknown-format"


def test_a_format_more_is_one_commit_up_and_one_back(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def up(path: str, data: bytes) -> bytes:
        return data.replace(b"domain: task", b"domain: job")

    def down(path: str, data: bytes) -> bytes:
        return data.replace(b"domain: job", b"domain: task")

    monkeypatch.setattr(migrate_module, "FORMAT_STEPS", {1: FormatStep(up, down)})
    project.commit("Write", {"MEMORY.md": text_of("next", 1), ".memory-ci.yaml": "agents: x\n"})
    before = project.sha()
    assert migrate(project.workspace, None, 2, NOW, dry_run=True).files == (
        ".memory-ci.yaml",
        "MEMORY.md",
    )
    assert project.sha() == before
    done = migrate(project.workspace, None, 2, NOW)
    assert project.subjects(before) == ["memory: migrate to format 2"]
    assert (done.tip, project.status()) == (project.sha(), "")
    assert project.show("HEAD", ".memory-ci.yaml") == "format: 2\nagents: x\n"
    assert "domain: job" in project.show("HEAD", "MEMORY.md")
    migrate(project.workspace, None, 1, NOW)
    assert project.git("diff", "--stat", before, "HEAD") == ""


def test_json_names_the_version_of_its_schema(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    for args in (
        ["check"],
        ["check", "--migrate", "--dry-run"],
        ["retrieve", "cards"],
        ["health"],
        ["record", "--dry-run"],
    ):
        assert json.loads(run(*args, "--json").stdout)["schema_version"] == 1
