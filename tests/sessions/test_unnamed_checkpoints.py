"""Tests of checkpoints that no commit names because commits were squashed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from memory_ci.commands.doctor.context import DoctorContext
from memory_ci.commands.doctor.memory import check_sessions
from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.records.history import PullRequest
from memory_ci.records.plan import Join, Plan
from memory_ci.sessions.session_join import SessionFinder
from tests.agents_at_work import WORDS, make_session, merge_branch, put_tree
from tests.project import NOW, Project
from tests.sessions.sessions_at_work import (
    ASKED,
    CHECKPOINT,
    ENTIRE,
    KEY,
    MESSAGE,
    checkpoint,
    session_joins,
    squash,
    turns,
)
from tests.standin import StandIn


def keep_checkpoint(
    project: Project,
    *,
    at: datetime,
    branch: str = "",
    files: Sequence[str] = ("src/retry.py",),
    text: str = WORDS,
) -> None:
    """Store a checkpoint of Entire with its time, its branch and its files."""
    data = make_session(text, at=at, branch=branch)
    files_of_checkpoint = checkpoint(
        data, created_at=at.isoformat(), branch=branch, files_touched=list(files)
    )
    put_tree(project, ENTIRE, files_of_checkpoint)


def notices(plan: Plan) -> list[str]:
    return [finding.message for finding in plan.findings if finding.code == "unnamed-checkpoints"]


def test_a_checkpoint_that_no_commit_names_is_joined_by_the_files_of_the_folded_commit(
    project: Project, model: StandIn
) -> None:
    keep_checkpoint(project, at=project.clock.now, branch="charge")
    squash(project)
    plan = model.plan(project)
    assert session_joins(plan) == [
        Join("#140", "session", KEY, "a checkpoint of Entire touched src/retry.py", 1)
    ]
    assert turns(model) == [[WORDS]]
    begin = "1 of 1 checkpoint of Entire is named by no commit: 1 joined by branch, files and time, 0 of no change"
    assert [message.startswith(begin) for message in notices(plan)] == [True]


def test_a_checkpoint_that_no_commit_names_is_joined_by_its_branch(
    project: Project, model: StandIn
) -> None:
    keep_checkpoint(
        project, at=project.clock.now, branch="charge", files=("src/retry.py", "a", "b", "c")
    )
    merge_branch(project, "charge", 140, MESSAGE)
    joins = session_joins(model.plan(project))
    assert joins == [Join("#140", "session", KEY, "a checkpoint of Entire on charge", 1)]


@pytest.mark.parametrize(
    ("days", "branch", "files"),
    [
        (0, "other", ("src/retry.py",)),
        (0, "charge", ("src/pool.py",)),
        (20, "charge", ("src/retry.py",)),
        (-1, "charge", ("src/retry.py",)),
        (0, "", ("src/retry.py", "src/pool.py")),
        (0, "", ()),
    ],
    ids=["another branch", "other files", "too old", "later", "half of the files", "no files"],
)
def test_a_checkpoint_of_other_work_is_not_joined(
    project: Project, model: StandIn, days: int, branch: str, files: tuple[str, ...]
) -> None:
    keep_checkpoint(
        project, at=project.clock.now - timedelta(days=days), branch=branch, files=files
    )
    merge_branch(project, "charge", 140, MESSAGE)
    assert session_joins(model.plan(project)) == []


def test_a_checkpoint_that_a_later_commit_names_belongs_to_that_commit(
    project: Project, model: StandIn
) -> None:
    keep_checkpoint(project, at=project.clock.now, branch="charge")
    squash(project)
    merge_branch(project, "named", 141, f"{MESSAGE}\n\nEntire-Checkpoint: {CHECKPOINT}")
    plan = model.plan(project)
    assert [(join.change, join.how) for join in session_joins(plan)] == [
        ("#141", f"Entire-Checkpoint: {CHECKPOINT}")
    ]
    assert notices(plan) == []


def test_an_outsiders_change_gets_no_checkpoint_that_it_does_not_name(
    project: Project, model: StandIn
) -> None:
    keep_checkpoint(project, at=project.clock.now, branch="charge")
    merge_branch(project, "charge", 140, MESSAGE)
    (merged,) = [
        change
        for change in iter_merged_changes(
            project.workspace.repo, plan_range(project.workspace.repo, None, "HEAD")
        )
        if change.number == 140
    ]
    stranger = PullRequest(
        number=140,
        title="Retry",
        body="",
        author="eve",
        permission="read",
        state="merged",
        created_at=NOW,
        is_fork=True,
        branch="charge",
    )
    assert list(SessionFinder(project.workspace).find_sessions(merged, stranger)) == []
    assert len(list(SessionFinder(project.workspace).find_sessions(merged, None))) == 1


def test_requests_in_a_checkpoint_of_no_change_are_proposed_once(
    project: Project, model: StandIn
) -> None:
    keep_checkpoint(project, at=project.clock.now, files=("src/gone.py",), text=ASKED)
    project.clock.now += timedelta(days=15)
    squash(project)
    plan = model.plan(project)
    (join,) = session_joins(plan)
    assert (join.change, join.how) == (f"checkpoint {CHECKPOINT}", "of no merged change")
    (judged,) = [candidate for candidate in plan.judged if candidate.change == join.change]
    assert (judged.verdict, judged.candidate.title) == ("suspected", ASKED.rstrip("."))
    assert (
        judged.candidate.source == f"session:{KEY}#{CHECKPOINT[:2]}/{CHECKPOINT[2:]}/0/full.jsonl:1"
    )
    assert judged.candidate.cites == ()
    assert turns(model) == [], "no model is asked about work that was not merged"
    assert [
        ", 1 of no change read for what people asked" in message for message in notices(plan)
    ] == [True]
    squash(project, 141)
    later = model.plan(project, since=plan.base)
    assert session_joins(later) == []
    assert notices(later) == []


def test_a_survey_joins_checkpoints_over_the_whole_history(project: Project) -> None:
    keep_checkpoint(project, at=project.clock.now, branch="charge")
    squash(project)
    project.clock.now += timedelta(days=40)
    project.commit("Name the pool (#141)", {"src/pool.py": "pool\n"})
    unnamed = SessionFinder(project.workspace).unnamed_checkpoints
    assert unnamed is not None
    notice = "1 of 1 checkpoint of Entire is named by no commit: 1 joined by branch, files and time"
    assert (
        unnamed.join_whole_history()
        == f"{notice}, 0 of no change read for what people asked, 0 may be merged yet"
    )


def test_the_checkpoints_of_earlier_runs_are_counted(project: Project, model: StandIn) -> None:
    at = project.clock.now
    data = make_session(WORDS, at=at)
    about = {"created_at": at.isoformat()}
    first = checkpoint(data, files_touched=["src/retry.py"], **about)
    second = checkpoint(data, CHECKPOINT[::-1], files_touched=["src/pool.py"], **about)
    put_tree(project, ENTIRE, first | second)
    squash(project)
    since = project.git("rev-parse", "HEAD").strip()
    project.commit("Name the pool (#141)", {"src/pool.py": "pool\n"})
    (notice,) = notices(model.plan(project, since=since))
    assert notice.startswith("2 of 2 checkpoints of Entire are named by no commit: 1 joined")
    assert notice.endswith(", 1 left to earlier runs")


def test_a_checkpoint_that_may_still_be_merged_waits(project: Project, model: StandIn) -> None:
    keep_checkpoint(project, at=project.clock.now, files=("src/gone.py",), text=ASKED)
    project.clock.now += timedelta(days=3)
    squash(project)
    plan = model.plan(project)
    assert session_joins(plan) == []
    assert notices(plan) == []


@pytest.mark.parametrize("days", [1, 15], ids=["while it could be merged", "later"])
def test_a_checkpoint_of_a_change_that_an_earlier_run_has_read_is_not_read_again(
    project: Project, model: StandIn, days: int
) -> None:
    keep_checkpoint(project, at=project.clock.now, branch="charge", text=ASKED)
    squash(project)
    first = model.plan(project)
    assert [join.change for join in session_joins(first)] == ["#140"]
    project.clock.now += timedelta(days=days)
    project.commit("Retry again (#141)", {"src/retry.py": "retry twice\n"})
    assert session_joins(model.plan(project, since=first.base)) == []


def test_doctor_counts_checkpoints_that_no_commit_names(project: Project) -> None:
    keep_checkpoint(project, at=project.clock.now, branch="charge")
    squash(project)
    case = DoctorContext(project.workspace, {}, NOW, sys.executable)
    (message,) = [probe.message for probe in check_sessions(case) if probe.name == "checkpoints"]
    assert message.startswith("1 of 1 checkpoint of Entire")
