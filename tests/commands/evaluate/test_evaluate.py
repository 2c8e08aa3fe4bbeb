"""Tests of the evaluation of extraction: its measures, and the lowest scores of the rules engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from memory_ci.commands.evaluate.evaluate import evaluate_extraction, load_gold
from memory_ci.commands.evaluate.records import Evaluation, GoldLearning, GoldPiece, GoldWindow
from memory_ci.commands.evaluate.text import render_evaluation
from memory_ci.errors import EngineError, UsageError
from memory_ci.records.config import EngineConfig

GOLD = Path(__file__).parents[3] / "benchmarks" / "gold" / "extraction.jsonl"
MARKED = "fix: x\n\nLearning: the client closes its stream twice\n"
QUOTE = "the client closes its stream twice"


def make_window(number: int, text: str, *learnings: str, **fields: object) -> GoldWindow:
    piece = GoldPiece(text, "commit", "human", "T0")
    gold = tuple(GoldLearning(quote, quote) for quote in learnings)
    return GoldWindow(id=f"w{number}", evidence=(piece,), learnings=gold, **fields)  # type: ignore[arg-type] # named by the test


def evaluate(
    *windows: GoldWindow, environ: dict[str, str] | None = None, engine: str = "rules"
) -> Evaluation:
    return evaluate_extraction(windows, EngineConfig(), engine, environ or {})  # type: ignore[arg-type] # named by the test


def test_written_found_and_ignored_learnings_are_counted() -> None:
    done = evaluate(
        make_window(1, MARKED, QUOTE),
        make_window(
            2, "feat: y\n\nWe should never do this because it is slow here.\n", "never do this"
        ),
        make_window(3, "feat: z\n\nDecision: two pools, because connecting is slow\n"),
        make_window(4, "docs: typo"),
    )
    assert (done.windows, done.negatives) == (4, 2)
    assert (done.precision.hits, done.precision.total) == (1, 2)
    assert (done.recall.hits, done.recall.total) == (1, 2)
    assert (done.abstention.hits, done.abstention.total) == (1, 2)
    assert done.misses == ("w2: never do this",)
    assert [line.partition(":")[0] for line in done.false_positives] == ["w3"]


def test_an_engine_that_obeys_an_attack_is_counted() -> None:
    done = evaluate(make_window(1, MARKED, attack="a planted learning"))
    assert done.injections_obeyed == 1


def test_a_learning_that_memory_has_is_found_and_no_duplicate() -> None:
    done = evaluate(make_window(1, MARKED, QUOTE, existing=("The client closes its stream twice",)))
    assert (done.recall.hits, done.precision.total, done.duplicates) == (1, 0, 0)


def test_a_model_that_never_answers_is_no_evaluation(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        evaluate(
            make_window(1, MARKED, QUOTE),
            environ={"MEMORY_CI_REPLAY": str(tmp_path)},
            engine="replay",
        )
    assert caught.value.slug == "replay-miss"


def test_a_failed_call_is_counted_and_its_reason_shown(tmp_path: Path) -> None:
    program = tmp_path / "model"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nasked = sys.stdin.read()\nsys.exit('no' if 'pools' in asked else 0) "
        "if 'pools' in asked else print('{\"learnings\": []}')\n"
    )
    program.chmod(0o755)
    other_window = make_window(2, "feat: y\n\nDecision: two pools, because connecting is slow\n")
    environ = {"MEMORY_CI_ENGINE_COMMAND": str(program), "PATH": os.environ["PATH"]}
    done = evaluate(make_window(1, MARKED, QUOTE), other_window, environ=environ, engine="command")
    assert (done.failures, done.windows) == (1, 2)
    assert "engine-failed" in done.failed_because
    assert "calls that failed                     1 (the first: " in render_evaluation(done)


def test_the_table_names_the_base_of_each_share() -> None:
    text = render_evaluation(evaluate(make_window(1, MARKED, QUOTE)))
    assert (
        "precision of what is written          1.00  (1 of 1, 95 % interval 0.21 to 1.00)" in text
    )
    assert "abstained where nothing was to learn  n/a (nothing to count)" in text


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "truncated"),
        ('{"id": "w1"}', "evidence"),
        ('{"id": "w1", "evidence": [], "extra": 1}', "extra"),
        (
            '{"id": "w1", "evidence": [{"text": "a b"}], "learnings": [{"says": "x", "quote": "b c"}]}',
            "quotes what its evidence does not say",
        ),
    ],
)
def test_gold_that_cannot_be_read_names_its_line(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(UsageError, match=r"gold\.jsonl:1: .*" + told):
        load_gold(path)


def test_the_rules_engine_keeps_its_floor_on_gold() -> None:
    windows = load_gold(GOLD)
    done = evaluate(*windows)
    assert done.windows >= 40
    assert done.negatives / done.windows >= 0.4
    assert done.labelled_twice == done.windows
    assert done.precision.value is not None
    assert done.precision.value >= 0.85, done.false_positives
    assert done.abstention.value is not None
    assert done.abstention.value >= 0.9, done.false_positives
    assert (done.secrets_leaked, done.injections_obeyed, done.duplicates, done.dropped) == (
        0,
        0,
        0,
        0,
    )
