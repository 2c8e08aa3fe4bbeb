"""Tests of joining sessions that commits, notes, files or the pull request name."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.records.plan import Join
from memory_ci.sessions.session_join import SessionFinder
from tests.agents_at_work import (
    SESSION,
    WORDS,
    keep_session,
    make_refusal,
    make_session,
    merge_branch,
    put_tree,
)
from tests.project import Project
from tests.sessions.sessions_at_work import (
    CHECKPOINT,
    ENTIRE,
    KEY,
    MESSAGE,
    checkpoint,
    make_history,
    make_note,
    session_joins,
    turns,
)
from tests.standin import StandIn, by_model, make_learning


def test_a_session_that_was_captured_is_joined_by_its_trailer(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    data = make_session(
        WORDS, *make_refusal("use pnpm, npm breaks the lock file"), at=project.clock.now
    )
    key = keep_session(project, tmp_path, data)
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\nMemory-Session: {key}")
    model.will_find(make_learning(WORDS))
    plan = model.record(project)
    assert session_joins(plan) == [Join("#140", "session", key, f"Memory-Session: {key}", 3)]
    (judged,) = by_model(plan)
    assert judged.verdict == "written"
    entry = next(entry for entry in project.entries() if entry.title == "Send a key with each POST")
    assert entry.evidence == (f"session:{key}#transcript.jsonl:1 {WORDS}",), (
        "file and line of the transcript"
    )
    assert entry.session == key
    (question,) = [question for question in model.requests if question.texts("text")]
    assert question.texts("rejection") == ["use pnpm, npm breaks the lock file"]


@pytest.mark.parametrize("value", [SESSION, SESSION[:8], KEY])
def test_a_session_is_found_by_a_long_enough_prefix_of_its_id(
    project: Project, tmp_path: Path, model: StandIn, value: str
) -> None:
    keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now))
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\nMemory-Session: {value}")
    assert [join.id for join in session_joins(model.plan(project))] == [KEY]


def test_an_ambiguous_prefix_of_session_ids_is_reported_and_joins_no_session(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    for session in (SESSION, f"{SESSION}8"):
        keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now, session=session))
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\nMemory-Session: {SESSION[:8]}")
    plan = model.plan(project)
    assert session_joins(plan) == []
    assert plan.problems == (
        f"Memory-Session: {SESSION[:8]} begins the ids of 2 sessions: none was joined",
    )
    merge_branch(project, "receipt", 141, f"{MESSAGE}\n\nMemory-Session: {SESSION}")
    assert [join.id for join in session_joins(model.plan(project))] == [KEY], (
        "an id in full names its session"
    )


@pytest.mark.parametrize("value", [SESSION[:7], f"codex:{SESSION}", "claude-code:", "*"])
def test_a_short_prefix_or_the_id_of_another_agent_names_no_session(
    project: Project, tmp_path: Path, model: StandIn, value: str
) -> None:
    keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now))
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\nMemory-Session: {value}")
    assert session_joins(model.plan(project)) == []


def test_a_checkpoint_is_read_once_and_only_from_its_start(
    project: Project, model: StandIn
) -> None:
    data = make_session(
        "An older wish.", WORDS, "Use the pool of the client.", at=project.clock.now
    )
    put_tree(project, ENTIRE, checkpoint(data, transcript_lines_at_start=1))
    commits = [f"{MESSAGE} {part}\n\nEntire-Checkpoint: {CHECKPOINT}" for part in "ab"]
    merge_branch(project, "charge", 140, *commits)
    plan = model.plan(project)
    assert turns(model) == [[WORDS, "Use the pool of the client."]]
    assert session_joins(plan) == [
        Join("#140", "session", KEY, f"Entire-Checkpoint: {CHECKPOINT}", 2)
    ]
    assert plan.problems == ()


def test_a_note_of_git_ai_is_read_for_its_commit(project: Project, model: StandIn) -> None:
    at = project.clock.now
    merge_branch(project, "charge", 140, MESSAGE)
    project.git("notes", "--ref=ai", "add", "-m", make_note(WORDS, at=at), "HEAD^2")
    plan = model.plan(project)
    assert turns(model) == [[WORDS]]
    assert session_joins(plan) == [Join("#140", "session", KEY, "a note of git-ai", 1)]


def test_a_prompt_in_the_notes_of_two_commits_is_read_once(
    project: Project, model: StandIn
) -> None:
    at = project.clock.now
    merge_branch(project, "charge", 140, MESSAGE, f"{MESSAGE} Again.")
    for rev in ("HEAD^2", "HEAD^2~1"):
        project.git("notes", "--ref=ai", "add", "-m", make_note(WORDS, at=at), rev)
    model.plan(project)
    assert turns(model) == [[WORDS]]


def test_a_transcript_committed_with_the_code_belongs_to_its_change(
    project: Project, model: StandIn
) -> None:
    text = make_history(project.clock.now, WORDS)
    merge_branch(project, "charge", 140, MESSAGE)
    project.branch("more")
    project.commit(
        "Go on\n\nWith the history.", {".specstory/history/one.md": text, "src/more.py": "x"}
    )
    project.merge_back("more", message="Merge pull request #141 from ada/more\n\nGo on")
    plan = model.plan(project)
    assert turns(model) == [[WORDS]]
    assert session_joins(plan) == [Join("#141", "session", KEY, "committed with the change", 1)]


def test_the_tree_is_not_listed_for_a_change_without_transcripts(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = {".specstory/history/one.md": make_history(project.clock.now, WORDS)}
    for files in (*({"src/retry.py": f"{n}\n"} for n in range(3)), brought):
        project.commit(MESSAGE, files)
    changes = [
        *iter_merged_changes(
            project.workspace.repo, plan_range(project.workspace.repo, None, "HEAD")
        )
    ]
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    finder = SessionFinder(project.workspace)
    reasons = [
        [joined.reason for joined in finder.find_sessions(change, None)] for change in changes
    ]
    assert reasons[-2:] == [[], ["committed with the change"]]
    assert (tmp_path / "trace").read_text().count("git ls-tree") == 1


def test_a_given_transcript_belongs_to_the_request_that_it_opened(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    link = {"type": "pr-link", "prNumber": 140, "prUrl": "https://forge.example/acme/shop/pull/140"}
    path = tmp_path / "run.jsonl"
    path.write_bytes(make_session(WORDS, link, at=project.clock.now))
    merge_branch(project, "charge", 140, MESSAGE)
    merge_branch(project, "other", 141, MESSAGE)
    plan = model.plan(project, sessions=(path,))
    assert session_joins(plan) == [Join("#140", "session", KEY, "its transcript opened #140", 1)]
