"""Tests of `memory-ci premortem` and `memory-ci checkpoint` as a job calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_ci.cli.plain import MAX_INPUT
from tests.command_line import Run
from tests.project import Project
from tests.standin import StandIn

pytestmark = pytest.mark.in_project

PLAN = "Retry failed charges: a POST that timed out is sent once more by the client."
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"


def test_a_plan_from_standard_input_becomes_a_file(run: Run, project: Project) -> None:
    result = run("premortem", stdin=PLAN)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Written: .premortem.md\n", "")
    assert f"> {PLAN}" in (project.path / ".premortem.md").read_text()


def test_a_plan_from_a_file_in_another_directory(
    run: Run, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("jobs/one/PLAN.md", PLAN)
    monkeypatch.chdir(project.path / "jobs/one")
    result = run("premortem", "PLAN.md", "--json")
    assert json.loads(result.stdout)["path"] == ".premortem.md"
    assert PLAN in (project.path / "jobs/one/.premortem.md").read_text()


def test_a_dry_run_shows_the_text_and_writes_nothing(run: Run, project: Project) -> None:
    result = run("premortem", "--dry-run", stdin=f"{PLAN}\x1b[2J")
    assert result.stdout.startswith("# Pre-mortem\n")
    assert "\x1b" not in result.stdout
    assert run("checkpoint", "It answers at once.", "--dry-run").stdout.endswith(
        '"state":"open"}\n'
    )
    assert project.status() == ""


def test_existing_files_are_kept(run: Run, project: Project) -> None:
    project.write(".premortem.md", "mine\n")
    result = run("premortem", stdin=PLAN)
    assert result.exit_code == 2
    assert "[premortem-exists]" in result.stderr
    assert (project.path / ".premortem.md").read_text() == "mine\n"


@pytest.mark.parametrize("plan", ["", "\n \n"])
def test_an_empty_plan_is_a_usage_error(run: Run, project: Project, plan: str) -> None:
    result = run("premortem", stdin=plan)
    assert result.exit_code == 2
    assert "[empty-plan]" in result.stderr


def test_a_model_that_fails_is_a_warning_on_standard_error(
    run: Run, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = StandIn(tmp_path / "model")
    model.will_find(fail_on="anything")
    monkeypatch.setenv("MEMORY_CI_ENGINE_COMMAND", model.environ["MEMORY_CI_ENGINE_COMMAND"])
    project.write(".memory-ci.yaml", "engine:\n  name: command\n")
    result = run("premortem", stdin=PLAN)
    assert (result.exit_code, result.stdout) == (0, "Written: .premortem.md\n")
    assert result.stderr.startswith("Warning: ")
    assert "[engine-failed]" in result.stderr


def test_an_engine_that_cannot_be_had_is_an_error_and_writes_nothing(
    run: Run, project: Project
) -> None:
    project.write(".memory-ci.yaml", "engine:\n  name: command\n")
    status = project.status()
    result = run("premortem", stdin=PLAN)
    assert result.exit_code == 2
    assert "[engine-not-configured]" in result.stderr
    assert project.status() == status


def test_assumptions_are_lines_in_the_order_of_their_checkpoints(
    run: Run, project: Project
) -> None:
    assert (
        run("checkpoint", "It answers at once.", "--milestone", "planning").stdout
        == "Added to .assumptions.jsonl\n"
    )
    run(
        "checkpoint",
        "It answers at once.",
        "--state",
        "failed",
        "--because",
        "it took eight seconds",
    )
    lines = [
        json.loads(line) for line in (project.path / ".assumptions.jsonl").read_text().splitlines()
    ]
    at, text = "2026-11-21T12:00:00Z", "It answers at once."
    assert lines == [
        {"at": at, "assumption": text, "state": "open", "milestone": "planning"},
        {"at": at, "assumption": text, "state": "failed", "because": "it took eight seconds"},
    ]


def test_the_same_assumption_twice_in_a_row_is_kept_once(run: Run, project: Project) -> None:
    for expected in ("Added to .assumptions.jsonl\n", "Known already: .assumptions.jsonl\n"):
        assert (
            run("checkpoint", "It answers at once.", "--milestone", "planning").stdout == expected
        )
    for other in (("--state", "held"), ("--milestone", "review"), ("--because", "we asked"), ()):
        assert run("checkpoint", "It answers at once.", *other).stdout.startswith("Added to ")
    assert len((project.path / ".assumptions.jsonl").read_text().splitlines()) == 5


def test_the_session_of_an_agent_is_noted(
    run: Run, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "a1")
    run("checkpoint", "It answers at once.")
    assert json.loads((project.path / ".assumptions.jsonl").read_text())["by"] == "claude-code:a1"


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_assumption_without_a_word_is_a_usage_error(
    run: Run, project: Project, text: str
) -> None:
    result = run("checkpoint", text)
    assert result.exit_code == 2
    assert "[empty-assumption]" in result.stderr
    assert project.status() == ""


def test_a_credential_is_refused_without_being_shown(run: Run, project: Project) -> None:
    result = run("checkpoint", f"the token is {TOKEN}")
    assert result.exit_code == 1
    assert "[refused-text]" in result.stderr
    assert TOKEN not in result.stderr + result.stdout
    assert project.status() == ""


@pytest.mark.parametrize("command", [("premortem", "-"), ("checkpoint", "It answers at once.")])
def test_outside_of_a_repository_there_is_no_job(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*command, stdin=PLAN)
    assert result.exit_code == 4
    assert "[not-a-repository]" in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("premortem",),
        ("retrieve",),
        ("recall", "--tasks"),
        ("add",),
    ],
)
def test_a_text_that_is_far_too_long_is_refused(
    run: Run, project: Project, command: tuple[str, ...]
) -> None:
    failed = run(*command, stdin="x" * (MAX_INPUT + 1))
    assert failed.exit_code == 2
    assert "longer than 10,000,000 bytes [input-too-long]" in failed.stderr
