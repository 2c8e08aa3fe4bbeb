"""Find sentences in documents such as AGENTS.md that may be rules, and requests that they cover."""

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
SHARED_SHARE = 0.6  # The share of the request's terms that they are at least.
MAX_SHORT_RULE = 6  # Terms of a clause at most that says a request of two terms.

FENCE = Regex(r"\s*(?:```|~~~)")
HEADING = Regex(r"\s*#{1,6}\s")
BLOCK_START = Regex(r"\s*(?:(?:[-*+>|]|\d{1,3}[.)]|#{1,6})(?:\s|$)|\|)")
"""The beginning of an item of a list, a heading, a quotation or a row of a table."""

FORBIDDING_START = Regex(r"\W*(?:do not|don't|don\u2019t|never|avoid|no)\b", re.IGNORECASE)
FORBIDDING_WORDS = Regex(
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
        return bool(FORBIDDING_WORDS.search(self.lead)) and not FORBIDDING_START.match(self.text)

    @property
    def place(self) -> str:
        """The document and the line, as `AGENTS.md:12`."""
        return f"{self.path}:{self.line}"


def list_rules(path: str, text: str) -> list[WrittenRule]:
    """Return the sentences of a Markdown document that may be rules.

    A sentence may be a rule if it is not too long and has MIN_TERMS content words. Each has its
    lead: the last heading above it, or the sentence that introduces its list.

    >>> rules = list_rules("AGENTS.md", "Run all tests. Never\\npush to main.")
    >>> [(rule.line, rule.text) for rule in rules]
    [(1, 'Run all tests'), (1, 'Never push to main')]
    """
    rules = []
    lead = ""  # the last heading, or sentence that introduces a list
    for block in _list_blocks(text.splitlines()[:MAX_LINES]):
        is_heading = HEADING.match(block[0].text) is not None
        lines = _drop_marker(block)
        for sentence in _list_sentences(lines):
            # Without the marks of nested lists and emphasis, and the number of an item (`2.1.`).
            text = sentence.text.strip(" \t-*#>0123456789.")
            has_enough_terms = len(read_clause(text).terms) >= MIN_TERMS
            if len(text) <= MAX_LINE and has_enough_terms:
                rules.append(WrittenRule(path, sentence.number, text, lead))
        last_line = lines[-1].text
        introduces_list = last_line.endswith((":", ":**"))
        if is_heading or introduces_list:
            lead = last_line
    return rules


class _NumberedText(NamedTuple):
    """A line or a sentence, and the number of the line where it begins, from 1."""

    number: int
    text: str


def _list_blocks(lines: Iterable[str]) -> Iterator[list[_NumberedText]]:
    """Yield the lines of each paragraph, item of a list and heading of a Markdown document.

    Each line of fenced code is a block of its own.
    """
    block: list[_NumberedText] = []
    is_code = False
    for number, line in enumerate(lines, start=1):
        is_fence = FENCE.match(line) is not None
        if is_fence:
            is_code = not is_code
        if is_code or is_fence or not line.strip() or BLOCK_START.match(line):
            if block:
                yield block
            block = []
        if line.strip() and not is_fence:
            block.append(_NumberedText(number, line.strip()))
        if HEADING.match(line) and block:
            yield block
            block = []
    if block:
        yield block


def _drop_marker(block: Sequence[_NumberedText]) -> list[_NumberedText]:
    """Return the lines of a block without the sign of a heading, an item or a quotation."""
    first_line = block[0]
    text = first_line.text
    marker = BLOCK_START.match(text)
    if marker:
        text = text[marker.end() :]
    return [first_line._replace(text=text.strip()), *block[1:]]


def _list_sentences(block: Sequence[_NumberedText]) -> Iterator[_NumberedText]:
    """Yield the sentences of a block, each with the number of the line where it begins."""
    joined = ""
    line_starts: list[tuple[int, int]] = []  # the position in `joined` and number of each line
    for line in block:
        line_starts.append((len(joined), line.number))
        joined += f"{line.text} "

    position = 0
    for sentence in SENTENCE_END.split(joined):
        position = joined.index(sentence, position)
        first_line = max(number for start, number in line_starts if start <= position)
        yield _NumberedText(first_line, sentence)
        position += len(sentence)


def find_written(request: Sequence[str], rules: Iterable[WrittenRule]) -> WrittenRule | None:
    """Return the first rule of a document that says what people ask of agents, or None.

    Args:
        request: the terms of the request, as stems.
        rules: sentences of documents.
    """
    terms = frozenset(request)
    for rule in rules:
        if _covers(rule, terms):
            return rule
    return None


def _covers(rule: WrittenRule, terms: frozenset[str]) -> bool:
    """Return whether a rule says what people ask of agents, so that it need not be added.

    A clause of the rule must have most terms of the request. If the request is short, the clause
    must have all of them, and be short itself. This is stricter than the comparison of two
    requests: people are told that a document has the rule already, which must be true.

    Args:
        rule: the rule.
        terms: the terms of the request, as stems.
    """
    for clause in list_clauses(rule.text):
        shared_count = len(clause.terms & terms)
        has_most_terms = shared_count >= SHARED_SHARE * len(terms)
        if shared_count >= SHARED_TERMS and has_most_terms:
            return True
        has_all_terms = shared_count == len(terms)
        if has_all_terms and len(clause.terms) <= MAX_SHORT_RULE:
            return True
    return False
