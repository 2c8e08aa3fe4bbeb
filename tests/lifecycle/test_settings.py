"""Tests of settings: a later entry with another value closes an earlier entry for the same setting."""

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


def make_directive(number: int, title: str, scope: ScopeOf = PROJECT) -> Located:
    """Return an entry of the day with its number."""
    day = date(2026, 10, number)
    entry = create_entry(
        f"{number}000", title, "", day, type_="directive", domain="team", importance=0.6
    )
    return Located(entry, f"{scope.target}.md", 1, scope)


def plan_closed(*places: Located) -> dict[str, Entry]:
    """Return the entries that are closed, by id."""
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
def test_the_setting_and_value_of_an_entry_are_read(title: str, settings: set[SetValue]) -> None:
    assert find_set_values(make_directive(1, title).entry) == settings


def test_a_later_entry_that_states_a_change_supersedes_the_earlier() -> None:
    entries = plan_closed(make_directive(1, OLD), make_directive(2, NEW))
    assert entries["2000"].supersedes == ("1000",)
    assert entries["1000"].valid_until == date(2026, 10, 2)


def test_the_order_in_memory_does_not_matter() -> None:
    assert plan_closed(make_directive(2, NEW), make_directive(1, OLD)) == plan_closed(
        make_directive(1, OLD), make_directive(2, NEW)
    )


def test_a_second_run_changes_nothing() -> None:
    places = [make_directive(1, OLD), make_directive(2, NEW)]
    entries = plan_closed(*places)
    after = [replace(place, entry=entries[place.entry.id]) for place in places]
    assert plan_closed(*after) == {}


def test_the_quotes_of_an_entry_may_state_the_change() -> None:
    quoted = make_directive(2, "Start method names with 'b_'")
    quoted = replace(
        quoted, entry=replace(quoted.entry, evidence=("session:s going forward, use b_",))
    )
    assert says_change(quoted.entry)
    assert plan_closed(make_directive(1, OLD), quoted)["1000"].valid_until


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (
            make_directive(1, OLD),
            make_directive(2, "Start method names with 'b_'"),
        ),  # nobody says that it changes
        (make_directive(2, OLD), make_directive(1, NEW)),
        (
            make_directive(1, OLD),
            replace(make_directive(1, NEW), entry=replace(make_directive(1, NEW).entry, id="2000")),
        ),
    ],
)
def test_different_values_without_a_stated_change_close_nothing(
    older: Located, newer: Located
) -> None:
    entries = plan_closed(older, newer)
    assert not any(entry.valid_until or entry.supersedes for entry in entries.values())
    assert all(entry.relations for entry in entries.values())
    (contradiction,) = find_contradictions([older, newer])
    assert "against" in contradiction.reason


def test_an_entry_with_a_priority_is_not_closed() -> None:
    pinned = make_directive(1, OLD)
    pinned = replace(pinned, entry=replace(pinned.entry, priority="pin"))
    entries = plan_closed(pinned, make_directive(2, NEW))
    assert entries["1000"].valid_until is None
    assert entries["1000"].relations == ("contradicts 2000",)


def test_a_setting_of_a_directory_does_not_close_that_of_the_project() -> None:
    entries = plan_closed(make_directive(1, OLD), make_directive(2, NEW, ScopeOf("team", "web")))
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
def test_rules_on_other_subjects_stay_open(title: str) -> None:
    assert plan_closed(make_directive(1, OLD), make_directive(2, title)) == {}
