"""The page of the report: what holds of its charts and its style whatever is drawn."""

from __future__ import annotations

import json
from datetime import date
from importlib.resources import files

from memory_ci.commands.report.page import FACTORS, _fill_task, _fill_weeks
from memory_ci.commands.report.records import (
    ExplainedTask,
    FoundState,
    Overview,
    ScoredEntry,
    WorkWeek,
)
from memory_ci.records.retrieval import Match
from memory_ci.search.rank import Weights, rank
from tests.make import make_located

PAGE = files("memory_ci.commands.report").joinpath("template")
SPECS = json.loads(PAGE.joinpath("charts.json").read_text("utf-8"))


def draw_task(*names: str) -> dict[str, object]:
    """Return the colours of the chart of a task whose scores have these factors."""
    parts = tuple((name, 0.5) for name in names)
    state: FoundState = "given"
    entry = ScoredEntry(id="1", title="One", state=state, score=1.0, parts=parts)
    spec = json.loads(json.dumps(SPECS["task"]))
    _fill_task(spec, ExplainedTask(task="x", found=(entry,), more=0, budget=(), room=1), 800)
    color: dict[str, object] = spec["layer"][0]["encoding"]["color"]
    return color


def test_a_factor_has_the_same_colour_in_each_chart() -> None:
    first, second = draw_task("relevance", "age"), draw_task("utility", "relevance", "scope")
    assert first["scale"] == second["scale"] == {"domain": FACTORS}
    assert isinstance(first["legend"], dict)
    assert first["legend"]["values"] == ["relevance", "age"]


def test_every_factor_of_a_score_has_a_colour() -> None:
    (hit,) = rank([Match(make_located(1), 1.0)], Weights(prominence=lambda _: 1.0))
    assert {name for name, _ in hit.factors} <= set(FACTORS)
    assert len(FACTORS) <= len(SPECS["config"]["range"]["category"])


def test_the_bar_of_this_week_ends_today() -> None:
    week = WorkWeek(start=date(2026, 11, 16), merges=2)
    spec = json.loads(json.dumps(SPECS["weeks"]))
    page = Overview(name="shop", address="", today=date(2026, 11, 18), commit="1", weeks=(week,))
    _fill_weeks(spec, page, 800)
    (bar,) = spec["datasets"]["bars"]
    assert bar["end"] - bar["at"] == 2 * 86_400_000


def test_legends_are_printed() -> None:
    style = PAGE.joinpath("report.css").read_text("utf-8")
    (swatch,) = [line for line in style.splitlines() if line.startswith(".key li::before")]
    assert "print-color-adjust: exact" in swatch
