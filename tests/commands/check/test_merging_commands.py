"""Tests of the commands around merges (`init --clone`, `resolve`, `check --fix`): text, JSON, exit status."""

from __future__ import annotations

import json

import pytest

from memory_ci.commands.setup.hooks import HOOKS
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import fragment_path
from tests.command_line import Run
from tests.make import make_entry, make_id
from tests.project import Project

pytestmark = pytest.mark.in_project


def append(project: Project, number: int) -> None:
    text = (project.path / "MEMORY.md").read_text()
    project.commit(f"Entry {number}", {"MEMORY.md": f"{text}\n{format_entry(make_entry(number))}"})


def test_install_lists_its_changes_and_uninstall_reverts_them(project: Project, run: Run) -> None:
    assert "would be written" in run("init", "--clone", "--dry-run").stdout
    assert not (project.path / ".gitattributes").exists()
    assert "Commit .gitattributes" in run("init", "--clone").stdout
    steps = json.loads(run("init", "--clone", "--json").stdout)["steps"]
    assert [(step["part"], step["result"]) for step in steps] == [
        ("merge-driver", "kept"),
        ("attributes", "kept"),
        *[("hook", "kept")] * len(HOOKS),
    ]
    removed = run("init", "--remove", "--clone").stdout
    assert f"removed  hook          .git/hooks: {', '.join(HOOKS)}\n" in removed
    assert removed.count("removed") == 3
    assert not (project.path / ".gitattributes").exists()


def test_install_says_which_settings_are_not_to_be_committed(project: Project, run: Run) -> None:
    file = ".claude/settings.local.json"
    assert (
        f"Do not commit {file} .mcp.json: of this clone alone"
        in run("init", "--clone", "--agent", "claude-code", "--dry-run").stdout
    )
    output = run("init", "--clone", "--agent", "claude-code").stdout
    assert "git passes over them; take one that it tracks out with `git rm --cached`" in output
    steps = json.loads(run("init", "--clone", "--agent", "claude-code", "--json").stdout)["steps"]
    assert ("exclude", "kept") in [(step["part"], step["result"]) for step in steps]


def test_hooks_elsewhere_are_a_repository_error_with_a_way_out(project: Project, run: Run) -> None:
    project.git("config", "core.hooksPath", ".githooks")
    refused = run("init", "--clone")
    assert refused.exit_code == 4
    assert "[hooks-path-set]" in refused.stderr
    assert run("init", "--clone", "--without", "hooks").exit_code == 0


def test_files_of_a_hook_manager_are_unchanged_and_lines_are_suggested(
    project: Project, run: Run
) -> None:
    settings = project.write("lefthook.yml", "pre-commit:\n  parallel: true\n")
    result = run("init", "--clone")
    assert (
        "run: '! command -v memory-ci >/dev/null || memory-ci hook pre-push {1}'" in result.stdout
    )
    assert not any((project.path / ".git/hooks" / hook).exists() for hook in HOOKS)
    manager = json.loads(run("init", "--clone", "--json").stdout)["managed_by"]
    settings.write_text(settings.read_text() + manager["additions"]["lefthook.yml"])
    assert (
        "lefthook manages the hooks here, and calls memory-ci already"
        in run("init", "--clone").stdout
    )


def test_a_changed_hook_of_ours_is_renamed_and_reported(project: Project, run: Run) -> None:
    run("init", "--clone")
    hook = project.path / ".git/hooks/post-merge"
    hook.write_text(hook.read_text() + "make\n")
    assert "would be renamed  hook" in run("init", "--clone", "--dry-run").stdout
    output = run("init", "--clone").stdout
    assert "renamed  hook          .git/hooks/post-merge.memory-ci-edited\n" in output
    assert "Where lines of your own belong: `memory-ci help agents`" in output


def test_resolve_lists_the_merged_files(project: Project, run: Run) -> None:
    project.git("config", "user.name", "Ann")
    project.git("config", "user.email", "ann@example.com")
    project.branch("side")
    append(project, 2)
    project.checkout("main")
    append(project, 1)
    project.checkout("side")
    before = project.sha()
    assert "without a conflict" in run("resolve", "--dry-run").stdout
    assert project.sha() == before
    assert run("resolve").stdout.startswith(
        f"Merged main into side: {before[:12]} is now {project.sha()[:12]}."
    )
    assert run("resolve").stdout == "side holds main already.\n"
    assert json.loads(run("resolve", "--json").stdout)["after"] == project.sha()


def test_check_lists_the_moved_entries(project: Project, run: Run) -> None:
    project.branch("side")
    append(project, 1)
    assert run("check", "--fix", "--dry-run").stdout.startswith(
        "would move 'Learning number 1' from MEMORY.md to "
    )
    assert not (project.path / fragment_path(make_id(1))).exists()
    moved = json.loads(run("check", "--fix", "--json").stdout)["moved"]
    assert [move["path"] for move in moved] == [fragment_path(make_id(1))]
    assert run("check", "--fix").stdout == ""


def test_a_heading_that_a_person_typed_is_an_error_until_fix_makes_it_an_entry(
    project: Project, run: Run
) -> None:
    append(project, 1)
    memory = project.path / "MEMORY.md"
    memory.write_text(memory.read_text() + "\n## Always run tox -e mypy\n")
    line = memory.read_text().count("\n")
    checked = run("check")
    assert checked.exit_code == 1
    assert checked.stdout.startswith(f"MEMORY.md:{line}: a heading without front matter")
    before = memory.read_bytes()
    assert (
        "would give 'Always run tox -e mypy' at MEMORY.md"
        in run("check", "--fix", "--dry-run").stdout
    )
    assert memory.read_bytes() == before
    fixed = run("check", "--fix")
    assert (fixed.exit_code, fixed.stdout) == (
        0,
        f"gave 'Always run tox -e mypy' at MEMORY.md:{line} a front matter\n",
    )
    assert "Always run tox -e mypy" in run("list").stdout
    assert run("check", "--fix").stdout == ""


def test_a_note_with_headings_in_its_body_passes_check(project: Project, run: Run) -> None:
    assert (
        run("add", "Retry once", "--body", "Why:\n\n## Details\n\n```\n## code\n```").exit_code == 0
    )
    assert run("check").exit_code == 0
    (fragment,) = (project.path / ".memory/inbox").iterdir()
    assert "\n### Details\n\n```\n## code\n" in fragment.read_text()


def test_fix_is_about_the_whole_work_tree(project: Project, run: Run) -> None:
    assert run("check", "--fix", "--staged").exit_code == 2
    assert run("check", "--dry-run").exit_code == 2
