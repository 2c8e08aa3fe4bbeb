"""Documents: what a repository tells its readers already. A learning that says it again adds nothing to memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memory_ci.extraction.support import DOCUMENT, stems
from memory_ci.text import identifier_parts, strip_own_blocks

LEAST, LEAST_UNNAMED = 0.7, 0.8
"""The share of a title's words that must stand in one paragraph, beside all identifiers; more of one without."""

MIN_WORDS = 3  # Different words of a title below which nothing is compared: "Run the tests" stands everywhere.
READ_FIRST = re.compile(r"(?:.*/)?(?:README|AGENTS|CLAUDE|GEMINI|CONTRIBUTING)[^/]*", re.IGNORECASE)
FOLDER = re.compile(r"(?:.*/)?docs?/.*", re.IGNORECASE)
PART = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+|#]|\d+[.)])\s)")
"""Between paragraphs, items of a list and rows of a table."""

HELP = re.compile(
    r"(?i)\b(?:help|usage|short|long|about|description|summary)\w*\s*[=:(]|flags\(\)|\w*flag\w*\(|add_argument|\.option\("
)
"""Where a line of code holds what a program says of its own commands and options."""


class Paragraph(NamedTuple):
    """One paragraph or item of a document, or one line of help text: where it stands, and its stems."""

    path: str
    stems: frozenset[str]


def is_document(path: str) -> bool:
    """Whether people and agents read a file to learn how work is done here."""
    return bool(DOCUMENT.fullmatch(path) and (READ_FIRST.fullmatch(path) or FOLDER.fullmatch(path)))


def list_paragraphs(path: str, text: str) -> Iterator[Paragraph]:
    """The paragraphs of a document without what we put there ourselves; of code its help text."""
    is_prose = DOCUMENT.fullmatch(path)
    parts = PART.split(strip_own_blocks(text)) if is_prose else filter(HELP.search, text.splitlines())
    yield from (Paragraph(path, frozenset(stems(part))) for part in parts if part.strip())


def find_told(title: str, paragraphs: Iterable[Paragraph]) -> str | None:
    """The path of the first paragraph that holds all identifiers of `title` and most of its words."""
    said = stems(title)
    named = stems(" ".join(word for word in title.split() if any(True for _ in identifier_parts(word))))
    if len(said) < MIN_WORDS:
        return None
    needed = (LEAST if named else LEAST_UNNAMED) * len(said)
    return next((one.path for one in paragraphs if named <= one.stems and len(said & one.stems) >= needed), None)
