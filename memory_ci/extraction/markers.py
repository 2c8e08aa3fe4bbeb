"""Marks: what an author marked as worth keeping, found in a commit message or a decision record.

Their table, MARKERS, has the rubric's weights: told to remember 0.9, won the hard way 0.8, a decision with its reason
0.7, error and debugging 0.6.

A mark is a line `Learning: …` (with an optional bullet or bold face, in any case), a contextual-commit line
`learned(scope): …`, or a bullet in a section `## Learnings`. Its text runs on over wrapped lines.

A squash merge strings the messages of a branch together (`* fix: …` on GitHub, an indented log from git itself), and
agents write a literal backslash-n for a line break. Fenced code and quoted text are not the author's own words.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from memory_ci.records.candidate import Kind
from memory_ci.records.entry import Adoption
from memory_ci.text import unfenced_lines, unquoted_lines

CONVENTIONAL = re.compile(r"(?<![a-z])(?P<type>[a-z]+)(?:\((?P<scope>[^)]{0,80})\))?!?:\s")
SQUASH_SUBJECT = re.compile(r"\* (?=\S)")
LITERAL_BREAKS = re.compile(
    r"\\n(?:\\n|\s*(?:[-*] |#+ )?[A-Z][a-z]+(?: [a-z]+|-[A-Za-z-]+)?(?:\([^)]{0,80}\))?:)"
)
SQUASHED_LOG = "Squashed commit of the following:"
FIX = re.compile(
    r"\b(?:fix(?:e[sd])?|bug(?:fix)?|hot-?fix|revert|regression|repair|prevent|crash|hang)",
    re.IGNORECASE,
)
SUBJECT_WIDTH = 1_000  # Characters of a subject that are looked at: every line of a message asks its subject anew.


class MessageLine(NamedTuple):
    """One line without its trailing blanks, and the subject of the commit message that it belongs to."""

    text: str
    subject: str


def searchable_lines(message: str) -> list[MessageLine]:
    """Lines of `message`; code and quotations are left blank, so that they end what stands before them."""
    lines: list[MessageLine] = []
    subject, was_blank = "", True
    indent = " " * 4 if SQUASHED_LOG in message else ""
    physical = (
        part
        for line in message.splitlines()
        for part in (line.split("\\n") if LITERAL_BREAKS.search(line) else [line])
    )
    unfenced = unfenced_lines([line.removeprefix(indent).rstrip() for line in physical])
    for text in unquoted_lines(list(unfenced)):
        if text.lstrip().startswith(">"):
            text = ""
        elif text and (not subject or (was_blank and SQUASH_SUBJECT.match(text))):
            subject = text.removeprefix("* ")
        was_blank = not text
        lines.append(MessageLine(text, subject))
    return lines


def is_fix(subject: str) -> bool:
    """Whether a subject says that it repairs something."""
    return bool(FIX.search(subject, 0, SUBJECT_WIDTH))


def commit_type(subject: str) -> str:
    """The type of a conventional subject (`test` of `test(api): …`), else ""."""
    match = CONVENTIONAL.match(subject)
    return match["type"] if match else ""


class Marker(NamedTuple):
    """What a mark makes of a statement; `scope` is where it goes by the letter of the seed."""

    kind: Kind
    importance: float
    scope: str = "project"
    adoption: Adoption | None = None


MARKERS: dict[str, Marker] = {
    "remember": Marker("convention", 0.9),
    "directive": Marker("preference", 0.9, "institutional"),
    "convention": Marker("convention", 0.8),
    "invariant": Marker("decision", 0.8),
    "constraint": Marker("decision", 0.8),
    "gotcha": Marker("gotcha", 0.8),
    "learning": Marker("gotcha", 0.8),
    "rejected": Marker("decision", 0.7, adoption="rejected"),
    "decision": Marker("decision", 0.7),
    "root cause": Marker("fix", 0.6),
}

ALIASES = {
    "lesson": "learning",
    "learned": "learning",
    "lessons learned": "learning",
    "lesson learned": "learning",
    "til": "learning",
    "decided": "decision",
    "root-cause": "root cause",
    "rejected alternatives": "rejected",
}

WORD = (
    r"(?P<word>directive|convention|invariant|constraint|gotcha|learning|lessons? learned|lesson|learned|til"
    r"|rejected alternatives|rejected|decision|decided|root[- ]cause)s?"
)
MARK = re.compile(
    rf"(?i)\s{{0,3}}(?P<bullet>[-*+•]\s+|\d+[.)]\s+)?(?:\*\*|__)?{WORD}(?:\((?P<scope>[^)\n]{{1,60}})\))?"
    r"(?: of (?P<of>[^:]{3,80}))?(?:\*\*|__)?\s?[:\uff1a](?:\*\*|__)?(?:\s+(?P<text>.*)|\s*)"
)
SECTION = re.compile(
    rf"(?:#{{1,6}}\s+{WORD}|\*\*(?i:{WORD.replace('word', 'bold')})\*\*):?\s*", re.IGNORECASE
)
HEADING = re.compile(r"#{1,6}\s+\S")
BULLET = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+(?P<text>.*)")
STOP = re.compile(
    r"[A-Z][A-Za-z]*(?:-[A-Za-z]+)*: |[A-Z][a-z]+:$|[a-z][a-z-]*\([^)]*\)!?: |#{1,6}\s|---+$"
)
FIX_PARAGRAPH = re.compile(
    r"(?i)(?:\*\*|#{1,6} )?(?:Fix(?:es)?|Solution|Resolution)(?:\*\*)?(?::|(?<=#)|$)(?:\*\*)?"
    r"(?:\s+(?P<text>\S.*)|\s*)$"
)

# Under each subject, in order, the lines where a paragraph `Fix: …` begins, and what it says.
Fixes = dict[str, list[tuple[int, str]]]
FIX_WIDTH = 2_000  # Characters kept of such a paragraph: far more than a body holds.


class Mark(NamedTuple):
    """One marked statement: its marker, the `(scope)` it was given, the text in one piece, the words that stand
    in the message exactly so (its lines, else its first one), the subject it stands under, and the fix that follows a
    root cause.

    `is_trailer`: it is written as our documented trailers are (`Decision: …` at the start of a line), so that there is
    no doubt that its author meant it to be kept.
    """

    marker: str
    scope: str
    text: str
    quote: str
    subject: str
    fix: str = ""
    is_trailer: bool = False


REMEMBER = re.compile(r"^/remember\s+(?P<text>\S[^\n]*(?:\n(?![/>\s]|```)[^\n]+)*)", re.MULTILINE)


def find_remembered(comment: str) -> list[Mark]:
    """Return what a reviewer asks to remember: `/remember …` at the start of a line, up to a blank line.

    Fenced and quoted lines are no request of the reviewer.
    """
    comment = "\n".join(unquoted_lines(list(unfenced_lines(comment.splitlines()))))
    return [
        Mark(
            "remember",
            "",
            " ".join(found["text"].split()),
            found["text"].strip(),
            "",
            is_trailer=True,
        )
        for found in REMEMBER.finditer(comment)
    ]


def find_marks(message: str) -> list[Mark]:
    """Every marked statement of `message`, in order."""
    lines = searchable_lines(message)
    fixes: Fixes = {}
    for position, line in enumerate(
        lines
    ):  # each paragraph `Fix: …` is read once; a list after it counts as its text
        if match := FIX_PARAGRAPH.fullmatch(line.text):
            text = _join(_block(lines, position, match["text"] or ":")[0]).removeprefix(":").strip()
            fixes.setdefault(line.subject, []).append((position, text[:FIX_WIDTH]))
    marks: list[Mark] = []
    position = 0
    while position < len(lines):
        found, position = _marks_at(lines, position, fixes)
        marks += found
    return [
        mark if mark.quote in message else mark._replace(quote=mark.quote.partition("\n")[0])
        for mark in marks
    ]


def _marks_at(lines: Sequence[MessageLine], position: int, fixes: Fixes) -> tuple[list[Mark], int]:
    """The marks that begin at `position`, and where to go on."""
    line = lines[position]
    if section := SECTION.fullmatch(line.text):
        word = section["word"] or section["bold"]
        return _listed(lines, position + 1, _canonical(word), "", fixes)
    found = MARK.fullmatch(line.text)
    if found is None:
        return [], position + 1
    marker, scope = _canonical(found["word"]), (found["scope"] or found["of"] or "").strip()
    if not found["text"]:
        return _listed(lines, position + 1, marker, scope, fixes)
    is_trailer = line.text.startswith(found["word"].capitalize()) and not found["scope"]
    mark = Mark(marker, scope, "", "", line.subject, is_trailer=is_trailer)
    return _read_mark(lines, position, found["text"], fixes, mark, position)


def _read_mark(
    lines: Sequence[MessageLine],
    position: int,
    first: str,
    fixes: Fixes,
    mark: Mark,
    start: int = 0,
) -> tuple[list[Mark], int]:
    """`mark` with the statement that begins with `first`, if there is any, and where to go on. The fix of a root cause
    is the paragraph under the same subject: the first one after the statement, else the first before line `start`."""
    block, end = _block(lines, position, first)
    fix = ""
    if mark.marker == "root cause":
        found = fixes.get(mark.subject, [])
        after = bisect_left(found, (end, ""))
        if after < len(found):
            fix = found[after][1]
        elif found and found[0][0] < start:
            fix = found[0][1]
    quote = "\n".join(
        [block[0], *(line.text for line in lines[position + 1 : end])]
    )  # as its lines have them
    return [mark._replace(text=_join(block), quote=quote, fix=fix)] if block[0] else [], end


def _listed(
    lines: Sequence[MessageLine], position: int, marker: str, scope: str, fixes: Fixes
) -> tuple[list[Mark], int]:
    """The bullets under a heading, each one mark; without bullets its first paragraph is the mark."""
    marks: list[Mark] = []
    while position < len(lines):
        text, subject = lines[position]
        if not text:
            position += 1
            continue
        bullet = BULLET.fullmatch(text)
        if (
            MARK.fullmatch(text)
            or STOP.match(text)
            or subject == text[2:]
            or (marks and not bullet)
        ):
            break
        first = bullet["text"] if bullet else text
        found, position = _read_mark(
            lines, position, first, fixes, Mark(marker, scope, "", "", subject)
        )
        marks += found
        if not bullet:
            break
    return marks, position


def _block(lines: Sequence[MessageLine], position: int, first: str) -> tuple[list[str], int]:
    """The lines of one statement and where the next begins: up to a blank line, a bullet, a mark or a trailer. A
    statement that ends in a colon takes the list that follows it along."""
    block, end = [first.strip()], position + 1
    takes_list = first.rstrip().endswith(":")
    while end < len(lines) and (text := lines[end].text):
        if MARK.fullmatch(text) or FIX_PARAGRAPH.match(text) or STOP.match(text):
            break
        if BULLET.fullmatch(text) and not takes_list:
            break
        block.append(text.strip())
        takes_list = takes_list or text.endswith(":")
        end += 1
    return block, end


def _join(block: list[str]) -> str:
    return "".join(("\n" if BULLET.fullmatch(line) else " ") + line for line in block).strip()


def _canonical(word: str) -> str:
    """The key of MARKERS for a word as written, plural and case folded."""
    folded = word.lower()
    return ALIASES.get(folded, folded)
