"""Tests of the page of `report` in a browser: loaded files, scripts, content, and use without a mouse."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memory_ci.commands.report.records import (
    AskedQuestion,
    EntryFault,
    EntryMention,
    FaultKind,
    Overview,
    Summary,
    UsePeriod,
    WebLink,
)
from memory_ci.commands.report.report import gather_report, save_report
from memory_ci.memory.episodes import save_episode_record
from memory_ci.records.episode import Action, Episode, ServedEntry, Situation
from memory_ci.store.edits import format_entry
from tests.browser.chromium import BROWSER, FLAGS, NEEDS_BROWSER
from tests.make import make_entry, make_id
from tests.project import NOW, make_project

playwright = pytest.importorskip(
    "playwright.sync_api", reason="no browser tests: playwright is not installed"
)
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="no browser tests: axe is not installed"
)
pytestmark = [pytest.mark.slow, NEEDS_BROWSER]

HOSTILE = [
    "<script>window.pwned = 1</script>",
    '"><img src=x onerror="window.pwned = 1">',
    "</script><script>window.pwned = 1</script>",
    "<a href='javascript:window.pwned=1'>click</a> {{ 7 * 7 }}",
    "</style><svg/onload=window.pwned=1> \u202egnp.exe\u202c",
]


@pytest.fixture(scope="module")
def overview(tmp_path_factory: pytest.TempPathFactory) -> Overview:
    """Return the report of a repository with three merges, and entries with hostile titles that were served to one of them."""
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
    sha = project.git("rev-parse", "HEAD").strip()
    entries.append(
        make_entry(
            9,
            title="Charge a card once",
            type="directive",
            source="pr:128",
            cites=(f"src/gateway.py@{sha[:12]}",),
        )
    )
    project.commit("memory: by hand", {"MEMORY.md": "".join(map(format_entry, entries))})
    served = tuple(ServedEntry(id=entry.id) for entry in entries)
    episode = Episode(
        id="pr-129", occurred_at=NOW, situation=Situation(summary=HOSTILE[1]), retrieved=served
    )
    save_episode_record(
        project.workspace, replace(episode, used=(make_id(9),), action=Action(pr=129))
    )
    overview = gather_report(
        project.workspace, NOW, {}, task="charge a card <script>window.pwned = 1</script>"
    )
    return replace(
        overview,
        tasks=tuple(
            task for task in overview.tasks if "charge" in task.task or "latest" in task.task
        ),
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


class Opened:
    """A page, with its browser messages and the requests since it was opened."""

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.page = browser.new_context(**context).new_page()
        self.browser_messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.browser_messages.append(message.text))
        self.page.on("pageerror", lambda error: self.browser_messages.append(str(error)))
        self.page.on("dialog", lambda dialog: self.browser_messages.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def count(self, selector: str) -> int:
        return int(self.page.locator(selector).count())


@pytest.fixture(scope="module")
def path(overview: Overview, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    save_report(overview, path)
    return path


def make_full(overview: Overview) -> Overview:
    """Return a report with thirty entries, with faults and questions, and every kind of text."""
    template = overview.entries[-1]
    entries = [
        replace(
            template,
            id=make_id(number),
            title=f"Entry {number:02d} on how the work is done here",
            at=date(2026, 11, 21) - timedelta(days=number),
            links=(WebLink(f"#{number}", f"https://github.com/acme/shop/pull/{number}"),),
            served_count=number,
            used_count=number // 3,
            quotes=(),
        )
        for number in range(1, 31)
    ]
    kinds: tuple[FaultKind, ...] = ("gone", "changed", "changed", "gone", "contradicted")
    for place, kind in enumerate(kinds, start=4):
        fault = EntryFault(kind, f"{kind}: src/gateway.py:{place}")
        entries[place] = replace(entries[place], faults=(fault,))
    assert overview.summary is not None
    recent = replace(
        overview.summary.recent, learned=28, sessions=9, servings=40, used=21, repetitions=6
    )
    named = (EntryMention(make_id(3), entries[2].title, "4 times"),)
    summary = replace(
        overview.summary,
        recent=replace(recent, although_written=2, rules_served=5, failed_again=1),
        has_session_words=True,
        newest=tuple(entry.id for entry in entries[:5]),
        most_used=named,
        asked_again=named,
        failed_again=named,
        faulty=tuple(entry.id for entry in entries if entry.faults),
        over_budget=named,
        compared_count=20,
    )
    question = AskedQuestion(
        kind="changed",
        title=entries[5].title,
        why="changed: src/gateway.py:5",
        quote="",
        commands=(f"memory-ci review --all --keep {make_id(6)[:8]}",),
        entry_id=make_id(6),
    )
    files = tuple(replace(file, cover="stale", stale_id=make_id(5)) for file in overview.files[:1])
    return replace(
        overview,
        summary=summary,
        entries=tuple(entries),
        inbox=(question,) * 4,
        waiting=4,
        files=(*files, *overview.files[1:]),
        notes=(),
    )


@pytest.fixture(scope="module")
def full(overview: Overview, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("full") / "page.html"
    save_report(make_full(overview), path)
    return path


def make_states(overview: Overview) -> dict[str, Overview]:
    """Return the reports of an empty memory, of one entry, of many entries, and of a usual memory."""
    full = make_full(overview)
    newest = full.entries[0]
    assert full.summary is not None
    bare = Summary(recent=make_idle_period(full, "recent"), before=make_idle_period(full, "before"))
    many = tuple(
        replace(newest, id=make_id(number), title=f"Entry {number}", served_count=number % 40)
        for number in range(31, 2001)
    )
    empty = Overview(
        name="new", address="", today=full.today, commit="1234567", summary=bare, weeks=full.weeks
    )
    single = replace(
        empty,
        entries=(replace(newest, served_count=0, used_count=0),),
        summary=replace(bare, newest=(newest.id,)),
    )
    return {
        "empty": empty,
        "one": single,
        "many": replace(full, entries=(*full.entries, *many)),
        "usual": full,
    }


def make_idle_period(page: Overview, name: str) -> UsePeriod:
    """Return a period without activity."""
    assert page.summary is not None
    period = getattr(page.summary, name)
    return UsePeriod(first=period.first, last=period.last)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder for screenshots: REPORT_PICTURES, or a temporary one."""
    named = os.environ.get("REPORT_PICTURES")
    folder = Path(named) if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("state", ["empty", "one", "many", "usual"])
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("dark", 390)])
def test_each_state_is_accessible_and_fits_and_is_photographed(
    browser: Any, overview: Overview, pictures: Path, state: str, scheme: str, width: int
) -> None:
    path = pictures / f"report-{state}.html"
    save_report(make_states(overview)[state], path)
    height = 900 if width > 390 else 844
    opened = Opened(browser, path, color_scheme=scheme, viewport={"width": width, "height": height})
    opened.page.screenshot(path=pictures / f"report-{state}-{width}-{scheme}.png")
    opened.page.screenshot(
        path=pictures / f"report-{state}-{width}-{scheme}-full.png", full_page=True
    )
    assert list_violations(opened.page) == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    assert opened.browser_messages == []


def test_the_page_prints_with_its_legends(browser: Any, full: Path, pictures: Path) -> None:
    page = Opened(browser, full).page
    page.emulate_media(media="print")
    swatch = "getComputedStyle(document.querySelector('.key li'), '::before').printColorAdjust"
    assert page.evaluate(swatch) == "exact"
    assert page.is_visible(".answers")
    assert not page.is_visible(".form")
    data = page.pdf(path=pictures / "report-usual-print.pdf", format="A4")
    assert data.startswith(b"%PDF")


@pytest.fixture(scope="module")
def opened(browser: Any, path: Path) -> Opened:
    return Opened(browser, path, viewport={"width": 1280, "height": 900})


def test_the_page_makes_no_requests_and_logs_no_errors(opened: Opened, path: Path) -> None:
    assert (opened.requests, opened.browser_messages) == ([path.as_uri()], [])


@pytest.mark.parametrize(
    ("view", "marks"),
    [("time", 2), ("use", 6), ("map", 2), ("task", 2)],
    ids=lambda value: str(value),
)
def test_each_chart_has_its_marks(opened: Opened, view: str, marks: int) -> None:
    assert opened.count(f"#{view} svg[data-size=wide] .role-mark [aria-label]") >= marks


def test_bars_link_to_commits_and_dots_to_entries(opened: Opened, overview: Overview) -> None:
    links = opened.page.eval_on_selector_all(
        "#time a, #use figure a", "all => all.map(a => a.href.baseVal)"
    )
    assert (
        f"https://github.com/acme/shop/commit/{overview.weeks[-2].newest_merge.url[-40:]}" in links
    )
    assert {f"#{entry.id}" for entry in overview.entries} <= set(links)


def test_text_of_entries_is_neither_run_nor_hidden(opened: Opened) -> None:
    page = opened.page
    page.evaluate("id => { location.hash = id }", f"#{make_id(1)}")
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
    entries_text = page.inner_text("#entries")
    assert HOSTILE[0] in entries_text
    assert "{{ 7 * 7 }}" in entries_text
    assert "\\u202egnp.exe" in entries_text
    assert page.title().startswith("Memory of ")
    assert opened.browser_messages == []


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
    page.locator("details.entry summary").first.focus()
    page.keyboard.press("Enter")
    assert "used" in page.inner_text("details.entry[open]")


def test_the_search_is_reached_by_fifteen_tab_presses(browser: Any, full: Path) -> None:
    page = Opened(browser, full).page
    focused: list[str] = []
    while "search" not in focused and len(focused) < 15:
        page.keyboard.press("Tab")
        focused.append(page.evaluate("document.activeElement.id"))
    assert focused[-1] == "search"


def test_tiles_filter_the_list_and_the_worst_comes_first_on_demand(
    browser: Any, full: Path
) -> None:
    page = Opened(browser, full).page
    page.get_by_role("button", name="code changed or gone").click()
    assert page.inner_text("#count") == "4 of 30 entries"
    assert page.locator("#tiles [aria-pressed=true]").inner_text() == "4 code changed or gone"
    page.get_by_role("button", name="in force").click()
    page.select_option("#order", "worst")
    assert "code gone" in page.locator("details.entry").first.inner_text()
    page.select_option("#order", "title")
    titles = page.locator("details.entry bdi").all_inner_texts()
    assert titles == sorted(titles)


def test_a_link_to_an_entry_is_its_id(browser: Any, full: Path) -> None:
    page = Opened(browser, full).page
    page.goto(f"{full.as_uri()}#{make_id(29)[:8]}")
    page.reload()
    assert page.get_attribute("details.entry[open]", "id") == make_id(29)


def test_a_chart_is_one_tab_stop_with_arrow_keys_inside(browser: Any, full: Path) -> None:
    page = Opened(browser, full, viewport={"width": 1280, "height": 900}).page
    stops = '#use svg[data-size=wide] [tabindex="0"]'
    assert page.locator(stops).count() == 1
    first = page.locator(stops).get_attribute("xlink:href")
    page.locator(stops).focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(stops).count() == 1
    assert page.locator(stops).get_attribute("xlink:href") != first


def test_marks_without_a_link_are_reached_by_keyboard_and_a_link_skips_them(
    browser: Any,
    overview: Overview,
    tmp_path: Path,
) -> None:
    weeks = tuple(
        replace(week, newest_merge=WebLink("1234567"), newest_memory_commit=WebLink(""))
        for week in overview.weeks
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


def list_violations(page: Any) -> list[tuple[str, str]]:
    """Return the violations of the accessibility check: rule and first element."""
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]}
    violations = axe.Axe().run(page, options=options).response["violations"]
    return [(violation["id"], violation["nodes"][0]["html"][:200]) for violation in violations]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_hostile_titles_pass_the_accessibility_check(
    browser: Any, path: Path, scheme: str, width: int
) -> None:
    page = Opened(browser, path, color_scheme=scheme, viewport={"width": width, "height": 844}).page
    assert list_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_ten_thousand_entries_are_a_page_of_bounded_size(
    browser: Any, overview: Overview, tmp_path: Path
) -> None:
    entry = overview.entries[-1]
    many = tuple(
        replace(entry, id=make_id(number), served_count=number % 90, used_count=number % 7)
        for number in range(10_000)
    )
    size = save_report(
        replace(overview, entries=many, tasks=(), weeks=(), files=(), releases=()),
        tmp_path / "page.html",
    )
    opened = Opened(browser, tmp_path / "page.html")
    assert size < 6_000_000
    assert opened.count("*") < 12_000
    assert opened.page.inner_text("#count") == "10000 of 10000 entries, the first 25 are shown"
    assert opened.browser_messages == []


def test_an_empty_memory_says_what_to_do_next(
    browser: Any, overview: Overview, tmp_path: Path
) -> None:
    empty = Overview(name="new", address="", today=overview.today, commit="")
    save_report(empty, tmp_path / "page.html")
    opened = Opened(browser, tmp_path / "page.html")
    assert opened.count("svg") == 0
    assert "memory-ci add" in opened.page.inner_text("#entries")
    assert opened.browser_messages == []


def test_text_that_looks_like_a_credential_is_masked(overview: Overview, tmp_path: Path) -> None:
    key = f"ghp_{'A1b2C3d4E5' * 4}"
    entries = (
        replace(overview.entries[0], title=key, body=key, quotes=(key,)),
        *overview.entries[1:],
    )
    save_report(replace(overview, entries=entries, notes=(key,)), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert key not in page
    assert "[redacted:" in page
