"""Tests of captured sessions of no merged change."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from memory_ci.commands.doctor.context import DoctorContext
from memory_ci.commands.doctor.memory import check_sessions
from memory_ci.records.plan import Plan
from tests.agents_at_work import keep_session, make_session, merge_branch
from tests.project import Project
from tests.sessions.sessions_at_work import ASKED, configure, session_joins, squash, turns
from tests.standin import StandIn


def keep_unmerged(project: Project, folder: Path, branch: str = "tried") -> str:
    """Capture a session on a branch that is never merged, and return its key."""
    return keep_session(project, folder, make_session(ASKED, at=project.clock.now, branch=branch))


def unmerged_notices(plan: Plan) -> list[str]:
    return [finding.message for finding in plan.findings if finding.code == "unmerged-sessions"]


def test_requests_in_a_captured_session_of_no_change_are_proposed_once(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    key = keep_unmerged(project, tmp_path)
    project.clock.now += timedelta(days=15)
    squash(project)

    plan = model.plan(project)
    (join,) = session_joins(plan)
    assert (join.change, join.how) == (f"session {key}", "of no merged change")
    (judged,) = [judged for judged in plan.judged if judged.change == join.change]
    assert (judged.verdict, judged.candidate.title) == ("suspected", ASKED.rstrip("."))
    assert turns(model) == [], "no model is asked about work that was not merged"
    assert unmerged_notices(plan) == [
        "1 captured session belongs to no merged change, read for what people asked; "
        "0 may be merged yet"
    ]

    squash(project, 141)
    later = model.plan(project, since=plan.base)
    assert session_joins(later) == []
    assert unmerged_notices(later) == []


def test_a_captured_session_that_may_still_be_merged_waits(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    keep_unmerged(project, tmp_path)
    project.clock.now += timedelta(days=3)
    squash(project)
    plan = model.plan(project)
    assert session_joins(plan) == []
    assert unmerged_notices(plan) == []


def test_a_captured_session_that_an_earlier_run_joined_is_not_read_again(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    keep_unmerged(project, tmp_path, "charge")
    merge_branch(project, "charge", 140, "Retry charges")
    first = model.plan(project)
    assert [join.change for join in session_joins(first)] == ["#140"]

    project.clock.now += timedelta(days=15)
    squash(project, 141)
    later = model.plan(project, since=first.base)
    assert session_joins(later) == []
    assert unmerged_notices(later) == []


def test_words_that_an_earlier_run_read_are_not_read_again(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    key = keep_unmerged(project, tmp_path)
    project.clock.now += timedelta(days=1)
    project.commit(f"Record memory\n\nFrom the session {key}.", {"src/pool.py": "pool\n"})
    since = project.sha()
    project.clock.now += timedelta(days=15)
    squash(project)
    plan = model.plan(project, since=since)
    assert [join.events for join in session_joins(plan)] == [0]
    assert [judged for judged in plan.judged if judged.change.startswith("session ")] == []


def test_a_captured_session_of_no_change_is_not_trusted_if_trusted_authors_are_configured(
    project: Project, tmp_path: Path, model: StandIn
) -> None:
    configure(project, "extraction:\n  trusted_authors: ['ada@*']\n")
    keep_unmerged(project, tmp_path)
    project.clock.now += timedelta(days=15)
    squash(project)
    changes = [judged.change for judged in model.plan(project).judged]
    assert [change for change in changes if change.startswith("session ")] == []


def test_doctor_counts_captured_sessions_of_no_change(project: Project, tmp_path: Path) -> None:
    keep_unmerged(project, tmp_path)
    project.clock.now += timedelta(days=15)
    squash(project)
    case = DoctorContext(project.workspace, {}, project.clock.now, sys.executable)
    (probe,) = [probe for probe in check_sessions(case) if probe.name == "unmerged"]
    assert probe.message.startswith("1 captured session belongs to no merged change")
