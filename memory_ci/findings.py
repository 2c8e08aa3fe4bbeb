"""Findings (remarks on lines of files) as text and GitHub annotations; safe printing of text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import get_args

from memory_ci.records.report import Finding, Level
from memory_ci.text import plural

JOINERS = "\u200c\u200d"
"""Zero-width joiners, that Persian, Indic scripts and emoji are spelled with; they hide nothing."""


def render_finding(finding: Finding, *, with_level: bool = True) -> str:
    """Return `FILE:LINE: level: message [code] hint`, in one printable line."""
    location = f"{printable(finding.path)}:{finding.line}"
    level = f"{finding.level}: " if with_level and finding.level != "error" else ""
    hint = f" {printable(finding.hint)}" if finding.hint else ""
    return f"{location}: {level}{printable(finding.message)} [{finding.code}]{hint}"


def count_levels(findings: Iterable[Finding]) -> str:
    """Return the number of findings of each level: `1 error, 2 notices`; "" for none."""
    counts = Counter(finding.level for finding in findings)
    return ", ".join(plural(counts[level], level) for level in get_args(Level) if counts[level])


def printable(text: str) -> str:
    """Return text with escapes for control characters and those that cannot be encoded.

    So nothing in it moves the cursor of a terminal, or is hidden.
    """
    return "".join(_escape_unprintable(char) for char in text)


def _escape_unprintable(char: str) -> str:
    if char.isprintable() or char in JOINERS:
        return char
    return char.encode("unicode_escape").decode("ascii")


def printable_lines(text: str) -> str:
    """Return text made printable, except for its line breaks and tabs."""
    return re.sub(r"[^\n\t]+", lambda match: printable(match.group()), text)


MAX_ANNOTATIONS = 10
"""Annotations of each level in one step.

GitHub shows no more, and does not say so (docs.github.com, "Limits for annotations").
"""


def render_annotations(findings: Sequence[Finding], token: str) -> str:
    """Return the log of a GitHub Actions step: all findings as text, then annotations.

    Annotations are commands in the log; GitHub shows them next to the lines of code.

    Args:
        findings: the findings of a step.
        token: a random word that ends the part of the log in which the runner obeys no commands;
            untrusted text cannot guess it.
    """
    log = "".join(f"{render_finding(finding)}\n" for finding in findings)
    commands = []
    for level in get_args(Level):
        level_findings = [finding for finding in findings if finding.level == level]
        commands += [_render_annotation(finding) for finding in level_findings[:MAX_ANNOTATIONS]]
        if len(level_findings) > MAX_ANNOTATIONS:
            count = plural(len(level_findings) - MAX_ANNOTATIONS, f"more {level}")
            commands.append(f"{count} in the log above\n")
    return fence(log, token) + "".join(commands)


def _render_annotation(finding: Finding) -> str:
    path = _escape_property(finding.path)
    title = _escape_property(finding.code)
    text = f"{finding.message}. {finding.hint}" if finding.hint else finding.message
    properties = f"file={path},line={finding.line},title={title}"
    return f"::{finding.level} {properties}::{_escape(printable(text))}\n"


def render_stop(level: Level, reason: str) -> str:
    """Return a GitHub annotation that a run stopped before it read all changes.

    >>> render_stop("warning", "no answer")
    '::warning title=memory stopped::no answer\\n'
    """
    return f"::{level} title=memory stopped::{_escape(printable(reason))}\n"


def fence(text: str, token: str) -> str:
    """Return untrusted text for the log of GitHub Actions, whose runner obeys no command in it.

    Args:
        text: the text; for no text, return "".
        token: a random word that ends the part without commands.

    >>> fence("::error::x", "t1")
    '::stop-commands::t1\\n::error::x\\n::t1::\\n'
    """
    if not text:
        return ""
    ending = "" if text.endswith("\n") else "\n"
    return f"::stop-commands::{token}\n{text}{ending}::{token}::\n"


def _escape(text: str) -> str:
    """Escape the message of a workflow command as actions/toolkit does (packages/core, command.ts).

    >>> _escape("100%\\nof it")
    '100%25%0Aof it'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    """Escape a property of a workflow command, with its separators, and make it printable."""
    return _escape(printable(text)).replace(":", "%3A").replace(",", "%2C")
