"""Tests that every engine of an organisation's index passes; a new engine adds its name to `engines.NAMES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest
from msgspec.structs import replace

from memory_ci.commands.org.engine import OrgEngine
from memory_ci.commands.org.records import OrgFilters
from memory_ci.search.builder import open_index
from memory_ci.search.builder import sync as sync_index
from memory_ci.search.search import search
from tests.commands.org.engines import (
    NAMES,
    Place,
    make_entries,
    make_place,
    make_repository,
    writing,
)
from tests.make import make_entry, make_located
from tests.search.trees import Tree

ALL = OrgFilters()
BOTH = ("public", "internal")


@pytest.fixture(params=[NAMES[0], pytest.param(NAMES[1], marks=pytest.mark.slow)])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, make_address: Callable[[], str]
) -> Iterator[Place]:
    place = make_place(
        request.param, str(tmp_path / "index") if request.param == "sqlite" else make_address()
    )
    yield place
    place.close()


def titles(
    engine: OrgEngine, *terms: str, filters: OrgFilters = ALL, audiences: tuple[str, ...] = BOTH
) -> list[str]:
    return [match.located.entry.title for match in engine.search(terms, filters, audiences, 50)]


def test_a_reader_finds_published_entries_with_repository_and_path(place: Place) -> None:
    entry = make_located(
        1,
        path="src/api/MEMORY.md",
        scope="team",
        where="src/api",
        title="Retry with a key",
        body="x",
    )
    with writing(place) as engine:
        engine.sync(make_repository("acme/pay"), "a" * 40, [entry])
    (match,) = place.read(None).search(["retry"], ALL, BOTH, 10)
    assert (match.located, match.repository, match.commit) == (
        entry,
        make_repository("acme/pay"),
        "a" * 40,
    )


def test_the_writer_reads_its_own_writes(place: Place) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry first"))
        engine.publish()
        engine.sync(make_repository("b"), "1", make_entries(9, "Retry second"))
        assert sorted(titles(engine, "retry")) == ["Retry first", "Retry second"]
    assert sorted(titles(place.read(None), "retry")) == ["Retry first", "Retry second"]


def test_scores_equal_those_of_the_repository_s_own_index(place: Place) -> None:
    entries = [
        make_entry(n, title=f"Note {n} on retry", body="charge " * (n % 5) + "key " * (n % 3))
        for n in range(40)
    ]
    tree = Tree({"MEMORY.md": tuple(entries)})
    with writing(place) as engine:
        engine.sync(
            make_repository("a"),
            "1",
            [make_located(n, title=e.title, body=e.body) for n, e in enumerate(entries)],
        )
    with open_index(None) as index:
        sync_index(index, tree.oids, tree.load)
        own_scores = [
            (m.located.entry.id, m.lexical) for m in search(index, ["charge", "key", "charge"])
        ]
    matches = [
        (m.located.entry.id, m.lexical)
        for m in place.read(None).search(["charge", "key", "charge"], ALL, BOTH, 200)
    ]
    assert [score for _, score in matches] == pytest.approx(
        [score for _, score in own_scores], rel=0.01
    )
    assert {id_ for id_, _ in matches} == {id_ for id_, _ in own_scores}


def test_a_second_sync_replaces_the_rows_of_that_repository_alone(place: Place) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry old", "Retry kept"))
        engine.sync(make_repository("b"), "1", make_entries(1, "Retry other"))
        engine.sync(make_repository("a"), "2", make_entries(2, "Retry kept", "Retry new"))
    reader = place.read(None)
    assert sorted(titles(reader, "retry")) == ["Retry kept", "Retry new", "Retry other"]
    assert {id_: (head.commit, head.entries) for id_, head in reader.heads().items()} == {
        "forge.example#a": ("2", 2),
        "forge.example#b": ("1", 1),
    }


def test_the_entries_of_one_repository_are_listed_by_place(place: Place) -> None:
    entries = [
        make_located(3, path="a/MEMORY.md", title="C"),
        make_located(2, title="B"),
        make_located(1, title="A"),
    ]
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", entries)
        engine.sync(make_repository("a2"), "1", make_entries(9, "Other"))
        assert engine.entries("forge.example#a") == [entries[2], entries[1], entries[0]]
    reader = place.read(None)
    assert (reader.entries("forge.example#a"), reader.entries("none")) == (
        [entries[2], entries[1], entries[0]],
        [],
    )


def test_a_rename_keeps_the_rows(place: Place) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("old", id="f#7"), "1", make_entries(1, "Retry"))
        engine.sync(make_repository("new", id="f#7"), "1", None)
    (match,) = place.read(None).search(["retry"], ALL, BOTH, 10)
    assert match.repository.name == "new"


def test_a_dropped_repository_is_in_no_audience(place: Place) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a", "public"), "1", make_entries(1, "Retry a"))
        engine.sync(make_repository("b", "public"), "1", make_entries(2, "Retry b"))
        engine.drop("forge.example#a")
        engine.drop("unknown")
    reader = place.read(None)
    assert titles(reader, "retry") == ["Retry b"]
    assert list(reader.heads()) == ["forge.example#b"]


def test_a_repository_is_in_exactly_one_audience(place: Place) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a", "public"), "1", make_entries(1, "Retry"))
    with writing(place) as engine:
        engine.sync(make_repository("a", "group-pay"), "1", make_entries(1, "Retry"))
    reader = place.read(None)
    assert titles(reader, "retry") == []
    assert titles(reader, "retry", audiences=("group-pay",)) == ["Retry"]
    assert titles(reader, "retry", audiences=("group-none", "group-pay")) == ["Retry"]


def test_word_statistics_count_only_the_audience(place: Place) -> None:
    """The texts of a private group change no score and no count of other audiences."""

    def scores(private: int) -> object:
        with writing(place) as engine:
            engine.sync(
                make_repository("a"),
                "1",
                make_entries(1, "Retry a charge", "Charge once", "Other words"),
            )
            engine.sync(
                make_repository("x", "group-x"),
                str(private),
                make_entries(50, *["Retry a charge"] * private),
            )
        reader = place.read(None)
        matches = reader.search(["charge", "retry"], ALL, BOTH, 10)
        return [(m.located.entry.id, m.lexical) for m in matches], reader.count(
            ["charge", "retry"], BOTH
        )

    assert scores(1) == scores(30)


def test_counts_are_of_entries_that_hold_a_term(place: Place) -> None:
    with writing(place) as engine:
        engine.sync(
            make_repository("a", "public"), "1", make_entries(1, "Retrying charges", "Charge once")
        )
        engine.sync(make_repository("b"), "1", make_entries(3, "Charge twice"))
    assert place.read(None).count(["charge", "retry", "none", "charg*"], BOTH) == (
        3,
        {"charge": 3, "retry": 1, "none": 0, "charg*": 3},
    )


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (OrgFilters(types=("corrective",)), ["Retry 2"]),
        (OrgFilters(domains=("team",)), ["Retry 3"]),
        (OrgFilters(phases=("design",)), ["Retry 4"]),
        (
            OrgFilters(today=date(2026, 9, 2)),
            ["Retry 1", "Retry 2", "Retry 3", "Retry 4", "Retry 7"],
        ),
        (OrgFilters(excluded_repositories=("forge.example#a",)), ["Retry 7"]),
        (
            OrgFilters(excluded_repositories=("https://forge.example/b",)),
            ["Retry 1", "Retry 2", "Retry 3", "Retry 4", "Retry 5"],
        ),
    ],
)
def test_filters_hold_before_anything_is_counted(
    place: Place, filters: OrgFilters, found: list[str]
) -> None:
    with writing(place) as engine:
        engine.sync(
            make_repository("a"),
            "1",
            [
                make_located(1, title="Retry 1"),
                make_located(2, title="Retry 2", type="corrective"),
                make_located(3, title="Retry 3", domain="team"),
                make_located(4, title="Retry 4", phase="design"),
                make_located(5, title="Retry 5", valid_until=date(2026, 9, 2)),
                make_located(6, title="Retry 6", status="retired"),
            ],
        )
        engine.sync(make_repository("b"), "1", [make_located(7, title="Retry 7")])
    assert sorted(titles(place.read(None), "retry", filters=filters)) == found


def test_depth_bounds_the_answer_over_all_audiences(place: Place) -> None:
    with writing(place) as engine:
        for number, audience in enumerate(BOTH):
            entries = make_entries(10 * number, *(f"Retry {n}" for n in range(9)))
            engine.sync(make_repository(audience, audience), "1", entries)
    matches = place.read(None).search(["retry"], ALL, BOTH, 12)
    assert len(matches) == 12
    assert {match.repository.audience for match in matches} == set(BOTH)


def test_any_term_is_legal(place: Place) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry 'quoted' \"text\" AND NOT"))
    reader = place.read(None)
    for term in ('"', "'", "a\0b", "NEAR(", "*", "-", "\ud800", "e:x", "%", "\\"):
        reader.search([term], ALL, BOTH, 5)
    assert reader.search([], ALL, BOTH, 5) == []
    assert titles(reader, "retr*") == titles(reader, '"text"')


def test_a_reader_gets_an_error_after_its_deadline(place: Place) -> None:
    with writing(place) as engine:
        engine.sync(
            make_repository("a"),
            "1",
            make_entries(1, *(f"Retry number {n} of many" for n in range(500))),
        )
    with pytest.raises(TimeoutError):
        place.read(0.0).search(["retry", "number", "many"], ALL, BOTH, 200)


def test_synced_entries_remain_when_the_writer_is_reopened(place: Place) -> None:
    engine = place.write()
    engine.sync(make_repository("a"), "1", make_entries(1, "Retry"))
    engine.close()
    with writing(place) as engine:
        assert engine.heads()["forge.example#a"].commit == "1"
    assert titles(place.read(None), "retry") == ["Retry"]


def test_ids_that_stand_in_two_repositories_are_both_kept(place: Place) -> None:
    with writing(place) as engine:
        for name in ("a", "a b", "a-b", "é"):
            engine.sync(make_repository(name), "1", make_entries(1, "Retry"))
        engine.sync(replace(make_repository("a"), name="renamed"), "2", [])
    matches = place.read(None).search(["retry"], ALL, BOTH, 10)
    assert [match.repository.name for match in matches] == ["a b", "a-b", "é"]


def test_the_operator_stores_its_state_and_can_read_sizes(place: Place) -> None:
    with writing(place) as engine:
        engine.sync(make_repository("a"), "1", make_entries(1, "Retry"))
        assert engine.state() == b""
        engine.save_state(b"first")
        engine.save_state(b"second")
    reader = place.read(None)
    assert (reader.state(), reader.size("internal") > 1000) == (b"second", True)
