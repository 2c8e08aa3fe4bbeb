"""Requests that a document of rules says already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memory_ci.repetition.clauses import read_clause
from memory_ci.repetition.requests import is_same_request

RULE_FILES = re.compile(
    r"(?:.*/)?(?:AGENTS|CLAUDE|GEMINI|CONVENTIONS|CONTRIBUTING)\.md"
    r"|\.cursor/rules/.+\.mdc?|\.cursorrules|\.github/copilot-instructions\.md"
    r"|\.claude/rules/.+\.md|\.windsurfrules"
)
"""Documents that agents are told to follow."""

MAX_LINES = 2_000  # Lines of a document that are compared.
MAX_LINE = 400  # Characters of a line that is compared.
MIN_TERMS = 2  # Terms of a line that says anything.


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
    return next((rule for rule in rules if is_same_request(request, rule.text)), None)
