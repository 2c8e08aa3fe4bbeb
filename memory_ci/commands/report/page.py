"""The page of `report`: one HTML file, charts as SVG, style and script; nothing is fetched or evaluated.

Vega draws the charts here, so that the page needs no library: page/charts.json says how, this module with which rows.
What entries say is data: the template escapes it, Vega escapes it, the script sets it as text, and the policy of the
page names the one script that may run by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from importlib.resources import files
from typing import Any

import msgspec

from memory_ci.commands.report.records import ExplainedTask, Overview
from memory_ci.errors import UsageError
from memory_ci.findings import printable_lines
from memory_ci.secrets import mask_secrets
from memory_ci.text import plural, shorten

WIDE, NARROW = 840, 340
"""Widths of each chart: one for a desktop and paper, one for a phone; the style shows one of them."""

MAX_DOTS = 900  # On a phone a third of them.
MAX_TILES = 60  # On a phone half as many.
NARROW_WEEKS = 26
MAX_LIVES = 1_000  # Of more entries only the most prominent bring their quotes and their lives.
LOCAL = '<a xlink:href="https://vega.github.io/vega-datasets/#'
"""What Vega makes of a link within the page. A text cannot say so: there `<` is escaped."""

UNSEEN = (
    '<path class="foreground" aria-hidden="true" d="" pointer-events="none" display="none"/>',
    '<path class="foreground" aria-hidden="true" d="" display="none"/>',
    '<path class="background" aria-hidden="true" d="M0,0h0v0h0Z" pointer-events="none"/>',
    ' pointer-events="none"',
    ' font-family="sans-serif"',
    ' opacity="1"',
)
"""Markup of Vega that draws nothing."""

COVERS = {
    "covered": "an entry speaks of it",
    "stale": "entries speak of older code",
    "hot": "changes often, nothing known",
    "bare": "nothing known",
}
STATES = {
    "given": "given",
    "no room": "no room in the budget",
    "weak": "too weak",
    "withheld": "withheld",
}

FACTORS = ["relevance", "prominence", "age", "scope", "truth", "utility", "novelty", "organisation"]
"""The factors of a score in the order of their colours: the same colour in each chart."""

Spec = dict[str, Any]
Row = dict[str, object]


def load_libraries() -> tuple[Any, Any]:
    """Jinja2 and Vega, of the extra. Raises UsageError (missing-extra)."""
    try:
        import jinja2
        import vl_convert
    except ModuleNotFoundError as error:
        hint = "Install it: pip install 'memory-ci[report]'. Without it, --json prints what the page would show."
        raise UsageError(
            f"the page needs the package {error.name}", slug="missing-extra", hint=hint
        ) from error
    return jinja2, vl_convert


def render_report(overview: Overview) -> str:
    """The page. Raises UsageError (missing-extra)."""
    jinja2, vega = load_libraries()
    page = msgspec.convert(clean(msgspec.to_builtins(overview)), Overview, strict=False)
    entries = [
        {key: value for key, value in msgspec.to_builtins(one).items() if value}
        for one in page.entries
    ]
    for row in entries[MAX_LIVES:]:
        row.pop("life", None)
        row.pop("quotes", None)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    style, script = _read("report.css"), _read("report.js")
    shown = environment.from_string(_read("report.html")).render(
        page=page,
        draw=partial(_draw, vega, json.loads(_read("charts.json"))),
        data={"entries": entries},
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'",
        states=STATES,
        plural=plural,
        most={"dots": MAX_DOTS, "weeks": NARROW_WEEKS, "tiles": MAX_TILES, "lives": MAX_LIVES},
    )
    return str(shown)


def _read(name: str) -> str:
    return files("memory_ci.commands.report").joinpath("template", name).read_text("utf-8")


def clean(value: Any) -> Any:  # noqa: ANN401 - whatever a record holds
    """A value without credentials, in which nothing hides or turns the direction of what is around it."""
    if isinstance(value, dict):
        return {key: clean(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [clean(one) for one in value]
    return printable_lines(mask_secrets(value)) if isinstance(value, str) else value


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _draw(vega: Any, specs: dict[str, Spec], name: str, shown: Any, label: str) -> str:  # noqa: ANN401 - the library
    """A chart in both widths."""
    found = ""
    for size, width in (("wide", WIDE), ("narrow", NARROW)):
        spec = {**json.loads(json.dumps(specs[name])), "config": specs["config"]}
        FILLERS[name](spec, shown, width)
        draw = vega.vega_to_svg if "marks" in spec else vega.vegalite_to_svg
        svg = draw(spec, allowed_base_urls=[]).replace(LOCAL, '<a xlink:href="#')
        for part in UNSEEN:
            svg = svg.replace(part, "")
        found += re.sub(
            r"\A<svg ", f'<svg role="group" aria-label="{label}" data-size="{size}" ', svg
        )
    return found


def _moment(day: date) -> int:
    return (day - date(1970, 1, 1)).days * 86_400_000


def _fill_weeks(spec: Spec, page: Overview, width: int) -> None:
    """Merges as bars; above them what became of memory, as dots of so many entries."""
    weeks = page.weeks if width == WIDE else page.weeks[-NARROW_WEEKS:]
    bars = [
        {
            "at": _moment(one.start),
            "end": _moment(min(one.start + timedelta(days=6), page.today)),
            "count": one.merges,
        }
        | {
            "url": one.newest.url,
            "says": f"Week of {one.start}: {one.merges} merged, the newest {one.newest.label}",
        }
        for one in weeks
        if one.merges
    ]
    dots = [
        {"at": _moment(one.start + timedelta(days=3)), "name": kind, "count": count}
        | {"url": (one.newest if kind == "candidates" else one.written).url}
        | {"says": f"Week of {one.start}: {count} {kind}"}
        for one in weeks
        for kind in ("learned", "candidates", "retired")
        if (count := getattr(one, kind))
    ]
    ends = [_moment(weeks[0].start), _moment(weeks[-1].start + timedelta(days=7))]
    for part in spec["vconcat"]:
        part["width"] = width - 90
        part["encoding"]["x"]["scale"]["domain"] = ends
    below = spec["vconcat"][1]["encoding"]
    below["x"]["axis"]["tickCount"] = min(width // 90, len(weeks))
    below["y"]["scale"] = {"domain": [0, max(4, *(one.merges for one in weeks))]}
    spec["datasets"] = {"bars": bars, "dots": dots}


def _fill_use(spec: Spec, page: Overview, width: int) -> None:
    """A dot for each entry that was given; those of one place are spread a little, by their ids."""
    most = MAX_DOTS if width == WIDE else MAX_DOTS // 3
    given = sorted(
        ((one.given, number) for number, one in enumerate(page.entries) if one.given), reverse=True
    )[:most]
    dots: list[Row] = []
    for _, number in given:
        one = page.entries[number]
        name = (
            "noise"
            if one.given > 4 and not one.used
            else "gold"
            if one.used * 2 >= one.given > 1
            else "between"
        )
        right, up = hashlib.sha256(one.id.encode()).digest()[:2]
        says = f"{shorten(one.title, 80)}: given {one.given}, used {one.used}"
        place = {"given": one.given + right / 500 - 0.25, "used": one.used + up / 700}
        dots.append({**place, "name": name, "says": says, "url": f"#entry-{number}"})
    far, high = given[0][0], max(one.used for one in page.entries)
    corners: list[Row] = [{"given": far, "used": 0.45, "text": "noise: given, never used"}]
    corners += [{"given": far, "used": high + 0.3, "text": "gold: given and used"}] if high else []
    spec["datasets"] = {"dots": dots, "corners": corners}
    spec["width"] = width - 70


def _fill_map(spec: Spec, page: Overview, width: int) -> None:
    """A tile for each file, by directory; what is below the second directory stands in that."""
    rows: dict[str, Row] = {"/": {"id": "/"}}
    for one in page.files[: MAX_TILES if width == WIDE else MAX_TILES // 2]:
        folder = "/".join(one.path.split("/")[:-1][:2])
        rows[f"{folder}/"] = (
            {"id": f"{folder}/", "parent": "/", "label": folder or "."} if folder else rows["/"]
        )
        said = f"{one.path}: {plural(one.churn, 'merged change')}, {plural(one.entries, 'entry')}; {COVERS[one.cover]}"
        rows[one.path] = {
            "id": one.path,
            "parent": f"{folder}/",
            "size": one.churn,
            "cover": one.cover,
        }
        rows[one.path] |= {
            "label": one.path.removeprefix(f"{folder}/"),
            "says": said,
            "url": one.url,
        }
    spec["data"][0]["values"] = list(rows.values())
    spec["width"] = width


def _fill_task(spec: Spec, task: ExplainedTask, width: int) -> None:
    """A bar for each entry that the task finds, of what each factor added and took."""
    places = list(enumerate(task.found, start=1))
    parts = [
        {"place": place, "name": name, "value": value, "given": one.state == "given"}
        | {"says": f"{place}. {name} {value:+.2f}"}
        for place, one in places
        for name, value in one.parts
    ]
    scores = [
        {
            "place": place,
            "score": one.score,
            "says": f"{place}. {one.title}: {one.score:.2f}, {STATES[one.state]}",
        }
        for place, one in places
    ]
    spec["datasets"] = {"parts": parts, "scores": scores}
    color = spec["layer"][0]["encoding"]["color"]
    color["scale"] = {"domain": FACTORS}
    present = {name for one in task.found for name, _ in one.parts}
    color["legend"] |= {
        "columns": width // 110,
        "values": [name for name in FACTORS if name in present],
    }
    spec["width"] = width - 40


def _fill_health(spec: Spec, page: Overview, width: int) -> None:
    """A small chart for each metric, all on the same axes."""
    values = [
        {"metric": metric.name, "release": one.name, "value": metric.value}
        | {"says": f"{one.name}: {metric.name} {metric.value:.0f}; {metric.basis}"}
        for one in page.releases
        for metric in one.health.metrics
        if metric.value is not None
    ]
    spec["columns"] = columns = 3 if width == WIDE else 2
    spec["spec"]["width"] = (width - columns * 52) // columns
    spec["datasets"] = {"values": values}


def _fill_budget(spec: Spec, task: ExplainedTask, width: int) -> None:
    """One strip: what a job is given of its budget, and what found no room; the end of the budget as a line."""
    parts = [
        {
            "name": name,
            "value": value,
            "order": place,
            "says": f"{name}: {value:,} of {task.room:,} characters",
        }
        for place, (name, value) in enumerate(task.budget)
    ]
    spec["datasets"] = {
        "parts": parts,
        "room": [{"at": task.room, "says": f"The budget: {task.room:,} characters"}],
    }
    spec["width"] = width - 20


FILLERS: dict[str, Callable[[Spec, Any, int], None]] = {
    "weeks": _fill_weeks,
    "use": _fill_use,
    "map": _fill_map,
    "task": _fill_task,
    "health": _fill_health,
    "budget": _fill_budget,
}
