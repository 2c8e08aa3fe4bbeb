"""Decision records (ADRs): the title and the decision section of a Markdown file whose author wrote it to be kept."""

from __future__ import annotations

import re

from memory_ci.extraction.markers import Mark

BLANK = r"[^\S\n]"
"""Blanks of one line. Runs of them are taken whole (`*+`): tried in all their parts, they cost their square."""

TITLE = re.compile(
    rf"^#{BLANK}++(?:ADR(?:-|{BLANK})*+)?(?:\d++{BLANK}*+[.:)\u2014\u2013-]*+{BLANK}*+)?(?P<title>\S.*)$",
    re.MULTILINE | re.IGNORECASE,
)
DECISION = re.compile(
    rf"^#{{2,3}}{BLANK}++(?:\d++\.?{BLANK}++)?(?:the{BLANK}++)?"
    rf"(?:decision outcome|decision|outcome){BLANK}*+:?{BLANK}*+$",
    re.MULTILINE | re.IGNORECASE,
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
    name = title["title"].rstrip().rstrip("#").rstrip()
    text = f"{name.rstrip('.')}. {' '.join(paragraph.split())}"
    return Mark("decision", "", text, paragraph, name, is_trailer=True)
