"""Tests of the vector lane: stored vectors, nearest entries, and messages if something is missing."""

from __future__ import annotations

import importlib.util
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.entry import Entry
from memory_ci.records.retrieval import Match
from memory_ci.search import vectors as lane
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import Index
from memory_ci.search.embedders import Purpose, Vectors, make_embedder_error, pack_vectors
from memory_ci.search.embedders.local import LocalEmbedder, find_model
from memory_ci.search.rows import text_hash
from memory_ci.search.search import list_entries, search
from memory_ci.search.vectors import (
    MAX_EMBEDDED_BY_QUERY,
    Nearest,
    find_nearest,
    list_missing_texts,
    search_vectors,
    store_vectors,
)
from tests.make import examples, make_entry
from tests.search.trees import Tree

FRUIT = {
    "apple": (1.0, 0.0),
    "pear": (0.8, 0.6),
    "brick": (0.0, 1.0),
    "nothing": (0.0, 0.0),
    "away": (-1.0, 0.0),
}


class Planned:
    """An embedder with fixed vectors for texts that begin with these words; it keeps its requests."""

    def __init__(
        self, vectors: Mapping[str, Sequence[float]] = FRUIT, model_id: str = "planned:1"
    ) -> None:
        self.model_id = model_id
        self.known = vectors
        self.requests: list[tuple[Purpose, int]] = []
        self.fault: Callable[[Purpose], str] = lambda _: ""

    def embed(self, texts: Sequence[str], purpose: Purpose = "entry") -> Vectors:
        self.requests.append((purpose, len(texts)))
        if words := self.fault(purpose):
            raise make_embedder_error("planned", words)
        return pack_vectors([self.known[text.split()[0]] for text in texts])


@pytest.fixture
def index() -> Iterator[Index]:
    with open_index(None) as opened:
        yield opened


def fill(index: Index, *titles: str, path: str = "MEMORY.md", **fields: str) -> Tree:
    tree = Tree(
        {path: tuple(make_entry(n, title=title, **fields) for n, title in enumerate(titles))}
    )
    sync(index, tree.oids, tree.load)
    return tree


def titles(answer: lane.VectorAnswer) -> list[str]:
    return [answer.located[place].entry.title for place in answer.matches]


def kept_titles(index: Index, model_id: str = "planned:1") -> set[str]:
    lost = list_missing_texts(index, model_id)
    return {
        located.entry.title
        for located in list_entries(index)
        if text_hash(located.entry) not in lost
    }


def test_the_nearest_entries_come_first_with_their_cosine(index: Index) -> None:
    fill(index, "brick", "apple", "pear", "away")
    answer = search_vectors(index, Planned(), "apple")
    assert titles(answer) == ["apple", "pear", "brick", "away"]
    assert list(answer.matches.values()) == pytest.approx([1.0, 0.8, 0.0, -1.0], abs=1e-6)
    assert list(answer.matches) == [(place.path, place.line) for place in answer.located.values()]
    assert answer.reason == ""


def test_stored_vectors_are_not_computed_again(index: Index) -> None:
    fill(index, "apple", "pear")
    embedder = Planned()
    search_vectors(index, embedder, "brick")
    search_vectors(index, embedder, "apple")
    assert embedder.requests == [("query", 1), ("entry", 2), ("query", 1)]


def test_a_vector_is_kept_when_an_entry_moves_and_removed_when_its_text_changes(
    index: Index,
) -> None:
    fill(index, "apple", "pear")
    embedder = Planned()
    search_vectors(index, embedder, "apple")
    fill(index, "pear", path="docs/MEMORY.md")
    tree = Tree({"docs/MEMORY.md": (make_entry(9, title="pear"), make_entry(8, title="brick"))})
    sync(index, tree.oids, tree.load)
    assert titles(search_vectors(index, embedder, "pear")) == ["pear", "brick"]
    assert embedder.requests[-1] == ("entry", 1)
    (hashes,) = index.connection.execute("SELECT hashes FROM vectors").fetchone()
    assert len(hashes) == 2 * 16


def test_equal_texts_share_a_vector_and_are_both_found(index: Index) -> None:
    fill(index, "apple", "apple")
    embedder = Planned()
    answer = search_vectors(index, embedder, "apple")
    assert embedder.requests[-1] == ("entry", 1)
    assert [located.entry.id for located in answer.located.values()] == [
        make_entry(0).id,
        make_entry(1).id,
    ]


def test_a_query_embeds_what_a_few_entries_lack(index: Index) -> None:
    fill(index, *(f"apple {n}" for n in range(MAX_EMBEDDED_BY_QUERY + 1)))
    embedder = Planned()
    answer = search_vectors(index, embedder, "apple")
    assert embedder.requests == [("query", 1), ("entry", MAX_EMBEDDED_BY_QUERY)]
    assert (
        answer.reason
        == "32 of 33 entries have vectors (`memory-ci index --vectors` embeds the rest)"
    )
    assert len(answer.matches) == MAX_EMBEDDED_BY_QUERY
    assert search_vectors(index, embedder, "apple").reason == ""


def test_with_too_few_vectors_the_embedder_is_not_called_and_the_lane_is_off(index: Index) -> None:
    fill(index, *(f"apple {n}" for n in range(MAX_EMBEDDED_BY_QUERY + 8)))
    embedder = Planned()
    answer = search_vectors(index, embedder, "apple")
    assert embedder.requests == []
    assert dict(answer.matches) == {}
    assert answer.reason.startswith("0 of 40 entries have vectors")
    lost = list_missing_texts(index, embedder.model_id)
    store_vectors(index, embedder.model_id, tuple(lost), embedder.embed(tuple(lost.values())))
    assert len(search_vectors(index, embedder, "apple").matches) == 40


def test_both_lanes_search_the_same_entries(index: Index) -> None:
    entries: list[Entry] = [
        make_entry(1, title="apple one", type="corrective"),
        make_entry(2, title="apple two", status="retired"),
        make_entry(3, title="apple three"),
    ]
    tree = Tree({"MEMORY.md": tuple(entries[:2]), "src/MEMORY.md": (entries[2],)})
    tree.files |= Tree({"institutional.md": (make_entry(4, title="apple four"),)}).files
    sync(index, tree.oids, tree.load)
    for filters in (
        {},
        {"types": ("corrective",)},
        {"statuses": ("retired",)},
        {"paths": ("docs/a.md",)},
    ):
        nearest_ids = {
            located.entry.id
            for located in search_vectors(index, Planned(), "apple", **filters).located.values()  # type: ignore[arg-type]
        }
        matches: list[Match] = search(index, ["apple"], **filters)  # type: ignore[arg-type]
        assert nearest_ids == {match.located.entry.id for match in matches} != set()


def test_depth_is_counted_after_the_filter(index: Index) -> None:
    strong = [make_entry(n, title=f"apple {n}") for n in range(1, 31)]
    tree = Tree({"MEMORY.md": (*strong, make_entry(99, title="brick", type="corrective"))})
    sync(index, tree.oids, tree.load)
    answer = search_vectors(index, Planned(), "apple", depth=1, types=("corrective",))
    assert titles(answer) == ["brick"]
    assert len(search_vectors(index, Planned(), "apple", depth=0).matches) == 1


def test_vectors_of_another_model_are_ignored(index: Index) -> None:
    fill(index, "apple", "pear")
    search_vectors(index, Planned(), "apple")
    other_model = Planned({word: (*row, 0.0) for word, row in FRUIT.items()}, "planned:2")
    assert find_nearest(index, other_model.embed(["apple"]), "planned:2") == Nearest((), 0, 2)
    assert search_vectors(index, other_model, "apple").reason == ""
    assert kept_titles(index, "planned:1") == kept_titles(index, "planned:2") == {"apple", "pear"}


def test_vectors_of_another_dimension_are_computed_again(index: Index) -> None:
    fill(index, "apple", "pear")
    search_vectors(index, Planned(), "apple")
    changed = Planned({word: (*row, 0.0) for word, row in FRUIT.items()})
    assert find_nearest(index, changed.embed(["apple"]), "planned:1") == Nearest((), 0, 2)
    answer = search_vectors(index, changed, "apple")
    assert (titles(answer), answer.reason) == (["apple", "pear"], "")
    assert changed.requests[-1] == ("entry", 2)


@pytest.mark.parametrize("word", ["apple", "brick"])
def test_a_vector_of_zeros_is_near_to_nothing(index: Index, word: str) -> None:
    fill(index, "nothing", "apple")
    answer = search_vectors(index, Planned(), word)
    cosines = {
        answer.located[place].entry.title: cosine for place, cosine in answer.matches.items()
    }
    assert cosines["nothing"] == 0.0


def test_a_task_with_a_vector_of_zeros_turns_the_lane_off(index: Index) -> None:
    fill(index, "apple")
    answer = search_vectors(index, Planned(), "nothing")
    assert (dict(answer.matches), answer.reason) == (
        {},
        "planned:1 gave the task a vector of zeros",
    )


def test_an_embedder_that_fails_turns_the_lane_off_and_is_quoted(index: Index) -> None:
    fill(index, "apple")
    embedder = Planned()
    embedder.fault = lambda _: "did not answer in time"
    answer = search_vectors(index, embedder, "apple")
    assert (dict(answer.matches), answer.reason) == ({}, "planned did not answer in time")


@pytest.mark.parametrize(("count", "is_on"), [(20, True), (4, False)])
def test_stored_vectors_are_used_if_a_few_entries_cannot_be_embedded(
    index: Index, count: int, is_on: bool
) -> None:
    texts = [f"apple {n}" for n in range(count)]
    fill(index, *texts)
    embedder = Planned()
    search_vectors(index, embedder, "apple")
    fill(index, *texts, "pear")
    embedder.fault = lambda purpose: "answered with status 500" if purpose == "entry" else ""
    answer = search_vectors(index, embedder, "apple")
    assert len(answer.matches) == count * is_on
    assert answer.reason.startswith(f"{count} of {count + 1} entries have vectors")
    assert answer.reason.endswith("; planned answered with status 500")


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_query_does_not_call_the_embedder(index: Index, text: str) -> None:
    fill(index, "apple")
    embedder = Planned()
    assert search_vectors(index, embedder, text) == ({}, {}, "")
    assert embedder.requests == []


@pytest.mark.parametrize(
    ("column", "value"),
    [("hashes", b"odd"), ("data", b"short"), ("dim", 0), ("dim", -2), ("dim", 3), ("hashes", b"")],
)
def test_a_row_with_an_inconsistent_length_is_ignored(
    index: Index, column: str, value: object
) -> None:
    fill(index, "apple", "pear")
    embedder = Planned()
    search_vectors(index, embedder, "apple")
    index.connection.execute(f"UPDATE vectors SET {column} = ?", (value,))  # noqa: S608
    assert len(list_missing_texts(index, "planned:1")) == 2
    assert titles(search_vectors(index, embedder, "apple")) == ["apple", "pear"]


def test_stored_vectors_with_invalid_numbers_are_never_near(index: Index) -> None:
    fill(index, "apple", "pear")
    search_vectors(index, Planned(), "apple")
    index.connection.execute(
        "UPDATE vectors SET data = ?", (array("f", [math.nan, 1.0, math.inf, 1.0]).tobytes(),)
    )
    assert list(search_vectors(index, Planned(), "apple").matches.values()) == [0.0, 0.0]


def test_the_table_does_not_depend_on_the_order_of_embedding() -> None:
    tables = []
    for order in (tuple(FRUIT), tuple(reversed(FRUIT))):
        with open_index(None) as index:
            fill(index, *FRUIT)
            by_title = {
                located.entry.title: text_hash(located.entry) for located in list_entries(index)
            }
            for title in order:
                store_vectors(index, "planned:1", (by_title[title],), Planned().embed([title]))
            tables.append(index.connection.execute("SELECT * FROM vectors").fetchall())
    assert tables[0] == tables[1]
    ((_, dim, hashes, data),) = tables[0]
    names = [hashes[at : at + 16] for at in range(0, len(hashes), 16)]
    assert names == sorted(by_title.values())
    expected = pack_vectors(
        [FRUIT[title] for name in names for title in FRUIT if by_title.get(title) == name]
    )
    assert (dim, data) == (2, expected.data.tobytes())


def test_missing_texts_are_listed_once_and_only_for_served_entries(index: Index) -> None:
    tree = Tree(
        {"MEMORY.md": (make_entry(1, title="apple"), make_entry(2, title="pear", status="retired"))}
    )
    tree.files |= Tree({"institutional.md": (make_entry(3, title="brick"),)}).files
    sync(index, tree.oids, tree.load)
    assert list(list_missing_texts(index, "planned:1").values()) == ["apple\n"]


numbers = st.floats(-1, 1, width=32, allow_subnormal=False)


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="numpy is not installed")
@examples(30)
@given(
    st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=8),
    st.tuples(numbers, numbers, numbers).filter(any),
)
def test_without_numpy_the_cosines_are_the_same(
    rows: list[tuple[float, ...]], query: tuple[float, ...]
) -> None:
    vectors = {f"title{number}": row for number, row in enumerate(rows)} | {"query": query}
    with open_index(None) as index, pytest.MonkeyPatch.context() as patch:
        fill(index, *(title for title in vectors if title != "query"))
        with_numpy = search_vectors(index, Planned(vectors), "query")
        patch.setattr(importlib.util, "find_spec", lambda _: None)
        without = search_vectors(index, Planned(vectors), "query")
    assert len(with_numpy.matches) == len(rows)
    assert without.matches == pytest.approx(with_numpy.matches, abs=1e-6)


def test_without_numpy_the_lane_works(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    fill(index, "brick", "pear")
    answer = search_vectors(index, Planned(), "apple")
    assert titles(answer) == ["pear", "brick"]


@pytest.mark.skipif(find_model() is None, reason="the extra `vectors` is not installed")
def test_the_local_model_finds_an_entry_without_common_words(index: Index) -> None:
    fill(
        index,
        "Bread needs an hour in the oven",
        "Undo the most recent commit with git reset",
        "Pin every tool",
    )
    path = find_model()
    assert path is not None
    answer = search_vectors(
        index, LocalEmbedder(path), "how to revert what I just saved to version control", depth=1
    )
    assert titles(answer) == ["Undo the most recent commit with git reset"]
