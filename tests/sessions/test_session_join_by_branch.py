"""Tests of joining a session that no commit names: by its branch, or by the files that it edited."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from memory_ci.commands.doctor.context import DoctorContext
from memory_ci.commands.doctor.memory import check_sessions
from tests.agents_at_work import WORDS, keep_session, make_session, merge_branch
from tests.project import NOW, Project
from tests.sessions.sessions_at_work import KEY, MESSAGE, session_joins, turns
from tests.sources.transcripts.claude import Record, make_agent, make_call
from tests.standin import StandIn


@pytest.mark.parametrize(
    ("hours", "branch", "is_joined"), [(0, "charge", True), (3, "charge", False), (0, "x", False)]
)
def test_a_session_on_the_branch_while_a_commit_was_made_belongs_to_it(
    project: Project, tmp_path: Path, model: StandIn, hours: int, branch: str, is_joined: bool
) -> None:
    at = project.clock.now - timedelta(hours=hours)
    keep_session(
        project, tmp_path, make_session(WORDS, "Go on with it, please.", at=at, branch=branch)
    )
    merge_branch(project, "charge", 140, MESSAGE)
    commit = project.sha("HEAD^2")
    joins = session_joins(model.plan(project))
    how = f"on charge when {commit[:7]} was made"
    assert [(join.change, join.how) for join in joins] == ([("#140", how)] if is_joined else [])


def test_a_session_of_no_change_is_not_read(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    keep_session(project, tmp_path, make_session(WORDS, at=project.clock.now))
    merge_branch(project, "charge", 140, MESSAGE)
    plan = model.plan(project)
    assert (session_joins(plan), turns(model)) == ([], [])


PUSHED = "src/charge.py"


def make_edit(path: str = PUSHED, tool: str = "Edit", number: int = 9) -> Record:
    return make_agent(make_call(tool, call=f"toolu_{number}", file_path=path), number=number)


def doctor_says(project: Project) -> list[str]:
    case = DoctorContext(project.workspace, {}, NOW, sys.executable)
    return [probe.message for probe in check_sessions(case) if probe.name == "joining"]


@pytest.mark.parametrize(
    ("turns", "hours", "reason"),
    [
        ((WORDS, make_edit()), 0, None),
        ((WORDS, make_edit(tool="Write")), 1, None),
        ((WORDS, make_edit(), make_edit("src/x.py", number=11)), 7, None),
        ((WORDS, make_edit()), 9, "it ended 9 hours before"),
        ((make_edit(),), 0, "no person wrote in it"),
        ((WORDS, make_edit("src/other.py")), 0, ""),
        ((WORDS, make_edit(tool="Read")), 0, ""),
        ((WORDS,), 0, ""),
        ((WORDS, make_edit()), -1, ""),
        ((WORDS, make_edit()), 24 * 8, ""),
    ],
)
def test_without_a_branch_a_session_is_joined_by_its_edited_files(
    project: Project,
    tmp_path: Path,
    turns: tuple[str | Record, ...],
    hours: int,
    reason: str | None,
) -> None:
    """The push is to the branch itself; `reason` says why it is not joined, or is empty if it is unrelated."""
    keep_session(
        project,
        tmp_path,
        make_session(*turns, at=project.clock.now - timedelta(hours=hours, minutes=1)),
    )
    project.commit(MESSAGE, {PUSHED: "once\n"})
    plan = project.plan()
    how = f"edited what {project.sha()[:7]} holds"
    assert [join.how for join in session_joins(plan)] == ([how] if reason is None else [])
    missed = [problem for problem in plan.problems if "not joined" in problem]
    assert [reason in problem for problem in missed if reason] == ([True] if reason else [])
    assert doctor_says(project) == missed


def test_edits_before_the_last_commit_of_a_file_do_not_join_its_next_commit(
    project: Project, tmp_path: Path
) -> None:
    at = project.clock.now
    keep_session(project, tmp_path, make_session(WORDS, make_edit(), at=at - timedelta(minutes=1)))
    project.commit("Retry charges by hand", {PUSHED: "once\n"})
    project.commit("Retry again by hand", {PUSHED: "twice\n"})
    plan = project.plan()
    assert [join.change for join in session_joins(plan)] == [project.sha("HEAD~1")[:7]]
    assert [
        problem for problem in plan.problems if "what it edited was committed before" in problem
    ]


def test_a_session_on_another_branch_is_reported_as_not_joined(
    project: Project, tmp_path: Path
) -> None:
    keep_session(
        project, tmp_path, make_session(WORDS, make_edit("src/retry.py"), at=project.clock.now)
    )
    project.clock.tick()
    merge_branch(project, "charge", 140, MESSAGE)
    plan = project.plan()
    assert session_joins(plan) == []
    (missed,) = (problem for problem in plan.problems if "not joined" in problem)
    assert (
        missed
        == f"1 merged change had a captured session that was not joined: #140 ({KEY}: {ELSEWHERE})"
    )


ELSEWHERE = "it was on elsewhere, not on charge"
