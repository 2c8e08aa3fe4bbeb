"""The manual, which the command `help` prints: the pages of documentation in the package."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import NamedTuple

import memory_ci
from memory_ci.errors import UsageError
from memory_ci.regex import Regex
from memory_ci.text import unfenced_lines

PACKAGE = Path(memory_ci.__file__).parent
PLACES = (PACKAGE / "_docs", PACKAGE.parent / "docs")  # in a wheel, and in a checkout
EXPLANATIONS = Path(__file__).with_name("explanations.toml")
SITE_LABEL = "Documentation, "  # The label of the documentation's site in the metadata.
HEADING = Regex(r"(#{1,6}) (.+)")
KEY_ROW = Regex(r"(?m)^\| `([a-z_.]+)` \| (.*?) \| (.*?) \| (.*) \|$")
MAX_FOUND = 8


class _Section(NamedTuple):
    """A heading of a page, with the lines from it to the next heading."""

    level: int
    title: str
    anchor: str
    lines: list[str]


def list_urls() -> tuple[str, ...]:
    """List the labelled addresses in the metadata of the package: `Documentation, https://…`."""
    try:
        return tuple(metadata("memory-ci").get_all("Project-URL") or ())
    except PackageNotFoundError:
        return ()


def link_to(slug: str) -> str:
    """Return where an error or a finding is explained: an address of the site, or a command."""
    for url in list_urls():
        if url.startswith(SITE_LABEL):
            site = url.removeprefix(SITE_LABEL).rstrip("/")
            return f"{site}/errors.html#{slug}" if site else f"memory-ci help {slug}"
    return f"memory-ci help {slug}"


def list_topics() -> dict[str, str]:
    """Return the title of each page by its name."""
    topics = {}
    for page in _list_pages():
        first_line = page.read_text("utf-8").partition("\n")[0]
        topics[page.stem] = first_line.lstrip("# ")
    return topics


def read_topic(name: str) -> str:
    """Return a page, a section, or the explanation of an error, a code or a configuration key.

    Args:
        name: a name of these; a section is `PAGE#SECTION`, also with the path and `.md` of a link.

    Raises:
        UsageError: unknown-topic.
    """
    pages = {page.stem: page.read_text("utf-8") for page in _list_pages()}
    link, _, anchor = name.partition("#")
    page = link.rpartition("/")[2].removesuffix(".md")
    if page in pages and not anchor:
        return pages[page]

    explanations = {
        **_explain_errors(),
        **_explain_keys(pages.get("settings", "")),
    }
    slug = anchor if page == "errors" else name
    if slug in explanations:
        return explanations[slug]

    sections = _split_sections(pages.get(page, ""))
    for index, section in enumerate(sections):
        if section.anchor == anchor:
            return _render_section(sections[index:])

    if sections:
        names = [f"{page}#{section.anchor}" for section in sections]
        close = get_close_matches(f"{page}#{anchor}", names, n=3)
    else:
        close = get_close_matches(name, [*pages, *explanations], n=3)
    hint = f"Did you mean {' or '.join(close)}?" if close else "`memory-ci help` lists the pages."
    message = f"there is no page {name!r}, and no error or key of that name"
    raise UsageError(message, slug="unknown-topic", hint=hint)


def load_explanations() -> dict[str, dict[str, str]]:
    """Return the explanations of errors and findings, by class of the error (or Finding) and slug.

    A key may have several slugs, separated by blanks.
    """
    return tomllib.loads(EXPLANATIONS.read_text("utf-8"))


def _explain_errors() -> dict[str, str]:
    """Return the page on each error and finding, by its slug."""
    explanations = {}
    for section in load_explanations().values():
        for slugs, text in section.items():
            explanations.update({slug: f"{slug}\n\n{text}\n" for slug in slugs.split()})
    return explanations


def _explain_keys(page: str) -> dict[str, str]:
    """Return a page on each configuration key, from the rows of the tables on the settings page."""
    explanations = {}
    for key, default, value, meaning in KEY_ROW.findall(page):
        explanations[key] = f"{key}\n\n{meaning}\n\nDefault: {default}. Value: {value}.\n"
    return explanations


def _render_section(sections: Sequence[_Section]) -> str:
    """Return the text of the first of some sections, with its subsections."""
    lines = list(sections[0].lines)
    for section in sections[1:]:
        if section.level <= sections[0].level:
            break
        lines += section.lines
    return "\n".join(lines).rstrip() + "\n"


def find_sections(words: str) -> list[tuple[str, str]]:
    """Return topic and title of at most MAX_FOUND sections that hold all of some words.

    Sections with more of the words in their title come first, then those that have them more often.
    """
    # Each matches a whole word, also in the plural.
    patterns = [
        re.compile(rf"(?i)(?<!\w){re.escape(word)}(?:e?s)?(?!\w)") for word in words.split()
    ]
    ranked = []
    for page in _list_pages():
        for section in _split_sections(page.read_text("utf-8")):
            text = "\n".join(section.lines)
            counts = [len(pattern.findall(text)) for pattern in patterns]
            if not counts or not all(counts):
                continue
            title_count = sum(bool(pattern.search(section.title)) for pattern in patterns)
            topic = page.stem if section.level == 1 else f"{page.stem}#{section.anchor}"
            # Negative, so that sorting puts the greatest first.
            ranked.append((-title_count, -sum(counts), topic, section.title))
    return [(topic, title) for _, _, topic, title in sorted(ranked)[:MAX_FOUND]]


def _list_pages() -> list[Path]:
    folder = next((place for place in PLACES if place.is_dir()), PLACES[0])
    return sorted(folder.rglob("*.md"), key=lambda page: page.stem)


def _split_sections(text: str) -> list[_Section]:
    """Split a page of Markdown at its headings; text before the first heading is left out."""
    sections: list[_Section] = []
    lines = text.splitlines()
    for line, unfenced in zip(lines, unfenced_lines(lines), strict=True):
        if match := HEADING.fullmatch(unfenced):
            title = match[2]
            # As GitHub makes the anchor of a heading.
            anchor = re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
            sections.append(_Section(len(match[1]), title, anchor, []))
        if sections:
            sections[-1].lines.append(line)
    return sections
