"""Tests of retiring rules of conduct and known failures that no longer hold."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.repetition import PersonTurn
from memory_ci.sessions.ended_rules import find_withdrawal, is_unasked, plan_ended
from memory_ci.sessions.moments import TimedLine
from memory_ci.sessions.repetitions import REPETITION_ENGINE
from tests.agents_at_work import WORDS
from tests.commands.agents.agreed_conduct import put_entry, put_moments
from tests.make import make_entry
from tests.project import NOW, Project
from tests.sessions.repeated_sessions import (
    fail_in,
    find_titles,
    keep_asking,
    read_all,
    run_command,
)

pytestmark = pytest.mark.in_project

LEARNED = date(2026, 1, 1)
FAILURE = make_entry(
    8,
    title="`gh pr diff --stat` fails",
    type="corrective",
    when="before:command gh pr diff --stat",
    created_at=LEARNED,
    occurred_at=LEARNED,
)
RULE = replace(
    make_entry(7, title="Follow docs/style.md in each answer", type="directive"),
    engine=REPETITION_ENGINE,
    created_at=LEARNED,
    last_reinforced=LEARNED,
)


@pytest.fixture(autouse=True)
def existing_rule(project: Project) -> None:
    """Put the failure into the table of moments, so that digests keep runs of its command."""
    put_moments(project, TimedLine(FAILURE.id, FAILURE.when or "", FAILURE.title))


def list_ended(project: Project, entry: Entry) -> list[str]:
    """Return the reasons for which an entry is retired."""
    place = Located(entry, "institutional.md", 1, ScopeOf("institutional"))
    changes = plan_ended(project.workspace.at(project.sha()), [place], read_all(project))
    return [change.why for change in changes]


def make_turn(text: str, day: date) -> PersonTurn:
    """Return a turn of a person."""
    at = NOW.replace(year=day.year, month=day.month, day=day.day)
    return PersonTurn("claude-code:s1", at, "", text)


def test_a_failure_whose_command_works_is_retired(project: Project, tmp_path: Path) -> None:
    keep_asking(
        project,
        tmp_path,
        *fail_in([1], "gh pr diff 12 --stat", "unknown flag: --stat"),
        [WORDS, *run_command("gh pr diff 14 --stat", number=250)],
    )
    (why,) = list_ended(project, FAILURE)
    assert why.startswith("gh pr diff --stat worked on ")


def test_a_failure_that_occurred_again_after_a_success_stays(
    project: Project, tmp_path: Path
) -> None:
    keep_asking(
        project,
        tmp_path,
        [WORDS, *run_command("gh pr diff 14 --stat", number=150)],
        *fail_in([2], "gh pr diff 12 --stat", "unknown flag: --stat"),
    )
    assert list_ended(project, FAILURE) == []


@pytest.mark.first_run
def test_a_run_retires_the_failure_with_a_reason(project: Project, tmp_path: Path) -> None:
    put_entry(project, FAILURE.when or "", FAILURE.title, type="corrective", created_at=LEARNED)
    keep_asking(project, tmp_path, [WORDS, *run_command("gh pr diff 14 --stat", number=150)])
    project.record()
    assert FAILURE.title not in project.titles()
    assert "gh pr diff --stat worked on " in project.git("log", "-3", "--format=%B")


def test_a_pinned_failure_stays(project: Project, tmp_path: Path) -> None:
    keep_asking(project, tmp_path, [WORDS, *run_command("gh pr diff 14 --stat", number=150)])
    assert list_ended(project, FAILURE)
    assert list_ended(project, replace(FAILURE, priority="pin")) == []


def test_a_rule_whose_file_is_gone_is_retired(project: Project) -> None:
    project.commit("Write a guide", {"docs/style.md": "Short sentences.\n"})
    assert list_ended(project, RULE) == []
    project.git("rm", "-q", "docs/style.md")
    project.commit("Drop the guide")
    assert list_ended(project, RULE) == ["docs/style.md is gone"]


def test_a_rule_that_a_person_wrote_by_hand_is_not_judged_by_its_words(project: Project) -> None:
    project.commit("Write a guide", {"docs/style.md": "Short sentences.\n"})
    project.git("rm", "-q", "docs/style.md")
    project.commit("Drop the guide")
    assert list_ended(project, replace(RULE, engine=None)) == []


def test_a_request_whose_file_is_gone_is_not_proposed(project: Project, tmp_path: Path) -> None:
    project.commit("Write a guide", {"STYLE.md": "Short sentences.\n"})
    keep_asking(project, tmp_path, *["Please follow STYLE.md in the answer."] * 3)
    assert find_titles(project)
    project.git("rm", "-q", "STYLE.md")
    project.commit("Drop the guide")
    assert find_titles(project) == []


def test_an_opposite_request_ends_a_rule() -> None:
    rule = replace(RULE, title="Run the linter before each commit")
    turns = [make_turn("Don't run the linter before each commit", LEARNED + timedelta(9))]
    withdrawal = find_withdrawal(rule, turns)
    assert withdrawal is not None
    assert withdrawal.day == LEARNED + timedelta(9)


def test_a_request_after_the_opposite_keeps_the_rule() -> None:
    rule = replace(RULE, title="Run the linter before each commit")
    turns = [
        make_turn("Don't run the linter before each commit", LEARNED + timedelta(9)),
        make_turn("Run the linter before each commit", LEARNED + timedelta(10)),
    ]
    assert find_withdrawal(rule, turns) is None


def test_an_opposite_request_before_the_rule_is_ignored() -> None:
    rule = replace(RULE, title="Run the linter before each commit")
    turns = [make_turn("Don't run the linter before each commit", LEARNED)]
    assert find_withdrawal(rule, turns) is None


@pytest.mark.parametrize(("days", "is_expected"), [(300, False), (366, True)])
def test_a_rule_is_retired_after_a_year_without_requests(days: int, is_expected: bool) -> None:
    assert is_unasked(RULE, [], LEARNED + timedelta(days)) is is_expected


def test_a_rule_that_was_requested_this_year_stays() -> None:
    turns = [make_turn("Follow docs/style.md in the answer", LEARNED + timedelta(200))]
    assert not is_unasked(RULE, turns, LEARNED + timedelta(400))
