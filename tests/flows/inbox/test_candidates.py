"""Candidates: listed best first, accepted as notes with their quotes, declined for good."""

from __future__ import annotations

from datetime import date

import msgspec
import pytest

from memory_ci.flows.forgotten import REJECTED_FILE
from memory_ci.flows.inbox.candidates import accept, decline, list_candidates
from memory_ci.flows.record.run import RecordOptions
from memory_ci.records.candidate import Suggestion
from tests.flows.project import TODAY, Project

RULE = "Two locks must never be held at the same time, because `charge` takes both."
OTHER = "The gateway never answers twice for one key, so a client can retry."


@pytest.fixture
def worked(project: Project) -> Project:
    """A project in which one sentence was written in two changes, and another in one."""
    project.commit(f"feat: lock\n\n{OTHER}", {"src/lock.py": "a\n"})
    project.commit(f"feat: lock more\n\n{RULE}", {"src/lock.py": "b\n"})
    project.record()
    project.commit(f"fix: lock again\n\n{RULE}", {"src/lock.py": "c\n"})
    return project


def found(project: Project, since: str | None = None, today: date = TODAY) -> list[Suggestion]:
    return list(list_candidates(project.workspace, RecordOptions(since), today, {}).found)


def test_what_was_said_in_more_changes_comes_first(worked: Project) -> None:
    one, other = found(worked)
    assert (one.candidate.title, len(one.changes)) == (RULE.rstrip("."), 2)
    assert (other.candidate.title, len(other.changes)) == (OTHER.rstrip("."), 1)


def test_the_work_of_the_last_run_is_read_again_and_older_work_on_demand(worked: Project) -> None:
    worked.record()
    assert [len(one.changes) for one in found(worked)] == [1], "only the last run's"
    assert [len(one.changes) for one in found(worked, "9y")] == [2, 1]
    assert not found(worked, "1d", date(2030, 1, 1))


def test_an_accepted_one_is_folded_with_its_quote_and_who_accepted_it(worked: Project) -> None:
    added = accept(worked.workspace, found(worked)[0], TODAY)
    assert RULE not in [f"{one.candidate.title}." for one in found(worked)], "the inbox has it"
    worked.git("add", "-A")
    worked.commit("Accept it", {})
    worked.record()
    (entry,) = [one for one in worked.entries() if one.id == added.entry.id]
    assert [line.partition(" ")[2] for line in entry.evidence] == [RULE, "by a person"]
    assert not any("claimed" in line for line in entry.evidence), "git confirms the quote"
    assert entry.importance == 0.5


def test_one_that_was_said_in_a_session_lies_in_the_inbox_too(worked: Project) -> None:
    worked.write(".git/hooks/pre-commit", "")
    one = found(worked)[0]
    said = msgspec.structs.replace(one.candidate.quotes[0], origin="session:codex:s1#3")
    heard = msgspec.structs.replace(one, candidate=msgspec.structs.replace(one.candidate, quotes=(said,)))
    added = accept(worked.workspace, heard, TODAY)
    assert (worked.path / added.path).is_file()
    assert not added.is_pending


def test_it_can_be_reworded_first(worked: Project) -> None:
    added = accept(worked.workspace, found(worked)[0], TODAY, "Hold one lock\n\nNever two.")
    assert (added.entry.title, added.entry.body) == ("Hold one lock", "Never two.")


def test_a_declined_one_is_proposed_nowhere_again(worked: Project) -> None:
    one, other = found(worked)
    decline(worked.workspace, [one], dry_run=True)
    assert not (worked.path / REJECTED_FILE).exists()
    for _ in range(2):
        decline(worked.workspace, [one])
    lines = (worked.path / REJECTED_FILE).read_text("utf-8").splitlines()
    assert lines[1:] == [f"{one.key} {one.candidate.title}"]
    (worked.path / REJECTED_FILE).write_text("\n".join(lines), "utf-8")  # as an editor may leave it
    assert found(worked) == [other]
    decline(worked.workspace, [other])
    assert found(worked) == []


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
    assert not found(project)
