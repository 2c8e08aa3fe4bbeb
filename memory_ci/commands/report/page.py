"""The page of `report`: one HTML file with charts as SVG, its style and its script.

Nothing is fetched or evaluated. Vega draws the charts here, so that the page needs no library:
template/charts.json says how, this module adds the rows. Text of entries is data: the template
escapes it, Vega escapes it, and the script sets it as text. The policy of the page names the one
script that may run by its hash.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable
from datetime import date, timedelta
from importlib.resources import files
from typing import Any

import msgspec

from memory_ci.commands.report.records import (
    EntryLife,
    ExplainedTask,
    Overview,
    WorkWeek,
)
from memory_ci.errors import UsageError
from memory_ci.extras import how_to_install
from memory_ci.findings import printable_lines
from memory_ci.records.anchor import STALE_KINDS
from memory_ci.records.candidate import QuestionKind
from memory_ci.regex import Regex
from memory_ci.secrets import mask_secrets
from memory_ci.text import plural, shorten

# Widths of each chart in pixels; the style shows one of them.
WIDE = 960  # For a desktop and paper.
NARROW = 340  # For a phone.

# Room for the axes and the texts beside them, in pixels; found by trial.
WEEKS_MARGIN = 90
USE_MARGIN = 70
METRIC_MARGIN = 52  # of each of the small charts of health
TASK_MARGIN = 40
BUDGET_MARGIN = 20
LEGEND_COLUMN = 110  # The width of a name in the legend.
WEEK_LABEL = 90  # The width of a day below the chart of weeks.

# Jobs that were served an entry before the chart of use calls it noise or gold. Chosen by hand.
LEAST_SERVED_AS_NOISE = 5
LEAST_SERVED_AS_GOLD = 2

MAX_DOTS = 900  # On a phone a third of them.
MAX_TILES = 60  # On a phone half of them.
NARROW_WEEKS = 26
MAX_WORST = 3  # Entries with faults that the first screen names.
MAX_LIVES = 1_000  # Entries, the most prominent first, that are shown with quotes and life.
PAGE_LINK = '<a xlink:href="https://vega.github.io/vega-datasets/#'
"""How Vega writes a link within the page. Text cannot contain this: Vega escapes `<` there."""

INVISIBLE_MARKUP = (
    '<path class="foreground" aria-hidden="true" d="" pointer-events="none" display="none"/>',
    '<path class="foreground" aria-hidden="true" d="" display="none"/>',
    '<path class="background" aria-hidden="true" d="M0,0h0v0h0Z" pointer-events="none"/>',
    ' pointer-events="none"',
    ' font-family="sans-serif"',
    ' opacity="1"',
)
"""Markup of Vega that draws nothing."""

EMPTY_MARKS = Regex(r'<g class="mark-[^"]*" role="graphics-symbol"[^>]*></g>')
"""A group without marks, which a screen reader reads as a picture without a name."""

COVER_WORDS = {
    "covered": "entries speak of it as it is",
    "stale": "an entry speaks of older code",
    "hot": "changes often, no entry cites it",
    "bare": "no entry cites it",
}
COVER_SIGNS = {"covered": "\u2713 ", "stale": "~ ", "hot": "", "bare": ""}
"""Signs before the names of files on the map, for readers who do not see amber from green."""

STATE_WORDS = {
    "served": "served",
    "no room": "no room in the budget",
    "over limit": "over the number of entries that are served",
    "weak": "too weak",
    "withheld": "withheld",
}

QUESTION_TEXTS: dict[QuestionKind, str] = {
    "request": "People ask for it again. Write it as a rule?",
    "failure": "A command fails again. Warn agents before they run it?",
    "check": "A rule that each commit can be tested for. Test it?",
    "candidate": "Worth keeping?",
    "quarantined": "Withheld as unsafe. Safe after all?",
    "changed": "Does it still hold?",
    "gone": "Does it still hold?",
    "contradiction": "Does it still hold?",
    "unused": "Does it still hold?",
    "promotion": "It holds anywhere. Keep it for all repositories?",
}
"""What each kind of question asks."""

SCORE_FACTORS = [
    "relevance",
    "prominence",
    "age",
    "scope",
    "truth",
    "utility",
    "novelty",
    "organisation",
]
"""The factors of a score in the order of their colours: the same colour in each chart."""

Spec = dict[str, Any]
Row = dict[str, object]


def load_libraries() -> tuple[Any, Any]:
    """Import Jinja2 and Vega, which the extra `report` installs.

    Raises:
        UsageError: missing-extra.
    """
    try:
        import jinja2
        import vl_convert
    except ModuleNotFoundError as error:
        message = f"the page needs the package {error.name}"
        hint = (
            f"Install it: {how_to_install('report')}."
            " Without it, --json prints what the page would show."
        )
        raise UsageError(message, slug="missing-extra", hint=hint) from error
    return jinja2, vl_convert


def render_report(overview: Overview) -> str:
    """Return the HTML page of the report, with its charts as SVG.

    The template template/report.html calls `draw` for each chart that has data.

    Raises:
        UsageError: missing-extra.
    """
    jinja2, vega = load_libraries()
    page = msgspec.convert(mask_strings(msgspec.to_builtins(overview)), Overview, strict=False)
    chart_specs = json.loads(_read_template("charts.json"))

    def draw(name: str, data: Any, label: str) -> str:  # noqa: ANN401 - the data of a chart
        return _draw_chart(vega, chart_specs, name, data, label)

    style = _read_template("report.css")
    script = _read_template("report.js")
    content_security_policy = (
        f"default-src 'none'; style-src '{_hash_source(style)}';"
        f" script-src '{_hash_source(script)}'; base-uri 'none'"
    )
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_read_template),
    )
    html = environment.get_template("report.html").render(
        page=page,
        by_id={entry.id: entry for entry in page.entries},
        faulty=_group_faulty(page),
        worst=_list_worst(page),
        question_texts=QUESTION_TEXTS,
        has_history=_has_history(page),
        shorten=shorten,
        draw=draw,
        data={"entries": _list_entry_rows(page)},
        style=style,
        script=script,
        policy=content_security_policy,
        state_words=STATE_WORDS,
        cover_signs=COVER_SIGNS,
        plural=plural,
        limits={"dots": MAX_DOTS, "weeks": NARROW_WEEKS, "tiles": MAX_TILES, "lives": MAX_LIVES},
    )
    return str(html)


def _list_worst(page: Overview) -> list[EntryLife]:
    """Return the few entries with the worst faults.

    Of two entries that contradict each other only the first is returned: the fault of one names
    the other.
    """
    worst: list[EntryLife] = []
    for entry in _list_faulty(page):
        worst_fault = entry.faults[0]
        listed_titles = {listed.title for listed in worst}
        if worst_fault.kind == "contradicted" and worst_fault.detail in listed_titles:
            continue
        worst.append(entry)
    return worst[:MAX_WORST]


def _list_faulty(page: Overview) -> list[EntryLife]:
    """Return the entries with faults, the worst first; none if the page has no summary."""
    if page.summary is None:
        return []
    entries = {entry.id: entry for entry in page.entries}
    return [entries[entry_id] for entry_id in page.summary.faulty]


def _has_history(page: Overview) -> bool:
    """Return whether health was measured at two releases or months, so that a line can be drawn."""
    measured = [
        release
        for release in page.releases
        if any(metric.value is not None for metric in release.health.metrics)
    ]
    return len(measured) > 1


def _list_entry_rows(page: Overview) -> list[Row]:
    """Return the entries as JSON objects for the page's script, without empty values.

    Only the most prominent entries, which come first, have their quotes and the events of their
    life: all of them would make the page too large.
    """
    rows = []
    for number, entry in enumerate(page.entries):
        row = {key: value for key, value in msgspec.to_builtins(entry).items() if value}
        if number >= MAX_LIVES:
            row.pop("life", None)
            row.pop("quotes", None)
        rows.append(row)
    return rows


def _group_faulty(page: Overview) -> dict[str, list[EntryLife]]:
    """Return the entries with faults, grouped by the kind of fault, the worst first in each group.

    An entry is in each group that it has a fault of.
    """
    groups: dict[str, list[EntryLife]] = {"stale": [], "contradicted": [], "unused": []}
    for entry in _list_faulty(page):
        names = set()
        for fault in entry.faults:
            is_stale = fault.kind in STALE_KINDS  # The cited code changed or is gone.
            names.add("stale" if is_stale else fault.kind)
        for name in names:
            groups[name].append(entry)
    return groups


def _read_template(name: str) -> str:
    return files("memory_ci.commands.report").joinpath("template", name).read_text("utf-8")


def mask_strings(value: Any) -> Any:  # noqa: ANN401 - whatever a record holds
    """Return a JSON value whose strings are without credentials and misleading characters.

    Invisible and bidirectional characters are removed, in nested lists and objects, too.
    """
    if isinstance(value, dict):
        return {key: mask_strings(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask_strings(item) for item in value]
    if isinstance(value, str):
        return printable_lines(mask_secrets(value))
    return value


def _hash_source(text: str) -> str:
    """Return the hash of a style or script as a Content-Security-Policy names it."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _draw_chart(
    vega: Any,  # noqa: ANN401 - a library
    specs: dict[str, Spec],
    name: str,
    data: Any,  # noqa: ANN401 - the data of a chart
    label: str,
) -> str:
    """Return the SVG of a chart twice: wide for a desktop, narrow for a phone.

    Args:
        vega: the library that draws.
        specs: the specifications in charts.json, by the names of charts.
        name: the name of the chart.
        data: the values of the chart: an `Overview` or an `ExplainedTask`.
        label: the name of the chart for screen readers.
    """
    charts = []
    for size, width in (("wide", WIDE), ("narrow", NARROW)):
        spec = copy.deepcopy(specs[name])
        spec["config"] = specs["config"]
        fill_in_data = FILLERS[name]
        fill_in_data(spec, data, width)
        # Only the full language of Vega has `marks`; the others are in Vega-Lite.
        render = vega.vega_to_svg if "marks" in spec else vega.vegalite_to_svg
        svg = render(spec, allowed_base_urls=[]).replace(PAGE_LINK, '<a xlink:href="#')
        for markup in INVISIBLE_MARKUP:
            svg = svg.replace(markup, "")
        svg = EMPTY_MARKS.sub("", svg)
        attributes = f'role="group" aria-label="{label}" data-size="{size}"'
        charts.append(f"<svg {attributes} {svg.removeprefix('<svg ')}")
    return "".join(charts)


def _to_milliseconds(day: date) -> int:
    """Return the milliseconds since 1970, as Vega counts time."""
    return (day - date(1970, 1, 1)).days * 86_400_000


def _fill_weeks(spec: Spec, page: Overview, width: int) -> None:
    """Fill in the chart of weeks: merges as bars, and above them changes of memory as dots."""
    weeks = page.weeks if width == WIDE else page.weeks[-NARROW_WEEKS:]
    bars = [_make_merge_bar(week, page.today) for week in weeks if week.merges]
    dots: list[Row] = []
    for week in weeks:
        dots += _list_memory_dots(week)
    spec["datasets"] = {"bars": bars, "dots": dots}

    start = _to_milliseconds(weeks[0].start)
    end = _to_milliseconds(weeks[-1].start + timedelta(days=7))
    dot_chart, bar_chart = spec["vconcat"]  # one above the other, with the same axis of time
    for chart in (dot_chart, bar_chart):
        chart["width"] = width - WEEKS_MARGIN
        chart["encoding"]["x"]["scale"]["domain"] = [start, end]
    bar_encoding = bar_chart["encoding"]
    bar_encoding["x"]["axis"]["tickCount"] = min(width // WEEK_LABEL, len(weeks))
    bar_encoding["y"]["scale"] = {"domain": [0, max(4, *(week.merges for week in weeks))]}


def _make_merge_bar(week: WorkWeek, today: date) -> Row:
    """Return the bar of a week's merges, from Monday to Sunday; it ends today at the latest.

    Args:
        week: the week.
        today: the present day.
    """
    # A bar ends where a day begins: on Sunday, which leaves a gap before the next bar, or tomorrow.
    sunday = week.start + timedelta(days=6)
    tomorrow = today + timedelta(days=1)
    newest = week.newest_merge
    return {
        "at": _to_milliseconds(week.start),
        "end": _to_milliseconds(min(sunday, tomorrow)),
        "count": week.merges,
        "url": newest.url,
        "description": f"Week of {week.start}: {week.merges} merged, the newest {newest.label}",
    }


def _list_memory_dots(week: WorkWeek) -> list[Row]:
    """Return a dot for each kind of change that memory had in a week, in the middle of the week.

    The dot of a kind has its number in this week, and a link to the newest commit: of memory, or
    for candidates, which are in no commit yet, of merged work.
    """
    middle_of_week = week.start + timedelta(days=3)
    counts = (
        ("learned", week.learned, week.newest_memory_commit),
        ("candidates", week.candidates, week.newest_merge),
        ("retired", week.retired, week.newest_memory_commit),
    )
    return [
        {
            "at": _to_milliseconds(middle_of_week),
            "name": name,
            "count": count,
            "url": link.url,
            "description": f"Week of {week.start}: {count} {name}",
        }
        for name, count, link in counts
        if count
    ]


def _fill_use(spec: Spec, page: Overview, width: int) -> None:
    """Fill in the chart of use: for each entry a dot at how often it was served and used.

    The two corners where dots mean most get a text. The page has at least one served entry.
    """
    limit = MAX_DOTS if width == WIDE else MAX_DOTS // 3
    # Dots that are drawn later cover earlier ones, so their order is part of the picture: the
    # most served first, and of these the least prominent.
    served_entries = [entry for entry in reversed(page.entries) if entry.served_count]
    served_entries.sort(key=lambda entry: entry.served_count, reverse=True)
    dots = [_make_use_dot(entry) for entry in served_entries[:limit]]

    most_served = served_entries[0].served_count
    most_used = max(entry.used_count for entry in page.entries)
    # The texts are a little above the dots of their corner, in the unit of the axis.
    corner_texts: list[Row] = [
        {"served": most_served, "used": 0.45, "text": "noise: served, never used"}
    ]
    if most_used:
        corner_texts.append(
            {"served": most_served, "used": most_used + 0.3, "text": "gold: served and used"}
        )
    spec["datasets"] = {"dots": dots, "corners": corner_texts}
    _text_layer, dot_layer = spec["layer"]
    for axis_name, highest_count in (("x", most_served), ("y", most_used)):
        axis = dot_layer["encoding"][axis_name]["axis"]
        axis["values"] = [tick for tick in axis["values"] if tick <= highest_count + 1]
    spec["width"] = width - USE_MARGIN


def _make_use_dot(entry: EntryLife) -> Row:
    """Return the dot of an entry in the chart of use, coloured by whether the entry was of use.

    An entry is `noise` if it was served often and never used, `gold` if at least half of the work
    that was served it used it, and `between` otherwise.
    """
    served_count = entry.served_count
    used_count = entry.used_count
    category = "between"
    if served_count >= LEAST_SERVED_AS_NOISE and not used_count:
        category = "noise"
    elif served_count >= LEAST_SERVED_AS_GOLD and used_count >= served_count / 2:
        category = "gold"
    # Two bytes of a hash of the id move the dot by up to half the distance to the next number, so
    # that equal dots do not overlap.
    right_byte, up_byte = hashlib.sha256(entry.id.encode()).digest()[:2]
    return {
        "served": served_count + right_byte / 500 - 0.25,
        "used": used_count + up_byte / 700,
        "name": category,
        "description": f"{shorten(entry.title, 80)}: served {served_count}, used {used_count}",
        "url": f"#{entry.id}",
    }


def _fill_map(spec: Spec, page: Overview, width: int) -> None:
    """Fill in the map of files: a tile for each file, grouped by directory.

    A tile is as large as the number of merged changes that touched its file. Groups are the first
    two directories of paths.
    """
    limit = MAX_TILES if width == WIDE else MAX_TILES // 2
    shown_files = page.files[:limit]
    least_stale_size = sum(file.churn for file in shown_files) // limit
    rows: dict[str, Row] = {"/": {"id": "/"}}
    for file in shown_files:
        *directories, file_name = file.path.split("/")
        folder = "/".join(directories[:2])
        if folder:
            rows[f"{folder}/"] = {"id": f"{folder}/", "parent": "/", "label": folder}
        churn = plural(file.churn, "merged change")
        entries = plural(file.entries, "entry")
        # A file with a stale entry is to be seen even where it seldom changes.
        least_size = least_stale_size if file.stale_id else 1
        rows[file.path] = {
            "id": file.path,
            "parent": f"{folder}/",
            "size": max(file.churn, least_size),
            "cover": file.cover,
            "label": COVER_SIGNS[file.cover] + file_name,
            "description": f"{file.path}: {churn}, {entries}; {COVER_WORDS[file.cover]}",
            "url": f"#{file.stale_id}" if file.stale_id else file.url,
        }
    spec["data"][0]["values"] = list(rows.values())
    spec["width"] = width


def _fill_task(spec: Spec, task: ExplainedTask, width: int) -> None:
    """Fill in the chart of a task: a bar for each entry that the search for the task finds.

    A bar has a mark at the score of the entry, and is split into how much each factor of the score
    raised or lowered it.
    """
    bar_parts = []
    score_marks = []
    factor_names = set()
    for rank, entry in enumerate(task.found, start=1):
        description = f"{rank}. {entry.title}: {entry.score:.2f}, {STATE_WORDS[entry.state]}"
        score_marks.append({"rank": rank, "score": entry.score, "description": description})
        for factor_name, difference in entry.parts:
            factor_names.add(factor_name)
            bar_parts.append(
                {
                    "rank": rank,
                    "name": factor_name,
                    "value": difference,
                    "served": entry.state == "served",
                    "description": f"{rank}. {factor_name} {difference:+.2f}",
                }
            )
    spec["datasets"] = {"parts": bar_parts, "scores": score_marks}

    encoding = spec["layer"][0]["encoding"]
    scale = {"domain": SCORE_FACTORS}
    encoding["color"]["scale"] = scale
    encoding["stroke"]["scale"] = scale
    legend = encoding["color"]["legend"]
    legend["columns"] = width // LEGEND_COLUMN
    legend["values"] = [name for name in SCORE_FACTORS if name in factor_names]
    spec["width"] = width - TASK_MARGIN


def _fill_health(spec: Spec, page: Overview, width: int) -> None:
    """Fill in the charts of health: a small one for each metric, with a point for each release.

    The small charts are in two or three columns.
    """
    points = []
    for release in page.releases:
        for metric in release.health.metrics:
            if metric.value is None:
                continue
            value_text = f"{metric.name} {metric.value:.0f}"
            points.append(
                {
                    "metric": metric.name,
                    "release": release.name,
                    "value": metric.value,
                    "description": f"{release.name}: {value_text}; {metric.basis}",
                }
            )
    column_count = 3 if width == WIDE else 2
    spec["columns"] = column_count
    small_chart = spec["spec"]
    small_chart["width"] = (width - column_count * METRIC_MARGIN) // column_count
    spec["datasets"] = {"values": points}


def _fill_budget(spec: Spec, task: ExplainedTask, width: int) -> None:
    """Fill in the chart of the budget: a bar of the characters that each part of an answer takes.

    A line marks the budget: what lies beyond it is not served.
    """
    parts = [
        {
            "name": name,
            "value": size,
            "order": order,
            "description": f"{name}: {size:,} of {task.budget:,} characters",
        }
        for order, (name, size) in enumerate(task.answer_parts)
    ]
    budget_line = {"at": task.budget, "description": f"The budget: {task.budget:,} characters"}
    spec["datasets"] = {"parts": parts, "room": [budget_line]}
    spec["width"] = width - BUDGET_MARGIN


FILLERS: dict[str, Callable[[Spec, Any, int], None]] = {
    "weeks": _fill_weeks,
    "use": _fill_use,
    "map": _fill_map,
    "task": _fill_task,
    "health": _fill_health,
    "budget": _fill_budget,
}
"""For each chart the function that puts its rows into its specification."""
