"""Tests of the evaluation of retrieval: sets of queries, golden queries of a repository, and their gate."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_ci.commands.evaluate.evaluate_retrieval import (
    answer_golden,
    answer_set,
    compare_golden,
    derive_golden_file,
    load_golden,
    measure,
)
from memory_ci.commands.evaluate.records import Quality, QueryAnswer
from memory_ci.commands.evaluate.retrieval_set import load_set
from memory_ci.errors import UsageError
from memory_ci.records.config import Config
from memory_ci.search.embedders import EmbedderChoice, Purpose, Vectors, pack_vectors
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import TODAY, Project

ENTRIES = [
    {
        "id": "key",
        "text": "Retry charges with an idempotency key",
        "group": "shop",
        "ts": "2026-01-01T10:00:00+00:00",
    },
    {
        "id": "log",
        "text": "Log every charge\nA charge is logged",
        "group": "shop",
        "ts": "2026-01-02T10:00:00+00:00",
    },
    {
        "id": "new",
        "text": "Retry charges in the client",
        "group": "shop",
        "ts": "2026-03-01T10:00:00+00:00",
    },
    {
        "id": "far",
        "text": "Retry charges of another shop",
        "group": "bank",
        "ts": "2026-01-01T10:00:00+00:00",
    },
]
QUERY = {
    "id": "q",
    "text": "retry charges",
    "group": "shop",
    "ts": "2026-02-01T00:00:00+00:00",
    "class": "task",
}


def ticking() -> float:
    return next(TICKS)


TICKS = map(float, itertools.count())


def write_lines(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def answer(
    tmp_path: Path,
    *queries: dict[str, Any],
    qrels: tuple[tuple[str, str, float], ...] = (("q", "key", 1),),
) -> tuple[QueryAnswer, ...]:
    files = (
        write_lines(tmp_path / "e", *ENTRIES),
        write_lines(tmp_path / "q", *queries),
        write_lines(
            tmp_path / "r", *({"query": q, "entry": e, "relevance": r} for q, e, r in qrels)
        ),
    )
    return tuple(answer_set(load_set(*files), Config(), ticking))


def values(quality: Quality) -> dict[str, float]:
    return {measure.name: measure.value for measure in quality.measures}


def test_a_query_is_answered_from_earlier_entries_of_its_group(tmp_path: Path) -> None:
    (item,) = answer(tmp_path, QUERY)
    assert item.ranking == ("key", "log")
    (timeless,) = answer(tmp_path, {key: value for key, value in QUERY.items() if key != "ts"})
    assert set(timeless.ranking) == {"key", "log", "new"}


def test_age_is_taken_at_the_time_of_the_query(tmp_path: Path) -> None:
    late = QUERY | {"id": "late", "ts": "2026-12-01T00:00:00+00:00"}
    now, then = answer(tmp_path, QUERY, late, qrels=(("q", "key", 1), ("late", "key", 1)))
    weight = [dict(item.factors[item.ranking.index("key")])["prominence"] for item in (now, then)]
    assert weight[0] > weight[1] > 0.5


def test_only_queries_with_an_answer_are_asked(tmp_path: Path) -> None:
    assert answer(tmp_path, QUERY, qrels=(("q", "key", 0),)) == ()


def test_measures_are_means_and_come_by_class(tmp_path: Path) -> None:
    other_query = QUERY | {"id": "none", "text": "zebra", "class": "odd"}
    answered = answer(tmp_path, QUERY, other_query, qrels=(("q", "key", 1), ("none", "log", 1)))
    everything, odd, task = measure(answered)
    assert (everything.kind, odd.kind, task.kind) == ("", "odd", "task")
    assert (values(everything)["nDCG@10"], values(odd)["nDCG@10"], values(task)["nDCG@10"]) == (
        0.5,
        0.0,
        1.0,
    )
    assert (values(everything)["zero results"], values(odd)["zero results"]) == (0.5, 1.0)
    assert everything.milliseconds == (1000, 1000)


def test_two_measurements_of_the_same_answers_are_equal(tmp_path: Path) -> None:
    answered = answer(tmp_path, QUERY)
    assert measure(answered) == measure(answered)


@pytest.mark.parametrize("line", ["{", '{"id": 1, "text": "x"}', "[]"])
def test_a_line_that_is_no_query_is_named(tmp_path: Path, line: str) -> None:
    files = [write_lines(tmp_path / name) for name in "er"]
    (tmp_path / "q").write_text(f"\n{line}\n")
    with pytest.raises(UsageError, match="q:2") as caught:
        load_set(files[0], tmp_path / "q", files[1])
    assert caught.value.slug == "bad-queries"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none"):
        load_set(tmp_path / "none", tmp_path / "none", tmp_path / "none")


def put_golden(project: Project, *goldens: dict[str, Any]) -> None:
    project.write(
        ".memory/eval/own.jsonl", "".join(json.dumps(golden) + "\n" for golden in goldens)
    )


def put_entries(project: Project, *titles: str) -> None:
    entries = [
        make_entry(n, title=title, last_reinforced=TODAY) for n, title in enumerate(titles, start=1)
    ]
    project.commit("Put", {"MEMORY.md": "\n".join(map(format_entry, entries))})


RETRY = {"query": "retry the charge", "relevant": [make_id(1)]}


def test_golden_queries_are_answered_from_the_work_tree(project: Project) -> None:
    put_entries(project, "Retry a charge with a key", "Colours of the flag")
    stale = {"query": "flag colours", "relevant": [make_id(2)], "negative": [make_id(2)]}
    put_golden(project, RETRY, stale, {"query": "colours of the flag"}, {"query": "oven"})
    answered = answer_golden(project.workspace, load_golden(project.workspace), TODAY, ticking)
    assert [item.query.name for item in answered] == ["own:1", "own:2", "own:3", "own:4"]
    quality = measure(answered)[0]
    assert values(quality)["nDCG@10"] == 1.0
    assert values(quality)["stale hits@10"] == 1.0
    assert (quality.queries, quality.unanswerable, quality.false_hits) == (2, 2, 1)


def test_the_gate_closes_when_an_entry_is_lost_and_names_the_query(project: Project) -> None:
    put_entries(project, "Retry a charge with a key", "Colours of the flag")
    put_golden(project, RETRY, {"query": "flag", "relevant": [make_id(2)]})
    project.commit(
        "Lose one", {"MEMORY.md": format_entry(make_entry(2, title="Colours of the flag"))}
    )
    goldens = load_golden(project.workspace)
    answered = answer_golden(project.workspace, goldens, TODAY, ticking)
    lost = compare_golden(
        project.workspace, goldens, answered, "HEAD~1", margin=0.02, clock=ticking
    )
    assert {name for name, _, _ in lost.worse} >= {"nDCG@10", "recall at served"}
    assert [(fall.name, fall.before, fall.now) for fall in lost.falls] == [("own:1", 1.0, 0.0)]
    assert not compare_golden(
        project.workspace, goldens, answered, "HEAD~1", margin=0.7, clock=ticking
    ).worse
    assert not compare_golden(
        project.workspace, goldens, answered, "HEAD", margin=0.0, clock=ticking
    ).worse


def test_served_entries_are_measured_apart_from_the_ranking(tmp_path: Path) -> None:
    again = QUERY | {"id": "again", "text": "retry charges with an idempotency key"}
    bank = {"id": "b", "text": "paint the barn doors red", "group": "bank"}
    answered = answer(tmp_path, QUERY, again, bank, qrels=(("q", "key", 1), ("again", "key", 1)))
    assert [item.query.name for item in answered] == ["q", "", "again", ""], (
        "each with a task of another group behind it"
    )
    measures = values(measure(answered)[0])
    assert (measures["entries served"], measures["recall at served"], measures["kept"]) == (
        1.5,
        1.0,
        1.0,
    )
    assert (
        measures["precision at served"],
        measures["repeats"],
        measures["unrelated answered"],
    ) == (
        0.75,
        0.5,
        0.0,
    )
    assert measures["characters served"] > 0


def test_the_gate_covers_entries_served_to_unrelated_tasks(project: Project) -> None:
    put_entries(project, "Retry a charge with a key")
    put_golden(project, RETRY, {"query": "paint the barn doors"})
    put_entries(project, "Retry a charge with a key", "Paint the barn doors red")
    goldens = load_golden(project.workspace)
    answered = answer_golden(project.workspace, goldens, TODAY, ticking)
    compared = compare_golden(
        project.workspace, goldens, answered, "HEAD~1", margin=0.02, clock=ticking
    )
    assert compared.worse == (("unrelated answered", 0.0, 1.0),)


def test_global_memory_takes_no_part(project: Project, home: Path) -> None:
    (home / "MEMORY.md").write_text(format_entry(make_entry(9, title="Retry the charge")))
    put_golden(project, RETRY)
    (item,) = answer_golden(project.workspace, load_golden(project.workspace), TODAY, ticking)
    assert make_id(9) not in item.ranking


def test_without_golden_queries_the_hint_explains_how_to_make_them(project: Project) -> None:
    with pytest.raises(UsageError) as caught:
        load_golden(project.workspace)
    assert caught.value.slug == "no-golden-queries"
    put_golden(project, {"query": "nobody knows"})
    goldens = load_golden(project.workspace)
    answered = answer_golden(project.workspace, goldens, TODAY, ticking)
    with pytest.raises(UsageError, match="relevant"):
        compare_golden(project.workspace, goldens, answered, "HEAD", margin=0.02, clock=ticking)


def test_derived_queries_are_added_beside_those_of_people(project: Project) -> None:
    put_entries(project, "Retry a charge with a key", "Colours of the flag")
    put_golden(project, RETRY)
    path, count = derive_golden_file(project.workspace)
    assert path.name == "derived.jsonl"
    assert len(load_golden(project.workspace)) == count + 1
    assert derive_golden_file(project.workspace) == (path, count)
    answered = answer_golden(project.workspace, load_golden(project.workspace), TODAY, ticking)
    titles = next(quality for quality in measure(answered) if quality.kind == "title")
    assert values(titles)["nDCG@10"] == 1.0
    assert project.check().is_ok


def test_with_vectors_every_entry_is_embedded_once_and_the_answers_are_hybrid(
    tmp_path: Path,
) -> None:
    texts: list[str] = []

    class Counting:
        """An embedder of two dimensions: texts with the word `idempotency`, and other texts."""

        model_id = "counting"

        def embed(self, texts_: Sequence[str], purpose: Purpose = "entry") -> Vectors:
            texts.extend(texts_)
            return pack_vectors(
                [[1.0, 0.0] if "idempotency" in text else [0.0, 1.0] for text in texts_]
            )

    files = (
        write_lines(tmp_path / "e", *ENTRIES),
        write_lines(tmp_path / "q", QUERY, QUERY | {"id": "again"}),
        write_lines(
            tmp_path / "r",
            *({"query": name, "entry": "key", "relevance": 1} for name in ("q", "again")),
        ),
    )
    chosen = EmbedderChoice(Counting(), "hybrid", "")
    answered = tuple(answer_set(load_set(*files), Config(), ticking, chosen))
    assert len(answered) == 2
    entries = [text for text in texts if text != QUERY["text"]]
    assert entries
    assert len(entries) == len(set(entries)), "a text is embedded once"


def test_absurd_times_and_grades_are_no_overflow(tmp_path: Path) -> None:
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        answer(tmp_path, QUERY | {"ts": moment})
    with pytest.raises(UsageError, match="relevance"):
        answer(tmp_path, QUERY, qrels=(("q", "key", 2000),))
