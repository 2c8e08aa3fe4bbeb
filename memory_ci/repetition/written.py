"""Requests that a document of rules says already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
MAX_LINE = 400  # Characters of a line that is compared.
MIN_TERMS = 2  # Terms of a line that says anything.
SHARED_TERMS = 3  # Terms that a rule shares with a request that it says.
SHARE = 0.6  # The share of the request's terms that they are at least.
SHORT_RULE = 6  # Terms of a clause at most that says a request of two terms.


class WrittenRule(NamedTuple):
    """A line of a document of rules.

    Attributes:
        path: the path of the document.
        line: the number of the line, from 1.
        text: the line.
    """

    path: str
    line: int
    text: str

    @property
    def place(self) -> str:
        """The document and the line, as `AGENTS.md:12`."""
        return f"{self.path}:{self.line}"


def list_rules(path: str, text: str) -> list[WrittenRule]:
    """Return the lines of a document that may be rules."""
    rules = []
    for number, line in enumerate(text.splitlines()[:MAX_LINES], start=1):
        bare = line.strip(" \t-*#>0123456789.")
        if len(bare) <= MAX_LINE and len(read_clause(bare).terms) >= MIN_TERMS:
            rules.append(WrittenRule(path, number, bare))
    return rules


def find_written(request: Sequence[str], rules: Iterable[WrittenRule]) -> WrittenRule | None:
    """Return the first rule that says what a request says, None if no rule does.

    Args:
        request: the terms of the request.
        rules: lines of documents.
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
