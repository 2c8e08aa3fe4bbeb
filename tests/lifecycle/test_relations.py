"""Tests of relations between entries: reading, and writing in one form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.relations import (
    KINDS,
    Relation,
    find_dangling,
    format_relation,
    parse_relation,
    parse_relations,
    with_relation,
)
from tests.make import make_entry, make_id, make_located

relations = st.builds(
    Relation, st.sampled_from(sorted(set(KINDS.values()))), st.integers(0, 99).map(make_id)
)


@given(relations)
def test_a_written_relation_is_read_back(relation: Relation) -> None:
    assert parse_relation(format_relation(relation)) == relation


def test_refutes_is_read_as_contradicts() -> None:
    assert parse_relation(" Refutes  7A41 ") == Relation("contradicts", "7a41")


@pytest.mark.parametrize(
    "line", ["", "similar 7a41", "supports", "supports 7a41 and more", "supportsx 7a41"]
)
def test_text_in_another_form_is_not_a_relation(line: str) -> None:
    assert parse_relation(line) is None


def test_relations_are_sorted_and_unique_and_unreadable_text_is_kept() -> None:
    entry = make_entry(relations=("similar to nothing", "supports b"))
    for relation in (
        Relation("supports", "a"),
        Relation("contradicts", "b"),
        Relation("supports", "b"),
    ):
        entry = with_relation(entry, relation)
    assert entry.relations == ("contradicts b", "similar to nothing", "supports a", "supports b")
    assert parse_relations(entry) == (
        Relation("contradicts", "b"),
        Relation("supports", "a"),
        Relation("supports", "b"),
    )


def test_adding_an_existing_relation_in_another_form_changes_nothing() -> None:
    entry = make_entry(relations=("supports z", "refutes B"))
    assert with_relation(entry, Relation("contradicts", "b")) is entry


@given(st.lists(relations, max_size=5))
def test_the_order_of_adding_does_not_matter(added: list[Relation]) -> None:
    forward = backward = make_entry()
    for relation in added:
        forward = with_relation(forward, relation)
    for relation in reversed(added):
        backward = with_relation(backward, relation)
    assert forward == backward


def test_a_relation_to_an_id_that_no_entry_has_is_a_warning_at_the_entry() -> None:
    places = [
        make_located(1, relations=(f"supports {make_id(9)}", f"contradicts {make_id(2)}")),
        make_located(2),
    ]
    (finding,) = find_dangling(places)
    assert (finding.path, finding.line, finding.code, finding.level) == (
        "MEMORY.md",
        1,
        "dangling-relation",
        "warning",
    )
    assert f"supports {make_id(9)}" in finding.message


def test_a_merged_entry_is_a_valid_target_and_can_be_superseded() -> None:
    places = [
        make_located(1, relations=(f"supports {make_id(9)}",)),
        make_located(2, supersedes=(make_id(9),)),
    ]
    assert list(find_dangling(places)) == []


def test_the_finding_for_a_shortened_id_contains_the_whole_id() -> None:
    (finding,) = find_dangling([make_located(1, relations=("supports 00000002",)), make_located(2)])
    assert make_id(2) in finding.hint
