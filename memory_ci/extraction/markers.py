"""Reader of marked statements: those that the author of a message marked as worth keeping.

A marked statement is a line `Learning: ...` (with an optional bullet or bold face, in any case), a
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
FIX_WORD = Regex(
    r"\b(?:fix(?:e[sd])?|bug(?:fix)?|hot-?fix|revert|regression|repair|prevent|crash|hang)",
    re.IGNORECASE,
)
"""A word of a subject that repairs something."""

SUBJECT_WIDTH = 1_000
"""Number of characters of a subject that are searched: it is searched for each line of a body."""


class MessageLine(NamedTuple):
    """A line without trailing blanks, "" for code and quotations, and its commit's subject."""

    text: str
    subject: str


def list_message_lines(message: str) -> list[MessageLine]:
    """Return the lines of a commit message, each with the subject that it belongs to.

    A squash message has several subjects. Lines of code and quotations are replaced by blank lines,
    so that they end a paragraph.
    """
    indent = SQUASHED_LOG_INDENT if SQUASHED_LOG in message else ""
    texts = [text.removeprefix(indent).rstrip() for text in _split_lines(message)]
    texts_without_code = list(unfenced_lines(texts))
    lines: list[MessageLine] = []
    subject = ""
    is_after_blank = True
    for text in unquoted_lines(texts_without_code):
        if text.lstrip().startswith(">"):
            text = ""
        is_squash_subject = is_after_blank and SQUASH_SUBJECT.match(text)
        if text and (not subject or is_squash_subject):
            subject = text.removeprefix("* ")
        is_after_blank = not text
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
    return bool(FIX_WORD.search(subject, 0, SUBJECT_WIDTH))


def commit_type(subject: str) -> str:
    """Return the type of a conventional subject (`test` of `test(api): ...`), else ""."""
    match = CONVENTIONAL.match(subject)
    return match["type"] if match else ""


class MarkerProperties(NamedTuple):
    """The properties of a learning whose marker (`Decision:`) an author wrote.

    Attributes:
        kind: the kind of learning.
        importance: how important it is, in [0, 1].
        scope: its scope: "institutional" for a whole organisation, else "project".
        adoption: "rejected" for what was tried and given up.
    """

    kind: Kind
    importance: float
    scope: str = "project"
    adoption: Adoption | None = None


MARKERS: dict[str, MarkerProperties] = {
    "remember": MarkerProperties("convention", 0.9),
    "directive": MarkerProperties("preference", 0.9, "institutional"),
    "convention": MarkerProperties("convention", 0.8),
    "invariant": MarkerProperties("decision", 0.8),
    "constraint": MarkerProperties("decision", 0.8),
    "gotcha": MarkerProperties("gotcha", 0.8),
    "learning": MarkerProperties("gotcha", 0.8),
    "rejected": MarkerProperties("decision", 0.7, adoption="rejected"),
    "decision": MarkerProperties("decision", 0.7),
    "root cause": MarkerProperties("fix", 0.6),
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

MARKER_WORD = (
    r"(?P<marker>directive|convention|invariant|constraint|gotcha|learning|lessons? learned|lesson"
    r"|learned|til|rejected alternatives|rejected|decision|decided|root[- ]cause)s?"
)
MARKED_LINE = Regex(
    rf"(?i)\s{{0,3}}(?P<bullet>[-*+•]\s+|\d+[.)]\s+)?(?:\*\*|__)?{MARKER_WORD}"
    r"(?:\((?P<scope>[^)\n]{1,60})\))?"
    r"(?: of (?P<fault>[^:]{3,80}))?(?:\*\*|__)?\s?[:\uff1a](?:\*\*|__)?(?:\s+(?P<text>.*)|\s*)"
)
"""A line that marks a statement: `- **Learning**: …`, `learned(api): …`, `Root cause of X: …`."""

BOLD_MARKER_WORD = MARKER_WORD.replace("marker", "bold_marker")
MARKER_HEADING = Regex(
    rf"(?:#{{1,6}}\s+{MARKER_WORD}|\*\*(?i:{BOLD_MARKER_WORD})\*\*):?\s*", re.IGNORECASE
)
"""A heading above marked statements: `## Learnings`."""

LIST_ITEM = Regex(r"\s*(?:[-*+•]|\d+[.)])\s+(?P<text>.*)")
"""An item of a list."""

STATEMENT_END = Regex(
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

TRAILER_LIKE = Regex(r"(?P<label>[A-Z][a-z]{5,13}):\s+\S")
"""A line that begins like a trailer: `Descision: retries live in the client`."""

TRAILER_MARKERS = ("Learning", "Decision", "Directive", "Convention", "Constraint", "Rejected")
"""The markers in which spelling mistakes are noticed; too many words are like shorter ones."""

NEARLY_ALIKE = 0.92
"""`Descision` and `Decison` share more of their letters with `Decision` (`difflib`). `Precision`
shares less, and so does `Contention` with `Convention`."""

REMEMBER = Regex(r"^/remember\s+(?P<text>\S[^\n]*(?:\n(?![/>\s]|```)[^\n]+)*)", re.MULTILINE)
"""A request of a reviewer: `/remember …`, up to a blank line."""


class MarkedStatement(NamedTuple):
    """A statement that its author marked as worth keeping (`Decision: …`).

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


def find_remember_requests(comment: str) -> list[MarkedStatement]:
    """Return the requests of a reviewer to remember something, as marked statements.

    A request is `/remember ...` at the start of a line, up to a blank line. Fenced and quoted lines
    do not count.
    """
    own_lines = unquoted_lines(list(unfenced_lines(comment.splitlines())))
    statements: list[MarkedStatement] = []
    for match in REMEMBER.finditer("\n".join(own_lines)):
        statement = MarkedStatement(
            "remember",
            scope="",
            text=" ".join(match["text"].split()),
            quote=match["text"].strip(),
            subject="",
            is_trailer=True,
        )
        statements.append(statement)
    return statements


def find_marked_statements(message: str) -> list[MarkedStatement]:
    """Return the marked statements of a commit message (`Learning: …`) in their order.

    The quote of each occurs in the message word for word: all lines of the statement if these are
    one part of the message, else the first line.
    """
    statements: list[MarkedStatement] = []
    for statement in _StatementReader(list_message_lines(message)).read():
        if statement.quote not in message:
            first_line = statement.quote.partition("\n")[0]
            statement = statement._replace(quote=first_line)
        statements.append(statement)
    return statements


def find_misspelt(message: str) -> list[tuple[str, str]]:
    """Return the labels of lines that are a misspelt marker, each with the marker.

    >>> find_misspelt("fix: retry\\n\\nDescision: retries live in the client")
    [('Descision', 'Decision')]
    """
    misspelt: list[tuple[str, str]] = []
    for line in list_message_lines(message):
        match = TRAILER_LIKE.match(line.text)
        if match is None or MARKED_LINE.match(line.text):
            continue
        label = match["label"]
        for marker in get_close_matches(label, TRAILER_MARKERS, 1, NEARLY_ALIKE):
            misspelt.append((label, marker))
    return misspelt


class _FixParagraph(NamedTuple):
    """A paragraph `Fix: …`: the index of its first line, and its text without the label."""

    start: int
    text: str


class _StatementLines(NamedTuple):
    """The lines of one statement, and the index of the line behind it."""

    lines: list[str]
    end: int


class _StatementReader:
    """Reads the marked statements of a message line by line.

    Attributes:
        lines: the lines of the message.
        position: the index of the next line; each method that reads moves it.
        fixes_by_subject: the paragraphs `Fix: …` of each commit, by its subject.
    """

    def __init__(self, lines: Sequence[MessageLine]) -> None:
        self.lines = lines
        self.position = 0
        self.fixes_by_subject = self._find_fixes()

    def _find_fixes(self) -> dict[str, list[_FixParagraph]]:
        """Return the paragraphs `Fix: ...` of each commit message, by its subject.

        A list behind such a paragraph is part of it.
        """
        fixes: defaultdict[str, list[_FixParagraph]] = defaultdict(list)
        for start, line in enumerate(self.lines):
            match = FIX_PARAGRAPH.fullmatch(line.text)
            if match is None:
                continue
            # Without text (a heading `Fix`), a list belongs to it as it does behind a colon.
            opening = match["text"] or ":"
            statement = self._read_statement_lines(start, opening)
            text = _join(statement.lines).removeprefix(":").strip()
            fixes[line.subject].append(_FixParagraph(start, text[:FIX_WIDTH]))
        return fixes

    def read(self) -> Iterator[MarkedStatement]:
        """Yield the statements of lines `Learning: …`, and of lists below `## Learnings`."""
        while self.position < len(self.lines):
            line = self.lines[self.position]
            heading = MARKER_HEADING.fullmatch(line.text)
            marked_line = MARKED_LINE.fullmatch(line.text)
            if heading:
                self.position += 1
                marker = _find_marker(heading["marker"] or heading["bold_marker"])
                yield from self._read_list(marker)
            elif marked_line:
                yield from self._read_marked_line(line, marked_line)
            else:
                self.position += 1

    def _read_marked_line(
        self, line: MessageLine, match: re.Match[str]
    ) -> Iterator[MarkedStatement]:
        """Yield the statement of a line `Learning: …`, or those of the list below it.

        Args:
            line: the line.
            match: the match of MARKED_LINE.
        """
        marker_word = match["marker"]
        marker = _find_marker(marker_word)
        scope = (match["scope"] or match["fault"] or "").strip()
        if not match["text"]:
            self.position += 1
            yield from self._read_list(marker, scope)
            return

        # A documented trailer is `Decision: …` with a capital at the start of the line: no bullet,
        # no bold face, no scope.
        begins_with_capital = line.text.startswith(marker_word.capitalize())
        is_trailer = begins_with_capital and not match["scope"]
        # `_complete_statement` fills in the text and the quote.
        statement = MarkedStatement(
            marker, scope, text="", quote="", subject=line.subject, is_trailer=is_trailer
        )
        yield from self._complete_statement(statement, match["text"], fix_limit=self.position)

    def _read_list(self, marker: str, scope: str = "") -> Iterator[MarkedStatement]:
        """Yield a statement for each bullet under a heading, or for the first paragraph under it.

        The list ends at another marked line, a trailer or a heading, at the subject of the next
        commit in a squash message, and behind its bullets.

        Args:
            marker: the marker that the heading names.
            scope: the scope in its parentheses.
        """
        has_statement = False
        while self.position < len(self.lines):
            text, subject = self.lines[self.position]
            if not text:
                self.position += 1
                continue
            bullet = LIST_ITEM.fullmatch(text)
            is_squash_subject = text[len("* ") :] == subject  # `* fix: …` in a squash message
            if MARKED_LINE.fullmatch(text) or STATEMENT_END.match(text) or is_squash_subject:
                return
            if not bullet and has_statement:
                return
            opening = bullet["text"] if bullet else text
            empty_statement = MarkedStatement(marker, scope, text="", quote="", subject=subject)
            for statement in self._complete_statement(empty_statement, opening):
                has_statement = True
                yield statement
            if not bullet:
                return

    def _complete_statement(
        self, statement: MarkedStatement, opening: str, *, fix_limit: int = 0
    ) -> Iterator[MarkedStatement]:
        """Yield a statement with the text that begins at the position; nothing if it has no text.

        A root cause gets the fix that belongs to it, too.

        Args:
            statement: the statement without text.
            opening: its first line, without the marker or bullet.
            fix_limit: the index of the line before which the fix of a root cause may be.
        """
        start = self.position
        statement_lines = self._read_statement_lines(start, opening)
        self.position = statement_lines.end
        first_line = statement_lines.lines[0]
        if not first_line:
            return
        fix = self._find_fix(statement, fix_limit) if statement.marker == "root cause" else ""
        following_lines = [line.text for line in self.lines[start + 1 : statement_lines.end]]
        quote = "\n".join([first_line, *following_lines])
        yield statement._replace(text=_join(statement_lines.lines), quote=quote, fix=fix)

    def _find_fix(self, root_cause: MarkedStatement, fix_limit: int) -> str:
        """Return the text of the paragraph `Fix: …` that belongs to a root cause, "" if none does.

        It is the next such paragraph under the same subject. If none follows, it is the first one
        under this subject, if that is before the line `fix_limit`.

        Args:
            root_cause: the root cause; the position is behind it.
            fix_limit: the index of a line of the message.
        """
        fixes = self.fixes_by_subject.get(root_cause.subject, [])
        next_index = bisect_left(fixes, (self.position, ""))
        if next_index < len(fixes):
            return fixes[next_index].text
        if fixes and fixes[0].start < fix_limit:
            return fixes[0].text
        return ""

    def _read_statement_lines(self, start: int, opening: str) -> _StatementLines:
        """Return the lines of the statement that begins on a line of the message.

        A statement ends at a blank line, a bullet, a marked line or a trailer. If one of its lines
        ends in a colon, the list that follows is part of it.

        Args:
            start: the index of the line.
            opening: the line, without the marker or bullet.
        """
        lines = [opening.strip()]
        includes_list = opening.rstrip().endswith(":")
        end = start + 1
        while end < len(self.lines):
            text = self.lines[end].text
            if not text or _begins_statement(text):
                break
            if LIST_ITEM.fullmatch(text) and not includes_list:
                break
            lines.append(text.strip())
            includes_list = includes_list or text.endswith(":")
            end += 1
        return _StatementLines(lines, end)


def _begins_statement(text: str) -> bool:
    return bool(
        MARKED_LINE.fullmatch(text) or FIX_PARAGRAPH.match(text) or STATEMENT_END.match(text)
    )


def _join(lines: Sequence[str]) -> str:
    """Join wrapped lines by blanks; each bullet begins a line."""
    parts: list[str] = []
    for line in lines:
        parts.append("\n" if LIST_ITEM.fullmatch(line) else " ")
        parts.append(line)
    return "".join(parts).strip()


def _find_marker(word: str) -> str:
    """Return the key of `MARKERS` for a word as it is written."""
    lowered = word.lower()
    return ALIASES.get(lowered, lowered)
