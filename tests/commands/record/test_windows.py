"""Tests of windows: the evidence of a change that a model is sent, from history to the pull request."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.commands.record.gatherer import sort_events
from tests.agents_at_work import (
    WORDS,
    keep_session,
    make_refusal,
    make_session,
    merge_branch,
    put_tree,
)
from tests.evidence.make import AT, make_event
from tests.make import examples
from tests.project import Project
from tests.sources.transcripts.claude import make_agent
from tests.standin import StandIn


@pytest.fixture
def model(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path / "model")


def window(model: StandIn, project: Project, change: str = "#140") -> dict[str, Any]:
    """Return the user message about a change."""
    model.plan(project)
    documents = [json.loads(document["user"]) for document in model.documents]
    (found_document,) = [document for document in documents if document["change"] == change]
    return dict(found_document)


def test_a_window_with_only_turns_describes_the_change(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    key = keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now))
    merge_branch(project, "charge", 140, f"Ask the gateway first\n\nMemory-Session: {key}")
    sent_window = window(model, project)
    assert [piece["kind"] for piece in sent_window["evidence"] if piece.get("quote")] == ["text"]
    assert sent_window["about"] == "Ask the gateway first\ncharge\nin src"


def test_a_window_of_commits_names_the_branch_and_the_other_subjects(
    project: Project, model: StandIn
) -> None:
    merge_branch(
        project, "charge", 140, "Retry charges\n\nThe gateway may be slow.", "Rename the key"
    )
    assert window(model, project)["about"] == "charge\nRename the key\nin src"


def test_a_session_in_two_folders_of_a_checkpoint_is_shown_in_order(
    project: Project, model: StandIn
) -> None:
    at = project.clock.now
    late = make_session(
        "I concede: keep the constants in the registry.", at=at + timedelta(minutes=9), first=9
    )
    early = make_session("Each agent shall define its constants.", at=at)
    files = {"d0/161e0df1cb/metadata.json": b"{}"}
    for number, data in enumerate((late, early)):
        files[f"d0/161e0df1cb/{number}/full.jsonl"] = data
        files[f"d0/161e0df1cb/{number}/metadata.json"] = b"{}"
    put_tree(project, "refs/heads/entire/checkpoints/v1", files)
    project.clock.now = at + timedelta(hours=1)
    merge_branch(project, "charge", 140, "Move constants\n\nEntire-Checkpoint: d0161e0df1cb")
    turn_texts = [
        piece["text"] for piece in window(model, project)["evidence"] if piece["kind"] == "text"
    ]
    assert turn_texts == [
        "Each agent shall define its constants.",
        "I concede: keep the constants in the registry.",
    ]


SESSIONS = st.lists(
    st.tuples(st.sampled_from(["a:1", "b:2", "c:3"]), st.integers(0, 20)), max_size=30
)


@examples(50)
@given(SESSIONS)
def test_time_never_steps_back_in_a_session(drawn: list[tuple[str, int]]) -> None:
    events = [
        make_event(seq=seq, session=session, at=AT + timedelta(minutes=minute))
        for seq, (session, minute) in enumerate(drawn)
    ]
    ordered = sort_events(events)
    assert sorted(ordered, key=lambda event: event.seq) == events, "none is lost or told twice"
    assert len([key for key, _ in groupby(ordered, lambda event: event.session)]) == len(
        {key for key, _ in drawn}
    )
    for one, other in pairwise(ordered):
        assert one.session != other.session or (one.at, one.seq) < (other.at, other.seq)


def test_words_and_commands_of_the_agent_are_shown_but_are_no_evidence(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    question = "Shall I always rebase before I push the branch?"
    agent = make_agent({"type": "text", "text": question}, number=40)
    said_session = make_session(
        WORDS,
        agent,
        "no, not while it is in review",
        *make_refusal("use pnpm"),
        at=project.clock.now,
    )
    key = keep_session(project, tmp_path, said_session)
    merge_branch(project, "charge", 140, f"Ask the gateway first\n\nMemory-Session: {key}")
    evidence = window(model, project)["evidence"]
    before = {piece["text"]: piece.get("before") for piece in evidence if piece.get("quote")}
    assert before == {
        WORDS: None,
        "no, not while it is in review": question,
        "use pnpm": "npm install",
    }


def test_hunks_of_the_files_that_a_person_spoke_about_are_shown(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    project.commit("Add files", {"src/retry.py": "tries = 1\n", "src/other.py": "one = 1\n"})
    key = keep_session(
        project, tmp_path, make_session("Keep the limit in retry.py.", at=project.clock.now)
    )
    project.branch("limit")
    files = {"src/retry.py": "tries = 3\nmail = 'ada@example.com'\n", "src/other.py": "one = 2\n"}
    project.commit(f"Raise the limit\n\nMemory-Session: {key}", files)
    project.merge_back("limit", message="Merge pull request #140 from ada/limit\n\nRaise the limit")
    changed = window(model, project)["changed"]
    assert (
        changed == "src/retry.py\n@@ -1 +1,2 @@\n-tries = 1\n+tries = 3\n+mail = '[redacted:email]'"
    )
