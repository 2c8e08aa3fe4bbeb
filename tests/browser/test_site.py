"""Tests of the documentation site in a browser: search results, copied commands, and loaded files."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import BROWSER, FLAGS, NEEDS_BROWSER

playwright = pytest.importorskip(
    "playwright.sync_api", reason="no browser tests: playwright is not installed"
)
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="no browser tests: axe is not installed"
)
pytest.importorskip("material", reason="no site: mkdocs-material is not installed")
pytestmark = [pytest.mark.slow, NEEDS_BROWSER]

ROOT = Path(__file__).parents[2]
PICTURES = os.environ.get("SITE_PICTURES")


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Print no log of requests."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site like `make docs`, serve it, and yield its address."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, site: str) -> Iterator[Any]:
    """Yield the start page for a system that prefers light colours."""
    context = browser.new_context(color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site)
    page = context.new_page()
    page.goto(f"{site}/index.html")
    yield page
    context.close()


def find_first(page: Any, words: str) -> tuple[str, str]:
    """Return the page and the text of the first search result."""
    page.keyboard.press("/")
    page.locator(".md-search-result__meta", has_text="Type to start").wait_for()
    page.keyboard.insert_text(words)
    page.keyboard.press("End")  # the search listens to keys
    result = page.locator(".md-search-result__item").first
    result.wait_for()
    address = str(result.locator("a").first.get_attribute("href"))
    return address.partition("?")[0].rpartition("/")[2], str(result.inner_text())


def copy_first_block(page: Any) -> str:
    """Return the text that the button of the first console block copies."""
    block = page.locator(".language-console").first
    block.hover()
    block.locator("button[data-md-type=copy]").click()
    return str(page.evaluate("navigator.clipboard.readText()"))


@pytest.mark.parametrize(
    ("words", "place", "text"),
    [
        ("missing-extra", "errors.html", "missing-extra"),
        ("set up ci", "ci.html", "Set up CI"),
        ("delete a learning", "reviewing.html", "Delete a learning"),
        ("trusted_authors", "settings.html", "trusted_authors"),
    ],
)
def test_the_first_search_result_is_the_expected_page(
    opened: Any, words: str, place: str, text: str
) -> None:
    page, result = find_first(opened, words)
    assert page == place
    assert text in result


def test_the_start_page_has_the_loop_and_a_line_to_copy(opened: Any) -> None:
    assert opened.locator("h1").first.inner_text().startswith("memory-ci")
    assert opened.locator("article img").first.get_attribute("src") == "images/loop.svg"
    assert copy_first_block(opened) == "memory-ci init --from 90d --agent claude-code"
    assert opened.evaluate("document.querySelector('.language-console code').scrollWidth") <= (
        opened.evaluate("document.querySelector('.language-console code').clientWidth")
    )


def test_a_copied_block_has_its_commands_without_their_output(opened: Any, site: str) -> None:
    opened.goto(f"{site}/tutorial.html")
    assert copy_first_block(opened).splitlines() == [
        "memory-ci init --agent claude-code",
        'git add . && git commit -m "Add memory"',
    ]


def test_the_pages_have_links_to_the_previous_and_next_page(opened: Any) -> None:
    visited = []
    while (link := opened.locator(".md-footer__link--next")).count():
        visited.append(opened.url.rpartition("/")[2])
        opened.goto(opened.evaluate("link => link.href", link.element_handle()))
        assert opened.url.rpartition("/")[2] not in visited
    assert visited[:4] == ["index.html", "tutorial.html", "how-to.html", "agents.html"]
    assert len(visited) > 20
    assert opened.locator(".md-footer__link--prev").count() == 1


def test_the_colour_scheme_is_the_systems_until_a_person_chooses(browser: Any, site: str) -> None:
    page = browser.new_context(color_scheme="dark").new_page()
    page.goto(f"{site}/index.html")
    scheme = "document.body.getAttribute('data-md-color-scheme')"
    assert page.evaluate(scheme) == "slate"
    page.locator("label[for=__palette_1]").click()
    page.wait_for_function(f"{scheme} === 'default'")
    page.reload()
    assert page.evaluate(scheme) == "default"
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_window_or_loads_from_another_host(
    browser: Any, site: str, width: int, scheme: str
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    requested_urls: list[str] = []
    page.on("request", lambda request: requested_urls.append(request.url))
    for name in ("index", "tutorial", "agents", "ci", "errors", "reference/settings"):
        page.goto(f"{site}/{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        if PICTURES:
            place = Path(PICTURES) / f"{name.replace('/', '-')}-{width}-{scheme}.png"
            page.screenshot(path=str(place))
    assert [url for url in requested_urls if not url.startswith((site, "data:"))] == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_serious_accessibility_violation(
    browser: Any, site: str, scheme: str
) -> None:
    page = browser.new_context(color_scheme=scheme).new_page()
    violations_found = []
    for name in ("index", "tutorial", "agents", "errors"):
        page.goto(f"{site}/{name}.html")
        violations = axe.Axe().run(page).response["violations"]
        violations_found += [
            (name, violation["id"], violation["nodes"][0]["html"])
            for violation in violations
            if violation["impact"] in ("serious", "critical")
        ]
    assert violations_found == []
    page.context.close()
