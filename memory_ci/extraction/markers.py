"""Marks: statements in commit messages and comments that their author marked as worth keeping.

A mark is a line `Learning: ...` (with an optional bullet or bold face, in any case), a
contextual-commit line `learned(scope): ...`, or a bullet in a section `## Learnings`. Its text goes
on over wrapped lines.

A squash merge joins the messages of a branch (`* fix: ...` on GitHub, an indented log from git),
and agents write a literal backslash-n for a line break. Fenced code and quoted text are not the
author's own words.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from memory_ci.records.candidate import Kind
from memory_ci.records.entry import Adoption
from memory_ci.regex import Regex
from memory_ci.text import unfenced_lines, unquoted_lines

CONVENTIONAL = Regex(r"(?<![a-z])(?P<type>[a-z]+)(?:\((?P<scope>[^)]{0,80})\))?!?:\s")
"""The type and scope of a conventional subject: `fix(api)!: `."""

SQUASH_SUBJECT = Regex(r"\* (?=\S)")
"""The star before each subject in a squash message of GitHub."""

LITERAL_BREAKS = Regex(
    r"\\n(?:\\n|\s*(?:[-*] |#+ )?[A-Z][a-z]+(?: [a-z]+|-[A-Za-z-]+)?(?:\([^)]{0,80}\))?:)"
)
"""A line break that an agent wrote out (`\\n`), before a paragraph, an item or a label."""

SQUASHED_LOG = "Squashed commit of the following:"
SQUASHED_LOG_INDENT = " " * 4
FIX = Regex(
    r"\b(?:fix(?:e[sd])?|bug(?:fix)?|hot-?fix|revert|regression|repair|prevent|crash|hang)",
    re.IGNORECASE,
)
"""A word of a subject that repairs something."""

SUBJECT_WIDTH = 1_000
"""Number of characters of a subject that are searched: it is searched for each line of a body."""


class MessageLine(NamedTuple):
    """A line without trailing blanks, and the subject of its commit message."""

    text: str
    subject: str


def searchable_lines(message: str) -> list[MessageLine]:
    """Return the lines of a commit message, each with the subject that it belongs to.

    A squash message has several subjects. Code and quotations are blank, so they end a paragraph.
    """
    indent = SQUASHED_LOG_INDENT if SQUASHED_LOG in message else ""
    texts = [text.removeprefix(indent).rstrip() for text in _split_lines(message)]
    lines: list[MessageLine] = []
    subject = ""
    was_blank = True
    for text in unquoted_lines(list(unfenced_lines(texts))):
        is_squash_subject = was_blank and SQUASH_SUBJECT.match(text)
        if text.lstrip().startswith(">"):
            text = ""
        elif text and (not subject or is_squash_subject):
            subject = text.removeprefix("* ")
        was_blank = not text
        lines.append(MessageLine(text, subject))
    return lines


def _split_lines(message: str) -> Iterator[str]:
    """Yield the lines of a message, split also where an agent wrote `\\n` for a line break."""
    for line in message.splitlines():
        if LITERAL_BREAKS.search(line):
            yield from line.split("\\n")
        else:
            yield line


def is_fix(subject: str) -> bool:
    """Return whether a subject says that it repairs something."""
    return bool(FIX.search(subject, 0, SUBJECT_WIDTH))


def commit_type(subject: str) -> str:
    """Return the type of a conventional subject (`test` of `test(api): ...`), else ""."""
    match = CONVENTIONAL.match(subject)
    return match["type"] if match else ""


class Marker(NamedTuple):
    """The properties of a learning with a marker; `scope` is its target as the seed says."""

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
"""The markers with the weights of the rubric.

These are 0.9 for a request to remember, 0.8 for a lesson of hard work, 0.7 for a decision with its
reason, and 0.6 for errors and debugging.
"""

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
    r"(?P<word>directive|convention|invariant|constraint|gotcha|learning|lessons? learned|lesson"
    r"|learned|til|rejected alternatives|rejected|decision|decided|root[- ]cause)s?"
)
MARK = Regex(
    rf"(?i)\s{{0,3}}(?P<bullet>[-*+•]\s+|\d+[.)]\s+)?(?:\*\*|__)?{WORD}"
    r"(?:\((?P<scope>[^)\n]{1,60})\))?"
    r"(?: of (?P<of>[^:]{3,80}))?(?:\*\*|__)?\s?[:\uff1a](?:\*\*|__)?(?:\s+(?P<text>.*)|\s*)"
)
"""A line that marks a statement: `- **Learning**: …`, `learned(api): …`."""

SECTION = Regex(
    rf"(?:#{{1,6}}\s+{WORD}|\*\*(?i:{WORD.replace('word', 'bold')})\*\*):?\s*", re.IGNORECASE
)
"""A heading above marked statements: `## Learnings`."""

BULLET = Regex(r"\s*(?:[-*+•]|\d+[.)])\s+(?P<text>.*)")
"""An item of a list."""

STOP = Regex(
    r"[A-Z][A-Za-z]*(?:-[A-Za-z]+)*: |[A-Z][a-z]+:$|[a-z][a-z-]*\([^)]*\)!?: |#{1,6}\s|---+$"
)
"""The beginning of a trailer, conventional subject, heading or ruler, which ends a statement."""

FIX_PARAGRAPH = Regex(
    r"(?i)(?:\*\*|#{1,6} )?(?:Fix(?:es)?|Solution|Resolution)(?:\*\*)?(?::|(?<=#)|$)(?:\*\*)?"
    r"(?:\s+(?P<text>\S.*)|\s*)$"
)
"""The first line of the fix that belongs to a root cause: `Fix: …`."""

FIX_WIDTH = 2_000
"""Number of characters of a `Fix:` paragraph that are kept: far more than a body has."""

LABEL = Regex(r"(?P<label>[A-Z][a-z]{5,13}):\s+\S")
"""A line that begins like a trailer: `Descision: retries live in the client`."""

TRAILER_MARKS = ("Learning", "Decision", "Directive", "Convention", "Constraint", "Rejected")
"""The marks in which a spelling mistake is noticed; of shorter ones too many words are alike."""

NEARLY_ALIKE = 0.92
"""`Descision` and `Decison` share more of their letters with `Decision` (`difflib`). `Precision`
shares less, and so does `Contention` with `Convention`."""

REMEMBER = Regex(r"^/remember\s+(?P<text>\S[^\n]*(?:\n(?![/>\s]|```)[^\n]+)*)", re.MULTILINE)
"""A request of a reviewer: `/remember …`, up to a blank line."""


class Mark(NamedTuple):
    """One marked statement.

    Attributes:
        marker: a key of `MARKERS`.
        scope: the scope in parentheses behind the marker, "" without one.
        text: the statement in one line, or with a list behind it.
        quote: the words as the message has them: all lines, or else the first.
        subject: the subject of its commit message.
        fix: the text of the fix that belongs to a root cause.
        is_trailer: whether it is written as a documented trailer (`Decision: ...` at the start of a
            line), so that its author certainly meant it to be kept.
    """

    marker: str
    scope: str
    text: str
    quote: str
    subject: str
    fix: str = ""
    is_trailer: bool = False


def find_remembered(comment: str) -> list[Mark]:
    """Return the requests of a reviewer to remember something, as marks.

    A request is `/remember ...` at the start of a line, up to a blank line. Fenced and quoted lines
    do not count.
    """
    plain = "\n".join(unquoted_lines(list(unfenced_lines(comment.splitlines()))))
    marks: list[Mark] = []
    for match in REMEMBER.finditer(plain):
        text = " ".join(match["text"].split())
        quote = match["text"].strip()
        marks.append(Mark("remember", "", text, quote, subject="", is_trailer=True))
    return marks


def find_marks(message: str) -> list[Mark]:
    """Return the marked statements of a commit message (`Learning: …`) in their order."""
    marks: list[Mark] = []
    for mark in _MarkReader(searchable_lines(message)).read():
        if mark.quote not in message:
            # The lines of a list are not one part of the message.
            first_line = mark.quote.partition("\n")[0]
            mark = mark._replace(quote=first_line)
        marks.append(mark)
    return marks


def find_misspelt(message: str) -> list[tuple[str, str]]:
    """Return the labels of lines that are a mark but for a spelling mistake, each with the mark.

    >>> find_misspelt("fix: retry\\n\\nDescision: retries live in the client")
    [('Descision', 'Decision')]
    """
    misspelt: list[tuple[str, str]] = []
    for line in searchable_lines(message):
        match = LABEL.match(line.text)
        if match is None or MARK.match(line.text):
            continue
        label = match["label"]
        for mark in get_close_matches(label, TRAILER_MARKS, 1, NEARLY_ALIKE):
            misspelt.append((label, mark))
    return misspelt


class _FixParagraph(NamedTuple):
    start: int
    text: str


class _MarkReader:
    """Reads the marks of a message line by line; `position` is the index of the next line."""

    def __init__(self, lines: Sequence[MessageLine]) -> None:
        self.lines = lines
        self.position = 0
        self.fixes = self._find_fixes()

    def _find_fixes(self) -> dict[str, list[_FixParagraph]]:
        """Return the paragraphs `Fix: ...` of each commit message, by its subject.

        A list behind such a paragraph is part of it.
        """
        fixes: defaultdict[str, list[_FixParagraph]] = defaultdict(list)
        for start, line in enumerate(self.lines):
            match = FIX_PARAGRAPH.fullmatch(line.text)
            if match:
                # A heading `Fix` takes a list as a colon does.
                statement, _ = self._read_statement(start, match["text"] or ":")
                text = _join(statement).removeprefix(":").strip()
                fixes[line.subject].append(_FixParagraph(start, text[:FIX_WIDTH]))
        return fixes

    def read(self) -> Iterator[Mark]:
        """Yield the marks of the message: lines `Learning: …`, and lists below `## Learnings`."""
        while self.position < len(self.lines):
            line = self.lines[self.position]
            section = SECTION.fullmatch(line.text)
            mark = MARK.fullmatch(line.text)
            if section:
                self.position += 1
                yield from self._read_list(_find_marker(section["word"] or section["bold"]))
            elif mark:
                yield from self._read_mark(line, mark)
            else:
                self.position += 1

    def _read_mark(self, line: MessageLine, match: re.Match[str]) -> Iterator[Mark]:
        """Yield the mark of a line `Learning: …`, or the marks of the list below it."""
        marker = _find_marker(match["word"])
        scope = (match["scope"] or match["of"] or "").strip()
        if not match["text"]:
            self.position += 1
            yield from self._read_list(marker, scope)
            return

        is_trailer = line.text.startswith(match["word"].capitalize()) and not match["scope"]
        mark = Mark(marker, scope, "", "", line.subject, is_trailer=is_trailer)
        yield from self._complete(mark, match["text"], fixes_before=self.position)

    def _read_list(self, marker: str, scope: str = "") -> Iterator[Mark]:
        """Yield a mark for each bullet under a heading, or for its first paragraph.

        Args:
            marker: the marker that the heading names.
            scope: the scope in its parentheses.
        """
        is_first = True
        while self.position < len(self.lines):
            text, subject = self.lines[self.position]
            if not text:
                self.position += 1
                continue
            bullet = BULLET.fullmatch(text)
            is_squash_subject = text[2:] == subject  # behind its star
            if MARK.fullmatch(text) or STOP.match(text) or is_squash_subject:
                return
            if not bullet and not is_first:
                return
            opening = bullet["text"] if bullet else text
            for mark in self._complete(Mark(marker, scope, "", "", subject), opening):
                is_first = False
                yield mark
            if not bullet:
                return

    def _complete(self, mark: Mark, opening: str, *, fixes_before: int = 0) -> Iterator[Mark]:
        """Yield a mark with the statement at the position; nothing if there is no statement.

        Args:
            mark: the mark without text.
            opening: the first line of the statement, without its marker or bullet.
            fixes_before: the index of the line before which the fix of a root cause may be.
        """
        start = self.position
        statement, self.position = self._read_statement(start, opening)
        if not statement[0]:
            return
        following_lines = [line.text for line in self.lines[start + 1 : self.position]]
        fix = self._find_fix(mark, fixes_before) if mark.marker == "root cause" else ""
        quote = "\n".join([statement[0], *following_lines])
        yield mark._replace(text=_join(statement), quote=quote, fix=fix)

    def _find_fix(self, mark: Mark, fixes_before: int) -> str:
        """Return the text `Fix: …` that belongs to a root cause, "" if it has no such text.

        This is the next fix under the same subject. If no fix follows, it is the first fix of the
        subject, if that comes before the line `fixes_before`.

        Args:
            mark: the root cause.
            fixes_before: the index of a line.
        """
        fixes = self.fixes.get(mark.subject, [])
        next_index = bisect_left(fixes, (self.position, ""))
        if next_index < len(fixes):
            return fixes[next_index].text
        if fixes and fixes[0].start < fixes_before:
            return fixes[0].text
        return ""

    def _read_statement(self, start: int, opening: str) -> tuple[list[str], int]:
        """Return the lines of one statement, and the index of the line behind it.

        A statement ends at a blank line, a bullet, a mark or a trailer. If it ends in a colon, the
        list that follows is part of it.
        """
        statement = [opening.strip()]
        takes_list = opening.rstrip().endswith(":")
        position = start + 1
        while position < len(self.lines):
            text = self.lines[position].text
            if not text or _begins_statement(text):
                break
            if BULLET.fullmatch(text) and not takes_list:
                break
            statement.append(text.strip())
            takes_list = takes_list or text.endswith(":")
            position += 1
        return statement, position


def _begins_statement(text: str) -> bool:
    return bool(MARK.fullmatch(text) or FIX_PARAGRAPH.match(text) or STOP.match(text))


def _join(lines: Sequence[str]) -> str:
    """Join wrapped lines by blanks; each bullet begins a line."""
    parts: list[str] = []
    for line in lines:
        parts.append("\n" if BULLET.fullmatch(line) else " ")
        parts.append(line)
    return "".join(parts).strip()


def _find_marker(word: str) -> str:
    """Return the key of `MARKERS` for a word as it is written."""
    lowered = word.lower()
    return ALIASES.get(lowered, lowered)
