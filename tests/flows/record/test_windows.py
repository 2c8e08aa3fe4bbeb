"""Windows: what a model is given to understand the evidence of a change, from the history to the request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flows.agents_at_work import WORDS, keep_session, make_session, merge_branch
from tests.flows.project import Project
from tests.flows.standin import StandIn


@pytest.fixture
def model(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path / "model")


def window(model: StandIn, project: Project, change: str = "#140") -> dict[str, Any]:
    """The user message about a change."""
    model.plan(project)
    documents = [json.loads(document["user"]) for document in model.documents]
    (found,) = [document for document in documents if document["change"] == change]
    return dict(found)


def test_a_window_of_turns_alone_says_what_the_change_is(project: Project, tmp_path: Path, model: StandIn) -> None:
    key = keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now))
    merge_branch(project, "charge", 140, f"Ask the gateway first\n\nMemory-Session: {key}")
    found = window(model, project)
    assert [piece["kind"] for piece in found["evidence"] if piece.get("quote")] == ["text"]
    assert found["about"] == "Ask the gateway first\ncharge\nin src"


def test_a_window_of_commits_names_the_branch_and_what_else_was_done(project: Project, model: StandIn) -> None:
    merge_branch(project, "charge", 140, "Retry charges\n\nThe gateway may be slow.", "Rename the key")
    assert window(model, project)["about"] == "charge\nRename the key\nin src"
