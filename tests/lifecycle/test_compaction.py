"""Compaction: planned as values, done to real file texts, and planned again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.compaction import list_different_copies, plan_compaction
from memory_ci.lifecycle.prominence import effective_importance
from memory_ci.records.config import ScopePatterns
from memory_ci.records.entry import Entry, Located
from memory_ci.records.plan import Change
from memory_ci.store.edits import apply_changes, format_entry
from memory_ci.store.memory_files import load_file
from tests.make import make_entry, make_id, make_located

WORDS = "retry charge client gateway cache index branch merge token parser worker queue".split()
BODY = " ".join(WORDS)
ALIKE = BODY.replace("queue", "lock")
UNLIKE = "the schema of a page is built by another tool altogether"


def files_of(*entries: Entry, path: str = "MEMORY.md") -> dict[str, bytes]:
    return {
        path: ("# Memory\n\nIntroduction.\n\n" + "\n".join(map(format_entry, entries))).encode()
    }


def read(files: Mapping[str, bytes]) -> tuple[Located, ...]:
    return tuple(
        place
        for path, data in files.items()
        for place in load_file(path, data, ScopePatterns()).entries
    )


def done(files: Mapping[str, bytes], changes: Sequence[Change]) -> dict[str, bytes]:
    return {
        **files,
        **{path: data for path, data in apply_changes(files, changes).items() if data is not None},
    }


def compacted(*entries: Entry) -> tuple[Entry, ...]:
    """What is left of the entries in one file, in the order of the file."""
    files = files_of(*entries)
    return tuple(place.entry for place in read(done(files, plan_compaction(read(files)))))


def test_nothing_to_compact_is_no_change() -> None:
    assert plan_compaction([]) == ()
    assert (
        plan_compaction([make_located(1, body=BODY), make_located(2, title="Other", body=UNLIKE)])
        == ()
    )


def pair(**fields: Any) -> tuple[Entry, Entry]:
    """Two entries that say the same; `fields` of the second differ."""
    return make_entry(1, title="Same", body=BODY), make_entry(
        2, title="Same", **{"body": ALIKE} | fields
    )


def test_near_duplicates_become_the_most_important_one_with_what_both_say() -> None:
    one = make_entry(
        1,
        title="Same",
        body=BODY,
        importance=0.4,
        reinforcement_count=2,
        last_reinforced=date(2026, 9, 9),
        created_at=date(2026, 3, 1),
        priority="high",
        evidence=("commit:a x",),
        supersedes=(make_id(8),),
        relations=(f"supports {make_id(2)}", f"supports {make_id(7)}"),
    )
    other = make_entry(
        2,
        title="Same",
        body=ALIKE,
        importance=0.9,
        reinforcement_count=3,
        last_reinforced=date(2026, 9, 1),
        created_at=date(2026, 4, 1),
        occurred_at=date(2026, 2, 1),
        evidence=("commit:b y", "commit:a x"),
        cites=("src/a.py@1234567",),
        source="pr:2",
    )
    assert compacted(one, other) == (
        make_entry(
            2,
            title="Same",
            body=ALIKE,
            importance=0.9,
            reinforcement_count=5,
            last_reinforced=date(2026, 9, 9),
            created_at=date(2026, 3, 1),
            occurred_at=date(2026, 2, 1),
            priority="high",
            evidence=("commit:b y", "commit:a x"),
            occurrences=(make_id(1), make_id(8)),
            cites=("src/a.py@1234567",),
            source="pr:2",
            supersedes=(make_id(1), make_id(8)),
            relations=(f"supports {make_id(7)}",),
        ),
    )


def test_of_equally_important_ones_the_longest_stays_then_the_first_id() -> None:
    longer = make_entry(3, title="Same", body=f"{BODY} {BODY}")
    assert [entry.id for entry in compacted(*pair(), longer)] == [make_id(3)]
    assert [entry.id for entry in compacted(*pair(body=BODY))] == [make_id(1)]


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "directive"},
        {"adoption": "rejected"},
        {"valid_until": date(2026, 12, 1)},
        {"relations": (f"contradicts {make_id(1)}",)},
        {"relations": (f"refutes {make_id(1)}",)},
        {"extra": (("owner", " ada"),)},
        {"body": ALIKE.replace("retry", "never retry")},
        {"body": f"{BODY} 30"},
        {"body": UNLIKE},
    ],
    ids=lambda fields: " ".join(fields),
)
def test_entries_that_must_not_be_one_stay_two(fields: dict[str, Any]) -> None:
    assert compacted(*pair()) != pair(), "without the difference they are merged"
    assert compacted(*pair(**fields)) == pair(**fields)


def test_a_contradiction_holds_against_what_was_merged_before() -> None:
    one, other = pair(relations=(f"contradicts {make_id(9)}",))
    successor = make_entry(1, title="Same", body=one.body, supersedes=(make_id(9),))
    assert compacted(successor, other) == (successor, other)


def test_a_contradiction_of_itself_means_nothing() -> None:
    successor = make_entry(1, title="Same", body=BODY, supersedes=(make_id(2),))
    assert [
        entry.id for entry in compacted(successor, *pair(relations=(f"refutes {make_id(2)}",))[1:])
    ] == [make_id(1)]


@pytest.mark.parametrize(("speaker", "opponent"), [(2, 3), (3, 2)])
def test_two_that_contradict_each_other_do_not_meet_in_a_third(speaker: int, opponent: int) -> None:
    said = {speaker: (f"contradicts {make_id(opponent)}",)}
    entries = [make_entry(n, title="Same", body=BODY, relations=said.get(n, ())) for n in (1, 2, 3)]
    left = compacted(*entries)
    assert [(entry.id, entry.supersedes) for entry in left] == [
        (make_id(1), (make_id(2),)),
        (make_id(3), ()),
    ]


def test_entries_of_two_files_are_never_merged() -> None:
    one, other = pair()
    places = read(files_of(one) | files_of(other, path="src/MEMORY.md"))
    assert plan_compaction(places) == ()


def test_a_chain_of_likenesses_does_not_merge_its_ends() -> None:
    """Each is like the next, the first and the last are not: only what is like the survivor itself goes."""
    first = make_entry(1, title="Same", body=" ".join(WORDS), importance=0.9)
    middle = make_entry(2, title="Same", body=" ".join([*WORDS[1:], "lock"]))
    last = make_entry(3, title="Same", body=" ".join([*WORDS[2:], "lock", "page"]))
    assert [entry.id for entry in compacted(middle, last)] == [make_id(2)]
    assert [entry.id for entry in compacted(first, middle, last)] == [make_id(1), make_id(3)]


def test_a_retired_entry_goes_and_is_merged_into_nothing() -> None:
    one, other = pair(status="retired", importance=1.0)
    assert compacted(one, other) == (one,)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_tombstone_takes_an_older_active_copy_with_it(order: tuple[int, ...]) -> None:
    copies = make_entry(1), make_entry(1, status="retired", last_reinforced=date(2026, 1, 1))
    assert compacted(copies[order[0]], copies[order[1]]) == ()
    files = files_of(copies[order[0]]) | files_of(copies[order[1]], path="src/MEMORY.md")
    assert read(done(files, plan_compaction(read(files)))) == ()


def test_one_id_in_one_file_becomes_one_with_the_highest_count_and_the_better_text() -> None:
    one = make_entry(
        1, body=BODY, importance=0.9, reinforcement_count=2, source="pr:1", domain="team"
    )
    other = make_entry(1, body=ALIKE, importance=0.5, reinforcement_count=5, session="a:1")
    expected = make_entry(
        1,
        body=BODY,
        importance=0.9,
        reinforcement_count=5,
        source="pr:1",
        session="a:1",
        domain="team",
    )
    assert compacted(one, other) == compacted(other, one) == (expected,)


@pytest.mark.parametrize(
    "fields", [{"body": UNLIKE}, {"body": f"{BODY} 30"}, {"extra": (("owner", " ada"),)}]
)
@pytest.mark.parametrize("status", ["active", "retired"])
@pytest.mark.parametrize("path", ["MEMORY.md", "src/MEMORY.md"])
def test_copies_of_one_id_that_say_different_things_all_stay(
    path: str, status: Any, fields: Any
) -> None:
    one, other = make_entry(1, body=BODY), make_entry(1, **{"body": BODY} | fields, status=status)
    like = make_entry(2, body=BODY, importance=0.1)
    same_file = (
        files_of(one, other, like)
        if path == "MEMORY.md"
        else files_of(one, like) | files_of(other, path=path)
    )
    assert plan_compaction(read(same_file)) == ()


def test_a_copy_that_history_replaced_gives_way_however_important_it_is() -> None:
    old, new = make_entry(1, body=BODY, importance=0.9), make_entry(1, body=UNLIKE, importance=0.5)
    places = read(files_of(old) | files_of(new, path="src/MEMORY.md"))
    left = done(
        files_of(old) | files_of(new, path="src/MEMORY.md"), plan_compaction(places, places[:1])
    )
    assert [(place.path, place.entry.body) for place in read(left)] == [("MEMORY.md", UNLIKE)]
    assert plan_compaction(places, places) == (), (
        "each replaced the other: a person must say which it is"
    )


def test_of_one_id_in_two_files_the_wider_place_stays() -> None:
    files = files_of(make_entry(1, importance=0.9), path="src/MEMORY.md") | files_of(
        make_entry(1, importance=0.5)
    )
    changes = plan_compaction(read(files))
    assert [(change.kind, change.path, change.why) for change in changes] == [
        ("update", "MEMORY.md", "one of 2 copies"),
        ("remove", "src/MEMORY.md", "is already in MEMORY.md"),
    ]
    assert [(place.path, place.entry.importance) for place in read(done(files, changes))] == [
        ("MEMORY.md", 0.9)
    ]


def test_of_one_id_in_two_files_of_one_width_the_first_stays() -> None:
    files = files_of(make_entry(1), path="b/a/MEMORY.md") | files_of(
        make_entry(1), path="a/z/MEMORY.md"
    )
    assert [place.path for place in read(done(files, plan_compaction(read(files))))] == [
        "a/z/MEMORY.md"
    ]


def test_a_copy_that_ended_ends_the_others() -> None:
    (left,) = compacted(make_entry(1), make_entry(1, valid_until=date(2026, 8, 1)))
    assert left.valid_until == date(2026, 8, 1)


def test_a_rejected_copy_is_not_served_as_advice_again() -> None:
    rejected = make_entry(1, adoption="rejected", instead="Use the queue.", importance=0.1)
    (left,) = compacted(make_entry(1, importance=0.9), rejected)
    assert (left.adoption, left.instead) == ("rejected", "Use the queue.")


def test_a_merged_entry_is_retired_by_a_stage_only_where_all_of_it_would_be() -> None:
    (same,) = compacted(*(make_entry(n, title="Same", body=BODY, phase="planning") for n in (1, 2)))
    (other,) = compacted(
        make_entry(1, title="Same", body=BODY, phase="planning"), *pair(domain="team")[1:]
    )
    assert (same.domain, same.phase, other.domain, other.phase) == (
        "task",
        "planning",
        "team",
        None,
    )


def test_the_survivor_stays_where_it_stood_and_prose_keeps_its_bytes() -> None:
    entries = (
        make_entry(5, title="First", body=UNLIKE),
        *pair(importance=0.9),
        make_entry(4, title="Last"),
    )
    files = files_of(*entries)
    after = done(files, plan_compaction(read(files)))
    assert [place.entry.id for place in read(after)] == [make_id(5), make_id(2), make_id(4)]
    assert after["MEMORY.md"].startswith(b"# Memory\n\nIntroduction.\n")


def test_the_plan_says_what_becomes_of_each() -> None:
    one, other = pair()
    retired = make_entry(3, title="Gone", status="retired")
    changes = plan_compaction(read(files_of(one, other, retired)))
    assert {change.step for change in changes} == {"compact"}
    assert [(change.kind, change.entry.id, change.why) for change in changes] == [
        ("update", make_id(1), "merged with 00000002"),
        ("remove", make_id(3), "retired"),
        ("remove", make_id(2), "part of 00000001"),
    ]


# -- for any memory

IDS = st.integers(1, 7)
DAYS = st.sampled_from([date(2026, 1, 1), date(2026, 5, 5), date(2026, 9, 1)])


def some(*values: object) -> st.SearchStrategy[object]:
    """Mostly None, now and then one of the values."""
    return st.sampled_from([None, None, None, *values])


def texts(*heads: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(
        st.builds(lambda head, n: f"{head}{make_id(n)}", st.sampled_from(heads), IDS), max_size=2
    ).map(tuple)


def bodies() -> st.SearchStrategy[str]:
    changed = st.builds(
        lambda place, word: " ".join([*WORDS[:place], word, *WORDS[place + 1 :]]),
        IDS,
        st.just("lock"),
    )
    return st.sampled_from([BODY, ALIKE, UNLIKE, ""]) | changed


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    return make_entry(
        draw(IDS),
        title="Same",
        body=draw(bodies()),
        type=draw(st.sampled_from(["procedural", "procedural", "directive"])),
        domain=draw(st.sampled_from(["task", "team"])),
        importance=draw(st.sampled_from([0.1, 0.5, 0.9])),
        reinforcement_count=draw(st.integers(0, 3)),
        last_reinforced=draw(DAYS),
        status=draw(
            st.sampled_from(["active", "active", "active", "active", "retired", "compacted"])
        ),
        created_at=draw(some(date(2026, 1, 2), date(2026, 3, 4))),
        phase=draw(some("planning", "review")),
        source=draw(some("pr:1", "pr:2")),
        priority=draw(some("high", "pin", "normal")),
        valid_until=draw(some(date(2027, 1, 1))),
        supersedes=draw(texts("")),
        evidence=draw(texts("commit:")),
        relations=draw(texts("supports ", "contradicts ", "refutes ")),
        adoption=draw(some("rejected")),
        instead=draw(some("The queue.")),
    )


memories = st.builds(
    lambda root, team: files_of(*root) | files_of(*team, path="src/MEMORY.md"),
    st.lists(entries(), max_size=7),
    st.lists(entries(), max_size=4),
)


@given(memories)
def test_done_once_there_is_nothing_left_to_do(files: dict[str, bytes]) -> None:
    after = done(files, plan_compaction(read(files)))
    assert plan_compaction(read(after)) == ()


@given(memories, st.randoms(use_true_random=False))
def test_the_order_in_which_entries_are_read_changes_nothing(
    files: dict[str, bytes], chance: Any
) -> None:
    places = list(read(files))
    plan = plan_compaction(places)
    chance.shuffle(places)
    assert plan_compaction(places) == plan


def test_the_order_in_which_entries_stand_changes_nothing_but_their_order() -> None:
    memory = (
        *pair(importance=0.5),
        make_entry(3, title="Same", body=BODY + " lock"),
        make_entry(4, title="Other"),
    )
    results = {frozenset(compacted(*order)) for order in permutations(memory)}
    assert len(results) == 1


@given(memories)
def test_no_id_is_lost_only_what_differs_stands_twice_and_none_is_out_of_its_order(
    files: dict[str, bytes],
) -> None:
    before = read(files)
    after = read(done(files, plan_compaction(before)))
    ids = [place.entry.id for place in after]
    retired = {place.entry.id for place in before if place.entry.status == "retired"}
    found = {*ids, *(old for place in after for old in place.entry.supersedes)}
    unlike = {copies[0].entry.id for copies in list_different_copies(before)}
    assert {place.entry.id for place in before} - found <= retired
    assert all(ids.count(entry_id) == 1 for entry_id in ids if entry_id not in unlike)
    assert retired.isdisjoint({*ids} - unlike)
    assert [p.entry for p in before if p.entry.id in unlike] == [
        p.entry for p in after if p.entry.id in unlike
    ]
    standing = list(dict.fromkeys((place.path, place.entry.id) for place in before))
    left = list(dict.fromkeys((place.path, place.entry.id) for place in after))
    assert left == sorted(left, key=standing.index)


@given(memories)
def test_what_is_planned_is_what_the_files_hold(files: dict[str, bytes]) -> None:
    changes = plan_compaction(read(files))
    after = {place.entry.id: place.entry for place in read(done(files, changes))}
    assert [after[change.entry.id] for change in changes if change.kind == "update"] == [
        change.entry for change in changes if change.kind == "update"
    ]


@pytest.mark.parametrize(
    "evidence", [(), ("claimed:commit:3f2ab91c0d12 words",), ("revert:3f2ab91c0d12 reverted",)]
)
def test_words_without_proof_do_not_get_the_evidence_of_others(evidence: tuple[str, ...]) -> None:
    proved = make_located(
        1,
        title="Run the whole test suite before each push",
        evidence=("commit:3f2ab91c0d12 words",),
    )
    loud = make_located(
        2, title="Run the whole test suite before each push!", importance=1.0, evidence=evidence
    )
    (kept,) = [
        change.entry for change in plan_compaction([loud, proved]) if change.kind == "update"
    ]
    assert (kept.id, kept.title) == (proved.entry.id, proved.entry.title)


def test_one_rule_said_in_more_words_is_one_entry_with_its_occurrences() -> None:
    one = make_entry(
        1, type="directive", title="Rebase the branch on main before each push", source="pr:1"
    )
    more = make_entry(
        2,
        type="directive",
        title="Rebase the branch on main before each push to origin",
        body=UNLIKE,
        source="pr:2",
    )
    (entry,) = compacted(one, more)
    assert (entry.mention_count, entry.occurrences) == (2, ("pr:1",))
    assert effective_importance(entry) == 0.7


@pytest.mark.parametrize(
    "other",
    [
        "Rebase the branch on stable before each push",
        "Never rebase a branch on main before each push",
    ],
)
def test_a_rule_with_another_word_in_its_place_stays(other: str) -> None:
    one = make_entry(1, type="directive", title="Rebase the branch on main before each push")
    assert len(compacted(one, make_entry(2, type="directive", title=other, body=UNLIKE))) == 2


def test_what_a_model_takes_for_the_same_is_one_entry_and_stays_so() -> None:
    one = make_entry(
        1, type="directive", title="Rebase on main before a push", importance=0.8, source="pr:1"
    )
    two = make_entry(2, title="Pull and replay your work ahead of publishing it", source="pr:2")
    three = make_entry(3, title="Elsewhere", body=UNLIKE)
    files = files_of(one, two, three)
    same = [frozenset({make_id(1), make_id(2)})]
    after = done(files, plan_compaction(read(files), synonyms=same))
    kept = {place.entry.id: place.entry for place in read(after)}
    assert (set(kept), kept[make_id(1)].mention_count) == ({make_id(1), make_id(3)}, 2)
    assert plan_compaction(read(after), synonyms=same) == ()


def test_a_model_does_not_join_what_is_said_to_contradict() -> None:
    one = make_entry(1, title="Rebase on main", relations=(f"contradicts {make_id(2)}",))
    files = files_of(one, make_entry(2, title="Merge main", body=UNLIKE))
    assert plan_compaction(read(files), synonyms=[frozenset({make_id(1), make_id(2)})]) == ()
