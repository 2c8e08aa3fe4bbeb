"""Fixtures for tests of `add`: an agent's hook, the transcript of its session, and calls of `add`."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Run
from tests.commands.add.sessions_at_work import Add, Hook, Write
from tests.project import Project


@pytest.fixture
def hook(run: Run, project: Project, monkeypatch: pytest.MonkeyPatch) -> Hook:
    """Return a function: `hook("codex", "Stop")` returns the text that the hook adds to the session."""
    for name in ("COPILOT_CLI", "CURSOR_VERSION", "CLAUDE_CODE_ENTRYPOINT"):
        monkeypatch.delenv(name, raising=False)

    def call(agent: str, event: str, *flags: str, **fields: Any) -> str:
        event_fields = {
            "session_id": "s1",
            "cwd": str(project.path),
            "hook_event_name": event,
            **fields,
        }
        result = run("hook", "agent", "--for", agent, *flags, stdin=json.dumps(event_fields))
        assert (result.exit_code, result.stderr) == (0, "")
        answer = json.loads(result.stdout or "{}")
        context = answer.get("hookSpecificOutput", {}).get("additionalContext")
        return str(answer.get("reason") or answer.get("additionalContext") or context or "")

    return call


@pytest.fixture
def transcript(project: Project) -> Write:
    """Return a function that writes records to the session's transcript, one on each line."""

    def write(*records: dict[str, Any], session: str = "s1", cwd: str | None = None) -> Path:
        common = {
            "sessionId": session,
            "cwd": cwd or str(project.path),
            "timestamp": "2026-11-20T10:00:00Z",
        }
        lines = [
            json.dumps({**common, "uuid": f"u{number}", **record})
            for number, record in enumerate(records)
        ]
        return project.write(f".git/{session}.jsonl", "".join(f"{line}\n" for line in lines))

    return write


@pytest.fixture
def add(run: Run, project: Project) -> Add:
    """Return a function that adds a note with a new title, as the agent does: `add("--quote", "…")`."""
    numbers = count()
    project.write(".git/hooks/pre-commit", "")
    return lambda *options: run(
        "add", f"Retries live in the client, rule {next(numbers)}", "--json", *options
    )
