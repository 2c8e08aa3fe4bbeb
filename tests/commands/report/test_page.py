"""The page of the report: what holds of its charts and its style whatever is drawn."""

from __future__ import annotations

import json
import re
from datetime import date
from importlib.resources import files

import pytest
from msgspec.structs import replace

from memory_ci.commands.report.page import (
    COVER_SIGNS,
    FACTORS,
    _fill_task,
    _fill_weeks,
    render_report,
)
from memory_ci.commands.report.records import (
    ChurnedFile,
    Cover,
    ExplainedTask,
    FoundState,
    Overview,
    ScoredEntry,
    SourceCount,
    WorkWeek,
)
from memory_ci.gitrepo.history import AGE
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


@pytest.mark.parametrize(
    ("today", "days"),
    [(16, 1), (18, 3), (22, 6)],
    ids=["on Monday", "on Wednesday", "on Sunday, with a gap"],
)
def test_the_bar_of_this_week_ends_with_today(today: int, days: int) -> None:
    week = WorkWeek(start=date(2026, 11, 16), merges=2)
    spec = json.loads(json.dumps(SPECS["weeks"]))
    page = Overview(name="shop", address="", today=date(2026, 11, today), commit="1", weeks=(week,))
    _fill_weeks(spec, page, 800)
    (bar,) = spec["datasets"]["bars"]
    assert bar["end"] - bar["at"] == days * 86_400_000


def test_legends_are_printed() -> None:
    style = PAGE.joinpath("report.css").read_text("utf-8")
    (swatch,) = [line for line in style.splitlines() if line.startswith(".key li::before")]
    assert "print-color-adjust: exact" in swatch


def test_the_cost_of_an_entry_is_that_of_those_a_model_found() -> None:
    week = WorkWeek(start=date(2026, 11, 16), merges=2, learned=50)
    sources = (SourceCount("pr", "anthropic", 4), SourceCount("pr", "rules", 50))
    page = Overview(
        name="shop",
        address="",
        today=date(2026, 11, 18),
        commit="1",
        weeks=(week,),
        sources=sources,
        cost_usd=2.0,
    )
    assert "0.500 USD for each of the 4 entries that it found" in render_report(
        replace(page, found_by_model=4)
    )
    assert "USD for each" not in render_report(page)


def test_the_page_names_a_range_that_record_takes() -> None:
    week = WorkWeek(start=date(2026, 11, 16), merges=2)
    page = render_report(
        Overview(name="shop", address="", today=date(2026, 11, 18), commit="1", weeks=(week,))
    )
    named = re.findall(r"memory-ci record --since ([^<\s]+)", page)
    assert named
    assert all(AGE.fullmatch(since) for since in named), "a day is no revision"


def test_what_is_not_given_has_an_outline_and_a_score_a_rim() -> None:
    bars, scores = SPECS["task"]["layer"]
    assert bars["encoding"]["stroke"]["field"] == bars["encoding"]["color"]["field"]
    assert "opacity" not in bars["encoding"], "an outline that is as pale as its bar is not seen"
    assert scores["mark"]["stroke"] == "var(--paper)"


def test_a_chart_without_dots_has_no_picture_without_a_name() -> None:
    week = WorkWeek(start=date(2026, 11, 16), merges=2)
    page = render_report(
        Overview(name="shop", address="", today=date(2026, 11, 18), commit="1", weeks=(week,))
    )
    assert not re.findall(r'<g [^>]*role="graphics-symbol"[^>]*></g>', page)


def test_tiles_of_the_map_differ_by_a_sign_too() -> None:
    covers: tuple[Cover, ...] = ("covered", "stale", "hot", "bare")
    paths = tuple(
        ChurnedFile(path=f"src/{cover}.py", churn=9, entries=1, cover=cover, url="")
        for cover in covers
    )
    page = render_report(
        Overview(name="shop", address="", today=date(2026, 11, 18), commit="1", files=paths)
    )
    assert all(f">{sign}{cover}.py</text>" in page for cover, sign in COVER_SIGNS.items())
    assert "! changes often, nothing known</li>" in page


def test_the_first_link_skips_the_charts() -> None:
    page = render_report(Overview(name="shop", address="", today=date(2026, 11, 18), commit="1"))
    assert page.index('<a class="skip" href="#entries">') == page.index("<a ")
