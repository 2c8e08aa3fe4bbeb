"""Tests of term frequency: how common words are, and how little a repetition counts."""

from __future__ import annotations

from memory_ci.search.builder import open_index, sync
from memory_ci.search.search import count_entries, count_entries_with_term, search
from tests.make import make_entry, make_id
from tests.search.trees import Tree

ENTRIES = (
    make_entry(1, title="Retry charges", body="client.post retried, and retried again"),
    make_entry(2, title="Café opening hours"),
    make_entry(3, title="Retired", status="retired", body="getUserName"),
)


def test_each_entry_counts_once_for_its_stems_and_parts() -> None:
    tree = Tree({"MEMORY.md": ENTRIES})
    with open_index(None) as index:
        assert count_entries(index) == 0
        sync(index, tree.oids, tree.load)
        counts = [
            count_entries_with_term(index, term)
            for term in ("retry", "cafe", "user", "client.post", "zebra")
        ]
        assert (count_entries(index), counts) == (3, [1, 1, 1, 1, 0])


def test_two_words_of_the_task_count_more_than_a_repeated_word() -> None:
    often = make_entry(1, title="Retry, retry, retry, retry and retry once more")
    both = make_entry(2, title="Retry the charge when the gateway answers late")
    noise = [
        make_entry(n, title=f"Charge number {n} is booked and nothing else is said here")
        for n in range(3, 7)
    ]
    others = [make_entry(n, title=f"Something else {n}") for n in range(7, 40)]
    tree = Tree({"MEMORY.md": (often, both, *noise, *others)})
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        best, second, *_ = search(index, ("retry", "charge"))
    assert [best.located.entry.id, second.located.entry.id] == [make_id(2), make_id(1)]
    assert best.lexical > 1.2 * second.lexical
