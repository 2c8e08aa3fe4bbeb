"""Tests of promotion: recurring entries move one scope up, once; personal and local entries stay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.promotion import (
    Promotion,
    is_personal,
    is_repository_independent,
    plan_norm_promotion,
    plan_promotion,
)
from memory_ci.records.entry import Located, ScopeName, ScopeOf
from memory_ci.records.plan import Change
from tests.make import examples, make_entry, make_id, make_located

TODAY = date(2026, 11, 21)
RULE = "Retry an upload only with an idempotency key"
FILES: dict[str, str] = {
    "project": "MEMORY.md",
    "institutional": "institutional.md",
    "global": "/elsewhere.md",
}


def path_of(scope: ScopeOf) -> str | None:
    if scope.name == "global":
        return None
    return FILES.get(scope.name) or (
        f".teaparty/jobs/{scope.where}/institutional.md"
        if scope.name == "session"
        else f"{scope.where}/MEMORY.md"
    )


def plan(located: Sequence[Located], names: Sequence[str] = ("shop",)) -> Promotion:
    return plan_promotion(located, TODAY, path_of, names)


def make_team_entry(number: int, where: str | None = None, **fields: Any) -> Located:
    where = where or f"src/part{number}"
    return make_located(number, f"{where}/MEMORY.md", "team", where, **{"title": RULE} | fields)


def make_recurring(scope: ScopeName = "project", **fields: Any) -> list[Located]:
    """Return equal entries of three places."""
    path = path_of(ScopeOf(scope)) or FILES[scope]
    return [
        make_located(n, path, scope, session=f"claude:{n}", **{"title": RULE} | fields)
        for n in (1, 2, 3)
    ]


def apply_moves(located: Sequence[Located], changes: Sequence[Change]) -> list[Located]:
    """Return the entries after removals and additions; fail if a removed entry is missing."""
    places = list(located)
    for change in changes:
        if change.kind == "remove":
            places.remove(
                next(p for p in places if p.path == change.path and p.entry == change.entry)
            )
        else:
            assert change.kind == "add"
            places.append(Located(change.entry, change.path, 1, ScopeOf("project")))
    return places


def test_an_entry_of_three_directories_moves_to_the_project() -> None:
    places = [
        make_team_entry(1, importance=0.5, reinforcement_count=1, created_at=date(2026, 3, 1)),
        make_team_entry(
            2,
            importance=0.9,
            reinforcement_count=2,
            created_at=date(2026, 2, 1),
            supersedes=(make_id(9),),
        ),
        make_team_entry(
            3, importance=0.5, reinforcement_count=4, last_reinforced=date(2026, 10, 1)
        ),
    ]
    changes, proposals = plan(places)
    assert not proposals
    *removed, added = changes
    assert sorted((c.kind, c.path, c.entry.id) for c in removed) == [
        ("remove", f"src/part{n}/MEMORY.md", make_id(n)) for n in (1, 2, 3)
    ]
    entry = added.entry
    assert (added.step, added.kind, added.path, entry.id) == (
        "promote",
        "add",
        "MEMORY.md",
        make_id(2),
    )
    assert (entry.promoted_from, entry.promoted_at) == ("team:src/part2", TODAY)
    assert (entry.reinforcement_count, entry.importance) == (7, 0.9)
    assert (entry.created_at, entry.last_reinforced) == (date(2026, 2, 1), date(2026, 10, 1))
    assert entry.supersedes == (make_id(1), make_id(3), make_id(9))


def test_an_entry_that_was_promoted_before_is_removed_from_the_lower_scope() -> None:
    """A run was killed between the addition and the removals, and a person committed its files."""
    places = [make_team_entry(1, importance=0.9), make_team_entry(2), make_team_entry(3)]
    added = plan(places).changes[-1].entry
    half_promoted = [*places, Located(added, "MEMORY.md", 1, ScopeOf("project"))]
    changes, _ = plan(half_promoted)
    assert {(change.kind, change.path) for change in changes} == {
        ("remove", f"src/part{number}/MEMORY.md") for number in (1, 2, 3)
    }
    assert plan(apply_moves(half_promoted, changes)).changes == ()


def test_two_occurrences_are_not_promoted() -> None:
    assert plan([make_team_entry(1), make_team_entry(2)]) == Promotion((), ())


@pytest.mark.parametrize(
    "fields",
    [
        {"session": "claude:1"},
        {"source": "pr:128 commit:aaaaaaaaaaaa"},
    ],
)
def test_a_session_counts_once_in_whatever_directories_it_wrote(fields: dict[str, str]) -> None:
    assert not plan([make_team_entry(n, **fields) for n in (1, 2, 3)]).changes
    assert plan(
        [*(make_team_entry(n, **fields) for n in (1, 2, 3)), make_team_entry(4), make_team_entry(5)]
    ).changes


def test_each_session_of_a_directory_counts() -> None:
    assert plan([make_team_entry(n, "src", session=f"claude:{n}") for n in (1, 2, 3)]).changes
    assert not plan([make_team_entry(n, "src") for n in (1, 2, 3)]).changes


@pytest.mark.parametrize(
    "fields",
    [
        {"source": "pr:1 commit:a", "occurrences": ("pr:2", "pr:3")},
        {"occurrences": ("pr:2", "pr:3")},
        {"supersedes": (make_id(2), make_id(3))},
    ],
)
def test_an_entry_with_three_occurrences_is_promoted(fields: dict[str, Any]) -> None:
    (_, added) = plan([make_team_entry(1, **fields)]).changes
    assert added.path == "MEMORY.md"
    assert not plan(
        [make_team_entry(1, **{name: value[:-1] for name, value in fields.items()})]
    ).changes


def test_less_similar_entries_are_not_promoted() -> None:
    alike = [make_team_entry(1), make_team_entry(2), make_team_entry(3, title=f"{RULE} always")]
    assert plan(alike).changes
    assert not plan(
        [
            make_team_entry(1),
            make_team_entry(2),
            make_team_entry(3, title="Retry an upload only with a fresh session token"),
        ]
    ).changes


def test_entries_that_share_eight_of_ten_words_are_promoted() -> None:
    words = "alpha beta gamma delta epsilon zeta theta kappa"
    assert plan(
        [
            make_team_entry(1, title=words),
            make_team_entry(2, title=f"{words} sigma omega"),
            make_team_entry(3, title=words),
        ]
    ).changes
    assert not plan(
        [
            make_team_entry(1, title=words),
            make_team_entry(2, title=f"{words} sigma omega psi"),
            make_team_entry(3, title=words),
        ]
    ).changes


def test_entries_with_different_numbers_are_not_promoted() -> None:
    assert not plan(
        [
            make_team_entry(
                n, title=f"Wait {n}0 seconds for every worker: {RULE}, whatever the proxy answers"
            )
            for n in (1, 2, 3)
        ]
    ).changes


def test_task_entries_of_a_job_move_to_its_session() -> None:
    places = [
        make_located(n, f"{where}/MEMORY.md", "team", where, title=RULE)
        for n in (1, 2, 3)
        for where in [f".teaparty/jobs/j7/tasks/t{n}/worktree"]
    ]
    added = plan(places).changes[-1]
    assert added.path == ".teaparty/jobs/j7/institutional.md"
    assert added.entry.promoted_from == "team:.teaparty/jobs/j7/tasks/t1/worktree"


def test_task_entries_of_different_jobs_are_not_promoted() -> None:
    places = [
        make_located(n, f"{where}/MEMORY.md", "team", where, title=RULE)
        for n in (1, 2, 3)
        for where in [f".teaparty/jobs/j{n}/tasks/t/worktree"]
    ]
    assert not plan(places).changes


def test_session_entries_move_to_the_project() -> None:
    places = [
        make_located(n, f".teaparty/jobs/j{n}/institutional.md", "session", f"j{n}", title=RULE)
        for n in (1, 2, 3)
    ]
    added = plan(places).changes[-1]
    assert (added.path, added.entry.promoted_from) == ("MEMORY.md", "session:j1")


def test_entries_that_the_wider_scope_contains_stay() -> None:
    assert not plan([*map(make_team_entry, (1, 2, 3)), make_located(7, title=RULE)]).changes
    assert not plan(
        [
            *map(make_team_entry, (1, 2, 3)),
            make_located(1, title="Another wording, under the same id"),
        ]
    ).changes


def test_entries_of_old_memory_are_not_changed() -> None:
    places = [
        make_located(n, f"projects/a/.sessions/{n}/m.md", "team", f"a/{n}", title=RULE)
        for n in (1, 2, 3)
    ]
    assert not plan(places).changes


@pytest.mark.parametrize(
    "fields",
    [
        {"adoption": "rejected"},
        {"status": "retired"},
        {"domain": "task", "phase": "design"},
        {"valid_until": date(2026, 5, 1)},
        {"relations": (f"contradicts {make_id(8)}",)},
        {"type": "directive", "title": "I prefer short pull requests with one commit"},
        {"title": "The reviewer prefers short pull requests with one commit"},
    ],
)
def test_ended_temporary_disputed_and_personal_entries_stay(fields: dict[str, Any]) -> None:
    assert plan([make_team_entry(n) for n in (1, 2, 3)]).changes
    assert not plan([make_team_entry(n, **fields) for n in (1, 2, 3)]).changes


def test_institutional_memory_stays() -> None:
    assert plan(make_recurring("institutional")) == Promotion((), ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I prefer small commits", True),
        ("We like early returns", True),
        ("Ada prefers tabs", True),
        ("The team really wants green builds", True),
        ("My preference is a single file", True),
        ("We'd rather squash", True),
        ("Prefer small commits", False),
        ("Always prefer early returns", False),
        ("Handlers like these need a lock", False),
        ("The queue wants a lock before it is read", False),
    ],
)
def test_a_preference_is_distinguished_from_a_rule(text: str, expected: bool) -> None:
    assert is_personal(make_entry(title=text)) == expected


def test_a_learning_that_holds_everywhere_is_proposed_for_global_memory() -> None:
    changes, (proposal,) = plan(make_recurring())
    assert not changes
    assert (proposal.entry.promoted_from, proposal.entry.id) == ("project", make_id(1))
    assert [place.entry.id for place in proposal.merged] == [make_id(1), make_id(2), make_id(3)]
    assert (
        plan([*make_recurring(), make_located(9, "/elsewhere.md", "global", title=RULE)]).proposals
        == ()
    )


@pytest.mark.parametrize(
    "text",
    [
        "Retry in src/api only with a key",
        "Call parseUser only once",
        "Set max_retries before the upload",
        "Read settings.toml before the upload",
        "Use client.post for the upload",
        "Call flush() after the upload",
        "Wait for 30 seconds after an upload",
        "See https://example.com before the upload",
        "The fix of #12 holds",
        "Run `make` before the upload",
        "Ask ada@example.com before the upload",
        "Never restart the Shop during an upload",
        "Never restart shop-worker during an upload",
        "Uploads of this repository need a key",
    ],
)
def test_an_entry_that_names_code_of_the_repository_is_not_proposed(text: str) -> None:
    assert not is_repository_independent(
        make_entry(title="Upload", body=text), ("shop", "shop-worker")
    )
    assert not plan(make_recurring(title=text), ("shop", "shop-worker")).proposals


def test_a_name_is_a_whole_word() -> None:
    assert is_repository_independent(
        make_entry(title="Run a workshop before the upload"), ("shop",)
    )


def test_without_a_file_for_the_wider_scope_nothing_moves() -> None:
    assert not plan_promotion([*map(make_team_entry, (1, 2, 3))], TODAY, lambda _: None, ()).changes


memories = st.lists(
    st.builds(
        lambda number, where, title, session, count: make_team_entry(
            number, where, title=title, session=session, reinforcement_count=count
        ),
        st.integers(1, 12),
        st.sampled_from(["a", "b", "c", "d"]),
        st.sampled_from([RULE, f"{RULE} always", "Lock the row before the balance is written"]),
        st.sampled_from([None, "s1", "s2", "s3"]),
        st.integers(0, 5),
    ),
    max_size=10,
    unique_by=lambda place: place.entry.id,
)


@examples(80)
@given(memories, st.randoms(use_true_random=False))
def test_promotion_is_idempotent_independent_of_order_and_loses_no_id(
    located: list[Located], random: Any
) -> None:
    changes = plan(located).changes
    assert plan(random.sample(located, len(located))).changes == changes
    after = apply_moves(located, changes)
    ids_after = {name for place in after for name in (place.entry.id, *place.entry.supersedes)}
    assert ids_after == {place.entry.id for place in located}
    assert sum(p.entry.reinforcement_count for p in after) == sum(
        p.entry.reinforcement_count for p in located
    )
    assert plan(after).changes == ()


FOLDERS = {f"pr:{number}": f"src/part{number % 4}" for number in range(1, 9)}


@pytest.mark.parametrize(
    ("fields", "moves"),
    [
        ({}, True),
        ({"occurrences": ("pr:2", "pr:5")}, False),
        ({"occurrences": ("pr:2", "pr:99")}, False),
        ({"type": "procedural"}, False),
        ({"status": "retired"}, False),
        ({"adoption": "rejected"}, False),
        ({"promoted_from": "project"}, False),
        ({"promoted_from": "team:src"}, True),
    ],
)
def test_a_directive_of_three_directories_becomes_a_norm_once(
    fields: dict[str, Any], moves: bool
) -> None:
    fields_of_rule = {
        "title": RULE,
        "type": "directive",
        "source": "pr:1 commit:3f2ab91aa5a1",
        "occurrences": ("pr:2", "pr:3"),
    }
    place = make_located(1, "MEMORY.md", "project", **fields_of_rule | fields)
    changes = plan_norm_promotion([place], TODAY, path_of, lambda: FOLDERS)
    assert [(change.kind, change.path) for change in changes] == (
        [("remove", "MEMORY.md"), ("add", "institutional.md")] if moves else []
    )
    if moves:
        assert (changes[1].entry.promoted_from, changes[1].entry.promoted_at) == ("project", TODAY)
        assert changes[1].why == "said in changes of 3 directories"
