"""Tests of the page of the report: properties of its charts and style with any data."""

from __future__ import annotations

import json
import re
from datetime import date
from importlib.resources import files
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from memory_ci.commands.report.page import (
    COVER_SIGNS,
    FILLERS,
    QUESTION_TEXTS,
    SCORE_FACTORS,
    render_report,
)
from memory_ci.commands.report.records import (
    AskedQuestion,
    ChurnedFile,
    Cover,
    EntryFault,
    EntryLife,
    EntryMention,
    ExplainedTask,
    FoundState,
    Overview,
    ScoredEntry,
    SourceCount,
    Summary,
    UsePeriod,
    WorkWeek,
)
from memory_ci.gitrepo.past import AGE
from memory_ci.records.candidate import QuestionKind
from memory_ci.records.retrieval import Match
from memory_ci.search.rank import Weights, rank
from tests.make import make_id, make_located

PAGE = files("memory_ci.commands.report").joinpath("template")
SPECS = json.loads(PAGE.joinpath("charts.json").read_text("utf-8"))


def make_page(**values: Any) -> Overview:
    return Overview(name="shop", address="", today=date(2026, 11, 18), commit="1", **values)


def make_life(number: int, **values: Any) -> EntryLife:
    fields: dict[str, Any] = {
        "id": make_id(number),
        "title": f"Entry {number}",
        "body": "",
        "type": "procedural",
        "scope": "project",
        "status": "active",
        "place": "MEMORY.md:1",
        "prominence": 0.5,
        "served_count": 0,
        "used_count": 0,
        "verdict": "",
        "at": date(2026, 11, number),
    }
    return EntryLife(**fields | values)


def make_summary(**values: Any) -> Summary:
    recent = UsePeriod(first=date(2026, 10, 22), last=date(2026, 11, 18))
    before = UsePeriod(first=date(2026, 9, 24), last=date(2026, 10, 21))
    fields: dict[str, Any] = {"recent": recent, "before": before}
    return Summary(**fields | values)


def read_answers(**values: Any) -> str:
    """Return the words of the first screen."""
    page = render_report(make_page(**values))
    answers = page[page.index('<div class="answers">') : page.index('<section id="entries">')]
    return " ".join(re.sub(r"<[^>]+>", " ", answers).split())


def test_without_entries_each_question_has_one_answer_and_a_command() -> None:
    words = read_answers(summary=make_summary())
    assert "What did we learn? Nothing is written yet. memory-ci record --since 90d" in words
    assert "Did it help? Nobody can say yet: no session was served an entry" in words
    assert "What waits for me? Nothing: no question is open" in words
    assert "What is wrong? There is no entry that could be wrong yet;" in words


def test_the_newest_entries_are_named_with_links() -> None:
    page = render_report(
        make_page(
            summary=make_summary(newest=(make_id(2), make_id(1))),
            entries=(make_life(1), make_life(2)),
        )
    )
    assert page.index(f'<a href="#{make_id(2)}">') < page.index(f'<a href="#{make_id(1)}">')


def test_use_is_compared_with_the_four_weeks_before() -> None:
    summary = make_summary()
    recent = replace(summary.recent, sessions=3, servings=9, used=4, repetitions=5)
    before = replace(summary.before, sessions=1, servings=2, used=1, repetitions=2)
    recent = replace(recent, although_written=2, rules_served=4, failed_again=1)
    words = read_answers(
        summary=replace(summary, recent=recent, before=before, has_session_words=True),
        entries=(make_life(1),),
    )
    assert "3 sessions were served entries in the last four weeks (1 in the four" in words
    assert "used 4 of the 9 that it was served; before, 1 of 2." in words
    assert "People made 5 requests again in the last four weeks" in words
    assert "says 2 of them already (four weeks before: 0 of 2)" in words
    assert "Sessions were warned of a failure 4 times , and it happened again 1 time" in words


def test_where_no_words_are_kept_the_page_says_how_to_keep_them() -> None:
    summary = make_summary()
    recent = replace(summary.recent, sessions=3)
    words = read_answers(summary=replace(summary, recent=recent), entries=(make_life(1),))
    assert "Whether people asked again, or the same failed again, is not known" in words


def test_three_questions_come_with_the_commands_that_answer_them() -> None:
    question = AskedQuestion(
        kind="candidate",
        title="Ask first",
        why="said twice",
        quote="",
        commands=("memory-ci review --all --accept 2", "memory-ci review --all --never 2"),
    )
    words = read_answers(summary=make_summary(), inbox=(question,) * 4, waiting=9)
    assert words.count("memory-ci review --all --accept 2 or --never") == 3
    assert "9 questions ; the first three, all of them" in words


def test_each_kind_of_question_has_words_on_the_first_screen() -> None:
    assert set(QUESTION_TEXTS) == set(get_args(QuestionKind))


def test_faults_are_counted_and_the_worst_are_named() -> None:
    gone = make_life(1, verdict="gone", faults=(EntryFault("gone", "gone: src/a.py"),))
    against = make_life(2, faults=(EntryFault("contradicted", "Never ask"),))
    summary = make_summary(
        faulty=(gone.id, against.id),
        over_budget=(EntryMention(make_id(3), "A norm", "over the budget"),),
        compared_count=1,
    )
    words = read_answers(summary=summary, entries=(gone, against, make_life(3)))
    assert "1 stale : the code that they cite changed or is gone" in words
    assert "1 contradicted by another" in words
    assert "1 over budget" in words
    assert "Entry 1 gone: src/a.py Entry 2 contradicts: Never ask A norm over the budget" in words
    assert "2 of 3 cite no code that could be compared" in words


def test_of_two_that_contradict_each_other_one_is_named() -> None:
    life = make_life(1, faults=(EntryFault("contradicted", "Entry 2"),))
    other_life = make_life(2, faults=(EntryFault("contradicted", "Entry 1"),))
    words = read_answers(
        summary=make_summary(faulty=(life.id, other_life.id)), entries=(life, other_life)
    )
    assert "Entry 1 contradicts: Entry 2" in words
    assert "Entry 2 contradicts" not in words


def test_candidates_of_an_empty_memory_are_counted() -> None:
    week = WorkWeek(start=date(2026, 11, 16), merges=2)
    question = AskedQuestion(
        kind="candidate", title="Ask first", why="said twice", quote="", commands=("a b c --d 1",)
    )
    words = read_answers(summary=make_summary(), inbox=(question,), waiting=1, weeks=(week,))
    assert "Nothing is written yet from the 2 changes merged in the last year. 1 candidate" in words


def test_uncompared_cites_are_not_called_fresh() -> None:
    words = read_answers(summary=make_summary(), entries=(make_life(1),))
    assert "so nobody can say whether one is out of date" in words


def read_palettes() -> list[dict[str, str]]:
    """Return the colours of the light and of the dark palette."""
    style = PAGE.joinpath("report.css").read_text("utf-8")
    blocks = [block for block in re.findall(r":root \{([^}]*)\}", style) if "--c1" in block]
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def measure_contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours (WCAG 2.1)."""
    lights = []
    for colour in (first, second):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


@pytest.mark.parametrize("palette", [0, 1], ids=["light", "dark"])
def test_marks_have_a_contrast_of_three_to_one(palette: int) -> None:
    colours = read_palettes()[palette]
    marks = [f"c{number}" for number in range(1, 9)]
    marks += ["bar", "covered", "stale", "bare", "limit", "link"]
    weak = {
        mark: round(measure_contrast(colours[mark], colours["paper"]), 2)
        for mark in marks
        if measure_contrast(colours[mark], colours["paper"]) < 3
    }
    assert weak == {}


def draw_task(*names: str) -> dict[str, object]:
    """Return the colours of the chart of a task whose scores have these factors."""
    parts = tuple((name, 0.5) for name in names)
    state: FoundState = "served"
    entry = ScoredEntry(id="1", title="One", state=state, score=1.0, parts=parts)
    spec = json.loads(json.dumps(SPECS["task"]))
    FILLERS["task"](
        spec,
        ExplainedTask(task="x", found=(entry,), omitted_count=0, answer_parts=(), budget=1),
        800,
    )
    color: dict[str, object] = spec["layer"][0]["encoding"]["color"]
    return color


def test_a_factor_has_the_same_colour_in_each_chart() -> None:
    first, second = draw_task("relevance", "age"), draw_task("utility", "relevance", "scope")
    assert first["scale"] == second["scale"] == {"domain": SCORE_FACTORS}
    assert isinstance(first["legend"], dict)
    assert first["legend"]["values"] == ["relevance", "age"]


def test_every_factor_of_a_score_has_a_colour() -> None:
    (hit,) = rank([Match(make_located(1), 1.0)], Weights(prominence=lambda _: 1.0))
    assert {name for name, _ in hit.factors} <= set(SCORE_FACTORS)
    assert len(SCORE_FACTORS) <= len(SPECS["config"]["range"]["category"])


@pytest.mark.parametrize(
    ("today", "days"),
    [(16, 1), (18, 3), (22, 6)],
    ids=["on Monday", "on Wednesday", "on Sunday, with a gap"],
)
def test_the_bar_of_this_week_ends_with_today(today: int, days: int) -> None:
    week = WorkWeek(start=date(2026, 11, 16), merges=2)
    spec = json.loads(json.dumps(SPECS["weeks"]))
    page = Overview(name="shop", address="", today=date(2026, 11, today), commit="1", weeks=(week,))
    FILLERS["weeks"](spec, page, 800)
    (bar,) = spec["datasets"]["bars"]
    assert bar["end"] - bar["at"] == days * 86_400_000


def test_legends_are_printed() -> None:
    style = PAGE.joinpath("report.css").read_text("utf-8")
    (swatch,) = [line for line in style.splitlines() if line.startswith(".key li::before")]
    assert "print-color-adjust: exact" in swatch


def test_the_cost_per_entry_counts_entries_of_a_model_only() -> None:
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


def test_unserved_entries_have_an_outline_and_scores_a_rim() -> None:
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
    assert "~ an entry speaks of older code: the tile leads to it</li>" in page


def test_a_tile_with_a_stale_entry_leads_to_it_and_is_seen() -> None:
    big = tuple(
        ChurnedFile(path=f"src/{number}.py", churn=90, entries=0, cover="bare", url="")
        for number in range(59)
    )
    stale = ChurnedFile(
        path="a.py", churn=1, entries=1, cover="stale", url="https://x/a.py", stale_id=make_id(1)
    )
    spec = json.loads(json.dumps(SPECS["map"]))
    FILLERS["map"](spec, make_page(files=(stale, *big)), 800)
    (tile,) = [row for row in spec["data"][0]["values"] if row["id"] == "a.py"]
    assert tile["url"] == f"#{make_id(1)}"
    assert tile["size"] > 80


def test_the_page_explains_a_dot() -> None:
    week = WorkWeek(start=date(2026, 11, 16), merges=2)
    page = render_report(make_page(weeks=(week,), entries=(make_life(1, served_count=2),)))
    assert "One dot is one entry" in page
    assert "A dot is what one week taught" in page


def test_no_number_sums_up_health() -> None:
    page = render_report(make_page(entries=(make_life(1),)))
    assert "of 100" not in page


def test_the_first_link_skips_the_charts() -> None:
    page = render_report(Overview(name="shop", address="", today=date(2026, 11, 18), commit="1"))
    assert page.index('<a class="skip" href="#entries">') == page.index("<a ")
