"""Tests of the corpus for other tools: each gets the same learnings, and each needle is one of them."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.index import make_located
from benchmarks.peer_tools import PEERS, Peer, place_ctxmem, place_ours
from benchmarks.peers import NEEDLES, REPLACED, list_needles
from memory_ci.records.config import ScopePatterns
from memory_ci.store.memory_files import load_file

ENTRIES = [located.entry for located in make_located(NEEDLES + 10)]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_tool_gets_each_learning_completely(peer: Peer) -> None:
    for entry in ENTRIES:
        _, text = peer.place(entry)
        assert entry.title in text
        assert entry.body in text


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_served_entry_can_be_identified(peer: Peer) -> None:
    assert len({peer.mark(entry) for entry in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_tool_that_repeats_the_query_has_not_served_the_entry(peer: Peer) -> None:
    assert all(peer.mark(entry) not in f"{entry.title} {entry.body}" for entry in ENTRIES)


def test_our_corpus_reads_back_as_its_entries() -> None:
    path, _ = place_ours(ENTRIES[0])
    text = "".join(place_ours(entry)[1] for entry in ENTRIES)
    file = load_file(path, text.encode(), ScopePatterns())
    assert [located.entry for located in file.entries] == ENTRIES
    assert file.findings == ()


def test_a_record_of_ctxmem_is_one_line() -> None:
    _, text = place_ctxmem(ENTRIES[0])
    assert text.count("\n") == 1
    assert json.loads(text)["content"] == ENTRIES[0].body


@pytest.mark.parametrize("whole", [True, False])
def test_a_needle_has_the_words_of_its_entry_but_two(whole: bool) -> None:
    for needle in list_needles(ENTRIES, whole=whole):
        entry_words = (
            f"{needle.entry.title} {needle.entry.body}" if whole else needle.entry.title
        ).split()
        needle_words = needle.text.split()
        assert len(needle_words) == len(entry_words)
        assert Counter(needle_words[:-REPLACED]) <= Counter(entry_words)
        assert needle_words[:-REPLACED] != entry_words[REPLACED:]


def test_needles_are_the_same_in_every_run() -> None:
    assert list_needles(ENTRIES, whole=True) == list_needles(ENTRIES, whole=True)
