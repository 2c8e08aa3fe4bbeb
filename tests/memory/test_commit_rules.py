"""Tests of judging a commit by the checks of the default branch before it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.gitrepo.trailers import SCISSORS
from memory_ci.memory.commit_rules import Violation, judge_message_file
from memory_ci.memory.rules import judge_all, make_rule, read_staged
from memory_ci.records.check import (
    AbsentCheck,
    ChangeCheck,
    CheckLevel,
    MessageCheck,
    PresentCheck,
    WithCheck,
)
from memory_ci.records.history import Staging
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import Project

pytestmark = pytest.mark.in_project

CHANGELOG = WithCheck(("src/**",), ("CHANGELOG.md",))


def put_rule(project: Project, check: ChangeCheck, level: CheckLevel | None = "fail") -> None:
    entry = make_entry(1, title="Say what changed", check=check, level=level)
    project.commit("Rule", {"MEMORY.md": format_entry(entry)})


def stage(project: Project, files: dict[str, str], message: str = "Work") -> Path:
    for path, text in files.items():
        project.write(path, text)
    project.git("add", "--", *files)
    return project.write(".git/COMMIT_EDITMSG", f"{message}\n# A comment: Memory-Skip: 0000 no\n")


def judge_commit(project: Project, path: Path) -> list[Violation]:
    """Return the violations of the staged changes and the message."""
    return judge_message_file(project.workspace.repo, path, {})


@pytest.mark.parametrize(("level", "status"), [(None, 0), ("warn", 0), ("fail", 1)])
def test_the_hook_prints_violations_and_refuses_those_of_level_error(
    project: Project, run: Run, level: CheckLevel | None, status: int
) -> None:
    put_rule(project, CHANGELOG, level)
    path = stage(project, {"src/a.py": "x\n"})
    result = run("hook", "commit-msg", str(path))
    assert result.exit_code == status
    assert "CHANGELOG.md is not touched (a rule since 1 September; 0000): add a" in result.stderr


def test_a_skip_in_the_message_lets_the_commit_pass(project: Project, run: Run) -> None:
    put_rule(project, CHANGELOG)
    path = stage(project, {"src/a.py": "x\n"}, "Work\n\nMemory-Skip: 0000 not seen by users")
    result = run("hook", "commit-msg", str(path))
    assert (result.exit_code, result.stderr) == (
        0,
        "memory-ci: 0000 is skipped: not seen by users\n",
    )


@pytest.mark.parametrize(
    ("check", "files"),
    [
        (AbsentCheck(("*.py",), "print"), {"src/a.py": "print(1)\n"}),
        (PresentCheck(("*.py",), "SPDX"), {"src/a.py": "x\n"}),
        (MessageCheck("^feat"), {"src/a.py": "x\n"}),
    ],
)
def test_staged_lines_and_the_message_are_judged(
    project: Project, check: ChangeCheck, files: dict[str, str]
) -> None:
    put_rule(project, check)
    assert len(judge_commit(project, stage(project, files))) == 1


def test_unstaged_changes_are_not_judged(project: Project) -> None:
    put_rule(project, CHANGELOG)
    path = stage(project, {"docs/a.md": "x\n"})
    project.write("src/a.py", "x\n")
    assert judge_commit(project, path) == []


@pytest.mark.parametrize(("path", "is_unread"), [("src/a.py", True), ("docs/a.md", False)])
def test_unread_text_of_new_files_is_not_judged(
    project: Project, path: str, is_unread: bool
) -> None:
    project.commit("Begin", {"src/b.py": "x\n"})
    project.write("src/b.py", "y\n")
    project.write(path, "print(1)\n")
    rules = [make_rule(AbsentCheck(("*.py",), "print"), "No print")]
    whole = Staging(is_whole_tree=True)
    change = read_staged(project.workspace.repo, "HEAD", rules, whole)
    ((_, judgement),) = judge_all(rules, change)
    assert judgement.is_applicable
    assert bool(judgement.unjudged) is is_unread


def test_an_earlier_commit_of_the_branch_satisfies_a_check(project: Project) -> None:
    put_rule(project, CHANGELOG)
    project.branch("topic")
    project.commit("Say so", {"CHANGELOG.md": "x\n"})
    assert judge_commit(project, stage(project, {"src/a.py": "x\n"})) == []


def test_an_earlier_commit_of_the_default_branch_does_not(project: Project) -> None:
    put_rule(project, CHANGELOG)
    project.commit("Say so", {"CHANGELOG.md": "x\n"})
    assert len(judge_commit(project, stage(project, {"src/a.py": "x\n"}))) == 1


def test_a_branch_cannot_remove_a_check(project: Project) -> None:
    put_rule(project, CHANGELOG)
    project.branch("topic")
    project.commit("No rule", {"MEMORY.md": "# Memory\n"})
    assert len(judge_commit(project, stage(project, {"src/a.py": "x\n"}))) == 1


def test_a_merge_is_not_judged(project: Project) -> None:
    put_rule(project, CHANGELOG)
    path = stage(project, {"src/a.py": "x\n"})
    project.write(".git/MERGE_HEAD", project.sha())
    assert judge_commit(project, path) == []


def test_without_checks_the_staged_changes_are_not_read(project: Project) -> None:
    assert judge_commit(project, stage(project, {"src/a.py": "x\n"})) == []


def test_an_internal_error_does_not_refuse_a_commit(project: Project, run: Run) -> None:
    put_rule(project, CHANGELOG)
    result = run("hook", "commit-msg", "missing")
    assert result.exit_code == 0
    assert "no check judged" in result.stderr


@pytest.mark.parametrize(
    ("cleanup", "environ", "is_kept"),
    [
        (None, {"GIT_EDITOR": ":"}, True),
        (None, {"GIT_EDITOR": "vi"}, False),
        (None, {}, False),
        ("strip", {"GIT_EDITOR": ":"}, False),
        ("whitespace", {}, True),
        ("scissors", {}, True),
    ],
)
def test_a_line_with_a_comment_sign_is_judged_if_git_keeps_it(
    project: Project, cleanup: str | None, environ: dict[str, str], is_kept: bool
) -> None:
    put_rule(project, MessageCheck(r"#\d+"))
    path = stage(project, {"src/a.py": "x\n"}, "Fix\n\n#123")
    if cleanup:
        project.git("config", "commit.cleanup", cleanup)
    violations = judge_message_file(project.workspace.repo, path, environ)
    assert bool(violations) is not is_kept


@pytest.mark.parametrize("cleanup", ["default", "strip", "whitespace", "scissors"])
def test_the_diff_below_a_message_is_not_judged(project: Project, cleanup: str) -> None:
    put_rule(project, MessageCheck("secret", is_forbidden=True))
    path = stage(project, {"src/a.py": "x\n"}, f"Fix\n\n# {SCISSORS}\n+secret")
    project.git("config", "commit.cleanup", cleanup)
    assert judge_commit(project, path) == []
