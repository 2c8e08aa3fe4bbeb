"""Bisect finds the commit that lost an entry from an answer, and says what it did."""

from __future__ import annotations

import pytest

from memory_ci.commands.show.why import BisectQuery, BisectReport, bisect
from memory_ci.errors import UsageError
from memory_ci.records.entry import Entry
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import TODAY, Project

ZEBRA = make_entry(1, title="Zebra crossing")


def keep(project: Project, *entries: Entry) -> str:
    return project.commit("Keep", {"MEMORY.md": "\n".join(map(format_entry, entries))})


def other(number: int) -> Entry:
    return make_entry(number, title=f"Giraffes are tall, number {number}")


def hunt(project: Project, top: int = 3, **fields: str) -> BisectReport:
    return bisect(
        project.workspace, BisectQuery("zebra crossing", make_id(1)[:8], top, **fields), TODAY
    )


@pytest.fixture
def history(project: Project) -> Project:
    """The entry, and ten commits that add others, one with a commit between that is not of memory."""
    keep(project, ZEBRA)
    for number in range(2, 12):
        keep(project, ZEBRA, *map(other, range(2, number + 1)))
        project.commit("Work", {"src/client.py": str(number)})
    return project


OTHERS = tuple(map(other, range(2, 12)))


def test_what_is_still_found_is_not_lost(history: Project) -> None:
    assert hunt(history) == BisectReport(1, 1)


def test_the_commit_that_removed_the_entry_is_found_among_many_in_few_steps(
    history: Project,
) -> None:
    lost = keep(history, *OTHERS)
    for number in range(20, 30):
        keep(history, *OTHERS, other(number))
    report = hunt(history)
    assert report.loss is not None
    assert (report.loss.sha, report.loss.before, report.loss.after) == (lost, 1, None)
    assert report.loss.why == ("the entry was removed",)
    assert report.probed < 12, "of 23 commits"


def test_an_edit_and_a_retirement_are_named(history: Project) -> None:
    keep(history, make_entry(1, title="Okapi junction", body="Wait."), *OTHERS)
    edited = hunt(history).loss
    assert edited is not None
    assert edited.why == ("title was edited", "body was edited")
    history.git("reset", "-q", "--hard", "HEAD~1")
    keep(history, make_entry(1, title="Zebra crossing", status="retired"), *OTHERS)
    retired = hunt(history).loss
    assert retired is not None
    assert (retired.after, retired.why) == (None, ("the entry was retired",))


def test_those_that_outrank_it_are_named(history: Project) -> None:
    better = [make_entry(n, title=f"Zebra crossing {n}", importance=1.0) for n in range(50, 53)]
    lost = keep(history, ZEBRA, *OTHERS, *better)
    loss = hunt(history).loss
    assert loss is not None
    assert (loss.sha, loss.before, loss.after) == (lost, 1, 4)
    (why,) = loss.why
    assert why.startswith("outranked by ")
    assert {entry.id[:8] for entry in better} == set(why.removeprefix("outranked by ").split(", "))


def test_the_range_may_be_named(history: Project) -> None:
    good = history.sha()
    lost = keep(history, *OTHERS)
    keep(history, *OTHERS, other(30))
    report = hunt(history, good=good, bad="HEAD~1")
    assert report.loss is not None
    assert report.loss.sha == lost


def test_an_entry_that_no_commit_ever_answered_with_is_an_error(history: Project) -> None:
    with pytest.raises(UsageError) as raised:
        bisect(history.workspace, BisectQuery("quantum", make_id(1)), TODAY)
    assert raised.value.slug == "never-found"
    with pytest.raises(UsageError):
        bisect(history.workspace, BisectQuery("zebra", "ffffffff"), TODAY)
