"""Decision records (ADRs): the title and the decision section of a Markdown file whose author wrote it to be kept."""

from __future__ import annotations

import re

from memory_ci.extraction.markers import Mark

TITLE = re.compile(
    r"^#\s+(?:ADR[-\s]*)?(?:\d+\s*[.:)\u2014\u2013-]*\s*)?(?P<title>\S.*?)\s*#*$", re.MULTILINE | re.IGNORECASE
)
DECISION = re.compile(
    r"^#{2,3}\s+(?:\d+\.?\s+)?(?:the\s+)?(?:decision|decision outcome|outcome)\s*:?\s*$", re.MULTILINE | re.IGNORECASE
)
HEADING = re.compile(r"^#{1,3}\s", re.MULTILINE)
STATUS = re.compile(
    r"^(?:#+\s*)?(?:[-*]\s*)?(?:\*\*)?status(?:\*\*)?:?(?:\*\*)?[\s:]*(?P<status>[A-Za-z]+)",
    re.MULTILINE | re.IGNORECASE,
)
ADOPTED = frozenset({"accepted", "approved", "adopted", "implemented", "done", "final", "active"})


def find_decision(record: str) -> Mark | None:
    """The decision of a record as a mark, or None when it has no title, no decision, or is not (yet) accepted."""
    title, heading, status = TITLE.search(record), DECISION.search(record), STATUS.search(record)
    if title is None or heading is None or (status and status["status"].lower() not in ADOPTED):
        return None
    section = HEADING.split(record[heading.end() :], maxsplit=1)[0].strip()
    paragraph = section.split("\n\n", 1)[0]
    if not paragraph:
        return None
    first = paragraph.split("\n", 1)[0].strip()
    text = f"{title['title'].rstrip('.')}. {' '.join(paragraph.split())}"
    return Mark("decision", "", text, first, title["title"], is_trailer=True)
