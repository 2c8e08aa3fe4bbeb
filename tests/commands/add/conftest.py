"""An agent's hook, the transcript of its session, and `add` as the agent calls it."""

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
    """`hook("codex", "Stop")` gives what the agent is told, whatever its dialect."""
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
    """`transcript(user("…"), edit("src/client.py"))` writes the records of a session; a line each."""

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
    """`add("--quote", "…")` adds a note of a title of its own, where a hook will take it along."""
    numbers = count()
    project.write(".git/hooks/pre-commit", "")
    return lambda *options: run(
        "add", f"Retries live in the client, rule {next(numbers)}", "--json", *options
    )
