"""Text from outside made safe to print, and findings in a line each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

from memory_ci.records.report import Finding, Level
from memory_ci.text import plural

JOINERS = "\u200c\u200d"
"""Zero-width, but Persian, Indic scripts and emoji are spelled with them; they neither move nor hide anything."""


def render_finding(finding: Finding, *, with_level: bool = True) -> str:
    """`FILE:LINE: level: message [code]`, the hint behind it; a file name is shown printable, whatever it holds."""
    level = f"{finding.level}: " if with_level and finding.level != "error" else ""
    hint = f" {printable(finding.hint)}" if finding.hint else ""
    return f"{printable(finding.path)}:{finding.line}: {level}{printable(finding.message)} [{finding.code}]{hint}"


def count_levels(findings: Iterable[Finding]) -> str:
    """`1 error, 2 notices`: how many there are of each level; "" for none."""
    levels = [finding.level for finding in findings]
    return ", ".join(plural(levels.count(level), level) for level in get_args(Level) if level in levels)


def printable(text: str) -> str:
    """`text` in which nothing moves the cursor or hides: control and unencodable characters as escapes."""
    return "".join(
        char if char.isprintable() or char in JOINERS else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def printable_lines(text: str) -> str:
    """`text` made printable line by line: its line breaks and tabs stay."""
    return re.sub(r"[^\n\t]+", lambda match: printable(match.group()), text)
