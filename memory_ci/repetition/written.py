"""Requests that a document of rules says already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from memory_ci.regex import Regex
from memory_ci.repetition.clauses import list_clauses, read_clause

RULE_FILES = Regex(
    r"(?:.*/)?(?:AGENTS|CLAUDE|GEMINI|CONVENTIONS|CONTRIBUTING)\.md"
    r"|\.cursor/rules/.+\.mdc?|\.cursorrules|\.github/copilot-instructions\.md"
    r"|\.claude/rules/.+\.md|\.windsurfrules"
)
"""Documents that agents are told to follow."""

MAX_LINES = 2_000  # Lines of a document that are compared.
MAX_LINE = 400  # Characters of a sentence that is compared.
MIN_TERMS = 2  # Terms of a sentence that says anything.
SHARED_TERMS = 3  # Terms that a rule shares with a request that it says.
SHARE = 0.6  # The share of the request's terms that they are at least.
SHORT_RULE = 6  # Terms of a clause at most that says a request of two terms.

FENCE = Regex(r"\s*(?:```|~~~)")
HEADING = Regex(r"\s*#{1,6}\s")
BLOCK_START = Regex(r"\s*(?:(?:[-*+>|]|\d{1,3}[.)]|#{1,6})(?:\s|$)|\|)")
"""The beginning of an item of a list, a heading, a quotation or a row of a table."""

FORBIDDING = Regex(r"\W*(?:do not|don't|don\u2019t|never|avoid|no)\b", re.IGNORECASE)
FORBIDDING_LEAD = Regex(
    r"\b(?:do not|don't|don\u2019t|donts|never|avoid|not (?:to|do)|wrong|bad|forbidden|prohibited"
    r"|anti-?patterns?|mistakes?|pitfalls?)\b|\u274c",
    re.IGNORECASE,
)
"""A heading or a sentence above a list of what is not to be done."""

SENTENCE_END = Regex(r"(?<=[.!?])\s+(?=[\"'`*(]*[A-Z`])")


class WrittenRule(NamedTuple):
    """A sentence of a document of rules.

    Attributes:
        path: the path of the document.
        line: the number of the line where it begins, from 1.
        text: the sentence.
        lead: the heading above it, or the sentence that introduces its list: `Don't:`.
    """

    path: str
    line: int
    text: str
    lead: str = ""

    @property
    def is_forbidden_example(self) -> bool:
        """Whether it is listed as a thing not to do, so that its words say the opposite."""
        return bool(FORBIDDING_LEAD.search(self.lead)) and not FORBIDDING.match(self.text)

    @property
    def place(self) -> str:
        """The document and the line, as `AGENTS.md:12`."""
        return f"{self.path}:{self.line}"


def list_rules(path: str, text: str) -> list[WrittenRule]:
    """Return the sentences of a document that may be rules, each with the line where it begins.

    >>> rules = list_rules("AGENTS.md", "Run all tests. Never\\npush to main.")
    >>> [(rule.line, rule.text) for rule in rules]
    [(1, 'Run all tests'), (1, 'Never push to main')]
    """
    rules = []
    lead = ""
    for block in _list_blocks(text.splitlines()[:MAX_LINES]):
        is_heading = HEADING.match(block[0][1]) is not None
        block = _without_marker(block)
        for number, sentence in _list_sentences(block):
            bare = sentence.strip(" \t-*#>0123456789.")
            if len(bare) <= MAX_LINE and len(read_clause(bare).terms) >= MIN_TERMS:
                rules.append(WrittenRule(path, number, bare, lead))
        if is_heading or block[-1][1].endswith((":", ":**")):
            lead = block[-1][1]
    return rules


def _list_blocks(lines: Iterable[str]) -> Iterator[list[tuple[int, str]]]:
    """Yield paragraphs, items of lists and headings as numbered lines; code is one line each."""
    block: list[tuple[int, str]] = []
    is_code = False
    for number, line in enumerate(lines, start=1):
        is_fence = FENCE.match(line) is not None
        is_code ^= is_fence
        if is_code or is_fence or not line.strip() or BLOCK_START.match(line):
            if block:
                yield block
            block = []
        if line.strip() and not is_fence:
            block.append((number, line.strip()))
        if HEADING.match(line) and block:
            yield block
            block = []
    if block:
        yield block


def _without_marker(block: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return a block without the sign of a heading, an item or a quotation."""
    number, line = block[0]
    marker = BLOCK_START.match(line)
    return [(number, line[marker.end() if marker else 0 :].strip()), *block[1:]]


def _list_sentences(block: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a block, each with the number of the line where it begins."""
    starts: list[tuple[int, int]] = []
    text = ""
    for number, line in block:
        starts.append((len(text), number))
        text += f"{line} "
    position = 0
    for sentence in SENTENCE_END.split(text):
        position = text.index(sentence, position)
        yield max(number for start, number in starts if start <= position), sentence
        position += len(sentence)


def find_written(request: Sequence[str], rules: Iterable[WrittenRule]) -> WrittenRule | None:
    """Return the first rule that covers a request, None if no rule does.

    Args:
        request: the terms of the request.
        rules: sentences of documents.
    """
    terms = frozenset(request)
    return next((rule for rule in rules if _says(rule, terms)), None)


def _says(rule: WrittenRule, terms: frozenset[str]) -> bool:
    """Return whether a clause of a rule has most terms of a request, or all of a short one.

    It is a stricter test than that of two requests: a person is told that the rule says it.
    """
    for clause in list_clauses(rule.text):
        shared = len(clause.terms & terms)
        if shared >= SHARED_TERMS and shared >= SHARE * len(terms):
            return True
        if shared == len(terms) and len(clause.terms) <= SHORT_RULE:
            return True
    return False
