"""Tests of reverted work: entries of a reverted change become negative knowledge, and come back with it."""

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
    """Return a commit id for a number."""
    return f"{number:040x}"[::-1]


def source_of(number: int) -> str:
    """Return the source of an entry for a commit number."""
    return sha(number)[:12]


def commit(number: int, message: str, *parents: int) -> Commit:
    return make_commit(message, sha(number), parents=tuple(map(sha, parents)) or (sha(number - 1),))


def undone_by(message: str, *before: Commit) -> frozenset[str]:
    """Return the sources that a commit with this message reverts."""
    reverts = find_reverts([*before, commit(90, message)])
    return (
        reverts[-1].reverted_names if reverts and reverts[-1].sha == source_of(90) else frozenset()
    )


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
def test_a_revert_is_recognised_by_sha_or_quoted_subject(message: str) -> None:
    assert undone_by(message, WORK) == {source_of(1)}


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
def test_partial_reverts_and_mentions_are_not_reverts(message: str) -> None:
    assert undone_by(message, WORK) == frozenset()


def test_a_message_made_to_slow_down_patterns_is_read() -> None:
    hostile = (
        'Revert "' + " " * 50_000 + "(#" * 20_000 + '" ' + " " * 50_000 + "x\n\n" + ". \t" * 20_000
    )
    assert undone_by(hostile, WORK) == frozenset()
    assert undone_by("x" + " " * 100_000 + "(#1", WORK) == frozenset()


def test_one_message_may_revert_several_commits() -> None:
    assert undone_by(f"Back out\n\nThis reverts commits {sha(1)}, {sha(2)} and {sha(3)}.") == {
        source_of(1),
        source_of(2),
        source_of(3),
    }
    lines = f"Back out\n\nThis reverts commit {sha(1)}.\nThis reverts commit {sha(2)}."
    assert undone_by(lines) == {source_of(1), source_of(2)}


def test_a_revert_of_a_merge_undoes_all_its_commits() -> None:
    base, topic, more = (
        commit(1, "Start"),
        commit(2, "Retry uploads", 1),
        commit(3, "Test retries", 2),
    )
    merge = commit(4, "Merge pull request #12 from ann/retry\n\nRetry uploads", 1, 3)
    message = f'Revert "Merge pull request #12"\n\nThis reverts commit {sha(4)}, reversing\nchanges made to {sha(1)}.'
    assert undone_by(message, base, topic, more, merge) == {
        source_of(2),
        source_of(3),
        source_of(4),
        "pr:12",
    }
    assert undone_by('Revert "Retry uploads"', base, topic, more, merge) == {
        source_of(2),
        source_of(3),
        source_of(4),
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
def test_a_pull_request_is_reverted_by_its_number(message: str) -> None:
    assert undone_by(message, commit(1, "Retry uploads (#12)")) == {source_of(1), "pr:12"}
    assert "pr:12" in undone_by(message)


def test_a_merge_that_quotes_a_revert_undoes_the_pull_request() -> None:
    message = (
        'Merge pull request #13 from ann/undo\n\nRevert "Upload twice"\n\nReverts acme/shop#12'
    )
    reverts = find_reverts([commit(1, "Start"), commit(90, message, 1, 2)])
    assert reverts[-1].reverted_names == {"pr:12"}


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
def test_a_pull_request_of_another_repository_is_ignored(message: str) -> None:
    assert undone_by(message, commit(1, "Retry uploads (#12)")) == frozenset()


def test_reverts_of_one_second_are_in_the_order_of_history() -> None:
    undo, redo = commit(2, 'Revert "Retry uploads"'), commit(3, 'Reapply "Retry uploads"')
    reverts = find_reverts([WORK, undo, redo])
    assert [(revert.reverted_names, revert.restored_names) for revert in reverts] == [
        (frozenset({source_of(1)}), frozenset()),
        (frozenset({source_of(2)}), frozenset({source_of(1)})),
    ]


def test_the_number_in_a_quoted_title_is_the_pull_request() -> None:
    assert undone_by(f'Revert "Retry uploads (#12)" (#13)\n\nThis reverts commit {sha(1)}.') == {
        source_of(1),
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
    assert (set(second.reverted_names), set(second.restored_names)) == (
        {source_of(2)},
        {source_of(1)},
    )
    assert (set(third.reverted_names), set(third.restored_names)) == (
        {source_of(3), source_of(1)},
        {source_of(2)},
    )


def test_reverting_a_merge_that_reverted_its_own_work_restores_nothing() -> None:
    base, work = commit(1, "Start"), commit(2, "Retry uploads", 1)
    back = commit(3, f"Better not\n\nThis reverts commit {sha(2)}.", 2)
    merge = commit(4, "Merge branch 'retry'", 1, 3)
    *_, last = find_reverts(
        [base, work, back, merge, commit(5, f"Out\n\nThis reverts commit {sha(4)}.", 4)]
    )
    assert (set(last.reverted_names), set(last.restored_names)) == (
        {source_of(2), source_of(3), source_of(4)},
        set(),
    )


def located(entry: Entry) -> Located:
    return Located(entry, "MEMORY.md", 1, ScopeOf("project"))


def mark_undone(entry: Entry, reverts: Sequence[Revert]) -> Entry:
    """Return an entry after reverts were applied."""
    changes = plan_revert_effects([located(entry)], reverts)
    assert all((c.step, c.kind, c.path) == ("consolidate", "update", "MEMORY.md") for c in changes)
    return changes[0].entry if changes else entry


def revert(number: int, undoes: Iterable[str], restores: Iterable[str] = ()) -> Revert:
    return Revert(source_of(number), f"#{number}", frozenset(undoes), frozenset(restores))


SOURCE = f"pr:12 commit:{source_of(1)}"
UNDO, REDO = revert(50, {source_of(1)}), revert(51, {source_of(50)}, {source_of(1)})


@pytest.mark.parametrize("names", [{source_of(1)}, {"pr:12"}])
def test_entries_of_reverted_work_become_negative_knowledge(names: set[str]) -> None:
    entry = make_entry(source=SOURCE, importance=0.8, evidence=("commit:x retry it",))
    suspected = mark_undone(entry, [revert(50, names)])
    assert (suspected.importance, suspected.adoption, suspected.instead) == (
        0.56,
        "rejected",
        "reverted in #50",
    )
    assert suspected.evidence == (
        "commit:x retry it",
        f"revert:{source_of(50)} reverted in #50, importance was 0.8",
    )
    assert (suspected.title, suspected.status) == (entry.title, "active")


def test_an_entry_is_marked_once_for_repeated_plans_and_reverts() -> None:
    suspected = mark_undone(make_entry(source=SOURCE), [UNDO])
    assert mark_undone(suspected, [UNDO]) == suspected
    assert mark_undone(suspected, [revert(60, {source_of(1)})]) == suspected


@pytest.mark.parametrize(
    "source", [None, "", f"commit:{source_of(7)}", "pr:121", f"pr:13 commit:{source_of(2)}"]
)
def test_entries_of_other_work_are_unchanged(source: str | None) -> None:
    assert not plan_revert_effects(
        [make_located(1, source=source)], [revert(50, {source_of(1), "pr:12"})]
    )


def test_a_retired_entry_of_reverted_work_is_unchanged() -> None:
    assert plan_revert_effects([make_located(1, source=SOURCE, status="compacted")], [UNDO])
    assert not plan_revert_effects([make_located(1, source=SOURCE, status="retired")], [UNDO])


def test_an_entry_with_another_source_that_is_not_reverted_is_unchanged() -> None:
    entry = make_entry(source=f"{SOURCE} pr:20 commit:{source_of(2)}")
    assert mark_undone(entry, [UNDO]) == entry
    assert find_suspicion(mark_undone(entry, [UNDO, revert(52, {source_of(2)})]))


@pytest.mark.parametrize("importance", [0.8, 0.123456, 0.1, 0.05, 0.0, 1.0])
def test_reverting_the_revert_restores_exactly(importance: float) -> None:
    entry = make_entry(source=SOURCE, importance=importance, evidence=("commit:x retry it",))
    assert mark_undone(entry, [UNDO, REDO]) == entry
    assert mark_undone(mark_undone(entry, [UNDO]), [REDO]) == entry
    assert mark_undone(mark_undone(entry, [UNDO]), [revert(51, {source_of(50)})]) == entry
    assert (
        mark_undone(mark_undone(entry, [UNDO]), [revert(51, {source_of(49)}, {"pr:12"})]) == entry
    )


def test_a_third_revert_marks_the_entry_again() -> None:
    third = revert(53, {source_of(51), source_of(1)}, {source_of(50)})
    assert find_suspicion(mark_undone(make_entry(source=SOURCE), [UNDO, REDO, third]))
    assert find_suspicion(mark_undone(make_entry(source=SOURCE), [third]))


def test_an_entry_that_was_rejected_before_keeps_its_reason() -> None:
    entry = make_entry(source=SOURCE, adoption="rejected", instead="a queue")
    suspected = mark_undone(entry, [UNDO])
    assert (suspected.importance, suspected.adoption, suspected.instead) == (
        0.35,
        "rejected",
        "a queue",
    )
    assert mark_undone(suspected, [REDO]) == entry


def test_text_that_a_person_wrote_since_stays() -> None:
    suspected = mark_undone(make_entry(source=SOURCE, importance=0.8), [UNDO])
    edited = make_entry(
        source=SOURCE,
        importance=0.9,
        evidence=suspected.evidence,
        adoption="rejected",
        instead="a queue",
    )
    restored = mark_undone(edited, [REDO])
    assert (restored.importance, restored.adoption, restored.instead, restored.evidence) == (
        0.9,
        "rejected",
        "a queue",
        (),
    )


def test_importance_lowered_by_a_successor_is_not_restored() -> None:
    suspected = mark_undone(make_entry(source=SOURCE, importance=0.8), [UNDO])
    lowered = make_entry(
        source=SOURCE,
        importance=0.392,
        evidence=suspected.evidence,
        adoption="rejected",
        instead=suspected.instead,
    )
    assert mark_undone(lowered, [REDO]) == make_entry(source=SOURCE, importance=0.56)


@given(
    st.floats(0, 1), st.sampled_from([None, "rejected"]), st.lists(st.text(max_size=5), max_size=3)
)
def test_restoring_an_entry_is_the_inverse_of_marking_it(
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
"""Each number says how many commits back the next commit reverts."""


@examples(80)
@given(histories, st.integers(0, 6), st.randoms(use_true_random=False))
def test_any_history_gives_the_same_result_in_one_run_or_two(
    steps: list[int], cut: int, random: Any
) -> None:
    commits = [WORK]
    for number, back in enumerate(steps, start=2):
        target = commits[max(0, len(commits) - 1 - back)]
        commits.append(commit(number, f"Take it back\n\nThis reverts commit {target.sha}."))
    reverts = find_reverts(commits)
    places = [
        located(make_entry(n, source=f"commit:{source_of(n)}", importance=0.8)) for n in range(1, 5)
    ]
    changes = plan_revert_effects(places, reverts)
    assert plan_revert_effects(random.sample(places, len(places)), reverts) == changes
    in_one_run = [mark_undone(place.entry, reverts) for place in places]
    assert [
        mark_undone(mark_undone(place.entry, reverts[:cut]), reverts[cut:]) for place in places
    ] == in_one_run
    assert [mark_undone(entry, reverts) for entry in in_one_run] == in_one_run
    assert [entry.id for entry in in_one_run] == [place.entry.id for place in places]


def test_a_message_with_many_reverts_is_read_in_linear_time() -> None:
    history = [commit(number, f"Work {number}") for number in range(1, 400)]
    titles = "\n".join(f'Revert "Thing {number}"' for number in range(40_000))
    shas = ", ".join(f"{number:07x}" for number in range(40_000))
    assert undone_by(f"Tidy\n\n{titles}\nThis reverts commits {shas}.", *history)
