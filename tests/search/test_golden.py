"""Tests of golden queries, which are derived from entries."""

from __future__ import annotations

from memory_ci.commands.evaluate.records import GoldenQuery
from memory_ci.commands.evaluate.retrieval_metrics import FOREIGN_TASKS, derive_golden
from memory_ci.records.entry import Entry
from tests.make import make_entry, make_id

ENTRY = make_entry(
    1,
    title="Retry charges with an idempotency key",
    body="The gateway books twice after timeouts, see src/pay.py.",
)


def derive(*entries: Entry, paths: tuple[str, ...] = ()) -> dict[str, list[GoldenQuery]]:
    queries: dict[str, list[GoldenQuery]] = {}
    for golden in derive_golden(entries, lambda _: paths):
        queries.setdefault(golden.kind, []).append(golden)
    return queries


def test_each_entry_has_a_query_with_its_title() -> None:
    assert derive(ENTRY)["title"] == [
        GoldenQuery(query=ENTRY.title, relevant=(make_id(1),), kind="title")
    ]


def test_a_paraphrase_lacks_the_rarest_word_of_the_title_and_takes_words_of_the_body() -> None:
    common = make_entry(2, title="Charges retry with a key", body="short")
    (paraphrase,) = derive(ENTRY, common)["paraphrase"]
    assert "idempotency" not in paraphrase.query
    assert {"retry", "charges", "gateway"} <= set(paraphrase.query.split())
    assert paraphrase.relevant == (make_id(1),)


def test_a_cited_file_has_a_query_only_if_the_entry_mentions_it() -> None:
    (path,) = derive(ENTRY, paths=("src/pay.py", "src/other.py"))["path"]
    assert path.query == "Change src/pay.py"


def test_foreign_tasks_have_no_answer_and_tasks_that_memory_contains_are_left_out() -> None:
    assert [golden.relevant for golden in derive(ENTRY)["foreign"]] == [()] * len(FOREIGN_TASKS)
    foreign_tasks = {
        golden.query for golden in derive(make_entry(1, title=FOREIGN_TASKS[0]))["foreign"]
    }
    assert foreign_tasks == set(FOREIGN_TASKS[1:])
