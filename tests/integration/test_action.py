"""Tests of the Action, the workflow and the GitLab component: their rules, and their shell steps in a real bash."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_ci import __version__
from tests.integration.runner import ActionRunner, load_yaml
from tests.project import IMPORTED_FROM, Project, make_project
from tests.repos import RepoBuilder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
ACTION = ROOT / "action"
ACTIONS = [ACTION, ACTION / "retrieve", ACTION / "verify"]
WORKFLOW = ROOT / ".github" / "workflows" / "memory.yml"
COMPONENT = ROOT / "templates" / "memory.yml"
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
OURS = re.compile(rf"OWNER/memory-ci/action(/verify|/retrieve)?@v{re.escape(__version__)}")
NAMES = [path.relative_to(ROOT).as_posix() for path in ACTIONS]


def list_steps(steps: list[dict[str, Any]]) -> list[str]:
    return [step["run"] for step in steps if "run" in step]


@pytest.mark.parametrize("action", ACTIONS, ids=NAMES)
def test_every_input_and_output_is_described_and_every_input_is_used(action: Path) -> None:
    described = load_yaml(action / "action.yml")
    text = (action / "action.yml").read_text(encoding="utf-8")
    for name, description in {**described["inputs"], **described["outputs"]}.items():
        assert description["description"], name
    unused = [
        name for name in described["inputs"] if not re.search(rf"\binputs\.{name}\b(?!-)", text)
    ]
    assert unused == []


@pytest.mark.parametrize("action", ACTIONS, ids=NAMES)
def test_a_step_names_its_shell_and_no_expression_is_pasted_into_a_script(action: Path) -> None:
    steps = load_yaml(action / "action.yml")["runs"]["steps"]
    assert list_steps(steps)
    assert all(step["shell"] == "bash" for step in steps if "run" in step)
    assert [script for script in list_steps(steps) if "${{" in script] == []


def test_no_script_touches_the_path_or_the_environment_of_later_steps() -> None:
    scripts = sorted(ACTION.rglob("*.sh"))
    assert len(scripts) >= 3
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        assert "set -euo pipefail" in text
        assert "GITHUB_PATH" not in text
        assert "GITHUB_ENV" not in text
        assert "${{" not in text


def test_actions_of_others_are_pinned_to_a_commit() -> None:
    places = [*(path / "action.yml" for path in ACTIONS), WORKFLOW]
    used = [
        name
        for path in places
        for name in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))
    ]
    assert used
    assert [name for name in used if not PINNED.fullmatch(name) and not OURS.fullmatch(name)] == []


def test_the_workflow_gives_each_job_minimal_permissions() -> None:
    workflow = load_yaml(WORKFLOW)
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {}
    assert workflow["concurrency"]["cancel-in-progress"] == "false"
    assert jobs["verify"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert jobs["verify"]["steps"][-1]["with"]["token"] == "${{ github.token }}", "for the comment"
    assert set(jobs["extract"]["permissions"].values()) == {"read"}
    assert jobs["apply"]["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert "secrets." in str(jobs["extract"])
    assert "secrets." not in str(jobs["verify"])
    assert str(jobs["apply"]).count("secrets.") == 1, (
        "the key of an App, which may write and asks no model"
    )
    assert "secrets.app-private-key" in str(jobs["apply"])
    assert "pull_request_target" not in WORKFLOW.read_text(encoding="utf-8")
    assert all("timeout-minutes" in job for job in jobs.values())


def test_the_workflow_uses_only_inputs_and_outputs_that_the_actions_have() -> None:
    for job in load_yaml(WORKFLOW)["jobs"].values():
        for step in job["steps"]:
            if OURS.fullmatch(step["uses"]):
                action = ROOT / step["uses"].removeprefix("OWNER/memory-ci/").partition("@")[0]
                assert (
                    step.get("with", {}).keys() <= load_yaml(action / "action.yml")["inputs"].keys()
                )
            else:
                assert step["with"].get("persist-credentials", "false") == "false"


def test_the_component_has_the_same_three_jobs_and_pastes_no_input_into_a_script() -> None:
    component = load_yaml(COMPONENT)
    assert {"memory-verify", "memory-extract", "memory-apply"} <= component.keys()
    assert component["memory-apply"]["resource_group"]
    assert component[".memory-ci"]["variables"]["GIT_DEPTH"] == "0"
    scripts = [
        line
        for job in component.values()
        for key in ("script", "before_script")
        for line in job.get(key, ())
    ]
    assert scripts
    assert [line for line in scripts if "$[[" in line] == []


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project whose `origin` is a bare repository."""
    new_project = make_project(tmp_path / "shop")
    new_project.git("clone", "-q", "--bare", ".", str(tmp_path / "remote.git"))
    new_project.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    return new_project


@pytest.fixture
def runner(project: Project, tmp_path: Path) -> ActionRunner:
    """Return a runner on whose PATH `memory-ci` is this checkout's, which `install: skip` requires."""
    command = tmp_path / "bin" / "memory-ci"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="{IMPORTED_FROM}" exec "{sys.executable}" -m memory_ci "$@"\n'
    )
    command.chmod(0o755)
    event = {"repository": {"full_name": "acme/shop", "default_branch": "main", "fork": False}}
    (tmp_path / "event.json").write_text(json.dumps(event))
    env = {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_REF": "refs/heads/main",
    }
    return ActionRunner(project.path, tmp_path, env)


def on_pull_request(runner: ActionRunner, project: Project, title: str = "") -> None:
    """Set the event of a pull request against main."""
    repo = {"full_name": "acme/shop"}
    request = {
        "title": title,
        "base": {"sha": project.sha("main"), "repo": repo},
        "head": {"repo": repo},
    }
    event = {"repository": {**repo, "default_branch": "main"}, "pull_request": request}
    (runner.scratch / "event.json").write_text(json.dumps(event))
    runner.env = {
        **runner.env,
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_REF": "refs/pull/7/merge",
    }


def test_the_action_records_pushes_and_reports_it(
    runner: ActionRunner, project: Project, tmp_path: Path
) -> None:
    result = runner.run(ACTION, install="skip", engine="rules", push="push")
    remote = RepoBuilder(tmp_path / "remote.git")
    assert remote.git("log", "-1", "--format=%s", "main") == "memory: extract 2 learnings from #128"
    assert (result.outputs["job"], result.outputs["learned"], result.outputs["tip"]) == (
        "record",
        "2",
        remote.sha("main"),
    )
    assert result.outputs["index-key"].startswith("memory-ci-index-v")
    assert "## Memory: 2 learnings" in (tmp_path / "summary.md").read_text()


def test_one_job_extracts_and_another_applies(
    runner: ActionRunner, project: Project, tmp_path: Path
) -> None:
    before, plan = project.sha(), tmp_path / "plan.json"
    assert runner.run(ACTION, install="skip", extract=str(plan)).outputs["commits"] == "0"
    assert project.sha() == before
    result = runner.run(
        ACTION, install="skip", apply=str(plan), push="none", engine="command"
    )  # one that cannot be had
    assert result.outputs["commits"] == "1"
    assert project.sha() != before


def test_a_report_is_written_to_the_requested_path_and_its_failure_fails_no_job(
    runner: ActionRunner, project: Project, tmp_path: Path
) -> None:
    page = runner.temp / "memory-report.html"
    runner.run(ACTION, install="skip", push="none")
    assert not page.exists()
    runner.run(ACTION, install="skip", push="none", report="true")
    assert "<title>Memory of shop</title>" in page.read_text("utf-8")
    page.unlink()
    page.mkdir()
    assert (
        "::warning title=memory-ci::"
        in runner.run(ACTION, install="skip", push="none", report="true").printed
    )


def test_a_dry_run_changes_nothing(runner: ActionRunner, project: Project) -> None:
    before = project.git("for-each-ref")
    assert runner.run(ACTION, install="skip", dry_run="true").outputs["commits"] == "1"
    assert project.git("for-each-ref") == before


def test_verify_needs_no_secret_and_fails_on_findings(
    runner: ActionRunner, project: Project
) -> None:
    project.branch("topic")
    project.commit("Work", {"src/other.py": "x\n"})
    on_pull_request(runner, project)
    assert runner.run(ACTION / "verify", install="skip").outputs["findings"] == "0"
    project.commit("Break", {"MEMORY.md": "---\nid: 1\ntype: oops\n---\n## Broken\n"})
    with pytest.raises(AssertionError, match=r"Verify: (.|\n)*::error file=MEMORY\.md"):
        runner.run(ACTION / "verify", install="skip")


@pytest.mark.first_run
def test_a_job_is_served_entries_for_its_task_and_its_commits_name_them(
    runner: ActionRunner, project: Project
) -> None:
    hostile = "retry a failed charge in the client\n$(touch pwned) `touch pwned` --help"
    result = runner.run(ACTION / "retrieve", install="skip", task=hostile)
    assert "Retries live in src/client.py" in result.outputs["memory"]
    assert "the old form" not in result.printed
    assert Path(result.outputs["file"]).read_text().strip() == result.outputs["memory"].strip()
    ids = result.outputs["ids"].split()
    assert ids
    project.write("src/client.py", "two\n")
    project.git("-c", "user.name=Agent", "commit", "-q", "-a", "-m", "Retry less")
    assert not (project.path / "pwned").exists()
    assert "Memory-Retrieved:" in project.git("log", "-1", "--format=%B")


def test_a_task_without_matching_entries_gives_empty_outputs(
    runner: ActionRunner, project: Project
) -> None:
    result = runner.run(ACTION / "retrieve", install="skip", task="zebra")
    assert (result.outputs["memory"].strip(), result.outputs["ids"]) == ("", "")


FAKE_PYTHON = """#!/bin/sh
[ "$*" = "-m venv $RUNNER_TEMP/memory-ci" ] || exit 1
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho "$@" >> "%s/pip"\\n' "$RUNNER_TEMP" > "$3/bin/python"
ln -s "$MEMORY_CI" "$3/bin/memory-ci"
chmod +x "$3/bin/python"
"""
"""A python3 without pip that makes the action's virtual environment and refuses everything else."""


def test_memory_ci_is_installed_from_the_source_of_the_action_and_by_hashes(
    runner: ActionRunner, project: Project, tmp_path: Path
) -> None:
    python = tmp_path / "bin" / "python3"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    runner.env = {**runner.env, "MEMORY_CI": str(tmp_path / "bin" / "memory-ci")}
    runner.run(ACTION, extras="anthropic", report="true", dry_run="true")
    locked, ours = (runner.temp / "pip").read_text().splitlines()
    locks = [
        f"--requirement {ACTION}/requirements/{name}.txt"
        for name in ("base", "anthropic", "report")
    ]
    assert locked.startswith("-m pip install")
    assert locked.endswith(" ".join(["--require-hashes --only-binary :all:", *locks]))
    assert " --no-deps " in locked
    assert " --no-deps " in ours
    assert ours.endswith(f"--no-build-isolation {ROOT}")


def test_install_skip_without_memory_ci_on_the_path_is_an_error(
    runner: ActionRunner, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "bin" / "memory-ci").unlink()
    runner.env = {**runner.env, "PATH": "/usr/bin:/bin"}
    with pytest.raises(AssertionError, match="memory-ci is not on PATH"):
        runner.run(ACTION, install="skip")
