"""Tests of the pre-push hook: captured sessions are pushed too, and their failures never stop the push."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from memory_ci.commands.setup.hooks import name_previous_hook
from memory_ci.commands.setup.install import install
from memory_ci.gitrepo.sessionrefs import list_stored, store
from tests.processes import Background
from tests.project import IMPORTED_FROM, NOW, Project, make_project

pytestmark = pytest.mark.slow

SESSION = "refs/memory-ci/sessions/codex/s1"


@pytest.fixture
def project(tmp_path: Path, background: Background, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with our hooks, a bare remote, and a commit to push; our interpreter imports this checkout."""
    new_project = make_project(tmp_path / "shop")
    new_project.git("remote", "add", "origin", str(new_project.bare(tmp_path / "origin.git").path))
    install(new_project.workspace, sys.executable)
    monkeypatch.setenv("PYTHONPATH", IMPORTED_FROM)
    new_project.commit("Do it", {"x.txt": "x"})
    return new_project


def push_traced(project: Project, log: Path) -> list[str]:
    """Push, and return the git commands that ran, including those of hooks, from git's trace."""
    environment = {**os.environ, "GIT_TRACE": str(log)}
    subprocess.run(
        ["git", "push", "-q", "origin", "main"], cwd=project.path, env=environment, check=True
    )
    return re.findall(r"trace: built-in: git (\S+)", log.read_text())


def capture(project: Project) -> None:
    store(project.workspace.repo, "codex", "s1", {"digest.jsonl": b"x\n"}, NOW)


def on_remote(project: Project) -> list[str]:
    return [line.split("\t")[1] for line in project.git("ls-remote", "origin").splitlines()]


def is_pushed(project: Project) -> bool:
    return (
        project.git("rev-parse", "HEAD")
        == project.git("ls-remote", "origin", "refs/heads/main").split()[0]
    )


def test_a_push_includes_the_sessions(project: Project) -> None:
    capture(project)
    project.git("push", "-q", "origin", "main")
    assert is_pushed(project)
    assert SESSION in on_remote(project)


def test_without_captured_sessions_the_hook_runs_few_git_commands(
    project: Project, tmp_path: Path
) -> None:
    hook = project.path / ".git" / "hooks" / "pre-push"
    alone = push_traced(project, tmp_path / "with")
    hook.unlink()
    project.commit("Do more", {"x.txt": "y"})
    without = push_traced(project, tmp_path / "without")
    expected_commands = ["rev-parse", "for-each-ref", "rev-parse", "log", "log"]
    assert Counter(alone) - Counter(without) == Counter(expected_commands), (
        "the second log is for the merges in between"
    )


def test_sessions_are_pushed_once(project: Project, tmp_path: Path) -> None:
    capture(project)
    assert push_traced(project, tmp_path / "first").count("push") == 2, (
        "the test's own, and ours without its hook"
    )
    project.commit("Do more", {"x.txt": "y"})
    assert push_traced(project, tmp_path / "second").count("push") == 1


def test_sessions_are_not_pushed_if_the_configuration_forbids_it(project: Project) -> None:
    project.write(".memory-ci.yaml", "sessions:\n  push: false\n")
    capture(project)
    project.git("push", "-q", "origin", "main")
    assert is_pushed(project)
    assert SESSION not in on_remote(project)


def test_a_remote_that_refuses_sessions_still_gets_the_branch(
    project: Project, tmp_path: Path
) -> None:
    refuse = tmp_path / "origin.git" / "hooks" / "update"
    refuse.parent.mkdir(exist_ok=True)
    refuse.write_text('#!/bin/sh\ncase "$1" in refs/memory-ci/*) exit 1;; esac\n')
    refuse.chmod(0o755)
    capture(project)
    project.git("push", "-q", "origin", "main")
    assert is_pushed(project)
    assert SESSION not in on_remote(project)
    refuse.unlink()
    project.commit("Do more", {"x.txt": "y"})
    project.git("push", "-q", "origin", "main")
    assert SESSION in on_remote(project), "what failed is tried again"


def test_an_existing_hook_gets_gits_input_and_can_refuse(project: Project, tmp_path: Path) -> None:
    capture(project)
    previous = project.write(
        f".git/hooks/{name_previous_hook('pre-push')}",
        f'#!/bin/sh\necho "$1" >{tmp_path}/seen; cat >>{tmp_path}/seen\n',
    )
    previous.chmod(0o755)
    project.git("push", "-q", "origin", "main")
    hook_input = (tmp_path / "seen").read_text().splitlines()
    assert hook_input[0] == "origin"
    assert hook_input[1].startswith(f"refs/heads/main {project.sha()} refs/heads/main ")
    assert SESSION in on_remote(project)
    previous.write_text("#!/bin/sh\nexit 1\n")
    project.commit("Refused")
    with pytest.raises(AssertionError, match="failed to push"):
        project.git("push", "-q", "origin", "main")


def nudged(project: Project, *args: str) -> bool:
    completed = subprocess.run(
        ["git", "push", "-q", "origin", *args], cwd=project.path, capture_output=True, check=True
    )
    return b"since memory changed" in completed.stderr


@pytest.mark.parametrize("has_previous", [False, True])
def test_pushing_a_tag_or_deleting_a_branch_gives_no_nudge(
    project: Project, has_previous: bool
) -> None:
    if has_previous:
        previous = project.write(
            f".git/hooks/{name_previous_hook('pre-push')}", "#!/bin/sh\ncat >/dev/null\n"
        )
        previous.chmod(0o755)
    project.commit("Configure", {".memory-ci.yaml": "nudge:\n  after: 1\n"})
    project.git("push", "-q", "--no-verify", "origin", "main:gone")
    project.git("tag", "v1")
    assert [nudged(project, "v1"), nudged(project, ":gone"), nudged(project, "main")] == [
        False,
        False,
        True,
    ]
    assert not nudged(project, "main"), "there is nothing to push"


def test_a_clone_contains_no_captured_session(project: Project, tmp_path: Path) -> None:
    capture(project)
    project.git("push", "-q", "origin", "main")
    project.git("clone", "-q", str(tmp_path / "origin.git"), str(tmp_path / "clone"))
    assert list_stored(Project(tmp_path / "clone").workspace.repo) == ()


def test_a_commit_names_the_session_that_made_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "79e9becd-1")
    project.commit("Do it with an agent", {"x.txt": "z"})
    assert project.git(
        "log", "-1", "--format=%(trailers:key=Memory-Session,valueonly)"
    ).strip() == ("claude-code:79e9becd-1")
