"""Tests of habits, which are kinds of files that a history changes together."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import chain

import pytest

from memory_ci.checks.habits import Habit, MergedFiles, find_habits, list_kinds

TODAY = date(2026, 11, 1)


def repeat_change(
    count: int, *paths: str, since: int = 350, subject: str = "Add a page"
) -> list[MergedFiles]:
    """Return changes that touch the same files, evenly spread over the days until today."""
    step = since / count
    days = [TODAY - timedelta(days=int(number * step)) for number in range(count)]
    return [MergedFiles(day, paths, subject) for day in days]


def forget_once(first: str, second: str, count: int) -> list[MergedFiles]:
    """Return changes of the first file; one old change lacks the second file."""
    alone = MergedFiles(TODAY - timedelta(days=200), (first,), "Add a page")
    return [*repeat_change(count - 1, first, second), alone]


OTHERS = repeat_change(60, "src/app.py")


def list_habits(*changes: list[MergedFiles]) -> list[tuple[str, str]]:
    """Return the habits of changes as pairs of globs."""
    return [habit[:2] for habit in find_habits(chain(OTHERS, *changes), TODAY)]


def test_a_file_that_changes_with_another_is_a_habit_with_its_counts() -> None:
    alone = MergedFiles(TODAY - timedelta(days=200), ("package.json",))
    changes = [*OTHERS, *repeat_change(24, "package.json", "yarn.lock"), alone]
    (habit,) = find_habits(changes, TODAY)
    assert habit == Habit("package.json", "yarn.lock", 25, 24, recent=7, recently_followed=7)


@pytest.mark.parametrize("count", [19, 20])
def test_a_habit_needs_twenty_changes(count: int) -> None:
    assert bool(list_habits(forget_once("package.json", "yarn.lock", count))) == (count == 20)


def test_a_habit_that_was_never_broken_needs_no_check() -> None:
    assert not list_habits(repeat_change(40, "package.json", "yarn.lock"))


def test_a_habit_may_be_broken_once_in_ten_changes() -> None:
    habit = ("a.json", "b.lock")
    assert habit in list_habits(
        repeat_change(27, *habit), repeat_change(3, "a.json", since=330)[1:]
    )
    assert habit not in list_habits(
        repeat_change(27, *habit), repeat_change(5, "a.json", since=330)
    )


def test_an_abandoned_habit_is_not_returned() -> None:
    old = [
        change for change in repeat_change(40, "a.json", "b.yml") if (TODAY - change.day).days > 91
    ]
    assert not list_habits(old, repeat_change(9, "a.json", since=80))


def test_an_old_habit_is_not_returned() -> None:
    assert not list_habits([MergedFiles(TODAY - timedelta(days=400), ("a.json", "b.yml"))] * 40)


def test_a_file_that_every_change_touches_is_ignored() -> None:
    assert not list_habits(
        repeat_change(40, "docs/a.md", "CHANGELOG.md"), repeat_change(60, "app.ini", "CHANGELOG.md")
    )


def test_a_lock_file_is_not_the_cause_of_a_habit() -> None:
    changes = list_habits(
        repeat_change(40, "package.json", "package-lock.json"), repeat_change(9, "package.json")
    )
    assert changes == []


@pytest.mark.parametrize(
    "subject", ["Release 1.2", "chore: release", "style: format all", "Bump x"]
)
def test_routine_changes_are_ignored(subject: str) -> None:
    assert not list_habits(repeat_change(40, "a.json", "b.yml", subject=subject))


def test_large_changes_are_ignored() -> None:
    files = [f"pages/{number}.txt" for number in range(40)]
    assert not list_habits(repeat_change(40, "a.json", "b.yml", *files))


def test_of_two_habits_of_the_same_files_the_stronger_is_returned() -> None:
    changes = forget_once("db/models.yml", "db/schema.json", 30)
    assert list_habits(changes) == [("models.yml", "schema.json")]


def test_at_most_three_are_returned() -> None:
    pairs = [forget_once(f"{name}.json", f"{name}.yml", 20) for name in "abcde"]
    assert len(list_habits(*pairs)) == 3


def test_a_single_source_file_is_not_a_kind_of_file() -> None:
    assert list_kinds("src/app.py") == ["*.py", "src/**"]


@pytest.mark.parametrize("path", ["a*b.json", "a[1].json", "!a.json", "a b.json", "#a.json"])
def test_a_file_name_with_glob_signs_is_ignored(path: str) -> None:
    assert list_kinds(path) == []


@pytest.mark.parametrize("path", ["caf\udce9/menu", "docs\x1b/menu", "docs\u202e/menu"])
def test_an_unprintable_path_is_ignored(path: str) -> None:
    assert list_kinds(path) == []
