"""Tests of compaction: duplicates are planned as changes, applied to files, and planned again."""

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


def parse_files(files: Mapping[str, bytes]) -> tuple[Located, ...]:
    return tuple(
        place
        for path, data in files.items()
        for place in load_file(path, data, ScopePatterns()).entries
    )


def apply_to_files(files: Mapping[str, bytes], changes: Sequence[Change]) -> dict[str, bytes]:
    return {
        **files,
        **{path: data for path, data in apply_changes(files, changes).items() if data is not None},
    }


def compact(*entries: Entry) -> tuple[Entry, ...]:
    """Return the entries that remain of one file after compaction, in the order of the file."""
    files = files_of(*entries)
    return tuple(
        place.entry
        for place in parse_files(apply_to_files(files, plan_compaction(parse_files(files))))
    )


def test_nothing_to_compact_is_no_change() -> None:
    assert plan_compaction([]) == ()
    assert (
        plan_compaction([make_located(1, body=BODY), make_located(2, title="Other", body=UNLIKE)])
        == ()
    )


def make_pair(**fields: Any) -> tuple[Entry, Entry]:
    """Return two entries with the same text; `fields` are set in the second."""
    return make_entry(1, title="Same", body=BODY), make_entry(
        2, title="Same", **{"body": ALIKE} | fields
    )


def test_near_duplicates_are_merged_into_the_most_important_entry() -> None:
    first = make_entry(
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
    second = make_entry(
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
    assert compact(first, second) == (
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


def test_of_equally_important_duplicates_the_longest_stays_then_the_first_id() -> None:
    longer = make_entry(3, title="Same", body=f"{BODY} {BODY}")
    assert [entry.id for entry in compact(*make_pair(), longer)] == [make_id(3)]
    assert [entry.id for entry in compact(*make_pair(body=BODY))] == [make_id(1)]


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
def test_entries_that_must_not_be_merged_are_unchanged(fields: dict[str, Any]) -> None:
    assert compact(*make_pair()) != make_pair(), "without the difference they are merged"
    assert compact(*make_pair(**fields)) == make_pair(**fields)


def test_a_contradiction_of_a_merged_entry_prevents_merging() -> None:
    first, second = make_pair(relations=(f"contradicts {make_id(9)}",))
    successor = make_entry(1, title="Same", body=first.body, supersedes=(make_id(9),))
    assert compact(successor, second) == (successor, second)


def test_a_contradiction_of_itself_is_ignored() -> None:
    successor = make_entry(1, title="Same", body=BODY, supersedes=(make_id(2),))
    assert [
        entry.id
        for entry in compact(successor, *make_pair(relations=(f"refutes {make_id(2)}",))[1:])
    ] == [make_id(1)]


@pytest.mark.parametrize(("speaker", "opponent"), [(2, 3), (3, 2)])
def test_contradicting_entries_are_not_both_merged_into_a_third(
    speaker: int, opponent: int
) -> None:
    relations_of = {speaker: (f"contradicts {make_id(opponent)}",)}
    entries = [
        make_entry(n, title="Same", body=BODY, relations=relations_of.get(n, ())) for n in (1, 2, 3)
    ]
    remaining = compact(*entries)
    assert [(entry.id, entry.supersedes) for entry in remaining] == [
        (make_id(1), (make_id(2),)),
        (make_id(3), ()),
    ]


def test_entries_of_two_files_are_never_merged() -> None:
    first, second = make_pair()
    places = parse_files(files_of(first) | files_of(second, path="src/MEMORY.md"))
    assert plan_compaction(places) == ()


def test_a_chain_of_near_duplicates_does_not_merge_its_ends() -> None:
    """Each entry is similar to the next only: entries that are not similar to the survivor stay."""
    first = make_entry(1, title="Same", body=" ".join(WORDS), importance=0.9)
    middle = make_entry(2, title="Same", body=" ".join([*WORDS[1:], "lock"]))
    last = make_entry(3, title="Same", body=" ".join([*WORDS[2:], "lock", "page"]))
    assert [entry.id for entry in compact(middle, last)] == [make_id(2)]
    assert [entry.id for entry in compact(first, middle, last)] == [make_id(1), make_id(3)]


def test_a_retired_entry_is_removed_and_not_merged() -> None:
    first, second = make_pair(status="retired", importance=1.0)
    assert compact(first, second) == (first,)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_tombstone_removes_older_active_copies(order: tuple[int, ...]) -> None:
    copies = make_entry(1), make_entry(1, status="retired", last_reinforced=date(2026, 1, 1))
    assert compact(copies[order[0]], copies[order[1]]) == ()
    files = files_of(copies[order[0]]) | files_of(copies[order[1]], path="src/MEMORY.md")
    assert parse_files(apply_to_files(files, plan_compaction(parse_files(files)))) == ()


def test_copies_of_an_id_in_one_file_become_one_with_the_highest_count_and_better_text() -> None:
    first = make_entry(
        1, body=BODY, importance=0.9, reinforcement_count=2, source="pr:1", domain="team"
    )
    second = make_entry(1, body=ALIKE, importance=0.5, reinforcement_count=5, session="a:1")
    expected = make_entry(
        1,
        body=BODY,
        importance=0.9,
        reinforcement_count=5,
        source="pr:1",
        session="a:1",
        domain="team",
    )
    assert compact(first, second) == compact(second, first) == (expected,)


@pytest.mark.parametrize(
    "fields", [{"body": UNLIKE}, {"body": f"{BODY} 30"}, {"extra": (("owner", " ada"),)}]
)
@pytest.mark.parametrize("status", ["active", "retired"])
@pytest.mark.parametrize("path", ["MEMORY.md", "src/MEMORY.md"])
def test_copies_of_an_id_with_different_texts_all_stay(path: str, status: Any, fields: Any) -> None:
    first, second = (
        make_entry(1, body=BODY),
        make_entry(1, **{"body": BODY} | fields, status=status),
    )
    like = make_entry(2, body=BODY, importance=0.1)
    same_file = (
        files_of(first, second, like)
        if path == "MEMORY.md"
        else files_of(first, like) | files_of(second, path=path)
    )
    assert plan_compaction(parse_files(same_file)) == ()


def test_a_copy_that_history_replaced_is_removed_whatever_its_importance() -> None:
    old, new = make_entry(1, body=BODY, importance=0.9), make_entry(1, body=UNLIKE, importance=0.5)
    places = parse_files(files_of(old) | files_of(new, path="src/MEMORY.md"))
    remaining = apply_to_files(
        files_of(old) | files_of(new, path="src/MEMORY.md"), plan_compaction(places, places[:1])
    )
    assert [(place.path, place.entry.body) for place in parse_files(remaining)] == [
        ("MEMORY.md", UNLIKE)
    ]
    assert plan_compaction(places, places) == (), (
        "each replaced the other: a person must say which it is"
    )


def test_of_an_id_in_two_files_the_wider_scope_stays() -> None:
    files = files_of(make_entry(1, importance=0.9), path="src/MEMORY.md") | files_of(
        make_entry(1, importance=0.5)
    )
    changes = plan_compaction(parse_files(files))
    assert [(change.kind, change.path, change.why) for change in changes] == [
        ("update", "MEMORY.md", "one of 2 copies"),
        ("remove", "src/MEMORY.md", "is already in MEMORY.md"),
    ]
    assert [
        (place.path, place.entry.importance)
        for place in parse_files(apply_to_files(files, changes))
    ] == [("MEMORY.md", 0.9)]


def test_of_an_id_in_two_files_of_equal_scope_the_first_stays() -> None:
    files = files_of(make_entry(1), path="b/a/MEMORY.md") | files_of(
        make_entry(1), path="a/z/MEMORY.md"
    )
    assert [
        place.path
        for place in parse_files(apply_to_files(files, plan_compaction(parse_files(files))))
    ] == ["a/z/MEMORY.md"]


def test_the_end_date_of_a_copy_applies_to_the_others() -> None:
    (entry,) = compact(make_entry(1), make_entry(1, valid_until=date(2026, 8, 1)))
    assert entry.valid_until == date(2026, 8, 1)


def test_a_rejected_copy_is_not_served_as_advice_again() -> None:
    rejected = make_entry(1, adoption="rejected", instead="Use the queue.", importance=0.1)
    (entry,) = compact(make_entry(1, importance=0.9), rejected)
    assert (entry.adoption, entry.instead) == ("rejected", "Use the queue.")


def test_a_merged_entry_is_retired_by_a_stage_only_if_all_its_sources_would_be() -> None:
    (same,) = compact(*(make_entry(n, title="Same", body=BODY, phase="planning") for n in (1, 2)))
    (second,) = compact(
        make_entry(1, title="Same", body=BODY, phase="planning"), *make_pair(domain="team")[1:]
    )
    assert (same.domain, same.phase, second.domain, second.phase) == (
        "task",
        "planning",
        "team",
        None,
    )


def test_the_survivor_keeps_its_position_and_prose_keeps_its_bytes() -> None:
    entries = (
        make_entry(5, title="First", body=UNLIKE),
        *make_pair(importance=0.9),
        make_entry(4, title="Last"),
    )
    files = files_of(*entries)
    after = apply_to_files(files, plan_compaction(parse_files(files)))
    assert [place.entry.id for place in parse_files(after)] == [make_id(5), make_id(2), make_id(4)]
    assert after["MEMORY.md"].startswith(b"# Memory\n\nIntroduction.\n")


def test_the_plan_has_a_reason_for_each_change() -> None:
    first, second = make_pair()
    retired = make_entry(3, title="Gone", status="retired")
    changes = plan_compaction(parse_files(files_of(first, second, retired)))
    assert {change.step for change in changes} == {"compact"}
    assert [(change.kind, change.entry.id, change.why) for change in changes] == [
        ("update", make_id(1), "merged with 00000002"),
        ("remove", make_id(3), "retired"),
        ("remove", make_id(2), "part of 00000001"),
    ]


# -- for any memory

IDS = st.integers(1, 7)
DAYS = st.sampled_from([date(2026, 1, 1), date(2026, 5, 5), date(2026, 9, 1)])


def mostly_none(*values: object) -> st.SearchStrategy[object]:
    """Return a strategy that mostly gives None."""
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
    """Draw an entry; entries differ in few fields, so that many are duplicates."""
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
        created_at=draw(mostly_none(date(2026, 1, 2), date(2026, 3, 4))),
        phase=draw(mostly_none("planning", "review")),
        source=draw(mostly_none("pr:1", "pr:2")),
        priority=draw(mostly_none("high", "pin", "normal")),
        valid_until=draw(mostly_none(date(2027, 1, 1))),
        supersedes=draw(texts("")),
        evidence=draw(texts("commit:")),
        relations=draw(texts("supports ", "contradicts ", "refutes ")),
        adoption=draw(mostly_none("rejected")),
        instead=draw(mostly_none("The queue.")),
    )


memories = st.builds(
    lambda root, team: files_of(*root) | files_of(*team, path="src/MEMORY.md"),
    st.lists(entries(), max_size=7),
    st.lists(entries(), max_size=4),
)


@given(memories)
def test_compaction_is_idempotent(files: dict[str, bytes]) -> None:
    after = apply_to_files(files, plan_compaction(parse_files(files)))
    assert plan_compaction(parse_files(after)) == ()


@given(memories, st.randoms(use_true_random=False))
def test_the_order_of_reading_entries_does_not_matter(files: dict[str, bytes], chance: Any) -> None:
    places = list(parse_files(files))
    plan = plan_compaction(places)
    chance.shuffle(places)
    assert plan_compaction(places) == plan


def test_the_order_of_entries_in_a_file_changes_only_their_order() -> None:
    memory = (
        *make_pair(importance=0.5),
        make_entry(3, title="Same", body=BODY + " lock"),
        make_entry(4, title="Other"),
    )
    results = {frozenset(compact(*order)) for order in permutations(memory)}
    assert len(results) == 1


@given(memories)
def test_ids_are_kept_once_in_order_and_twice_only_with_different_texts(
    files: dict[str, bytes],
) -> None:
    before = parse_files(files)
    after = parse_files(apply_to_files(files, plan_compaction(before)))
    ids = [place.entry.id for place in after]
    retired = {place.entry.id for place in before if place.entry.status == "retired"}
    ids_after = {*ids, *(old for place in after for old in place.entry.supersedes)}
    unlike = {copies[0].entry.id for copies in list_different_copies(before)}
    assert {place.entry.id for place in before} - ids_after <= retired
    assert all(ids.count(entry_id) == 1 for entry_id in ids if entry_id not in unlike)
    assert retired.isdisjoint({*ids} - unlike)
    assert [p.entry for p in before if p.entry.id in unlike] == [
        p.entry for p in after if p.entry.id in unlike
    ]
    order_before = list(dict.fromkeys((place.path, place.entry.id) for place in before))
    order_after = list(dict.fromkeys((place.path, place.entry.id) for place in after))
    assert order_after == sorted(order_after, key=order_before.index)


@given(memories)
def test_the_files_contain_what_was_planned(files: dict[str, bytes]) -> None:
    changes = plan_compaction(parse_files(files))
    after = {place.entry.id: place.entry for place in parse_files(apply_to_files(files, changes))}
    assert [after[change.entry.id] for change in changes if change.kind == "update"] == [
        change.entry for change in changes if change.kind == "update"
    ]


@pytest.mark.parametrize(
    "evidence", [(), ("claimed:commit:3f2ab91c0d12 words",), ("revert:3f2ab91c0d12 reverted",)]
)
def test_an_entry_without_evidence_does_not_get_the_evidence_of_a_duplicate(
    evidence: tuple[str, ...],
) -> None:
    proved = make_located(
        1,
        title="Run the whole test suite before each push",
        evidence=("commit:3f2ab91c0d12 words",),
    )
    loud = make_located(
        2, title="Run the whole test suite before each push!", importance=1.0, evidence=evidence
    )
    (merged,) = [
        change.entry for change in plan_compaction([loud, proved]) if change.kind == "update"
    ]
    assert (merged.id, merged.title) == (proved.entry.id, proved.entry.title)


def test_a_longer_wording_of_a_rule_is_merged_with_its_occurrences() -> None:
    first = make_entry(
        1, type="directive", title="Rebase the branch on main before each push", source="pr:1"
    )
    longer = make_entry(
        2,
        type="directive",
        title="Rebase the branch on main before each push to origin",
        body=UNLIKE,
        source="pr:2",
    )
    (entry,) = compact(first, longer)
    assert (entry.mention_count, entry.occurrences) == (2, ("pr:1",))
    assert effective_importance(entry) == 0.7


@pytest.mark.parametrize(
    "other_title",
    [
        "Rebase the branch on stable before each push",
        "Never rebase a branch on main before each push",
    ],
)
def test_a_rule_with_a_replaced_word_is_not_merged(other_title: str) -> None:
    directive = make_entry(1, type="directive", title="Rebase the branch on main before each push")
    assert (
        len(compact(directive, make_entry(2, type="directive", title=other_title, body=UNLIKE)))
        == 2
    )


def test_entries_that_a_model_finds_equal_are_merged_once() -> None:
    first = make_entry(
        1, type="directive", title="Rebase on main before a push", importance=0.8, source="pr:1"
    )
    two = make_entry(2, title="Pull and replay your work ahead of publishing it", source="pr:2")
    three = make_entry(3, title="Elsewhere", body=UNLIKE)
    files = files_of(first, two, three)
    same = [frozenset({make_id(1), make_id(2)})]
    after = apply_to_files(files, plan_compaction(parse_files(files), synonyms=same))
    entries_after = {place.entry.id: place.entry for place in parse_files(after)}
    assert (set(entries_after), entries_after[make_id(1)].mention_count) == (
        {make_id(1), make_id(3)},
        2,
    )
    assert plan_compaction(parse_files(after), synonyms=same) == ()


def test_contradicting_entries_that_a_model_finds_equal_are_not_merged() -> None:
    first = make_entry(1, title="Rebase on main", relations=(f"contradicts {make_id(2)}",))
    files = files_of(first, make_entry(2, title="Merge main", body=UNLIKE))
    assert plan_compaction(parse_files(files), synonyms=[frozenset({make_id(1), make_id(2)})]) == ()
