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

COVERS = {
    "covered": "entries speak of it as it is",
    "stale": "an entry speaks of older code",
    "hot": "changes often, no entry cites it",
    "bare": "no entry cites it",
}
COVER_SIGNS = {"covered": "\u2713 ", "stale": "~ ", "hot": "", "bare": ""}
"""Signs before the names of files on the map, for readers who do not see amber from green."""

STATES = {
    "given": "served",
    "no room": "no room in the budget",
    "over limit": "over the number of entries that are served",
    "weak": "too weak",
    "withheld": "withheld",
}

QUESTIONS: dict[QuestionKind, str] = {
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

FACTORS = ["relevance", "prominence", "age", "scope", "truth", "utility", "novelty", "organisation"]
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

    Raises:
        UsageError: missing-extra.
    """
    jinja2, vega = load_libraries()
    page = msgspec.convert(clean(msgspec.to_builtins(overview)), Overview, strict=False)
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
        kinds=QUESTIONS,
        has_history=_has_history(page),
        shorten=shorten,
        draw=draw,
        data={"entries": _list_entry_rows(page)},
        style=style,
        script=script,
        policy=content_security_policy,
        states=STATES,
        signs=COVER_SIGNS,
        plural=plural,
        most={"dots": MAX_DOTS, "weeks": NARROW_WEEKS, "tiles": MAX_TILES, "lives": MAX_LIVES},
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


def clean(value: Any) -> Any:  # noqa: ANN401 - whatever a record holds
    """Return a JSON value whose strings are without credentials and misleading characters.

    Invisible and bidirectional characters are removed, in nested lists and objects, too.
    """
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
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


def _milliseconds(day: date) -> int:
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

    start = _milliseconds(weeks[0].start)
    end = _milliseconds(weeks[-1].start + timedelta(days=7))
    for chart in spec["vconcat"]:  # The dots above, the bars below.
        chart["width"] = width - 90
        chart["encoding"]["x"]["scale"]["domain"] = [start, end]
    bar_encoding = spec["vconcat"][1]["encoding"]
    bar_encoding["x"]["axis"]["tickCount"] = min(width // 90, len(weeks))
    bar_encoding["y"]["scale"] = {"domain": [0, max(4, *(week.merges for week in weeks))]}


def _make_merge_bar(week: WorkWeek, today: date) -> Row:
    """Return the bar of a week's merges; that of the present week ends today."""
    return {
        "at": _milliseconds(week.start),
        "end": _milliseconds(min(week.start + timedelta(days=6), today + timedelta(days=1))),
        "count": week.merges,
        "url": week.newest.url,
        "says": f"Week of {week.start}: {week.merges} merged, the newest {week.newest.label}",
    }


def _list_memory_dots(week: WorkWeek) -> list[Row]:
    """Return a dot for each kind of change that memory had in a week, with its number and link."""
    counts = (
        ("learned", week.learned, week.written),
        ("candidates", week.candidates, week.newest),
        ("retired", week.retired, week.written),
    )
    return [
        {
            "at": _milliseconds(week.start + timedelta(days=3)),
            "name": name,
            "count": count,
            "url": link.url,
            "says": f"Week of {week.start}: {count} {name}",
        }
        for name, count, link in counts
        if count
    ]


def _fill_use(spec: Spec, page: Overview, width: int) -> None:
    """Fill in the chart of use: for each entry a dot at how often it was served and used."""
    limit = MAX_DOTS if width == WIDE else MAX_DOTS // 3
    # Dots that are drawn later cover earlier ones, so their order is part of the picture: the
    # most served first, and of these the least prominent.
    served_entries = [entry for entry in reversed(page.entries) if entry.given]
    served_entries.sort(key=lambda entry: entry.given, reverse=True)
    dots = [_make_use_dot(entry) for entry in served_entries[:limit]]

    most_served = served_entries[0].given
    most_used = max(entry.used for entry in page.entries)
    corners: list[Row] = [{"given": most_served, "used": 0.45, "text": "noise: served, never used"}]
    if most_used:
        corners.append(
            {"given": most_served, "used": most_used + 0.3, "text": "gold: served and used"}
        )
    spec["datasets"] = {"dots": dots, "corners": corners}
    layers_with_axes = spec["layer"][1:]
    for layer in layers_with_axes:
        for axis_name, highest_count in (("x", most_served), ("y", most_used)):
            axis = layer["encoding"][axis_name]["axis"]
            axis["values"] = [tick for tick in axis["values"] if tick <= highest_count + 1]
    spec["width"] = width - 70


def _make_use_dot(entry: EntryLife) -> Row:
    """Return the dot of an entry in the chart of use, coloured by whether the entry was of use."""
    name = "between"
    if entry.given > 4 and not entry.used:
        name = "noise"
    elif entry.given > 1 and entry.used >= entry.given / 2:
        name = "gold"
    # Two bytes of a hash of the id move the dot a little, so that equal dots do not overlap.
    shift_right, shift_up = hashlib.sha256(entry.id.encode()).digest()[:2]
    return {
        "given": entry.given + shift_right / 500 - 0.25,
        "used": entry.used + shift_up / 700,
        "name": name,
        "says": f"{shorten(entry.title, 80)}: served {entry.given}, used {entry.used}",
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
            "says": f"{file.path}: {churn}, {entries}; {COVERS[file.cover]}",
            "url": f"#{file.stale_id}" if file.stale_id else file.url,
        }
    spec["data"][0]["values"] = list(rows.values())
    spec["width"] = width


def _fill_task(spec: Spec, task: ExplainedTask, width: int) -> None:
    """Fill in the chart of a task: for each entry that it finds a bar of its score.

    A bar is split into what each factor of the score added or took.
    """
    parts = []
    scores = []
    factor_names = set()
    for rank, entry in enumerate(task.found, start=1):
        score_text = f"{rank}. {entry.title}: {entry.score:.2f}, {STATES[entry.state]}"
        scores.append({"place": rank, "score": entry.score, "says": score_text})
        for factor_name, difference in entry.parts:
            factor_names.add(factor_name)
            parts.append(
                {
                    "place": rank,
                    "name": factor_name,
                    "value": difference,
                    "given": entry.state == "given",
                    "says": f"{rank}. {factor_name} {difference:+.2f}",
                }
            )
    spec["datasets"] = {"parts": parts, "scores": scores}

    encoding = spec["layer"][0]["encoding"]
    scale = {"domain": FACTORS}
    encoding["color"]["scale"] = scale
    encoding["stroke"]["scale"] = scale
    legend = encoding["color"]["legend"]
    legend["columns"] = width // 110
    legend["values"] = [name for name in FACTORS if name in factor_names]
    spec["width"] = width - 40


def _fill_health(spec: Spec, page: Overview, width: int) -> None:
    """Fill in the charts of health: a small one for each metric, with a point for each release."""
    points = []
    for release in page.releases:
        for metric in release.health.metrics:
            if metric.value is None:
                continue
            points.append(
                {
                    "metric": metric.name,
                    "release": release.name,
                    "value": metric.value,
                    "says": f"{release.name}: {metric.name} {metric.value:.0f}; {metric.basis}",
                }
            )
    columns = 3 if width == WIDE else 2
    spec["columns"] = columns
    spec["spec"]["width"] = (width - columns * 52) // columns
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
            "says": f"{name}: {size:,} of {task.room:,} characters",
        }
        for order, (name, size) in enumerate(task.budget)
    ]
    end = {"at": task.room, "says": f"The budget: {task.room:,} characters"}
    spec["datasets"] = {"parts": parts, "room": [end]}
    spec["width"] = width - 20


FILLERS: dict[str, Callable[[Spec, Any, int], None]] = {
    "weeks": _fill_weeks,
    "use": _fill_use,
    "map": _fill_map,
    "task": _fill_task,
    "health": _fill_health,
    "budget": _fill_budget,
}
"""For each chart the function that puts its rows into its specification."""
