"""Messages as an author wrote them: lines that may be searched, each with the subject it stands under.

A squash merge strings the messages of a branch together (`* fix: …` on GitHub, an indented log from git itself), and
agents write a literal `\\n` where they mean a line break. Fenced code and quoted text are not the author's own words.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FENCE = re.compile(r"\s{0,3}(```|~~~)")
CONVENTIONAL = re.compile(r"(?<![a-z])(?P<type>[a-z]+)(?:\((?P<scope>[^)]{0,80})\))?!?:\s")
SQUASH_SUBJECT = re.compile(r"\* (?=\S)")
LITERAL_BREAKS = re.compile(r"\\n(?:\\n|\s*(?:[-*] |#+ )?[A-Z][a-z]+(?: [a-z]+|-[A-Za-z-]+)?(?:\([^)]{0,80}\))?:)")
SQUASHED_LOG = "Squashed commit of the following:"
FIX = re.compile(r"\b(?:fix(?:e[sd])?|bug(?:fix)?|hot-?fix|revert|regression|repair|prevent|crash|hang)", re.IGNORECASE)


SUBJECT_WIDTH = 1_000
"""Characters of a subject that are looked at: every line of a message asks its subject anew."""


class Line(NamedTuple):
    """One line without its trailing blanks, and the subject of the commit message that it belongs to."""

    text: str
    subject: str


def searchable_lines(message: str) -> list[Line]:
    """Lines of `message`; code and quotations are left blank, so that they end what stands before them."""
    lines: list[Line] = []
    subject, fence, was_blank = "", None, True
    for text in _physical_lines(message):
        mark = FENCE.match(text)
        if mark and fence in (None, mark[1]):
            fence = None if fence else mark[1]
            text = ""
        elif fence or text.lstrip().startswith(">"):
            text = ""
        elif text and (not subject or (was_blank and SQUASH_SUBJECT.match(text))):
            subject = text.removeprefix("* ")
        was_blank = not text
        lines.append(Line(text, subject))
    return lines


def is_fix(subject: str) -> bool:
    """Whether a subject says that it repairs something."""
    return bool(FIX.search(subject, 0, SUBJECT_WIDTH))


def commit_type(subject: str) -> str:
    """The type of a conventional subject (`test` of `test(api): …`), else ""."""
    match = CONVENTIONAL.match(subject)
    return match["type"] if match else ""


def _physical_lines(message: str) -> list[str]:
    lines: list[str] = []
    for line in message.splitlines():
        lines += line.split("\\n") if LITERAL_BREAKS.search(line) else [line]
    indent = 4 if SQUASHED_LOG in message else 0
    return [(line[indent:] if line.startswith(" " * indent) else line).rstrip() for line in lines]
