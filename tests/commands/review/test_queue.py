"""Tests of the review queue: its questions, their order and number, and the effect of answers."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.review.queue import Queue, find_last_start, list_queue, record_asked
from memory_ci.commands.review.review import AnsweredReview, Answers, answer
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.records.candidate import Answer, Question
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import NOW, TODAY, Project, copy_project
from tests.sessions.repeated_sessions import keep_asking

RULE = "Two locks must never be held at the same time, because `charge` takes both."
OTHER = "The gateway must never get one key twice, because it books twice."


@pytest.fixture(scope="module")
def worked_template(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = copy_project(project_template, tmp_path_factory.mktemp("worked") / "shop")
    project.commit(f"feat: lock\n\n{OTHER}", {"src/lock.py": "a\n"})
    project.commit(f"feat: lock more\n\n{RULE}", {"src/lock.py": "b\n"})
    project.record()
    project.commit(f"fix: lock again\n\n{RULE}", {"src/lock.py": "c\n"})
    return project


@pytest.fixture
def worked(worked_template: Project, tmp_path: Path) -> Project:
    """Return a project in which one sentence was written in two changes, and another in one."""
    return copy_project(worked_template, tmp_path / "worked")


def queue_of(project: Project, since: str | None = None, today: date = TODAY) -> Queue:
    since = since or find_last_start(project.workspace, None)
    return list_queue(
        project.workspace, RecordOptions(since), datetime.combine(today, time(12), UTC), {}
    )


def list_found(project: Project, since: str | None = None, today: date = TODAY) -> list[Question]:
    return list(queue_of(project, since, today).questions)


def say(
    project: Project, verb: Answer, one: Question, text: str = "", *, dry_run: bool = False
) -> AnsweredReview:
    answers = Answers({verb: [one]}, {one.key: text} if text else {})
    return answer(
        project.workspace, queue_of(project), answers, NOW, dry_run=dry_run, in_actions=False
    )


def changes(one: Question) -> int:
    return len(one.suggestion.changes) if one.suggestion else 0


def test_a_candidate_of_more_changes_comes_first(worked: Project) -> None:
    one, other = list_found(worked)
    assert (one.title, changes(one)) == (RULE.rstrip("."), 2)
    assert (other.title, changes(other)) == (OTHER.rstrip("."), 1)


def test_the_work_of_the_last_run_is_read_again_and_older_work_on_demand(worked: Project) -> None:
    worked.record()
    assert [changes(item) for item in list_found(worked)] == [1], "only the last run's"
    assert [changes(item) for item in list_found(worked, "9y")] == [2, 1]
    assert not list_found(worked, "1d", date(2030, 1, 1))


def test_an_accepted_one_is_folded_with_its_quote_and_who_accepted_it(worked: Project) -> None:
    (added,) = say(worked, "accept", list_found(worked)[0]).notes
    assert RULE not in [f"{item.title}." for item in list_found(worked)], "the inbox has it"
    worked.record()
    (entry,) = [each_entry for each_entry in worked.entries() if each_entry.id == added.entry.id]
    assert [line.partition(" ")[2] for line in entry.evidence] == [RULE, "by a person"]
    assert not any("claimed" in line for line in entry.evidence), "git confirms the quote"
    assert entry.importance == 0.5


def test_a_candidate_of_a_session_is_in_the_inbox_too(worked: Project) -> None:
    worked.write(".git/hooks/pre-commit", "")
    item = list_found(worked)[0]
    assert item.suggestion
    candidate = item.suggestion.candidate
    feedback = replace(
        candidate, quotes=(replace(candidate.quotes[0], origin="session:codex:s1#3"),)
    )
    (added,) = say(
        worked, "accept", replace(item, suggestion=replace(item.suggestion, candidate=feedback))
    ).notes
    assert (worked.path / added.path).is_file()
    assert not added.is_pending


def test_it_can_be_reworded_first(worked: Project) -> None:
    (added,) = say(worked, "accept", list_found(worked)[0], "Hold one lock\n\nNever two.").notes
    assert (added.entry.title, added.entry.body) == ("Hold one lock", "Never two.")


def test_a_declined_one_is_proposed_nowhere_again(worked: Project) -> None:
    one, other = list_found(worked)
    say(worked, "never", one, dry_run=True)
    assert not (worked.path / REJECTED_FILE).exists()
    for _ in range(2):
        say(worked, "never", one)
    lines = (worked.path / REJECTED_FILE).read_text("utf-8").splitlines()
    assert lines[1:] == [
        f"{one.key} {one.title}",
        f"answered:{TODAY}:{one.key}",
        f"asked:{TODAY}:{other.key}",
    ]
    worked.commit("Cut", {REJECTED_FILE: "\n".join(lines)})  # as an editor may leave it
    assert list_found(worked) == [other]
    say(worked, "never", other)
    assert list_found(worked) == []


@pytest.mark.parametrize(
    "text",
    [
        "Should we never hold two locks at the same time here?",
        "The lock was never taken before the file had been read.",
        "This must always be the first call of the function.",
    ],
)
def test_a_question_history_or_a_fragment_is_no_candidate(project: Project, text: str) -> None:
    project.commit(f"feat: lock\n\n{text}", {"src/lock.py": "a\n"})
    assert not list_found(project)


def rules(project: Project, count: int) -> None:
    """Write a number of sentences that may be learned, each in a change."""
    for number, name in enumerate(WORDS[:count]):
        text = (
            f"Never call `{name}_pay` before `{name}_lock`, because the {name} gateway books twice."
        )
        project.commit(f"feat: {name}\n\n{text}", {"src/lock.py": f"{number}\n"})


WORDS = ("red", "green", "blue", "amber", "violet", "ivory", "ochre", "olive")


def week_of(project: Project, today: date = TODAY) -> list[str]:
    return [
        each_question.title.split("`")[1]
        for each_question in queue_of(project, "9y", today).week.questions
    ]


def test_a_week_asks_five_and_answers_bring_no_more(project: Project) -> None:
    rules(project, 8)
    week = week_of(project)
    assert (len(week), queue_of(project, "9y").week.waiting_count) == (5, 3)
    queue = queue_of(project, "9y")
    answers = Answers({"accept": queue.week.questions[:1], "never": queue.week.questions[1:2]})
    answer(project.workspace, queue, answers, NOW, dry_run=False, in_actions=False)
    assert week_of(project) == week[2:], "what was answered is gone, and nothing takes its place"


def test_an_unanswered_question_is_asked_again_after_ninety_days(project: Project) -> None:
    rules(project, 8)
    first, queue = week_of(project), queue_of(project, "9y")
    project.commit(
        "Ask",
        {
            REJECTED_FILE: record_asked(
                project.workspace, queue.base, queue.week.questions, (), TODAY
            )
        },
    )
    assert week_of(project, TODAY + timedelta(days=1)) == first
    assert set(week_of(project, TODAY + timedelta(days=7))) == {
        f"{name}_pay" for name in WORDS
    } - set(first)
    assert len(week_of(project, TODAY + timedelta(days=89))) == 3
    assert len(week_of(project, TODAY + timedelta(days=90))) == 5
    assert len(list_found(project, "9y")) == 8, "each is a candidate all the while"


def test_questions_about_entries_are_ordered_by_urgency(project: Project) -> None:
    sha = project.commit("Write", {"src/pay.py": "one()\ntwo()\n"})[:12]
    entries = [
        make_entry(1, title="Pay once", importance=0.9, cites=(f"src/pay.py:1@{sha}",)),
        make_entry(2, title="Use tabs", body="Use tabs for indentation.", importance=0.6),
        make_entry(3, title="Use spaces", body="Do not use tabs for indentation.", importance=0.6),
    ]
    project.commit("Remember", {"MEMORY.md": "".join(map(format_entry, entries))})
    project.commit("Edit", {"src/pay.py": "other()\ntwo()\n"})
    questions_shown = queue_of(project, "9y").week.questions
    assert [(request.kind, request.title) for request in questions_shown] == [
        ("changed", "Pay once"),
        ("contradiction", "Use tabs"),
    ]
    say(project, "keep", questions_shown[1])
    assert [each_question.kind for each_question in queue_of(project, "9y").week.questions] == [
        "changed"
    ], "both hold: not asked for 90 days"
    say(project, "retire", questions_shown[0])
    assert not queue_of(project, "9y").week.questions


# -- rules that were counted in sessions


def agree(project: Project, title: str, learned: date) -> str:
    """Commit a repeated request that people agreed to as a rule, and return its id."""
    rule = replace(
        make_entry(7, title=title, type="directive"),
        engine="repetition",
        created_at=learned,
        last_reinforced=learned,
    )
    project.commit("Agree", {"institutional.md": f"{format_entry(rule)}\n"})
    return rule.id


def list_kept(project: Project) -> list[tuple[str, str]]:
    """Return kind and reason of the questions about entries."""
    return [(item.kind, item.why) for item in list_found(project, "1d") if item.located]


def test_a_rule_that_a_person_contradicted_is_asked_about(project: Project, tmp_path: Path) -> None:
    agree(project, "Run the linter before each commit", project.clock.now.date())
    keep_asking(project, tmp_path, "Don't run the linter before each commit.")
    day = (project.clock.now + timedelta(1)).date()
    reason = f'a person said on {day}: "Don\'t run the linter before each commit."'
    assert list_kept(project) == [("contradiction", reason)]


def test_a_rule_that_nobody_asked_for_in_a_year_is_asked_about(project: Project) -> None:
    agree(project, "Run the linter before each commit", TODAY - timedelta(days=366))
    assert list_kept(project) == [("unused", "nobody asked for it in a year")]


def test_a_rule_of_this_year_is_not_asked_about(project: Project) -> None:
    agree(project, "Run the linter before each commit", TODAY - timedelta(days=300))
    assert list_kept(project) == []


def test_a_rule_that_is_kept_holds_for_another_year(project: Project) -> None:
    agree(project, "Run the linter before each commit", TODAY - timedelta(days=366))
    (question,) = (item for item in list_found(project, "1d") if item.located)
    say(project, "keep", question)
    assert list_kept(project) == []
