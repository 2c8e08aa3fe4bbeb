"""Fixtures: a project with memory, and the hook that an agent calls in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory_ci.anchors.anchors import format_anchor
from memory_ci.records.anchor import Anchor
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.commands.agents.hooks_at_work import Call
from tests.make import make_entry
from tests.project import Project


@pytest.fixture
def shop(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with three entries: one that a task finds, one that cites a file, and a norm."""
    for name in ("COPILOT_CLI", "CURSOR_VERSION"):
        monkeypatch.delenv(name, raising=False)
    cite = format_anchor(Anchor(path="src/client.py", commit="a" * 40))
    entries = [
        make_entry(1, title="Charge a card once"),
        make_entry(2, title="Feed the hen", cites=(cite,)),
    ]
    norm = format_entry(make_entry(3, title="Never push to main", body=""))
    project.commit(
        "Remember", {"MEMORY.md": "\n".join(map(format_entry, entries)), "institutional.md": norm}
    )
    return project


@pytest.fixture
def call(run: Run, shop: Project) -> Call:
    """Return a function: `call("codex", hook_event_name="Stop")` returns the output of the hook."""

    def hook(agent: str, **event_fields: Any) -> str:
        event = {"session_id": "s1", "cwd": str(shop.path), **event_fields}
        result = run("hook", "agent", "--for", agent, stdin=json.dumps(event))
        assert result.exit_code == 0
        assert result.stderr == ""
        return result.stdout

    return hook
