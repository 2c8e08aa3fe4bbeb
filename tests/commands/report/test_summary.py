"""Tests of the first screen of the report: entries learned, served and used, repeated requests, faults."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from memory_ci.commands.report.records import Overview, Summary
from memory_ci.commands.report.report import gather_report
from memory_ci.memory.episodes import save_episode_record
from memory_ci.records.episode import Episode, ServedEntry, Situation
from memory_ci.sessions.session_note import SessionActivity, note_activity
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import NOW, WITHOUT_EMBEDDER, Project
from tests.sessions.repeated_sessions import DAY, DRAFT, keep_asking, session_id

pytestmark = pytest.mark.in_project

DAYS_OF_WORK = {1: date(2026, 11, 20), 2: date(2026, 11, 2), 3: date(2026, 10, 5), 4: None}
"""Days of the last four weeks, and of the four weeks before."""


@pytest.fixture
def dated_project(project: Project) -> Project:
    """Return a project with entries of known dates, all written on one day."""
    entries = [
        make_entry(number, title=f"Rule {number}", occurred_at=day, created_at=date(2026, 1, 1))
        for number, day in DAYS_OF_WORK.items()
    ]
    project.commit("Keep", {"MEMORY.md": "\n".join(map(format_entry, entries))})
    return project


def serve(
    project: Project, name: str, day: date, *numbers: int, used: int = 0, sessions: str = ""
) -> None:
    """Record merged work that was served entries and used the first of them."""
    ids = [make_id(number) for number in numbers]
    episode = Episode(
        id=name,
        occurred_at=datetime(day.year, day.month, day.day, tzinfo=UTC),
        situation=Situation(summary=name),
        context={"sessions": sessions} if sessions else {},
        retrieved=tuple(ServedEntry(id=entry_id) for entry_id in ids),
        used=tuple(ids[:used]),
    )
    save_episode_record(project.workspace, episode)


def gather(project: Project) -> Overview:
    return gather_report(project.workspace, NOW, WITHOUT_EMBEDDER)


def summarise(project: Project) -> Summary:
    summary = gather(project).summary
    assert summary is not None
    return summary


def test_learned_entries_are_counted_by_the_day_of_the_work(dated_project: Project) -> None:
    summary = summarise(dated_project)
    assert (summary.recent.learned, summary.before.learned) == (2, 1)
    assert summary.newest == tuple(make_id(number) for number in (1, 2, 3, 4))


def test_four_weeks_are_compared_with_the_four_before(dated_project: Project) -> None:
    summary = summarise(dated_project)
    assert summary.recent.last == NOW.date()
    assert summary.recent.first - summary.before.last == timedelta(days=1)
    lengths = {(period.last - period.first).days + 1 for period in (summary.recent, summary.before)}
    assert lengths == {28}


def test_sessions_and_use_are_counted_in_each_period(dated_project: Project) -> None:
    serve(dated_project, "pr-201", date(2026, 11, 20), 1, 2, used=1, sessions="a, b")
    serve(dated_project, "pr-202", date(2026, 11, 19), 1, used=1)
    serve(dated_project, "pr-203", date(2026, 10, 1), 1, 2, 3)
    summary = summarise(dated_project)
    recent, before = summary.recent, summary.before
    assert (recent.sessions, recent.servings, recent.used) == (3, 3, 2)
    assert (before.sessions, before.servings, before.used) == (1, 3, 0)
    assert [(named.id, named.reason) for named in summary.most_used] == [(make_id(1), "2 times")]


def test_a_session_that_is_not_merged_yet_counts_as_served(dated_project: Project) -> None:
    sign = SessionActivity(
        agent="codex", session="new", at=NOW - timedelta(days=1), served=(make_id(1),)
    )
    note_activity(dated_project.workspace, sign)
    recent = summarise(dated_project).recent
    assert (recent.sessions, recent.servings) == (1, 0)


def test_without_sessions_the_report_has_no_repetitions(dated_project: Project) -> None:
    assert not summarise(dated_project).has_session_words


def test_a_rule_that_was_asked_for_again_is_counted_in_its_period(
    project: Project, tmp_path: Path
) -> None:
    project.at(datetime(2026, 10, 1, tzinfo=UTC))
    rule = make_entry(7, title="Open a draft PR", type="directive", created_at=date(2026, 9, 1))
    project.commit("Agree", {"institutional.md": f"{format_entry(rule)}\n"})
    keep_asking(project, tmp_path, *DRAFT[:4])
    summary = summarise(project)
    assert summary.has_session_words
    assert (summary.recent.repetitions, summary.recent.although_written) == (0, 0)
    assert (summary.before.repetitions, summary.before.although_written) == (2, 2)
    assert summary.asked_again == ()


def test_a_rule_of_this_period_is_named(project: Project, tmp_path: Path) -> None:
    project.at(NOW - 6 * DAY)
    rule = make_entry(7, title="Open a draft PR", type="directive", created_at=date(2026, 9, 1))
    project.commit("Agree", {"institutional.md": f"{format_entry(rule)}\n"})
    keep_asking(project, tmp_path, *DRAFT[:4])
    served_at = project.clock.now + DAY - timedelta(minutes=1)
    sign = SessionActivity(
        agent="claude-code", session=session_id(1), at=served_at, served=(make_id(7),)
    )
    note_activity(project.workspace, sign)
    summary = summarise(project)
    assert [(named.id, named.reason) for named in summary.asked_again] == [
        (make_id(7), "2 sessions")
    ]
    assert summary.recent.rules_served == 1


def test_contradictions_and_stale_code_are_faults_the_worst_first(project: Project) -> None:
    sha = project.commit("Write", {"src/pay.py": "def pay():\n    one()\n", "gone.py": "x = 1\n"})
    entries = [
        make_entry(1, title="Always charge a card twice", relations=(f"contradicts {make_id(2)}",)),
        make_entry(2, title="Never charge a card twice"),
        make_entry(3, title="Pay once", cites=(f"src/pay.py:1-2@{sha[:12]}",)),
        make_entry(4, title="Read gone.py", cites=(f"gone.py@{sha[:12]}",)),
        make_entry(5, title="Fine"),
    ]
    changes: dict[str, str | bytes | None] = {
        "MEMORY.md": "\n".join(map(format_entry, entries)),
        "src/pay.py": "def pay():\n    other()\n",
        "gone.py": None,
    }
    project.commit("Edit", changes)
    page = gather(project)
    assert page.summary is not None
    faulty = {entry.id: [fault.kind for fault in entry.faults] for entry in page.entries}
    assert faulty[make_id(3)] == ["changed"]
    assert faulty[make_id(4)] == ["gone"]
    assert faulty[make_id(1)] == faulty[make_id(2)] == ["contradicted"]
    assert page.summary.faulty[0] == make_id(4)
    assert page.summary.faulty[-1] == make_id(3)
    assert page.summary.compared_count == 2
    (pay,) = [file for file in page.files if file.path == "src/pay.py"]
    assert (pay.cover, pay.stale_id) == ("stale", make_id(3))


def test_norms_that_no_job_is_served_are_over_budget(project: Project) -> None:
    norms = [make_entry(number, title=f"Norm {number}", body="x" * 1500) for number in (1, 2, 3)]
    project.commit("Norms", {"institutional.md": "\n".join(map(format_entry, norms))})
    assert [named.title for named in summarise(project).over_budget] == ["Norm 3"]


def test_questions_come_the_most_useful_first(project: Project) -> None:
    sha = project.commit("Write", {"src/pay.py": "def pay():\n    one()\n"})
    cites = (f"src/pay.py:1-2@{sha[:12]}",)
    entries = [
        make_entry(1, title="Minor", cites=cites, importance=0.1),
        make_entry(2, title="Major", cites=cites, importance=0.9),
    ]
    memory = {"MEMORY.md": "\n".join(map(format_entry, entries))}
    project.commit("Edit", memory | {"src/pay.py": "def pay():\n    other()\n"})
    titles = [question.title for question in gather(project).inbox if question.kind == "changed"]
    assert titles == ["Major", "Minor"]


def test_the_history_of_an_entry_includes_superseded_entries(project: Project) -> None:
    successor = make_entry(2, title="Ask before each release", supersedes=(make_id(1),))
    project.commit("Keep", {"MEMORY.md": format_entry(successor)})
    serve(project, "served", date(2026, 11, 1), 1)
    serve(project, "used", date(2026, 11, 2), 1, used=1)
    (life,) = (entry for entry in gather(project).entries if entry.id == successor.id)
    assert (life.served_count, life.used_count) == (2, 1)
    assert [step.text for step in life.life if step.what in ("served", "used")] == [
        "served",
        "used",
    ]


def test_a_claimed_source_counts_as_one_of_its_kind(project: Project) -> None:
    entries = [
        make_entry(1, title="Ask before each release", source="pr:1"),
        make_entry(2, title="Name the branch after its issue", source="claimed:pr:2"),
    ]
    project.commit("Keep", {"MEMORY.md": "\n".join(map(format_entry, entries))})
    assert {source.kind: source.count for source in gather(project).sources} == {"pr": 2}
