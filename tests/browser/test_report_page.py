"""The page of `report` in a real browser: what it loads, runs and shows, and what works without a mouse."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memory_ci.commands.report.records import Overview, WebLink
from memory_ci.commands.report.report import gather_report, save_report
from memory_ci.memory.episodes import save_telling
from memory_ci.records.episode import Action, Episode, ServedEntry, Situation
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import NOW, make_project

playwright = pytest.importorskip(
    "playwright.sync_api", reason="no browser tests: playwright is not installed"
)
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="no browser tests: axe is not installed"
)
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
NEEDS_BROWSER = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser tests: none of {', '.join(BROWSERS)} on PATH"
)
pytestmark = [pytest.mark.slow, NEEDS_BROWSER]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
HOSTILE = [
    "<script>window.pwned = 1</script>",
    '"><img src=x onerror="window.pwned = 1">',
    "</script><script>window.pwned = 1</script>",
    "<a href='javascript:window.pwned=1'>click</a> {{ 7 * 7 }}",
    "</style><svg/onload=window.pwned=1> \u202egnp.exe\u202c",
]


@pytest.fixture(scope="module")
def overview(tmp_path_factory: pytest.TempPathFactory) -> Overview:
    """A known repository: three merges, and entries with hostile titles that were given to one of them and used."""
    project = make_project(tmp_path_factory.mktemp("browser") / "<b>shop")
    project.git("remote", "add", "origin", "https://github.com/acme/shop.git")
    project.at(datetime(2026, 11, 10, tzinfo=UTC))
    for number, branch in ((129, "late"), (130, "later"), (131, "latest")):
        project.merge_work(f"fix: answer {branch}", branch, number, "src/gateway.py")
    entries = [
        make_entry(
            number,
            title=title,
            body=title,
            evidence=(f"pr:129 {title}",),
            source="javascript:window.pwned=1",
        )
        for number, title in enumerate(HOSTILE, start=1)
    ]
    entries.append(make_entry(9, title="Charge a card once", type="directive", source="pr:128"))
    project.commit("memory: by hand", {"MEMORY.md": "".join(map(format_entry, entries))})
    given = tuple(ServedEntry(id=entry.id) for entry in entries)
    told = Episode(
        id="pr-129", occurred_at=NOW, situation=Situation(summary=HOSTILE[1]), retrieved=given
    )
    save_telling(project.workspace, replace(told, used=(make_id(9),), action=Action(pr=129)))
    found = gather_report(
        project.workspace, NOW, {}, task="charge a card <script>window.pwned = 1</script>"
    )
    return replace(
        found,
        tasks=tuple(one for one in found.tasks if "charge" in one.task or "latest" in one.task),
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


class Opened:
    """A page, and all that it said or asked for since."""

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.page = browser.new_context(**context).new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def count(self, selector: str) -> int:
        return int(self.page.locator(selector).count())


@pytest.fixture(scope="module")
def path(overview: Overview, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    save_report(overview, path)
    return path


@pytest.fixture(scope="module")
def opened(browser: Any, path: Path) -> Opened:
    return Opened(browser, path, viewport={"width": 1280, "height": 900})


def test_the_page_asks_for_nothing_and_complains_of_nothing(opened: Opened, path: Path) -> None:
    assert (opened.asked, opened.said) == ([path.as_uri()], [])


@pytest.mark.parametrize(
    ("view", "marks"),
    [("time", 2), ("use", 6), ("map", 2), ("task", 2), ("health", 3)],
    ids=lambda value: str(value),
)
def test_each_chart_has_its_marks(opened: Opened, view: str, marks: int) -> None:
    assert opened.count(f"#{view} svg[data-size=wide] .role-mark [aria-label]") >= marks


def test_bars_lead_to_commits_and_dots_to_entries(opened: Opened, overview: Overview) -> None:
    links = opened.page.eval_on_selector_all(
        "#time a, #use figure a", "all => all.map(a => a.href.baseVal)"
    )
    assert f"https://github.com/acme/shop/commit/{overview.weeks[-2].newest.url[-40:]}" in links
    assert {"#entry-0", "#entry-5"} <= set(links)


def test_nothing_that_entries_say_is_run_or_hidden(opened: Opened) -> None:
    page = opened.page
    page.evaluate("location.hash = '#entry-0'")
    for summary in page.locator("details.entry summary").all():
        summary.evaluate("node => node.parentNode.open = true")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("[window.pwned, document.scripts.length, document.images.length]") == [
        None,
        2,
        0,
    ]
    assert (
        page.evaluate("[...document.links].filter(a => !/^(https|file):/.test(a.href)).length") == 0
    )
    said = page.inner_text("#entries")
    assert HOSTILE[0] in said
    assert "{{ 7 * 7 }}" in said
    assert "\\u202egnp.exe" in said
    assert page.title().startswith("Memory of ")
    assert opened.said == []


def test_search_and_filters_work_by_keyboard_alone(browser: Any, path: Path) -> None:
    page = Opened(browser, path).page
    page.keyboard.press("/")
    page.keyboard.type("card ONCE")
    assert page.inner_text("#count") == "1 of 6 entries"
    assert page.locator("#use figure svg[data-size=wide] a.faint").count() == 5
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.press("Tab")
    page.keyboard.type("directive")
    assert page.inner_text("#count") == "1 of 6 entries"
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "used" in page.inner_text("details.entry[open]")


def test_marks_without_a_link_are_reached_by_keyboard_and_a_link_passes_them(
    browser: Any,
    overview: Overview,
    tmp_path: Path,
) -> None:
    weeks = tuple(
        replace(week, newest=WebLink("1234567"), written=WebLink("")) for week in overview.weeks
    )
    save_report(replace(overview, address="", weeks=weeks), tmp_path / "page.html")
    page = Opened(browser, tmp_path / "page.html", viewport={"width": 1280, "height": 900}).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator('#time svg[data-size=wide] [aria-label^="Week of"]').first.focus()
    assert page.inner_text("#time output.tip").startswith("Week of")
    page.focus("a.skip")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "search"


def test_a_task_is_found_by_typing(browser: Any, path: Path) -> None:
    page = Opened(browser, path).page
    assert page.locator(".task:visible").count() == 1
    page.focus("#asked")
    page.keyboard.press("Control+a")
    page.keyboard.type("ANSWER LATEST")
    assert "latest" in page.inner_text(".task:visible h3 >> nth=0")
    page.keyboard.type(" and zebras")
    assert page.is_visible("#unasked")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_labels_and_contrast_pass_the_accessibility_check(
    browser: Any, path: Path, scheme: str, width: int
) -> None:
    page = Opened(browser, path, color_scheme=scheme, viewport={"width": width, "height": 844}).page
    found = (
        axe.Axe()
        .run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]})
        .response["violations"]
    )
    assert [
        (one["id"], one["nodes"][0]["html"][:200])
        for one in found
        if one["impact"] in ("serious", "critical")
    ] == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_ten_thousand_entries_are_a_page_of_bounded_size(
    browser: Any, overview: Overview, tmp_path: Path
) -> None:
    one = overview.entries[-1]
    many = tuple(
        replace(one, id=make_id(number), given=number % 90, used=number % 7)
        for number in range(10_000)
    )
    size = save_report(
        replace(overview, entries=many, tasks=(), weeks=(), files=(), releases=()),
        tmp_path / "page.html",
    )
    opened = Opened(browser, tmp_path / "page.html")
    assert size < 6_000_000
    assert opened.count("*") < 12_000
    assert opened.page.inner_text("#count") == "10000 of 10000 entries, the first 50 are shown"
    assert opened.said == []


def test_an_empty_memory_says_what_to_do_next(
    browser: Any, overview: Overview, tmp_path: Path
) -> None:
    empty = Overview(name="new", address="", today=overview.today, commit="")
    save_report(empty, tmp_path / "page.html")
    opened = Opened(browser, tmp_path / "page.html")
    assert opened.count("svg") == 0
    assert "memory-ci add" in opened.page.inner_text("#entries")
    assert opened.said == []


def test_what_looks_like_a_credential_is_masked(overview: Overview, tmp_path: Path) -> None:
    key = f"ghp_{'A1b2C3d4E5' * 4}"
    entries = (
        replace(overview.entries[0], title=key, body=key, quotes=(key,)),
        *overview.entries[1:],
    )
    save_report(replace(overview, entries=entries, notes=(key,)), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert key not in page
    assert "[redacted:" in page
