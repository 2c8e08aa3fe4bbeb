"""Tests of health: repeated requests, and rules that sessions were shown."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from memory_ci.sessions.session_note import SessionActivity, note_activity
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import Project
from tests.sessions.repeated_sessions import DAY, DRAFT, keep_asking, session_id

pytestmark = pytest.mark.in_project

RULE = make_entry(7, title="Open a draft PR", type="directive")


@pytest.fixture
def agreed(project: Project) -> Project:
    """Return a project with a rule that people agreed to."""
    project.record()
    project.commit("Agree", {"institutional.md": f"{format_entry(RULE)}\n"})
    return project


def test_a_request_that_a_document_says_is_named_with_its_line(
    project: Project, run: Run, tmp_path: Path
) -> None:
    project.commit("Write rules", {"AGENTS.md": "# Rules\n\n- Open a draft PR first\n"})
    keep_asking(project, tmp_path, *DRAFT)
    lines = run("health").stdout.splitlines()
    at = lines.index("asked again although written: 3 of 3 repeated requests")
    assert lines[at + 1].startswith("    AGENTS.md:3 Open a draft PR first (3 sessions since ")


def test_a_rule_that_was_served_and_asked_for_again_is_named(
    agreed: Project, run: Run, tmp_path: Path
) -> None:
    keep_asking(agreed, tmp_path, DRAFT[0], "Fix the retry in the client.")
    for number in (1, 2):
        at = agreed.clock.now + number * DAY - timedelta(minutes=1)
        sign = SessionActivity(
            agent="claude-code", session=session_id(number), at=at, served=(RULE.id,)
        )
        note_activity(agreed.workspace, sign)
    lines = run("health").stdout.splitlines()
    at_line = lines.index("followed when served: 1 of 2 times, 1 rule")
    assert lines[at_line + 1] == (
        f"    {RULE.id[:8]} Open a draft PR (asked again in 1 of 2 sessions)"
    )
    outcomes = json.loads(run("health", "--json").stdout)["asked_again"]["outcomes"]
    assert outcomes == [
        {
            "id": RULE.id,
            "title": "Open a draft PR",
            "sessions": 2,
            "asked_again": 1,
            "failed_again": 0,
        }
    ]


def test_a_rule_that_no_session_was_served_has_no_line(
    agreed: Project, run: Run, tmp_path: Path
) -> None:
    keep_asking(agreed, tmp_path, *DRAFT)
    assert "followed when served" not in run("health").stdout
