"""Tests of notes with a quote: `record` proves the quote by the captured session, or marks it as unproved."""

from __future__ import annotations

import json

import pytest

from memory_ci.memory.apply import apply_plan
from memory_ci.sessions.capture import capture
from memory_ci.sessions.marked_notes import read_pending
from tests.commands.add.sessions_at_work import CORRECTION, Add, Hook, Write, at_work, edit, user
from tests.project import NOW, Project

pytestmark = pytest.mark.in_project


def test_where_no_git_hook_would_take_it_along_the_note_lies_in_the_inbox(
    hook: Hook, project: Project, add: Add, transcript: Write
) -> None:
    (project.path / ".git/hooks/pre-commit").unlink()
    path = transcript(user(CORRECTION))
    at_work(hook, path)
    added = json.loads(add("--quote", "the client alone knows the key").stdout)
    hook("claude-code", "Stop", transcript_path=str(path))
    assert (project.path / added["path"]).is_file(), "the next hook leaves it there"
    capture(project.workspace, path, NOW)
    project.git("add", "-A")
    project.commit("Do the work\n\nMemory-Session: claude-code:s1")
    project.record()
    assert [entry.id for entry in project.entries()].count(added["entry"]["id"]) == 1


def commit_notes(project: Project) -> None:
    """Commit the notes with the work of their session, as our hook does."""
    project.commit("Note it", read_pending(project.workspace))


def test_a_quoted_correction_is_a_note_with_evidence_that_record_proves_again(
    hook: Hook, transcript: Write, add: Add, project: Project
) -> None:
    path = transcript(
        user("Fix the client"), edit("README.md"), user(CORRECTION), edit("src/client.py", 2)
    )
    at_work(hook, path)
    added = json.loads(add("--quote", "never  retry a charge in the caller").stdout)
    line = "session:claude-code:s1#3 never retry a charge in the caller"
    assert added["entry"]["evidence"] == [line]
    assert [cite.partition("@")[0] for cite in added["entry"]["cites"]] == ["src/client.py"]
    assert line in (project.path / added["path"]).read_text()
    assert hook("claude-code", "Stop") == "", "it was added"
    capture(project.workspace, path, NOW)
    commit_notes(project)
    project.record()
    (entry,) = (entry for entry in project.entries() if entry.id == added["entry"]["id"])
    assert entry.evidence == (line,)


@pytest.mark.parametrize(
    ("digest", "settings"),
    [
        (None, ""),
        ("Never retry a charge in the gateway.", ""),
        (CORRECTION, "sessions: {read: false}\n"),
    ],
    ids=["not captured", "other words", "not read"],
)
def test_a_quote_without_a_proving_session_stays_a_claim(
    hook: Hook, transcript: Write, add: Add, project: Project, digest: str | None, settings: str
) -> None:
    at_work(hook, transcript(user(CORRECTION)))
    added = json.loads(add("--quote", "the client alone knows the key").stdout)
    if digest:
        capture(project.workspace, transcript(user(digest)), NOW)
    project.commit("Configure", {".memory-ci.yaml": settings})
    commit_notes(project)
    project.record()
    (entry,) = (entry for entry in project.entries() if entry.id == added["entry"]["id"])
    assert entry.evidence == ("claimed:session:claude-code:s1#1 the client alone knows the key",)


@pytest.mark.parametrize("is_known_first", [True, False])
def test_a_plan_is_applied_also_where_the_session_is_not_known(
    hook: Hook, transcript: Write, add: Add, project: Project, is_known_first: bool
) -> None:
    at_work(hook, path := transcript(user(CORRECTION)))
    added = json.loads(add("--quote", "the client alone knows the key").stdout)
    commit_notes(project)
    if is_known_first:
        capture(project.workspace, path, NOW)
    plan = project.plan()
    if is_known_first:
        project.git("update-ref", "-d", "refs/memory-ci/sessions/claude-code/s1")
    else:
        capture(project.workspace, path, NOW)
    apply_plan(project.workspace, plan, NOW)
    (entry,) = (entry for entry in project.entries() if entry.id == added["entry"]["id"])
    assert entry.evidence[0].startswith("claimed:") != is_known_first
