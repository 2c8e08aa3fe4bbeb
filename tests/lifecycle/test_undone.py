"""Undone work: what a reverted change taught becomes negative knowledge, once, and comes back exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.reverts import (
    Revert,
    find_reverts,
    find_suspicion,
    mark_as_suspect,
    plan_revert_effects,
    remove_suspicion,
)
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.history import Commit
from tests.make import examples, make_commit, make_entry, make_located


def sha(number: int) -> str:
    return f"{number:040x}"[::-1]


def key(number: int) -> str:
    return sha(number)[:12]


def commit(number: int, message: str, *parents: int) -> Commit:
    return make_commit(message, sha(number), parents=tuple(map(sha, parents)) or (sha(number - 1),))


def undone_by(message: str, *before: Commit) -> frozenset[str]:
    """What a commit with this message takes back."""
    found = find_reverts([*before, commit(90, message)])
    return found[-1].reverted_names if found and found[-1].sha == key(90) else frozenset()


WORK = commit(1, "Retry uploads")


@pytest.mark.parametrize(
    "message",
    [
        f'Revert "Retry uploads"\n\nThis reverts commit {sha(1)}.',
        f"Back out the retries\n\nThey doubled charges. This reverts commit {sha(1)}.",
        f"Back out the retries\n\nReverts commit {sha(1)[:12]}",
        f"Back out the retries\n\nThis reverts commit {sha(1)[:8]} (Retry uploads, 2026-01-02).",
        f'Mend uploads (#9)\n\n* Add a test\n\n* Revert "Retry uploads"\n\nThis reverts commit {sha(1)}.\n\n* Lint',
        'Revert "Retry uploads"',
        'Revert "Retry uploads" (#9)',
        'Mend uploads (#9)\n\n* Add a test\n\n* Revert "Retry uploads"',
    ],
)
def test_a_revert_is_known_by_sha_or_by_the_subject_it_quotes(message: str) -> None:
    assert undone_by(message, WORK) == {key(1)}


@pytest.mark.parametrize(
    "message",
    [
        f"Tidy up\n\nThis reverts some of the changes from commit {sha(1)}.",
        f"Tidy up\n\nThis partially reverts commit {sha(1)}.",
        f"Tidy up\n\nThis reverts commit {sha(1)} except for the tests.",
        f"Tidy up\n\n> This reverts commit {sha(1)}.",
        f"Tidy up after {sha(1)}",
        "Mend the revert of uploads",
        'Revert "Something that nobody committed"',
        'Mend (#9)\n\n* Retry uploads\n\n* Revert "Retry uploads"',
        f"Say how it is done\n\n```\nThis reverts commit {sha(1)}.\n```",
        f'Say how it is done\n\n~~~text\nRevert "Retry uploads"\n\nThis reverts commit {sha(1)}.',
    ],
)
def test_what_takes_back_a_part_or_nothing_is_no_revert(message: str) -> None:
    assert undone_by(message, WORK) == frozenset()


def test_a_message_made_to_be_slow_is_read_all_the_same() -> None:
    hostile = (
        'Revert "' + " " * 50_000 + "(#" * 20_000 + '" ' + " " * 50_000 + "x\n\n" + ". \t" * 20_000
    )
    assert undone_by(hostile, WORK) == frozenset()
    assert undone_by("x" + " " * 100_000 + "(#1", WORK) == frozenset()


def test_one_message_may_take_back_several() -> None:
    assert undone_by(f"Back out\n\nThis reverts commits {sha(1)}, {sha(2)} and {sha(3)}.") == {
        key(1),
        key(2),
        key(3),
    }
    lines = f"Back out\n\nThis reverts commit {sha(1)}.\nThis reverts commit {sha(2)}."
    assert undone_by(lines) == {key(1), key(2)}


def test_a_merge_is_taken_back_with_all_that_it_brought() -> None:
    base, topic, more = (
        commit(1, "Start"),
        commit(2, "Retry uploads", 1),
        commit(3, "Test retries", 2),
    )
    merge = commit(4, "Merge pull request #12 from ann/retry\n\nRetry uploads", 1, 3)
    message = f'Revert "Merge pull request #12"\n\nThis reverts commit {sha(4)}, reversing\nchanges made to {sha(1)}.'
    assert undone_by(message, base, topic, more, merge) == {key(2), key(3), key(4), "pr:12"}
    assert undone_by('Revert "Retry uploads"', base, topic, more, merge) == {
        key(2),
        key(3),
        key(4),
        "pr:12",
    }


@pytest.mark.parametrize(
    "message",
    [
        'Revert "Retry uploads" (#13)\n\nReverts acme/shop#12',
        "Back out retries\n\nReverts #12.",
        "Back out retries\n\nReverts PR #12 / found to double charges",
        "Merge branch 'x' into 'main'\n\nThis reverts merge request !12",
        'Merge pull request #13 from ann/revert-12-retry\n\nRevert "Retry uploads"',
    ],
)
def test_a_request_is_taken_back_by_its_number(message: str) -> None:
    assert undone_by(message, commit(1, "Retry uploads (#12)")) == {key(1), "pr:12"}
    assert "pr:12" in undone_by(message)


def test_a_merge_that_quotes_the_revert_is_called_as_the_forge_calls_it() -> None:
    message = (
        'Merge pull request #13 from ann/undo\n\nRevert "Upload twice"\n\nReverts acme/shop#12'
    )
    found = find_reverts([commit(1, "Start"), commit(90, message, 1, 2)])
    assert found[-1].reverted_names == {"pr:12"}


@pytest.mark.parametrize(
    "message",
    [
        "Bump the library (#13)\n\nUpstream: Reverts other/project#12",
        "Bump the library\n\nReverts other/project#12",
        "Bump the library\n\nThis reverts merge request other/project!12",
        "Bump the library\n\nReverts #\u0661\u0662",
        "Bump the library\n\nReverts #0",
    ],
)
def test_a_request_of_another_repository_is_none_of_ours(message: str) -> None:
    assert undone_by(message, commit(1, "Retry uploads (#12)")) == frozenset()


def test_reverts_made_in_one_second_stand_in_the_order_of_history() -> None:
    undo, redo = commit(2, 'Revert "Retry uploads"'), commit(3, 'Reapply "Retry uploads"')
    found = find_reverts([WORK, undo, redo])
    assert [(one.reverted_names, one.restored_names) for one in found] == [
        (frozenset({key(1)}), frozenset()),
        (frozenset({key(2)}), frozenset({key(1)})),
    ]


def test_the_number_in_the_quoted_title_is_that_of_the_request() -> None:
    assert undone_by(f'Revert "Retry uploads (#12)" (#13)\n\nThis reverts commit {sha(1)}.') == {
        key(1),
        "pr:12",
    }


def test_the_label_is_the_request_of_the_revert_or_its_short_sha() -> None:
    numbered, plain = find_reverts(
        [WORK, commit(2, 'Revert "Retry uploads" (#13)'), commit(3, 'Revert "Retry uploads"')]
    )
    assert (numbered.label, plain.label) == ("#13", sha(3)[:7])


@pytest.mark.parametrize(
    "message",
    [
        f'Revert "Revert "Retry uploads""\n\nThis reverts commit {sha(2)}.',
        'Reapply "Retry uploads"',
    ],
)
def test_a_revert_of_a_revert_restores(message: str) -> None:
    back = commit(2, f'Revert "Retry uploads"\n\nThis reverts commit {sha(1)}.')
    again = commit(4, f"Enough\n\nThis reverts commit {sha(3)}.")
    _, second, third = find_reverts([WORK, back, commit(3, message), again])
    assert (set(second.reverted_names), set(second.restored_names)) == ({key(2)}, {key(1)})
    assert (set(third.reverted_names), set(third.restored_names)) == ({key(3), key(1)}, {key(2)})


def test_a_merge_that_took_its_own_work_back_restores_nothing_when_it_is_reverted() -> None:
    base, work = commit(1, "Start"), commit(2, "Retry uploads", 1)
    back = commit(3, f"Better not\n\nThis reverts commit {sha(2)}.", 2)
    merge = commit(4, "Merge branch 'retry'", 1, 3)
    *_, last = find_reverts(
        [base, work, back, merge, commit(5, f"Out\n\nThis reverts commit {sha(4)}.", 4)]
    )
    assert (set(last.reverted_names), set(last.restored_names)) == ({key(2), key(3), key(4)}, set())


def located(entry: Entry) -> Located:
    return Located(entry, "MEMORY.md", 1, ScopeOf("project"))


def after(entry: Entry, reverts: Sequence[Revert]) -> Entry:
    changes = plan_revert_effects([located(entry)], reverts)
    assert all((c.step, c.kind, c.path) == ("consolidate", "update", "MEMORY.md") for c in changes)
    return changes[0].entry if changes else entry


def revert(number: int, undoes: Iterable[str], restores: Iterable[str] = ()) -> Revert:
    return Revert(key(number), f"#{number}", frozenset(undoes), frozenset(restores))


SOURCE = f"pr:12 commit:{key(1)}"
UNDO, REDO = revert(50, {key(1)}), revert(51, {key(50)}, {key(1)})


@pytest.mark.parametrize("names", [{key(1)}, {"pr:12"}])
def test_what_came_from_undone_work_becomes_negative_knowledge(names: set[str]) -> None:
    entry = make_entry(source=SOURCE, importance=0.8, evidence=("commit:x retry it",))
    suspected = after(entry, [revert(50, names)])
    assert (suspected.importance, suspected.adoption, suspected.instead) == (
        0.56,
        "rejected",
        "reverted in #50",
    )
    assert suspected.evidence == (
        "commit:x retry it",
        f"revert:{key(50)} reverted in #50, importance was 0.8",
    )
    assert (suspected.title, suspected.status) == (entry.title, "active")


def test_it_happens_once_however_often_it_is_planned_and_reverted() -> None:
    suspected = after(make_entry(source=SOURCE), [UNDO])
    assert after(suspected, [UNDO]) == suspected
    assert after(suspected, [revert(60, {key(1)})]) == suspected


@pytest.mark.parametrize(
    "source", [None, "", f"commit:{key(7)}", "pr:121", f"pr:13 commit:{key(2)}"]
)
def test_what_came_from_elsewhere_is_left_alone(source: str | None) -> None:
    assert not plan_revert_effects(
        [make_located(1, source=source)], [revert(50, {key(1), "pr:12"})]
    )


def test_a_retired_entry_is_left_alone() -> None:
    assert plan_revert_effects([make_located(1, source=SOURCE, status="compacted")], [UNDO])
    assert not plan_revert_effects([make_located(1, source=SOURCE, status="retired")], [UNDO])


def test_an_entry_with_another_source_that_stands_is_not_suspect() -> None:
    entry = make_entry(source=f"{SOURCE} pr:20 commit:{key(2)}")
    assert after(entry, [UNDO]) == entry
    assert find_suspicion(after(entry, [UNDO, revert(52, {key(2)})]))


@pytest.mark.parametrize("importance", [0.8, 0.123456, 0.1, 0.05, 0.0, 1.0])
def test_reverting_the_revert_restores_exactly(importance: float) -> None:
    entry = make_entry(source=SOURCE, importance=importance, evidence=("commit:x retry it",))
    assert after(entry, [UNDO, REDO]) == entry
    assert after(after(entry, [UNDO]), [REDO]) == entry
    assert after(after(entry, [UNDO]), [revert(51, {key(50)})]) == entry
    assert after(after(entry, [UNDO]), [revert(51, {key(49)}, {"pr:12"})]) == entry


def test_a_third_revert_takes_it_back_again() -> None:
    third = revert(53, {key(51), key(1)}, {key(50)})
    assert find_suspicion(after(make_entry(source=SOURCE), [UNDO, REDO, third]))
    assert find_suspicion(after(make_entry(source=SOURCE), [third]))


def test_what_was_rejected_before_keeps_its_own_reason() -> None:
    entry = make_entry(source=SOURCE, adoption="rejected", instead="a queue")
    suspected = after(entry, [UNDO])
    assert (suspected.importance, suspected.adoption, suspected.instead) == (
        0.35,
        "rejected",
        "a queue",
    )
    assert after(suspected, [REDO]) == entry


def test_what_a_person_wrote_since_stays() -> None:
    suspected = after(make_entry(source=SOURCE, importance=0.8), [UNDO])
    edited = make_entry(
        source=SOURCE,
        importance=0.9,
        evidence=suspected.evidence,
        adoption="rejected",
        instead="a queue",
    )
    restored = after(edited, [REDO])
    assert (restored.importance, restored.adoption, restored.instead, restored.evidence) == (
        0.9,
        "rejected",
        "a queue",
        (),
    )


def test_a_successor_that_lowered_importance_as_well_is_not_overruled() -> None:
    suspected = after(make_entry(source=SOURCE, importance=0.8), [UNDO])
    lowered = make_entry(
        source=SOURCE,
        importance=0.392,
        evidence=suspected.evidence,
        adoption="rejected",
        instead=suspected.instead,
    )
    assert after(lowered, [REDO]) == make_entry(source=SOURCE, importance=0.56)


@given(
    st.floats(0, 1), st.sampled_from([None, "rejected"]), st.lists(st.text(max_size=5), max_size=3)
)
def test_restore_is_the_inverse_of_suspect(
    importance: float, adoption: Any, evidence: list[str]
) -> None:
    entry = make_entry(
        importance=importance, adoption=adoption, evidence=tuple(evidence), source=SOURCE
    )
    suspected = mark_as_suspect(entry, UNDO)
    suspicion = find_suspicion(suspected)
    assert suspicion is not None
    assert remove_suspicion(suspected, suspicion) == entry


histories = st.lists(st.integers(0, 5), min_size=1, max_size=6)
"""Each number is how far back the commit lies that the next one reverts."""


@examples(80)
@given(histories, st.integers(0, 6), st.randoms(use_true_random=False))
def test_any_history_is_replayed_alike_in_one_run_or_two(
    steps: list[int], cut: int, random: Any
) -> None:
    commits = [WORK]
    for number, back in enumerate(steps, start=2):
        target = commits[max(0, len(commits) - 1 - back)]
        commits.append(commit(number, f"Take it back\n\nThis reverts commit {target.sha}."))
    reverts = find_reverts(commits)
    places = [
        located(make_entry(n, source=f"commit:{key(n)}", importance=0.8)) for n in range(1, 5)
    ]
    changes = plan_revert_effects(places, reverts)
    assert plan_revert_effects(random.sample(places, len(places)), reverts) == changes
    whole = [after(place.entry, reverts) for place in places]
    assert [after(after(place.entry, reverts[:cut]), reverts[cut:]) for place in places] == whole
    assert [after(entry, reverts) for entry in whole] == whole
    assert [entry.id for entry in whole] == [place.entry.id for place in places]


def test_a_message_that_reverts_very_much_costs_no_more_than_its_length() -> None:
    history = [commit(number, f"Work {number}") for number in range(1, 400)]
    titles = "\n".join(f'Revert "Thing {number}"' for number in range(40_000))
    shas = ", ".join(f"{number:07x}" for number in range(40_000))
    assert undone_by(f"Tidy\n\n{titles}\nThis reverts commits {shas}.", *history)
