"""Tests of `sessions --capture`, called by a user and by an agent's hook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import Run
from tests.project import Project

pytestmark = pytest.mark.in_project


@pytest.fixture
def transcript(project: Project, home: Path) -> Path:
    """Return the path of a session of Claude Code in this project, where Claude Code writes it."""
    place = (
        home
        / ".claude"
        / "projects"
        / "".join(c if c.isalnum() else "-" for c in str(project.path))
    )
    place.mkdir(parents=True)
    line = {
        "type": "user",
        "uuid": "u1",
        "parentUuid": None,
        "sessionId": "79e9becd",
        "timestamp": "2026-11-20T10:00:00Z",
        "cwd": str(project.path),
        "version": "2.1.132",
        "isSidechain": False,
        "userType": "external",
        "message": {"role": "user", "content": "Charge the card once."},
    }
    path = place / "79e9becd.jsonl"
    path.write_text(json.dumps(line) + "\n")
    return path


def hook_input(path: Path | str, project: Project) -> str:
    return json.dumps(
        {"session_id": "79e9becd", "transcript_path": str(path), "cwd": str(project.path)}
    )


def test_the_newest_session_is_kept_without_being_named(run: Run, transcript: Path) -> None:
    assert run("sessions", "--capture", "--dry-run").stdout.startswith(
        "Would keep claude-code:79e9becd: 1 human turn"
    )
    assert run("sessions", "--capture").stdout.startswith(
        "Kept claude-code:79e9becd: 1 human turn, "
    )
    assert run("sessions", "--capture", str(transcript)).stdout.startswith(
        "Known already: claude-code:79e9becd"
    )
    document = json.loads(run("sessions", "--capture", "--json").stdout)
    assert document["captured"][0]["ref"] == "refs/memory-ci/sessions/claude-code/79e9becd"
    assert "claude-code:79e9becd" in run("sessions", "--captured").stdout


def test_a_hook_says_nothing_and_keeps_the_session(
    run: Run, project: Project, transcript: Path
) -> None:
    result = run(
        "sessions",
        "--capture",
        "-",
        "--hook",
        stdin=hook_input(transcript, project),
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert project.git("for-each-ref", "refs/memory-ci/sessions/") != ""


@pytest.mark.parametrize(
    "given", ["", "not json", "[]", '{"transcript_path": "/nowhere\\u0000\\n"}']
)
def test_any_input_of_a_hook_lets_the_agent_end_without_an_error(
    run: Run, project: Project, given: str
) -> None:
    result = run("sessions", "--capture", "-", "--hook", stdin=given)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("memory-ci: session not captured: ")
    assert len(result.stderr.splitlines()) == 1


def test_outside_of_a_repository_a_hook_is_no_failure(
    run: Run, project: Project, transcript: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    event = hook_input(transcript, project)
    assert run("sessions", "--capture", "-", "--hook", stdin=event).exit_code == 0
    assert run("sessions", "--capture", "-", stdin=event).exit_code == 4


def test_captured_sessions_are_listed_and_purged(
    run: Run, project: Project, transcript: Path
) -> None:
    run("sessions", "--capture")
    (stored,) = json.loads(run("sessions", "--captured", "--json").stdout)
    assert stored["ref"].endswith("/79e9becd")
    assert (
        "Would delete claude-code:79e9becd"
        in run("sessions", "--purge", "79e9becd", "--dry-run").stdout
    )
    assert run("sessions", "--purge").exit_code == 2
    assert run("sessions", "--purge", "all", "79e9becd").exit_code == 2
    assert run("sessions", "--purge", "elsewhere").exit_code == 2
    assert "Deleted claude-code:79e9becd" in run("sessions", "--purge", "all").stdout
    for nothing in (run("sessions", "--captured"), run("sessions", "--purge", "all")):
        assert (nothing.exit_code, nothing.stdout) == (0, "")
        assert nothing.stderr == "No session found in refs/memory-ci/sessions/\n"


def test_a_remote_that_is_misspelt_is_named(run: Run, transcript: Path) -> None:
    run("sessions", "--capture")
    refused = run("sessions", "--purge", "all", "--remote", "nope")
    assert refused.exit_code == 5
    assert "'nope' does not appear to be a git repository [remote-failed]" in refused.stderr
    assert "`git remote -v`" in refused.stderr


def test_sessions_of_the_whole_project_are_listed_from_any_directory(
    run: Run, project: Project, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path / "src")
    assert "79e9becd" in run("sessions").stdout


def test_the_searched_directories_are_named_if_there_is_no_session(
    run: Run, project: Project, home: Path
) -> None:
    nothing = run("sessions")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert nothing.stderr.startswith("No session found in ")
    assert " ~/.codex/sessions," in nothing.stderr


def test_a_push_hook_of_pre_commit_finds_the_remote_in_a_variable_and_never_fails(
    run: Run, project: Project, transcript: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.git("remote", "add", "mirror", str(project.bare(tmp_path / "mirror.git").path))
    run("sessions", "--capture")
    failed = run("hook", "pre-push")
    assert (failed.exit_code, failed.stdout) == (0, "")
    assert failed.stderr.startswith("memory-ci: sessions not pushed: "), "there is no origin"
    monkeypatch.setenv("PRE_COMMIT_REMOTE_NAME", "mirror")
    sent = run("hook", "pre-push")
    assert (sent.stdout, sent.stderr) == (
        "",
        "memory-ci: 1 session sent to mirror (refs/memory-ci/sessions/)\n",
    )
    assert run("hook", "pre-push").stderr == "", "nothing was left to send"
    assert project.git("ls-remote", "mirror", "refs/memory-ci/sessions/*") != ""
