"""Tests of sessions that are not read: disabled, unreadable, too large or too many."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from memory_ci.commands.record.run import fetch_sessions, plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.record.text import render_plan
from memory_ci.sessions import captured_sessions
from tests.agents_at_work import SESSION, WORDS, keep_session, make_session, merge_branch, put_tree
from tests.project import NOW, Project
from tests.remote import git_over_http
from tests.servers import serve
from tests.sessions.sessions_at_work import (
    CHECKPOINT,
    ENTIRE,
    KEY,
    MESSAGE,
    checkpoint,
    configure,
    make_history,
    make_note,
    session_joins,
)
from tests.standin import StandIn

# -- what is not read, and what cannot be


def test_if_reading_is_disabled_no_session_of_the_repository_is_read(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    key = keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now))
    put_tree(project, ENTIRE, checkpoint(make_session(WORDS, at=project.clock.now)))
    text = make_history(project.clock.now, WORDS)
    project.branch("charge")
    message = f"{MESSAGE}\n\nMemory-Session: {key}\nEntire-Checkpoint: {CHECKPOINT}"
    project.commit(message, {".specstory/history/one.md": text})
    project.git("notes", "--ref=ai", "add", "-m", make_note(WORDS, at=project.clock.now), "HEAD")
    project.merge_back("charge", message="Merge pull request #140 from ada/charge\n\nRetry")
    assert session_joins(model.plan(project)), "switched on, it is"
    configure(project, "sessions:\n  read: false\n")
    assert session_joins(model.plan(project)) == []


def test_an_unreadable_checkpoint_is_a_problem_and_does_not_stop_the_run(
    project: Project, model: StandIn
) -> None:
    put_tree(project, ENTIRE, {"aa/aaaaaaaaaa/metadata.json": b"not JSON", "README": b"x"})
    for number, name in enumerate(("aaaaaaaaaaaa", "bbbbbbbbbbbb", "no-id"), start=140):
        merge_branch(project, f"work-{number}", number, f"{MESSAGE}\n\nEntire-Checkpoint: {name}")
    plan = model.plan(project)
    assert plan.problems == (
        "aa/aaaaaaaaaa/metadata.json is no JSON object",
        "bb/bbbbbbbbbb/metadata.json is missing",
        "'no-id' is no checkpoint id",
    )
    assert plan.engine.failure == ""
    assert plan.until == plan.base
    assert "'no-id' is no checkpoint id\n" in render_plan(plan)


def test_the_report_names_the_sessions_of_each_change_and_how_they_were_joined(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    key = keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now))
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\nMemory-Session: {key}")
    report = render_plan(model.plan(project))
    assert "Read besides commits: 1 source\n" in report
    assert f"  #140      session {key}  1 event  (Memory-Session: {key})\n" in report


@pytest.mark.parametrize("remote", ["origin", "upstream"])
def test_a_session_fetched_from_the_configured_remote_is_read(
    project: Project, tmp_path: Path, model: StandIn, remote: str
) -> None:
    project.commit("Configure", {".memory-ci.yaml": f"publish: {{remote: {remote}}}\n"})
    key = keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now))
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\nMemory-Session: {key}")
    project.git("clone", "-q", str(project.path), str(tmp_path / "clone"))
    clone = Project(tmp_path / "clone", project.clock)
    clone.git("remote", "rename", "origin", remote) if remote != "origin" else None
    assert session_joins(model.plan(clone)) == [], "a clone does not bring it"
    refs = clone.git("for-each-ref")
    plan_record(clone.workspace, RecordOptions(), NOW.date(), lambda done, total: None)
    assert clone.git("for-each-ref") == refs, "planning writes nothing"
    options = RecordOptions(problems=fetch_sessions(clone.workspace, None, {}))
    assert clone.git("for-each-ref") != refs
    plan = plan_record(clone.workspace, options, NOW.date(), lambda done, total: None)
    assert [join.id for join in session_joins(plan)] == [key]
    assert plan.problems == ()


def test_sessions_of_a_private_remote_are_fetched_with_the_token_of_the_job(
    project: Project, tmp_path: Path
) -> None:
    key = keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now))
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\nMemory-Session: {key}")
    project.git("clone", "-q", str(project.path), str(tmp_path / "clone"))
    project.git("clone", "-q", "--mirror", str(project.path), str(tmp_path / "shop.git"))
    clone = Project(tmp_path / "clone", project.clock)
    token, requests = "t" * 40, list[str]()
    with serve(git_over_http(tmp_path, token, requests)) as server:
        clone.git("remote", "set-url", "origin", f"{server.url}/shop.git")
        environ = {"GITHUB_TOKEN": token, "GITHUB_SERVER_URL": server.url}
        plans = [
            plan_record(
                clone.workspace,
                RecordOptions(problems=problems),
                NOW.date(),
                lambda done, total: None,
                variables,
            )
            for variables in ({}, environ)
            for problems in [fetch_sessions(clone.workspace, None, variables)]
        ]
    assert [[join.id for join in session_joins(plan)] for plan in plans] == [[], [key]]
    assert [len(plan.problems) for plan in plans] == [1, 0]
    assert token not in str(plans)


def test_a_given_path_without_a_session_is_a_problem_of_the_plan(
    project: Project, model: StandIn, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    (tmp_path / "folder").mkdir()
    merge_branch(project, "work", 140, MESSAGE)
    plan = model.plan(project, sessions=(tmp_path / "notes.txt", tmp_path / "folder"))
    assert [problem for problem in plan.problems if "holds no session" in problem] == [
        f"{tmp_path}/{name} holds no session that can be read" for name in ("notes.txt", "folder")
    ]


# -- how much is read of what others may have pushed


def test_a_session_that_is_too_large_is_skipped_and_reported(
    project: Project, tmp_path: Path, model: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = keep_session(
        project,
        tmp_path,
        make_session(*[f"{WORDS} {number}" for number in range(40)], at=project.clock.now),
    )
    monkeypatch.setattr(captured_sessions, "DIGEST_SIZE", 1000)
    merge_branch(project, "charge", 140, f"{MESSAGE}\n\nMemory-Session: {key}")
    plan = model.plan(project)
    assert session_joins(plan) == []
    assert f"{key} holds no digest of at most 2000 bytes that can be read" in str(plan.problems)


def test_the_oldest_sessions_are_left_out_when_there_are_too_many(
    project: Project, tmp_path: Path, model: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captured_sessions, "MAX_SESSIONS", 1)
    for number in range(2):
        data = make_session(
            WORDS, at=project.clock.now + timedelta(minutes=number), session=f"{number}-{SESSION}"
        )
        keep_session(project, tmp_path, data)
    merge_branch(
        project,
        "charge",
        140,
        f"{MESSAGE}\n\nMemory-Session: 0-{SESSION}\nMemory-Session: 1-{SESSION}",
    )
    plan = model.plan(project)
    assert [join.id for join in session_joins(plan)] == [f"claude-code:1-{SESSION}"]
    assert "1 captured session not read, the oldest" in str(plan.problems)


def test_only_events_of_joined_sessions_are_read(project: Project, tmp_path: Path) -> None:
    keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now))
    sessions = captured_sessions.CapturedSessions(project.workspace)
    (header,) = sessions.headers
    assert (header.key, header.events) == (KEY, ())
    assert [event.text for event in sessions.load_events(header).events] == [WORDS]
