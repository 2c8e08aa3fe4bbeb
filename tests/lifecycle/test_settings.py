"""An entry that sets something to one value is closed by a later one that changes it."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from memory_ci.lifecycle.consolidation import find_contradictions, plan_consolidation
from memory_ci.lifecycle.settings import SetValue, find_set_values, says_change
from memory_ci.records.entry import PROJECT, Entry, Located, ScopeOf, create_entry

TODAY = date(2026, 11, 1)
OLD = "Always start method names with 'a_'"
NEW = "From now on, start method names with 'b_'"


def make(number: int, title: str, scope: ScopeOf = PROJECT) -> Located:
    """An entry of the day with its number."""
    day = date(2026, 10, number)
    entry = create_entry(
        f"{number}000", title, "", day, type_="directive", domain="team", importance=0.6
    )
    return Located(entry, f"{scope.target}.md", 1, scope)


def plan(*places: Located) -> dict[str, Entry]:
    return {change.entry.id: change.entry for change in plan_consolidation(places, TODAY)}


@pytest.mark.parametrize(
    ("title", "settings"),
    [
        (OLD, {SetValue(("method", "start"), "a_")}),
        ("Use Jira as our main tool for tickets", {SetValue(("role", "tool"), "jira")}),
        ("Never start method names with 'a_'", set()),
        ("Never use Jira as the tool", set()),
        ("Don't use Jira as our ticket tracker", set()),
        ("We shouldnt, for now, use Jira as our ticket tracker", set()),
        ("Don't forget to use Jira as our tracker", {SetValue(("role", "tracker"), "jira")}),
        ("Use the cache as it is", set()),
        ("Method names contain 'ab'", set()),
    ],
)
def test_what_an_entry_sets(title: str, settings: set[SetValue]) -> None:
    assert find_set_values(make(1, title).entry) == settings


def test_a_later_entry_that_says_a_change_supersedes_the_earlier() -> None:
    entries = plan(make(1, OLD), make(2, NEW))
    assert entries["2000"].supersedes == ("1000",)
    assert entries["1000"].valid_until == date(2026, 10, 2)


def test_the_order_in_memory_does_not_count() -> None:
    assert plan(make(2, NEW), make(1, OLD)) == plan(make(1, OLD), make(2, NEW))


def test_a_second_run_changes_nothing() -> None:
    places = [make(1, OLD), make(2, NEW)]
    entries = plan(*places)
    after = [replace(place, entry=entries[place.entry.id]) for place in places]
    assert plan(*after) == {}


def test_the_words_that_prove_an_entry_may_say_the_change() -> None:
    quoted = make(2, "Start method names with 'b_'")
    quoted = replace(
        quoted, entry=replace(quoted.entry, evidence=("session:s going forward, use b_",))
    )
    assert says_change(quoted.entry)
    assert plan(make(1, OLD), quoted)["1000"].valid_until


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (make(1, OLD), make(2, "Start method names with 'b_'")),  # nobody says that it changes
        (make(2, OLD), make(1, NEW)),
        (make(1, OLD), replace(make(1, NEW), entry=replace(make(1, NEW).entry, id="2000"))),
    ],
)
def test_what_is_not_said_to_change_is_for_a_person(older: Located, newer: Located) -> None:
    entries = plan(older, newer)
    assert not any(entry.valid_until or entry.supersedes for entry in entries.values())
    assert all(entry.relations for entry in entries.values())
    (contradiction,) = find_contradictions([older, newer])
    assert "against" in contradiction.reason


def test_an_entry_with_a_priority_is_not_closed() -> None:
    pinned = make(1, OLD)
    pinned = replace(pinned, entry=replace(pinned.entry, priority="pin"))
    entries = plan(pinned, make(2, NEW))
    assert entries["1000"].valid_until is None
    assert entries["1000"].relations == ("contradicts 2000",)


def test_a_part_of_the_repository_may_have_names_of_its_own() -> None:
    entries = plan(make(1, OLD), make(2, NEW, ScopeOf("team", "web")))
    assert all(entry.valid_until is None for entry in entries.values())


@pytest.mark.parametrize(
    "title",
    [
        "From now on, start function names with 'b_'",
        "From now on, method names contain 'b_'",
        "From now on, end method names with '_b'",
        "From now on, start method names with 'a_'",
    ],
)
def test_other_rules_can_hold_beside_it(title: str) -> None:
    assert plan(make(1, OLD), make(2, title)) == {}
