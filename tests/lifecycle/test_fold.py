"""Tests of folding the inbox: notes move to the memory file of their scope."""

from __future__ import annotations

import pytest

from memory_ci.lifecycle.fold import is_covered, plan_fold
from memory_ci.records.entry import Located, ScopeOf
from tests.make import make_entry, make_id, make_located


def make_note(number: int, **fields: object) -> Located:
    """Return a note of the inbox."""
    path = f".memory/inbox/{make_id(number)}.md"
    return Located(make_entry(number, **fields), path, 1, ScopeOf("project"))


def test_a_fragment_moves_to_the_file_of_its_scope_and_loses_the_target() -> None:
    place = make_note(1, scope="team:src")
    changes, findings = plan_fold([place], [], {place.path: "src/MEMORY.md"})
    assert not findings
    assert [(c.kind, c.path, c.moved_from, c.entry.scope) for c in changes] == [
        ("move", "src/MEMORY.md", place.path, None)
    ]


def test_a_note_that_memory_contains_is_dropped_whatever_its_spacing() -> None:
    existing = make_located(1, title="Run the tests first", body="Always.")
    note = make_note(2, title="Run  the tests FIRST", body="always.")
    changes, _ = plan_fold([note], [existing], {note.path: "MEMORY.md"})
    assert [(c.kind, c.entry.id, c.moved_from) for c in changes] == [
        ("drop", make_id(1), note.path)
    ]


def test_two_equal_fragments_become_one_entry() -> None:
    first, two = make_note(1, title="Same", body="x"), make_note(2, title="Same", body="x")
    changes, _ = plan_fold([two, first], [], {first.path: "MEMORY.md", two.path: "MEMORY.md"})
    assert [(c.kind, c.moved_from) for c in changes] == [("move", first.path), ("drop", two.path)]


def fold_note(existing: Located, scope: ScopeOf) -> list[str]:
    """Return the kinds of changes for a note of a scope with the text of the existing entry."""
    path = make_note(2).path
    place = Located(make_entry(2, title=existing.entry.title), path, 1, scope)
    changes, _ = plan_fold([place], [existing], {path: "MEMORY.md"})
    return [change.kind for change in changes]


@pytest.mark.parametrize(
    ("existing_scope", "note_scope", "kind"),
    [
        (ScopeOf("session", "job-7"), ScopeOf("project"), "move"),
        (ScopeOf("session", "job-7"), ScopeOf("session", "job-8"), "move"),
        (ScopeOf("session", "job-7"), ScopeOf("session", "job-7"), "drop"),
        (ScopeOf("project"), ScopeOf("session", "job-7"), "drop"),
        (ScopeOf("team", "src"), ScopeOf("project"), "move"),
        (ScopeOf("team", "src"), ScopeOf("team", "src/api"), "drop"),
        (ScopeOf("team", "src"), ScopeOf("team", "srcs"), "move"),
    ],
)
def test_an_equal_entry_counts_only_if_it_covers_the_scope_of_the_note(
    existing_scope: ScopeOf, note_scope: ScopeOf, kind: str
) -> None:
    assert fold_note(
        make_located(1, scope=existing_scope.name, where=existing_scope.where), note_scope
    ) == [kind]


def test_a_scope_covers_the_directories_below_it_and_none_above() -> None:
    places = [ScopeOf("team", where) for where in ("src", "src/api", "src/api/v1")]
    assert [[is_covered(note_scope, scope) for note_scope in places] for scope in places] == [
        [True, True, True],
        [False, True, True],
        [False, False, True],
    ]


def test_a_retired_entry_only_keeps_out_the_note_with_its_own_id() -> None:
    existing = make_located(1, title="Run the tests first", status="retired")
    assert fold_note(existing, ScopeOf("project")) == ["move"]
    changes, _ = plan_fold(
        [note := make_note(1, title=existing.entry.title)], [existing], {note.path: "MEMORY.md"}
    )
    assert [change.kind for change in changes] == ["drop"]


def test_equal_notes_of_two_sessions_are_kept_for_both() -> None:
    notes = [
        Located(
            make_entry(number, title="Same"),
            f".memory/inbox/{number}.md",
            1,
            ScopeOf("session", f"job-{number}"),
        )
        for number in (1, 2)
    ]
    changes, _ = plan_fold(notes, [], {note.path: f"{note.scope.where}.md" for note in notes})
    assert [(c.kind, c.path) for c in changes] == [("move", "job-1.md"), ("move", "job-2.md")]


@pytest.mark.parametrize(
    "existing", [make_located(1, title="Other"), None], ids=["kept", "in the inbox"]
)
def test_a_note_with_the_id_of_a_different_entry_stays_and_is_reported(
    existing: Located | None,
) -> None:
    note = make_note(1, title="Words")
    first = (
        []
        if existing
        else [Located(make_entry(1, title="First"), ".memory/inbox/0.md", 1, ScopeOf("project"))]
    )
    changes, findings = plan_fold(
        [note, *first],
        [existing] if existing else [],
        dict.fromkeys((note.path, ".memory/inbox/0.md"), "MEMORY.md"),
    )
    assert note.path not in {change.moved_from for change in changes}
    assert [(finding.path, finding.code, finding.level) for finding in findings] == [
        (note.path, "taken-id", "notice")
    ]


@pytest.mark.parametrize(
    ("number", "title", "codes"), [(2, "Never", ["taken-id"]), (1, "Always", [])]
)
def test_a_strangers_note_does_not_block_the_note_of_another(
    number: int, title: str, codes: list[str]
) -> None:
    ours = Located(make_entry(2, title="Always"), ".memory/inbox/b.md", 1, ScopeOf("project"))
    theirs = Located(make_entry(number, title=title), ".memory/inbox/a.md", 1, ScopeOf("project"))
    targets = dict.fromkeys((ours.path, theirs.path), "MEMORY.md")
    changes, findings = plan_fold([theirs, ours], [], targets, {theirs.path})
    assert [(change.kind, change.moved_from) for change in changes if change.kind == "move"] == [
        ("move", ours.path)
    ]
    assert [(finding.path, finding.code) for finding in findings] == [
        (theirs.path, code) for code in codes
    ]


def test_a_fragment_with_another_body_is_not_a_duplicate() -> None:
    existing = make_located(1, title="Retry a POST with a key", body="Twice.")
    note = make_note(2, title="Retry a POST with a key", body="Three times.")
    changes, _ = plan_fold([note], [existing], {note.path: "MEMORY.md"})
    assert [c.kind for c in changes] == ["move"]


def test_a_fragment_of_a_scope_without_a_file_stays_with_a_finding() -> None:
    place = make_note(1, scope="global")
    changes, findings = plan_fold([place], [], {place.path: None})
    assert not changes
    assert [(finding.path, finding.code) for finding in findings] == [(place.path, "no-scope-file")]
