"""Tests of neighbours: entries that are similar by vectors or by words, and entries that name others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.entry import Entry
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import Index
from memory_ci.search.embedders import pack_vectors
from memory_ci.search.neighbours import (
    MAX_SIMILAR,
    MIN_JACCARD,
    Similar,
    find_by_ids,
    find_similar,
    list_entries_with_relations,
)
from memory_ci.search.rows import text_hash
from memory_ci.search.search import list_entries
from memory_ci.search.vectors import store_vectors
from memory_ci.text import content_words, jaccard
from tests.make import make_entry, make_id
from tests.search.trees import Tree

NEAR = {
    "apple": (1.0, 0.0),
    "pear": (0.9, 0.435),
    "plum": (0.82, 0.572),
    "brick": (0.79, 0.613),
    "away": (-1.0, 0.0),
}


@pytest.fixture
def index() -> Iterator[Index]:
    with open_index(None) as opened:
        yield opened


def fill(
    index: Index, *entries: Entry, path: str = "MEMORY.md", more: Sequence[Entry] = ()
) -> None:
    tree = Tree({path: tuple(entries)} | ({"src/MEMORY.md": tuple(more)} if more else {}))
    sync(index, tree.oids, tree.load)


def embed_titles(index: Index, model_id: str = "planned:1", without: str = "") -> None:
    """Store for each entry the vector of the first word of its title."""
    entries = [place.entry for place in list_entries(index) if place.entry.title != without]
    texts = {text_hash(entry): entry.title.split()[0] for entry in entries}
    store_vectors(
        index, model_id, tuple(texts), pack_vectors([NEAR[word] for word in texts.values()])
    )


def words(entry: Entry) -> frozenset[str]:
    return content_words(f"{entry.title}\n{entry.body}")


def similar(index: Index, number: int, **filters: object) -> Similar:
    (place, *_) = [
        located for located in list_entries(index) if located.entry.id == make_id(number)
    ]
    (similar_entries,) = find_similar(index, [place], words, **filters)  # type: ignore[arg-type] # named by the test
    return similar_entries


def titles(similar_entries: Similar) -> list[str]:
    return [neighbour.located.entry.title for neighbour in similar_entries.neighbours]


def make_fruit_entries(*names: str, **fields: str) -> list[Entry]:
    return [make_entry(number, title=name, **fields) for number, name in enumerate(names, start=1)]


def test_by_vectors_entries_with_a_cosine_of_at_least_four_fifths_are_similar(
    index: Index,
) -> None:
    fill(index, *make_fruit_entries("apple", "brick", "plum", "away", "pear"))
    embed_titles(index)
    similar_entries = similar(index, 1)
    assert (titles(similar_entries), similar_entries.basis) == (["pear", "plum"], "vectors")
    assert [neighbour.weight for neighbour in similar_entries.neighbours] == pytest.approx(
        [0.90, 0.82], abs=0.001
    )


def test_at_most_three_are_similar_and_equal_ones_are_ordered_by_id(index: Index) -> None:
    fill(
        index, *(make_entry(number, title="apple", body=str(number)) for number in (5, 4, 3, 2, 1))
    )
    embed_titles(index)
    assert [neighbour.located.entry.id for neighbour in similar(index, 2).neighbours] == [
        make_id(1),
        make_id(3),
        make_id(4),
    ]
    assert MAX_SIMILAR == 3


def test_copies_of_the_entry_are_ignored_and_copies_of_others_count_once(
    index: Index,
) -> None:
    both = make_fruit_entries("apple", "pear")
    fill(index, *both, more=both)
    embed_titles(index)
    assert titles(similar(index, 1)) == ["pear"]


def test_a_retired_entry_is_similar_to_nothing(index: Index) -> None:
    fill(index, *make_fruit_entries("apple", "pear"), make_entry(3, title="plum", status="retired"))
    embed_titles(index)
    assert titles(similar(index, 1)) == ["pear"]


def test_the_filters_of_a_search_apply(index: Index) -> None:
    fill(index, *make_fruit_entries("apple", "pear"), more=[make_entry(3, title="plum")])
    embed_titles(index)
    assert titles(similar(index, 1, scopes=("project",))) == ["pear"]
    assert titles(similar(index, 1, paths=("docs/a.md",))) == ["pear"]


def test_without_vectors_words_are_compared(index: Index) -> None:
    fill(
        index,
        make_entry(1, title="Send a key with each charge"),
        make_entry(2, title="Send a key with each refund"),
        make_entry(3, title="Send an invoice"),
    )
    similar_entries = similar(index, 1)
    assert (titles(similar_entries), similar_entries.basis) == (
        ["Send a key with each refund"],
        "words",
    )
    assert similar_entries.neighbours[0].weight == pytest.approx(
        jaccard({*"send key each charge".split()}, {*"send key each refund".split()})
    )


def test_an_entry_without_a_vector_and_an_index_with_few_are_compared_by_words(
    index: Index,
) -> None:
    fill(index, *make_fruit_entries("apple tree", "apple trees", "brick"))
    embed_titles(index, without="apple tree")
    assert similar(index, 1).basis == "words"
    assert similar(index, 2).basis == "words", "a third of the entries has no vector"


def test_of_two_models_the_one_with_more_vectors_is_used(index: Index) -> None:
    fill(index, *make_fruit_entries("apple", "pear"))
    embed_titles(index, "a:1", without="pear")
    embed_titles(index, "b:1")
    assert (titles(similar(index, 1)), similar(index, 1).basis) == (["pear"], "vectors")


def test_several_entries_are_compared_at_once_by_vectors_or_words(index: Index) -> None:
    fill(
        index,
        *(make_entry(number, title="apple", body=str(number)) for number in range(40)),
        make_entry(40, title="oak"),
    )
    texts = [
        text_hash(place.entry) for place in list_entries(index) if place.entry.title == "apple"
    ]
    store_vectors(index, "planned:1", texts, pack_vectors([NEAR["apple"]] * len(texts)))
    places = list_entries(index)
    assert [
        similar_entries.basis
        for similar_entries in find_similar(index, [places[40], places[0]], words)
    ] == [
        "words",
        "vectors",
    ]


@given(
    st.lists(
        st.frozensets(st.sampled_from("ash bay elm fig oak yew".split()), min_size=1),
        min_size=2,
        max_size=12,
    )
)
def test_by_words_exactly_the_entries_above_the_threshold_are_found(
    texts: list[frozenset[str]],
) -> None:
    entries = [
        make_entry(number, title=" ".join(sorted(text))) for number, text in enumerate(texts)
    ]
    with open_index(None) as index:
        fill(index, *entries)
        similar_entries = similar(index, 0)
    alike = sorted((jaccard(texts[0], text) for text in texts[1:]), reverse=True)
    assert [neighbour.weight for neighbour in similar_entries.neighbours] == [
        share for share in alike if share >= MIN_JACCARD
    ][:MAX_SIMILAR]


def test_entries_are_found_by_id_in_their_first_place_that_passes_the_filters(index: Index) -> None:
    both = make_fruit_entries("apple", "pear")
    fill(index, *both, make_entry(3, status="retired"), more=both[:1])
    places_by_id = find_by_ids(index, [make_id(1), make_id(3), make_id(9)])
    assert {id_: place.path for id_, place in places_by_id.items()} == {make_id(1): "MEMORY.md"}
    assert find_by_ids(index, [make_id(2)], types=("corrective",)) == {}


def test_entries_that_name_others_are_listed_with_the_named_ids(index: Index) -> None:
    naming = make_entry(2, relations=(f"supports {make_id(1)}",), supersedes=(make_id(8),))
    fill(index, make_entry(1), naming, make_entry(3, status="retired", supersedes=(make_id(1),)))
    assert list_entries_with_relations(index) == [(make_id(2), naming.relations, naming.supersedes)]
