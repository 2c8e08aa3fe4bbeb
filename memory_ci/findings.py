"""Text from outside made safe to print; findings in a line each, or as annotations of a CI job: workflow commands of
GitHub, which draws each at its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
    return ", ".join(
        plural(levels.count(level), level) for level in get_args(Level) if level in levels
    )


def printable(text: str) -> str:
    """`text` in which nothing moves the cursor or hides: control and unencodable characters as escapes."""
    return "".join(
        char
        if char.isprintable() or char in JOINERS
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def printable_lines(text: str) -> str:
    """`text` made printable line by line: its line breaks and tabs stay."""
    return re.sub(r"[^\n\t]+", lambda match: printable(match.group()), text)


MAX_ANNOTATIONS = 10
"""Of each level in one step; GitHub shows no more, and does not say so (docs.github.com, "Limits for annotations")."""


def render_annotations(findings: Sequence[Finding], token: str) -> str:
    """All findings as text that no runner acts on, then the first of each level as annotations. `token` is random: text
    from outside stands between `::stop-commands::` lines, and cannot guess the word that ends them."""
    commands = []
    for level in get_args(Level):
        found = [finding for finding in findings if finding.level == level]
        for one in found[:MAX_ANNOTATIONS]:
            place = f"file={_escape_property(one.path)},line={one.line},title={_escape_property(one.code)}"
            words = f"{one.message}. {one.hint}" if one.hint else one.message
            commands.append(f"::{level} {place}::{_escape(printable(words))}\n")
        if len(found) > MAX_ANNOTATIONS:
            commands.append(
                f"{plural(len(found) - MAX_ANNOTATIONS, f'more {level}')} in the log above\n"
            )
    return fence("".join(f"{render_finding(finding)}\n" for finding in findings), token) + "".join(
        commands
    )


def render_stop(level: Level, reason: str) -> str:
    """The annotation of a run that ended before its range did; it stands at no line of a file.

    >>> render_stop("warning", "no answer")
    '::warning title=memory stopped::no answer\\n'
    """
    return f"::{level} title=memory stopped::{_escape(printable(reason))}\n"


def fence(text: str, token: str) -> str:
    """Text from outside, which the runner prints and does not obey; nothing for no text.

    >>> fence("::error::x", "t1")
    '::stop-commands::t1\\n::error::x\\n::t1::\\n'
    """
    ending = "" if text.endswith("\n") else "\n"
    return f"::stop-commands::{token}\n{text}{ending}::{token}::\n" if text else ""


def _escape(text: str) -> str:
    """The message of a workflow command, as actions/toolkit escapes it (packages/core, command.ts).

    >>> _escape("100%\\nof it")
    '100%25%0Aof it'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    """A property of a workflow command: its separators are escaped as well."""
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
