"""Tests of entries of decision records whose status later says that they no longer apply."""

from __future__ import annotations

from tests.project import Project

PATH = "docs/adr/0001-queue.md"
RECORD = """# 1. Keep charges in a queue

## Status

{status}

## Decision

We keep every charge in a queue, because the gateway is down at night.
"""


def find_statuses(project: Project) -> list[str]:
    return [entry.status for entry in project.entries() if "charges in a queue" in entry.title]


def test_a_record_that_is_superseded_later_retires_its_entry(project: Project) -> None:
    project.commit("Decide", {PATH: RECORD.format(status="Accepted")})
    project.record()
    assert find_statuses(project) == ["active"]

    status = "Superseded by [2. Charge at once](0002-charge.md)"
    project.commit("Charge at once", {PATH: RECORD.format(status=status)})
    plan = project.plan()
    (change,) = [change for step in plan.steps if step.step == "retire" for change in step.changes]
    assert change.why == f"{PATH} is superseded by 2. Charge at once"
    assert change.entry.status == "retired"
    project.record()
    assert "active" not in find_statuses(project)


def test_history_does_not_leave_a_superseded_decision_active(project: Project) -> None:
    project.commit("Decide", {PATH: RECORD.format(status="Accepted")})
    project.commit("Undo", {PATH: RECORD.format(status="Deprecated")})
    project.record()
    assert "active" not in find_statuses(project)


def test_a_record_that_holds_or_is_about_something_else_retires_nothing(project: Project) -> None:
    project.commit("Decide", {PATH: RECORD.format(status="Accepted")})
    project.record()
    other_record = RECORD.format(status="Rejected").replace(
        "every charge in a queue", "all in a file"
    )
    project.commit("Decide no more", {"docs/adr/0002-other.md": other_record})
    project.record()
    assert find_statuses(project) == ["active"]
