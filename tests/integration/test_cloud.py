"""Tests of cloud agents: a fresh container, whose set-up has network, and later neither network nor git hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_ci import __version__
from memory_ci.commands.health.health import list_health_remarks
from memory_ci.commands.setup.cloud import CLOUDS, SCRIPT_FILE, find_manual_step, set_up_cloud
from memory_ci.commands.setup.command import CLOUDS as COMMAND_LINE
from memory_ci.commands.setup.install import MADE_FILE, uninstall
from memory_ci.gitrepo.history import find_last_uses
from memory_ci.store.edits import format_entry
from memory_ci.store.steps import InstallStep
from tests.make import make_entry
from tests.project import IMPORTED_FROM, TODAY, Project, copy_project, make_project
from tests.repos import RepoBuilder

pytestmark = pytest.mark.usefixtures("background")  # a run of a hook writes into the repository

FAKE = f"""\
#!/bin/sh
# Python of the container: a venv whose pip notes what it was asked for, and whose memory-ci is the one under test.
[ "$1 $2" = "-m venv" ] || exec {sys.executable} "$@"
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho "$@" >>"$HOME/pip.log"\\n' >"$3/bin/python"
printf '#!/bin/sh\\nexec {sys.executable} -P -m memory_ci "$@"\\n' >"$3/bin/memory-ci"
chmod +x "$3/bin/python" "$3/bin/memory-ci"
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return copy_project(make_project(tmp_path / "template"), tmp_path / "shop")


def set_up(project: Project, name: str) -> tuple[InstallStep, ...]:
    return set_up_cloud(project.workspace, name, project.path / ".git" / MADE_FILE)


@pytest.mark.parametrize("name", CLOUDS)
def test_the_setup_of_a_cloud_agent_is_written_once_and_existing_files_are_kept(
    project: Project, name: str
) -> None:
    assert {step.result for step in set_up(project, name)} == {"written"}
    assert {step.result for step in set_up(project, name)} == {"kept"}
    assert f"memory-ci=={__version__}" in (project.path / SCRIPT_FILE).read_text()
    assert "retrieve" in (project.path / "AGENTS.md").read_text()
    assert sys.executable not in "".join(
        p.read_text() for p in project.path.rglob(".*/*.json") if ".git/" not in str(p)
    )
    project.write(
        SCRIPT_FILE, (project.path / SCRIPT_FILE).read_text().replace(__version__, "0.0.1")
    )
    assert {step.result for step in set_up(project, name)} == {"written", "kept"}
    project.write(SCRIPT_FILE, "# mine\n")
    assert {step.result for step in set_up(project, name)} == {"kept"}
    uninstall(project.workspace)
    assert not (project.path / "AGENTS.md").exists()


def test_the_setup_step_of_copilot_is_a_workflow_and_others_are_printed(project: Project) -> None:
    assert list(COMMAND_LINE) == list(CLOUDS)
    for name in CLOUDS:
        set_up(project, name)
        assert bool(find_manual_step(project.path, name)) == (name != "copilot-cloud")
    project.write(CLOUDS["copilot-cloud"].file, "jobs: {}\n")
    set_up(project, "copilot-cloud")
    assert "add the step" in find_manual_step(project.path, "copilot-cloud")


def test_in_a_bare_container_memory_is_read_and_a_note_is_returned_on_the_branch(
    project: Project, tmp_path: Path
) -> None:
    project.commit(
        "Remember", {"MEMORY.md": format_entry(make_entry(1, title="Charge a card once"))}
    )
    set_up(project, "claude-web")
    project.git("add", "-A")
    project.commit("Set the cloud up")
    home, bin_ = tmp_path / "home", tmp_path / "bin"
    for folder in (home, bin_):
        folder.mkdir()
    (bin_ / "python3").write_text(FAKE)
    (bin_ / "python3").chmod(0o755)
    project.git("clone", "-q", "--template=", str(project.path), str(tmp_path / "box"))
    box = RepoBuilder(tmp_path / "box")
    closed = {f"{name}_proxy": "http://127.0.0.1:9" for name in ("http", "https", "all")}
    environ = {
        "PATH": f"{bin_}:{home}/.local/bin:{os.environ['PATH']}",
        "HOME": str(home),
        "PYTHONPATH": IMPORTED_FROM,
    }

    def shell(command: str, hook_input: str = "", **more: str) -> str:
        return subprocess.run(
            ["sh", "-c", command],
            cwd=box.path,
            env={**environ, **more},
            input=hook_input,
            text=True,
            check=True,
            capture_output=True,
        ).stdout

    shell(
        f"sed -i s,/usr/local/bin,{home}/none, {SCRIPT_FILE}; sh {SCRIPT_FILE} claude-web; git checkout -q ."
    )
    assert f"memory-ci=={__version__}" in (home / "pip.log").read_text()
    assert (box.path / ".git/memory-ci/index.db").is_file()
    settings = json.loads((box.path / ".claude/settings.json").read_text())
    (hook,) = settings["hooks"]["UserPromptSubmit"][0]["hooks"]
    event = {
        "session_id": "s1",
        "cwd": str(box.path),
        "hook_event_name": "UserPromptSubmit",
        "prompt": "charge a card",
    }
    assert "Charge a card once" in shell(hook["command"], json.dumps(event), **closed)
    box.git("switch", "-q", "-c", "agent/work")
    shell('memory-ci add "Refund in the client alone" --body "It knows the key."', **closed)
    box.git("add", "-A")
    box.write("src/refund.py", "x = 1\n")
    shell(
        "git add -A; git -c user.name=Agent -c user.email=a@example.com commit -qm Refund", **closed
    )
    assert "Memory-Surface: claude-web" in box.git("log", "-1", "--format=%B")
    box.git("push", "-q", "origin", "agent/work")
    project.git("merge", "-q", "--no-ff", "-m", "Merge agent/work", "agent/work")
    project.record()
    assert "Refund in the client alone" in project.titles()
    assert list(find_last_uses(project.workspace.repo, "HEAD")) == ["claude-web"]
    assert any(
        "last committed by claude-web on" in line
        for line in list_health_remarks(project.workspace, "HEAD", TODAY)
    )
