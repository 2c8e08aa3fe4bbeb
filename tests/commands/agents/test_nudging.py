"""Tests of the reminder that memory was not changed for many commits: in an agent's hook and at a push."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import Project
from tests.sessions.test_nudge import LINE, commit_work

pytestmark = pytest.mark.in_project


@pytest.fixture
def shop(project: Project) -> Project:
    """Return a project that changed memory three commits ago and has a reminder configured."""
    project.commit("Configure", {".memory-ci.yaml": "nudge:\n  after: 3\n"})
    project.commit("Learn", {"MEMORY.md": format_entry(make_entry(1, title="Zebra crossing"))})
    commit_work(project, 3)
    return project


def count_git(trace: Path) -> list[str]:
    lines = trace.read_text().splitlines() if trace.exists() else []
    return [line.partition("built-in: git ")[2].split()[0] for line in lines if "built-in" in line]


def call_hook(run: Run, session: str) -> str:
    return run("retrieve", "zebra", "--format", "hook", "--no-record", "--session", session).stdout


@pytest.fixture
def read_context(shop: Project, run: Run) -> Callable[[str], str]:
    """Return the text that an agent's hook adds to the session."""

    def ask(session: str) -> str:
        text: str = json.loads(call_hook(run, session))["hookSpecificOutput"]["additionalContext"]
        return text

    return ask


def test_a_session_s_first_context_ends_with_it(read_context: Callable[[str], str]) -> None:
    assert read_context("one").endswith(f"</recalled-memory>\n{LINE}\n")
    assert LINE not in read_context("one")


def test_the_reminder_is_shown_without_served_entries(shop: Project, run: Run) -> None:
    shop.git("rm", "-q", "MEMORY.md", "institutional.md")
    event = {"hook_event_name": "UserPromptSubmit", "cwd": str(shop.path), "session_id": "one"}
    answer = json.loads(run("hook", "agent", stdin=json.dumps(event)).stdout)
    assert answer["hookSpecificOutput"]["additionalContext"] == f"{LINE}\n"


def test_the_hook_format_says_it_and_the_others_do_not(shop: Project, run: Run) -> None:
    assert LINE not in run("retrieve", "zebra").stdout
    assert LINE not in run("retrieve", "zebra", "--format", "hook", "--ids").stdout
    assert "memory-ci add" in run("retrieve", "zebra", "--format", "hook").stdout


def test_the_reminder_costs_one_git_process_until_it_was_shown(
    read_context: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read_context("zero")
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "first"))
    read_context("one")
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "second"))
    read_context("one")
    first, second = count_git(tmp_path / "first"), count_git(tmp_path / "second")
    assert first.count("log") == 1
    assert sorted(first) == sorted([*second, "log"])


def test_where_it_is_not_time_yet_only_the_first_prompt_of_a_session_asks(
    shop: Project, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shop.put_fragment(make_entry(2))
    call_hook(run, "zero")
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    call_hook(run, "one")
    call_hook(run, "one")
    assert count_git(tmp_path / "trace").count("log") == 1


PUSHED = f"refs/heads/main {'1' * 40} refs/heads/main {'0' * 40}\n"


def test_a_push_prints_the_reminder_to_standard_error_and_continues(
    shop: Project, run: Run
) -> None:
    result = run("hook", "pre-push", "origin", stdin=PUSHED)
    assert (result.exit_code, result.stdout, result.stderr.splitlines()[-1]) == (0, "", LINE)
    assert LINE not in run("hook", "pre-push", "origin", stdin=PUSHED).stderr
