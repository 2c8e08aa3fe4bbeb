"""The manual: the pages of documents that travel with the package, and what they say of an error or of a key."""

from __future__ import annotations

import re
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, metadata
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import memory_ci
from memory_ci.errors import UsageError
from memory_ci.text import unfenced_lines

PACKAGE = Path(memory_ci.__file__).parent
PLACES = (PACKAGE / "_docs", PACKAGE.parent / "docs")  # in a wheel, and in a checkout
HEADING = re.compile(r"(#{1,6}) (.+)")
KEY_ROW = re.compile(r"(?m)^\| `([a-z_.]+)` \| (.*?) \| (.*?) \| (.*) \|$")
MAX_FOUND = 8


class _Section(NamedTuple):
    """A heading of a page, with the lines from it to the next heading."""

    level: int
    title: str
    anchor: str
    lines: list[str]


def list_urls() -> tuple[str, ...]:
    """The addresses that the package's metadata names, each with what it is: `Documentation, https://…`."""
    try:
        return tuple(metadata("memory-ci").get_all("Project-URL") or ())
    except PackageNotFoundError:
        return ()


def link_to(slug: str) -> str:
    """Where an error or a finding is explained: on the site that the metadata names, else in the manual."""
    site = next(
        (url[15:].rstrip("/") for url in list_urls() if url.startswith("Documentation, ")), ""
    )
    return f"{site}/errors/#{slug}" if site else f"memory-ci help {slug}"


def list_topics() -> dict[str, str]:
    """The title of each page by its name."""
    return {page.stem: page.read_text("utf-8").partition("\n")[0].lstrip("# ") for page in _pages()}


def read_topic(name: str) -> str:
    """A page, one section of it (`PAGE#SECTION`, also with the path and `.md` of a link), or what is said of an error,
    a code or a key of the configuration. Raises UsageError (unknown-topic)."""
    pages = {page.stem: page.read_text("utf-8") for page in _pages()}
    link, _, anchor = name.partition("#")
    page = link.rpartition("/")[2].removesuffix(".md")
    if page in pages and not anchor:
        return pages[page]
    parts = re.split(
        r"(?m)^### ([a-z0-9-]+)\n", re.sub(r"(?m)^## .*\n", "", pages.get("errors", ""))
    )
    said = {
        name: f"{name}\n\n{body.strip()}\n"
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    for key, default, value, meaning in KEY_ROW.findall(pages.get("settings", "")):
        said[key] = f"{key}\n\n{meaning}\n\nDefault: {default}. Value: {value}.\n"
    if (wanted := anchor if page == "errors" else name) in said:
        return said[wanted]
    sections = _sections(pages.get(page, ""))
    at = next((at for at, section in enumerate(sections) if section.anchor == anchor), None)
    if at is not None:
        after = sections[at + 1 :]
        inner = takewhile(lambda section: section.level > sections[at].level, after)
        return (
            "\n".join(line for section in (sections[at], *inner) for line in section.lines).rstrip()
            + "\n"
        )
    known = [f"{page}#{section.anchor}" for section in sections] or [*pages, *said]
    close = get_close_matches(f"{page}#{anchor}" if sections else name, known, n=3)
    hint = f"Did you mean {' or '.join(close)}?" if close else "`memory-ci help` lists the pages."
    raise UsageError(
        f"there is no page {name!r}, and no error or key of that name",
        slug="unknown-topic",
        hint=hint,
    )


def find_sections(words: str) -> list[tuple[str, str]]:
    """The topics of at most MAX_FOUND sections that hold all the words, with their titles; first by words in those."""
    patterns = [
        re.compile(rf"(?i)(?<!\w){re.escape(word)}(?:e?s)?(?!\w)") for word in words.split()
    ]
    found = []
    for page in _pages():
        for section in _sections(page.read_text("utf-8")):
            counts = [len(pattern.findall("\n".join(section.lines))) for pattern in patterns]
            if counts and all(counts):
                in_title = sum(bool(pattern.search(section.title)) for pattern in patterns)
                topic = page.stem if section.level == 1 else f"{page.stem}#{section.anchor}"
                found.append((-in_title, -sum(counts), topic, section.title))
    return [(topic, title) for _, _, topic, title in sorted(found)[:MAX_FOUND]]


def _pages() -> list[Path]:
    place = next((place for place in PLACES if place.is_dir()), PLACES[0])
    return sorted(place.rglob("*.md"), key=lambda page: page.stem)


def _sections(text: str) -> list[_Section]:
    lines = text.splitlines()
    heads = [
        (at, found)
        for at, line in enumerate(unfenced_lines(lines))
        if (found := HEADING.fullmatch(line))
    ]
    ends = [*(at for at, _ in heads), len(lines)][1:]
    return [
        _Section(
            len(head[1]),
            head[2],
            re.sub(r"[^\w -]", "", head[2]).lower().replace(" ", "-"),
            lines[at:end],
        )
        for (at, head), end in zip(heads, ends, strict=True)
    ]
