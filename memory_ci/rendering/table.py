"""Lines and tables for a terminal: findings, entries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from memory_ci.records.entry import Located
from memory_ci.records.report import Finding, Level
from memory_ci.text import plural, shorten

if TYPE_CHECKING:
    from memory_ci.records.episode import UseCount

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


def render_entries(ranked: Sequence[tuple[float, Located]], usage: Mapping[str, UseCount]) -> str:
    """One line an entry: id, prominence, `used/given` where any was given, type, scope, status unless active, title."""
    widest = max((len(f"{one.used}/{one.given}") for one in usage.values()), default=0)
    rows = [
        (
            place.entry.id[:8],
            f"{value:.2f}{_use_rate(usage.get(place.entry.id), widest)}",
            place.entry.type,
            place.scope.target,
            f"{'' if place.entry.status == 'active' else f'({place.entry.status}) '}{shorten(place.entry.title, 80)}",
        )
        for value, place in ranked
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)) for row in rows]
    return "".join(f"{printable(line)}\n" for line in lines)


def _use_rate(count: UseCount | None, width: int) -> str:
    rate = f"{count.used}/{count.given}" if count else ""
    return f"  {rate:>{width}}" if width else ""


def printable(text: str) -> str:
    """`text` in which nothing moves the cursor or hides: control and unencodable characters as escapes."""
    return "".join(
        char if char.isprintable() or char in JOINERS else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def printable_lines(text: str) -> str:
    """`text` made printable line by line: its line breaks and tabs stay."""
    return re.sub(r"[^\n\t]+", lambda match: printable(match.group()), text)
