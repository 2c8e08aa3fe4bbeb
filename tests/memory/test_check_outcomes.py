"""Tests of the outcomes of checks in merged changes."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from memory_ci.memory.check_outcomes import count_check_outcomes
from memory_ci.records.check import WithCheck
from memory_ci.records.check_outcome import RuleCheckOutcome
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import TODAY, Project

pytestmark = pytest.mark.in_project

RULE = replace(
    make_entry(7, title="Add a line to CHANGELOG.md", type="directive"),
    check=WithCheck(("src/**",), ("CHANGELOG.md",)),
)


def commit_work(project: Project, count: int, *files: str, note: str = "") -> None:
    """Commit changes that touch the same files, an hour apart."""
    for _ in range(count):
        project.clock.now += timedelta(hours=1)
        stamp = str(project.clock.now)
        project.commit(f"Work at {stamp}{note}", dict.fromkeys(files, f"{stamp}\n"))


def commit_check(project: Project) -> None:
    """Commit the entry with its check; changes from the next day on count as after it."""
    project.commit("Agree", {"institutional.md": f"{format_entry(RULE)}\n"})
    project.clock.now += timedelta(days=1)


def count_outcome(project: Project) -> RuleCheckOutcome:
    """Return the outcome of the only check."""
    (outcome,) = count_check_outcomes(project.workspace.at(project.sha()), TODAY)
    return outcome


def test_changes_since_are_followed_ignored_or_skipped(project: Project) -> None:
    commit_check(project)
    commit_work(project, 3, "src/a.py", "CHANGELOG.md")
    commit_work(project, 2, "src/a.py")
    commit_work(project, 1, "src/a.py", note=f"\n\nMemory-Skip: {RULE.id[:8]} not for users")
    commit_work(project, 4, "docs/a.md")
    outcome = count_outcome(project)
    assert (outcome.applicable, outcome.followed, outcome.ignored, outcome.skipped) == (6, 3, 2, 1)
    assert outcome.last_passed == 3


def test_the_changes_of_the_same_day_are_before_or_since(project: Project) -> None:
    commit_work(project, 2, "src/a.py")
    project.commit("Agree", {"institutional.md": f"{format_entry(RULE)}\n"})
    commit_work(project, 3, "src/a.py", "CHANGELOG.md")
    outcome = count_outcome(project)
    assert outcome.before.hits > 2
    assert (outcome.applicable, outcome.ignored) == (3, 0)


def test_changes_since_the_check_are_compared_with_changes_before(project: Project) -> None:
    commit_work(project, 30, "src/a.py")
    commit_check(project)
    commit_work(project, 30, "src/a.py", "CHANGELOG.md")
    outcome = count_outcome(project)
    assert (outcome.before.hits, outcome.after.hits, outcome.after.total) >= (30, 0, 30)
    assert outcome.made_a_difference


def test_without_changes_since_there_is_no_comparison(project: Project) -> None:
    commit_work(project, 30, "src/a.py")
    commit_check(project)
    outcome = count_outcome(project)
    assert (outcome.applicable, outcome.low, outcome.made_a_difference) == (0, None, False)


@pytest.mark.first_run
def test_health_names_the_checks_that_made_a_difference(project: Project, run: Run) -> None:
    commit_work(project, 30, "src/a.py")
    commit_check(project)
    commit_work(project, 30, "src/a.py", "CHANGELOG.md")
    lines = run("health").stdout.splitlines()
    at = lines.index("checks: 1, of which 1 made a difference")
    assert lines[at + 1].startswith(
        f"    {RULE.id[:8]} Add a line to CHANGELOG.md: followed 30 of 30"
    )
    (check,) = json.loads(run("health", "--json").stdout)["checks"]
    assert (check["applicable"], check["ignored"]) == (30, 0)


def test_why_prints_the_outcome_of_an_entrys_check(project: Project, run: Run) -> None:
    commit_check(project)
    commit_work(project, 3, "src/a.py", "CHANGELOG.md")
    assert "Its check: followed 3 of 3" in run("show", RULE.id[:8], "--why").stdout


def test_review_asks_about_a_check_that_is_often_ignored(project: Project, run: Run) -> None:
    commit_check(project)
    commit_work(project, 6, "src/a.py", "CHANGELOG.md")
    commit_work(project, 4, "src/a.py")
    questions = json.loads(run("review", "--since", "1d", "--json").stdout)["questions"]
    reasons = [row["why"] for row in questions if row["kind"] == "unused"]
    assert reasons == ["its check was ignored or skipped in 4 of the last 10"]


def test_review_does_not_ask_about_a_check_that_is_followed(project: Project, run: Run) -> None:
    commit_check(project)
    commit_work(project, 10, "src/a.py", "CHANGELOG.md")
    questions = json.loads(run("review", "--since", "1d", "--json").stdout)["questions"]
    assert [row for row in questions if row["kind"] == "unused"] == []


def test_review_asks_about_a_check_that_applied_to_no_change_in_a_year(
    project: Project, run: Run
) -> None:
    project.clock.now = project.clock.now.replace(year=TODAY.year - 1, month=1)
    rule = replace(RULE, check=WithCheck(("nowhere/**",), ("CHANGELOG.md",)))
    project.commit("Agree", {"institutional.md": f"{format_entry(rule)}\n"})
    questions = json.loads(run("review", "--since", "1d", "--json").stdout)["questions"]
    reasons = [row["why"] for row in questions if row["kind"] == "unused"]
    assert reasons == ["its check was about no merged change in a year"]
