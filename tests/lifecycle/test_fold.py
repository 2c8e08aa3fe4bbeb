"""Folding the inbox."""

from __future__ import annotations

from memory_ci.lifecycle.fold import plan_fold
from memory_ci.records.entry import Located, ScopeOf
from tests.make import make_entry, make_id, make_located


def fragment(number: int, **fields: object) -> Located:
    path = f".memory/inbox/{make_id(number)}.md"
    return Located(make_entry(number, **fields), path, 1, ScopeOf("project"))


def test_a_fragment_moves_to_the_file_of_its_scope_and_loses_the_target() -> None:
    place = fragment(1, scope="team:src")
    changes, findings = plan_fold([place], [], {place.path: "src/MEMORY.md"})
    assert not findings
    assert [(c.kind, c.path, c.moved_from, c.entry.scope) for c in changes] == [
        ("move", "src/MEMORY.md", place.path, None)
    ]


def test_what_is_kept_already_is_dropped_whatever_its_spacing() -> None:
    kept = make_located(1, title="Run the tests first", body="Always.")
    again = fragment(2, title="Run  the tests FIRST", body="always.")
    changes, _ = plan_fold([again], [kept], {again.path: "MEMORY.md"})
    assert [(c.kind, c.entry.id, c.moved_from) for c in changes] == [("drop", make_id(1), again.path)]


def test_two_equal_fragments_become_one_entry() -> None:
    one, two = fragment(1, title="Same", body="x"), fragment(2, title="Same", body="x")
    changes, _ = plan_fold([two, one], [], {one.path: "MEMORY.md", two.path: "MEMORY.md"})
    assert [(c.kind, c.moved_from) for c in changes] == [("move", one.path), ("drop", two.path)]


def test_a_fragment_that_says_something_else_is_not_taken_for_the_same() -> None:
    kept = make_located(1, title="Retry a POST with a key", body="Twice.")
    other = fragment(2, title="Retry a POST with a key", body="Three times.")
    changes, _ = plan_fold([other], [kept], {other.path: "MEMORY.md"})
    assert [c.kind for c in changes] == ["move"]


def test_a_scope_without_a_file_leaves_the_fragment_and_says_so() -> None:
    place = fragment(1, scope="global")
    changes, findings = plan_fold([place], [], {place.path: None})
    assert not changes
    assert [(finding.path, finding.code) for finding in findings] == [(place.path, "no-scope-file")]
