"""Tests of the outcomes of rules in the sessions that they were served to."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from memory_ci.records.entry import Entry
from memory_ci.records.episode import Episode, ServedEntry, Situation
from memory_ci.records.repetition import RuleOutcome
from memory_ci.sessions.rule_outcomes import count_outcomes, read_served_times
from memory_ci.sessions.session_note import SessionActivity, note_activity
from tests.make import make_entry
from tests.project import Project
from tests.sessions.repeated_sessions import (
    DAY,
    DRAFT,
    fail_in,
    find_all,
    find_titles,
    keep_asking,
    read_all,
    session_id,
)
from tests.sources.transcripts.claude import Record

pytestmark = pytest.mark.in_project

RULE = make_entry(7, title="Open a draft PR", type="directive")
FAILURE = make_entry(
    8, title="`gh pr diff --stat` fails", type="corrective", when="before:command gh pr diff --stat"
)
OTHER = ["The gateway is slow today.", "Fix the retry in the client."]


def record_served(project: Project, number: int, at: datetime, **served: tuple[str, ...]) -> None:
    """Record that a session was served entries."""
    sign = SessionActivity(agent="claude-code", session=session_id(number), at=at, **served)  # type: ignore[arg-type]
    note_activity(project.workspace, sign)


def list_outcomes(project: Project, entry: Entry, *episodes: Episode) -> list[RuleOutcome]:
    """Return the outcomes of a rule in the captured sessions."""
    served = read_served_times(project.workspace, episodes)
    return count_outcomes([entry], read_all(project), served)


def find_start(project: Project, number: int) -> datetime:
    return project.clock.now + number * DAY - timedelta(minutes=1)


def test_a_session_without_a_repeated_request_followed_the_rule(
    project: Project, tmp_path: Path
) -> None:
    keep_asking(project, tmp_path, OTHER[0], DRAFT[0])
    for number in (1, 2):
        record_served(project, number, find_start(project, number), served=(RULE.id,))
    (outcome,) = list_outcomes(project, RULE)
    assert (outcome.sessions, outcome.asked_again, outcome.followed) == (2, 1, 1)


def test_a_request_before_the_rule_was_served_is_not_a_repetition(
    project: Project, tmp_path: Path
) -> None:
    keep_asking(project, tmp_path, DRAFT[0])
    record_served(project, 1, find_start(project, 1) + timedelta(hours=1), served=(RULE.id,))
    (outcome,) = list_outcomes(project, RULE)
    assert (outcome.sessions, outcome.asked_again) == (1, 0)


def test_a_session_that_was_not_served_the_rule_is_not_counted(
    project: Project, tmp_path: Path
) -> None:
    keep_asking(project, tmp_path, *DRAFT[:2])
    assert list_outcomes(project, RULE) == []


def test_a_command_that_fails_after_its_warning_counts_as_failed_again(
    project: Project, tmp_path: Path
) -> None:
    failing = fail_in([1], "gh pr diff 12 --stat", "unknown flag: --stat", text=OTHER[0])
    keep_asking(project, tmp_path, *failing, [OTHER[1]])
    for number in (1, 2):
        record_served(project, number, find_start(project, number), served=(FAILURE.id,))
    (outcome,) = list_outcomes(project, FAILURE)
    assert (outcome.sessions, outcome.failed_again, outcome.followed) == (2, 1, 1)


def test_commits_name_the_sessions_that_were_served(project: Project, tmp_path: Path) -> None:
    keep_asking(project, tmp_path, DRAFT[0])
    episode = Episode(
        id="e1",
        occurred_at=project.clock.now,
        outcome="success",
        situation=Situation(),
        retrieved=(ServedEntry(id=RULE.id),),
        context={"sessions": f"claude-code:{session_id(1)}"},
    )
    (outcome,) = list_outcomes(project, RULE, episode)
    assert (outcome.sessions, outcome.asked_again) == (1, 1)


def test_a_rule_without_effect_ranks_below_others(project: Project, tmp_path: Path) -> None:
    pull = ("Please pull main first.", "Pull main first, please.", "Pull main first")
    both: list[list[str | Record]] = [
        [draft, second] for draft, second in zip(DRAFT, pull, strict=False)
    ]
    keep_asking(project, tmp_path, *both)
    first, second = find_titles(project)
    key_of = {item.candidate.title: item for item in find_all(project)}
    request_keys = tuple(key_of[first].keys)
    for number in (1, 2, 3):
        record_served(project, number, find_start(project, number), served_requests=request_keys)
    assert find_titles(project) == [second, first]
