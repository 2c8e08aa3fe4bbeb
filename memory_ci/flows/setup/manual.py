"""The manual: the pages of documents that travel with the package, and the paragraph of an error."""

from __future__ import annotations

import re
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import memory_ci
from memory_ci.errors import UsageError

PACKAGE = Path(memory_ci.__file__).parent
PLACES = (PACKAGE / "_docs", PACKAGE.parent / "docs")
"""In a wheel, and in a checkout."""


def list_urls() -> tuple[str, ...]:
    """The addresses that the package's metadata names, each with what it is: `Documentation, https://…`."""
    try:
        return tuple(metadata("memory-ci").get_all("Project-URL") or ())
    except PackageNotFoundError:
        return ()


def link_to(slug: str) -> str:
    """Where an error or a finding is explained: on the site that the metadata names, else in the manual."""
    site = next((url[15:].rstrip("/") for url in list_urls() if url.startswith("Documentation, ")), "")
    return f"{site}/errors/#{slug}" if site else f"memory-ci help {slug}"


def list_topics() -> dict[str, str]:
    """The title of each page by its name."""
    return {page.stem: page.read_text("utf-8").partition("\n")[0].lstrip("# ") for page in _pages()}


def read_topic(name: str) -> str:
    """A page by its name, or what the page of errors says of a slug or a code. Raises UsageError (unknown-topic)."""
    pages = {page.stem: page for page in _pages()}
    if name in pages:
        return pages[name].read_text("utf-8")
    slugs = _paragraphs(pages["errors"].read_text("utf-8")) if "errors" in pages else {}
    if name in slugs:
        return slugs[name]
    close = get_close_matches(name, [*pages, *slugs], n=3)
    hint = f"Did you mean {' or '.join(close)}?" if close else "`memory-ci help` lists the pages."
    raise UsageError(f"there is no page {name!r}, and no error of that name", slug="unknown-topic", hint=hint)


def _pages() -> list[Path]:
    place = next((place for place in PLACES if place.is_dir()), PLACES[0])
    return sorted(place.rglob("*.md"), key=lambda page: page.stem)


def _paragraphs(text: str) -> dict[str, str]:
    parts = re.split(r"(?m)^### ([a-z0-9-]+)\n", re.sub(r"(?m)^## .*\n", "", text))
    return {name: f"{name}\n\n{body.strip()}\n" for name, body in zip(parts[1::2], parts[2::2], strict=True)}
