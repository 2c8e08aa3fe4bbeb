"""Decision records (ADRs): the decision of one, and whether it was withdrawn."""

from __future__ import annotations

import re

from memory_ci.extraction.markers import MarkedStatement
from memory_ci.regex import Regex
from memory_ci.text import count_words

# Runs of blanks are matched possessively (`*+`): with backtracking they would cost quadratic time.
BLANK = r"[^\S\n]"
RECORD_TITLE = Regex(
    rf"^#{BLANK}++(?:ADR(?:-|{BLANK})*+:?{BLANK}*+)?(?:\d++{BLANK}*+[.:)\u2014\u2013-]*+{BLANK}*+)?"
    r"(?P<title>\S.*)$",
    re.MULTILINE | re.IGNORECASE,
)
"""`# ADR-7: Use a queue`, the heading of a record with its number."""

DECISION_HEADING = Regex(
    rf"^#{{2,3}}{BLANK}++(?:\d++\.?{BLANK}++)?(?:the{BLANK}++)?"
    rf"(?:decision outcome|decision|outcome){BLANK}*+:?{BLANK}*+$",
    re.MULTILINE | re.IGNORECASE,
)
"""`## Decision`, the heading of the section with the decision."""

HEADING = Regex(r"^#{1,3}\s", re.MULTILINE)
STATUS = Regex(
    r"^(?:#+\s*)?(?:[-*]\s*)?(?:\*\*)?status(?:\*\*)?:?(?:\*\*)?[\s:]*(?P<status>[A-Za-z]+)",
    re.MULTILINE | re.IGNORECASE,
)
"""`Status: accepted`, as a line, an item of a list or a section."""

FENCE = "```"
FIRST_PARAGRAPH = Regex(r"\S(?:(?!(?<!:)\n\n).)*", re.DOTALL)
"""The first paragraph, with the next one if it ends in a colon."""

LINE_WRAP = Regex(r"\s*\n(?!\s*(?:[-*+]|\d+[.)])\s)\s*")
"""A line break that is not followed by an item of a list."""

MIN_NAME_WORDS = 3
"""Number of words of the name of a record that says by itself what was decided."""

ADOPTED_STATUSES = frozenset(
    {"accepted", "approved", "adopted", "implemented", "done", "final", "active"}
)

STATUS_SECTION = Regex(
    rf"^(?:#+{BLANK}*+status{BLANK}*+:?{BLANK}*+\n(?P<section>(?:(?!^#).*\n?){{1,8}})"
    r"|(?:[-*]\s*)?(?:\*\*)?status(?:\*\*)?\s?:(?P<line>.*(?:\n[^\S\n]+\S.*){0,2}))",
    re.MULTILINE | re.IGNORECASE,
)
"""The section or the line that says what became of a decision."""

WITHDRAWN_STATUS = Regex(
    r"\b(?P<status>super[sc]eded|deprecated|rejected|withdrawn|obsoleted?|replaced|reverted)\b"
    r"(?:\s+by\s+(?P<successor>[^\n]{1,120}))?",
    re.IGNORECASE,
)
"""`superseded by …`, and other words of a status that withdraws a record."""

SUPERSEDED_BY = Regex(
    r"^super[sc]eded[-_ ]by:[^\S\n]*(?![\[~]?[\s\]]*$|null|none)(?P<successor>\S.{0,119})$",
    re.MULTILINE | re.IGNORECASE,
)
"""The key of a front matter."""

LINK = Regex(r"\[(?P<text>[^\]\n]*)\]\([^)\n]*\)")
"""A link of Markdown; its text is the name of a record."""


def find_withdrawal(record: str) -> str:
    """Return the status that withdraws a decision record, "" for a record in force.

    >>> find_withdrawal("# 1. Use A\\n\\n## Status\\n\\nSuperceded by [2. Use B](2-b.md)\\n")
    'superseded by 2. Use B'
    """
    for section in STATUS_SECTION.finditer(record):
        text = section["section"] or section["line"] or ""
        match = WITHDRAWN_STATUS.search(text)
        if match:
            status = match["status"].lower().replace("superceded", "superseded")
            return _describe_withdrawal(status, match["successor"] or "")
    front_matter_key = SUPERSEDED_BY.search(record)
    if front_matter_key:
        return _describe_withdrawal("superseded", front_matter_key["successor"])
    return ""


def _describe_withdrawal(status: str, successor: str) -> str:
    name = LINK.sub(r"\g<text>", successor).strip(" \t\"'`*_~.[]")
    return f"{status} by {name}" if name else status


def find_decision(record: str) -> MarkedStatement | None:
    """Return the decision of a decision record as if its author had marked it in a message.

    It is the title and the first paragraph of the section `Decision`. None if the record has no
    title or no such section, or is not accepted.
    """
    title = RECORD_TITLE.search(record)
    heading = DECISION_HEADING.search(record)
    if title is None or heading is None:
        return None
    status = STATUS.search(record)
    is_adopted = status is None or status["status"].lower() in ADOPTED_STATUSES
    if not is_adopted or find_withdrawal(record):
        return None
    section = HEADING.split(record[heading.end() :], maxsplit=1)[0].strip()
    prose = section.partition(FENCE)[0].rstrip()
    paragraph = FIRST_PARAGRAPH.match(prose)
    if not paragraph:
        return None

    name = title["title"].rstrip().rstrip("#").rstrip()
    # A short name is only the subject of the decision.
    separator = ":" if count_words(name) < MIN_NAME_WORDS else "."
    decision = LINE_WRAP.sub(" ", paragraph[0])
    text = f"{name.rstrip('.')}{separator} {decision}"
    return MarkedStatement(
        "decision", scope="", text=text, quote=paragraph[0], subject=name, is_trailer=True
    )
