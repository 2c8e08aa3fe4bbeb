"""Tests of searching the index: matches, filters and limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import date
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.entry import Entry, ScopeOf
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import Norm
from memory_ci.search import database, rows
from memory_ci.search.builder import open_index, sync
from memory_ci.search.database import Index
from memory_ci.search.query import Corpus, build_terms
from memory_ci.search.search import (
    Filters,
    count_entries_with_term,
    list_entries,
    list_findings,
    list_prose,
    search,
)
from memory_ci.search.strength import measure_coverage
from tests.make import make_entry, make_id
from tests.search.trees import Tree, make_loaded, make_tree


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    """Yield an index with an entry for each scope and status, all about retries."""
    tree = Tree(
        {
            "MEMORY.md": (
                make_entry(1, title="Retry with a key"),
                make_entry(2, title="Retry was retired", status="retired"),
                make_entry(3, title="Retry was compacted", status="compacted", type="corrective"),
            ),
            "institutional.md": (make_entry(4, title="Retry is always logged"),),
            "src/api/MEMORY.md": (make_entry(5, title="Retry in the API"),),
            "src/app/MEMORY.md": (make_entry(6, title="Retry in the app"),),
        }
    )
    tree.files["job.md"] = make_loaded(
        "job.md", make_entry(7, title="Retry of a job"), scope=ScopeOf("session", "j1")
    )
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        yield index


Fill = Callable[..., Index]


@pytest.fixture
def filled() -> Iterator[Fill]:
    """Yield a function: `filled(*entries)` returns an index of one project file with the entries."""
    with ExitStack() as stack:

        def fill(*entries: Entry) -> Index:
            tree, index = Tree({"MEMORY.md": entries}), stack.enter_context(open_index(None))
            sync(index, tree.oids, tree.load)
            return index

        yield fill


def numbers(index: Index, terms: Sequence[str], depth: int = 200) -> list[int]:
    return [int(match.located.entry.id[:8], 16) for match in search(index, terms, depth=depth)]


def test_a_needle_among_500_entries_comes_first_and_has_the_highest_score(filled: Fill) -> None:
    """bm25() is negative and lower is better: normalised in the wrong direction, the needle would be last."""
    hay = [
        make_entry(n, title=f"Retry note {n}", body="about many other things " * (1 + n % 7))
        for n in range(500)
    ]
    needle = make_entry(900, title="Retry a charge only with an idempotency key")
    index = filled(*hay[:250], needle, *hay[250:])
    matches = search(index, ["retry", "charge", "idempotency", "key"])
    scores = [match.lexical for match in matches]
    assert matches[0].located.entry == needle
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 2 * scores[1] > 0


def test_equal_scores_are_in_order_of_id(filled: Fill) -> None:
    assert numbers(
        filled(*(make_entry(n, title="same") for n in (3, 1, 2))), ["same"], depth=2
    ) == [1, 2]


def test_one_matching_term_is_enough(filled: Fill) -> None:
    index = filled(make_entry(1, title="retry"), make_entry(2, title="charge"))
    assert numbers(index, ["retry", "charge", "nowhere"]) == [1, 2]


def test_a_repeated_term_counts_more(filled: Fill) -> None:
    index = filled(
        make_entry(1, title="alpha"), make_entry(2, title="beta"), make_entry(3, title="gamma")
    )
    assert numbers(index, ["alpha", "beta"]) == [1, 2]
    assert numbers(index, ["alpha", "beta", "beta"]) == [2, 1]


@pytest.mark.parametrize(
    "term",
    [",", "'", ":", "-", ".", "AND", '"', 'a"b', "NEAR(", "a\0b", "\0", "*", "\U0001f600", ""],
)
def test_signs_and_operators_of_fts_are_searched_as_words(index: Index, term: str) -> None:
    assert search(index, [term]) == []
    assert numbers(index, [term, "retry", term]) == numbers(index, ["retry"])


@given(
    st.lists(
        st.text(st.characters() | st.sampled_from("\"'*():^-+\0\ud800"), max_size=20), max_size=5
    )
)
def test_any_strings_are_a_valid_query(index: Index, terms: list[str]) -> None:
    assert search(index, [*terms, "retry"])


def test_thousands_of_terms_are_a_valid_query(index: Index) -> None:
    assert numbers(index, [f"word{n}" for n in range(5000)] + ["retry"]) == numbers(
        index, ["retry"]
    )


def test_no_terms_find_nothing(index: Index) -> None:
    assert search(index, []) == []


@pytest.mark.parametrize(
    "term", ["MEMORY.md", "md", "src", make_id(1), "00000001", "procedural", "active"]
)
def test_an_id_or_a_path_or_a_field_never_matches(index: Index, term: str) -> None:
    assert search(index, [term], scopes=None, statuses=None) == []


@pytest.mark.parametrize(
    "term", ["user", "name", "client", "getUserName", "http_client", "getusername", "HTTP", "cafe"]
)
def test_an_identifier_is_found_whole_and_by_its_parts(filled: Fill, term: str) -> None:
    assert numbers(
        filled(make_entry(1, title="Call getUserName in http_client.py, café")), [term]
    ) == [1]


def test_words_are_found_in_any_inflection(filled: Fill) -> None:
    assert numbers(filled(make_entry(1, body="never retry charges")), ["retrying"]) == [1]


def test_a_retired_entry_is_not_served(index: Index) -> None:
    assert 2 not in numbers(index, ["retry"])
    assert [match.located.entry.id for match in search(index, ["retry"], statuses=["retired"])] == [
        make_id(2)
    ]


def test_institutional_memory_is_not_ranked(index: Index) -> None:
    assert 4 not in numbers(index, ["retry"])
    assert [
        match.located.entry.id for match in search(index, ["retry"], scopes=["institutional"])
    ] == [make_id(4)]


RIGHT: dict[str, Any] = {
    "type": "corrective",
    "domain": "team",
    "phase": "design",
    "status": "compacted",
    "occurred_at": date(2026, 3, 1),
    "valid_until": date(2026, 9, 2),
}
WRONG: dict[str, Any] = {
    "type": "directive",
    "domain": "task",
    "phase": None,
    "status": "active",
    "occurred_at": date(2026, 3, 2),
    "valid_until": date(2026, 9, 1),
}
FILTERS: list[Filters] = [
    {"types": ["corrective"]},
    {"domains": ["team"]},
    {"phases": ["design", "planning"]},
    {"statuses": ["compacted"]},
    {"scopes": ["session"]},
    {"paths": ["docs/x.md"]},
    {"session": "mine"},
    {"session": "mine", "all_sessions": False},
    {"occurred_between": (date(2026, 2, 1), date(2026, 3, 1))},
    {"occurred_between": (date(2026, 3, 1), date(2026, 3, 1))},
    {"today": date(2026, 9, 1)},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_60_strong_filtered_rows_do_not_hide_the_only_valid_row(
    filters: Filters,
) -> None:
    """So each filter must be in the SQL, before the limit."""
    strong = [make_entry(n, title="retry retry retry", **WRONG) for n in range(60)]
    weak = make_entry(
        99, title="a retry is mentioned in passing", body="other words " * 30, **RIGHT
    )
    tree = Tree()
    elsewhere = ScopeOf("session", "theirs") if "session" in filters else ScopeOf("team", "src")
    tree.files = {
        "strong.md": make_loaded("strong.md", *strong, scope=elsewhere),
        "weak.md": make_loaded("weak.md", weak, scope=ScopeOf("session", "mine")),
    }
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        assert [match.located.entry for match in search(index, ["retry"], depth=5, **filters)] == [
            weak
        ]
        assert [located.entry for located in list_entries(index, **filters)] == [weak]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {1, 2}),
        ({"session": None}, {1, 2}),
        ({"session": "mine"}, {1}),
        ({"session": "mine", "all_sessions": True}, {1, 2}),
        ({"session": None, "all_sessions": False}, set()),
    ],
)
def test_entries_of_another_session_are_found_only_on_request(
    filters: Filters, expected: set[int]
) -> None:
    tree = Tree()
    for number, job in ((1, "mine"), (2, "theirs")):
        tree.files[f"{job}.md"] = make_loaded(
            f"{job}.md", make_entry(number, title="Retry"), scope=ScopeOf("session", job)
        )
    tree.files["MEMORY.md"] = make_loaded("MEMORY.md", make_entry(3, title="Retry"))
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        numbers_found = {
            int(match.located.entry.id[:8], 16) for match in search(index, ["retry"], **filters)
        }
    assert numbers_found == expected | {3}


def test_an_entry_without_an_end_is_valid_and_without_a_date_is_in_no_interval(
    filled: Fill,
) -> None:
    index = filled(
        make_entry(1, title="retry"), make_entry(2, title="retry", valid_until=date(2026, 1, 1))
    )
    assert [
        match.located.entry.id for match in search(index, ["retry"], today=date(2026, 1, 1))
    ] == [make_id(1)]
    assert search(index, ["retry"], occurred_between=(date.min, date.max)) == []


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (None, {5, 6}),
        ([], set()),
        (["README.md"], set()),
        (["src/api/client.py"], {5}),
        (["./src/api/deep/er/x.py", "src/app"], {5, 6}),
        (["src/apis/client.py", "SRC/API/x.py", "src/ap"], set()),
    ],
)
def test_team_entries_are_found_only_for_paths_in_their_directory(
    index: Index, paths: list[str] | None, expected: set[int]
) -> None:
    numbers_found = {
        int(match.located.entry.id[:8], 16) for match in search(index, ["retry"], paths=paths)
    }
    assert numbers_found == {1, 3, 7} | expected


@pytest.mark.parametrize(("depth", "expected"), [(2, 2), (0, 1), (-1, 1), (10**30, 20)])
def test_a_depth_out_of_range_is_clamped(filled: Fill, depth: int, expected: int) -> None:
    index = filled(*(make_entry(n, title="same") for n in range(20)))
    assert len(search(index, ["same"], depth=depth)) == expected


@pytest.mark.parametrize("importance", [math.nan, math.inf, -1.0])
def test_an_importance_that_is_not_a_number_does_not_stop_the_search(
    filled: Fill, importance: float
) -> None:
    index = filled(make_entry(1, title="same", importance=importance), make_entry(2, title="same"))
    assert numbers(index, ["same"]) == [1, 2]
    assert repr(list_entries(index)[0].entry.importance) == repr(importance)


def test_entries_are_listed_by_path_and_line_and_optionally_filtered(index: Index) -> None:
    listed = [(located.path, located.line) for located in list_entries(index)]
    assert listed == sorted(listed)
    assert len(listed) == 7
    corrections = list_entries(
        index, types=["corrective"], scopes=["project"], statuses=["compacted"]
    )
    assert [located.entry.id for located in corrections] == [make_id(3)]


def test_prose_and_findings_are_stored_with_their_lines() -> None:
    tree = make_tree()
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        assert list_prose(index, "institutional") == [Norm("institutional.md", 1, "Always test.")]
        assert list_prose(index, "project") == []
        assert list_findings(index) == [
            Finding("institutional.md", 3, "bad-value", "importance is not a number")
        ]


@pytest.mark.parametrize(
    ("title", "task"),
    [
        (
            "重试支付请求前必须带幂等键",
            "支付失败了怎么处理",
        ),
        (
            "マイグレーションは手で書かない",
            "新しいマイグレーションを作る",
        ),
        (
            "데이터베이스를 먼저 백업한다",
            "데이터베이스가 깨졌다",
        ),
        (
            "ต้องสำรองข้อมูลก่อน",
            "ข้อมูลหาย",
        ),
        ("Docker容器重启会丢日志", "why does docker lose logs"),
    ],
)
def test_a_text_without_blanks_is_found_by_its_parts(filled: Fill, title: str, task: str) -> None:
    index = filled(make_entry(1, title=title), make_entry(2, title="代码风格"))
    matches = search(index, build_terms(task))
    assert [match.located.entry.id for match in matches] == [make_id(1)]
    assert (
        measure_coverage(
            [matches[0].located.entry],
            build_terms(task),
            Corpus(2, partial(count_entries_with_term, index)),
        )
        > 0
    )


def test_a_word_of_two_of_three_entries_finds_both(filled: Fill) -> None:
    index = filled(
        make_entry(1, title="The client retried a POST after a timeout"),
        make_entry(2, title="Retries live in the client"),
        make_entry(3, title="Amounts are integers"),
    )
    matches = search(index, ["client"])
    assert [match.located.entry.id for match in matches] == [make_id(2), make_id(1)]
    assert min(match.lexical for match in matches) > 1.0


def test_scores_of_a_large_memory_equal_those_of_sqlite(filled: Fill) -> None:
    entries = [
        make_entry(number, title=f"Word{number % 3} and word{number % 7}")
        for number in range(1, 31)
    ]
    index = filled(*entries)
    (best, *_) = search(index, ["word0", "word1"])
    score = "-bm25(entries_fts, 4, 4, 4, 2) AS score"
    sql = f"SELECT {score} FROM entries_fts WHERE entries_fts MATCH ? ORDER BY score DESC LIMIT 1"  # noqa: S608
    assert index.read(sql, ('"word0" OR "word1"',), lambda row: row[0]) == [
        pytest.approx(best.lexical)
    ]


def test_terms_in_a_small_memory_weigh_as_in_one_of_the_minimal_size(filled: Fill) -> None:
    index = filled(make_entry(1, title="Retry with a key"), make_entry(2, title="Retry at once"))
    held_by_one, held_by_both = (search(index, [term])[0].lexical for term in ("key", "retry"))
    ratio = math.log((20 - 2 + 0.5) / 2.5) / math.log((20 - 1 + 0.5) / 1.5)
    assert held_by_both / held_by_one == pytest.approx(ratio, rel=0.1)


def test_a_query_does_not_rebuild_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    built_texts: list[str] = []

    def note_parts(title: str, body: str) -> str:
        built_texts.append(title)
        return rows.hidden_parts(title, body)

    functions = (("hidden_parts", 2, note_parts), ("cited", 1, rows.cited))
    monkeypatch.setattr(database, "SQL_FUNCTIONS", functions)
    tree = Tree({"MEMORY.md": tuple(make_entry(n, title=f"Retry {n}") for n in range(1, 30))})
    with open_index(None) as index:
        sync(index, tree.oids, tree.load)
        built_texts.clear()
        assert search(index, ["retry"])
    assert built_texts == []
