"""Findings as the annotations of a CI job: workflow commands of GitHub, which draw each at its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from memory_ci.records.report import Finding, Level
from memory_ci.rendering.table import printable, render_finding
from memory_ci.text import plural

MAX_ANNOTATIONS = 10
"""Of each level in one step; GitHub shows no more, and does not say so (docs.github.com, "Limits for annotations")."""


def render_annotations(findings: Sequence[Finding], token: str) -> str:
    """All findings as text that no runner acts on, then the first of each level as annotations.

    `token` is random: text from outside stands between `::stop-commands::` lines, and cannot guess the word that ends
    them.
    """
    return fence("".join(f"{render_finding(finding)}\n" for finding in findings), token) + "".join(_commands(findings))


def render_stop(level: Level, reason: str) -> str:
    """The annotation of a run that ended before its range did; it stands at no line of a file.

    >>> render_stop("warning", "no answer")
    '::warning title=memory stopped::no answer\\n'
    """
    return f"::{level} title=memory stopped::{escape_data(printable(reason))}\n"


def fence(text: str, token: str) -> str:
    """Text from outside, which the runner prints and does not obey; nothing for no text.

    >>> fence("::error::x", "t1")
    '::stop-commands::t1\\n::error::x\\n::t1::\\n'
    """
    ending = "" if text.endswith("\n") else "\n"
    return f"::stop-commands::{token}\n{text}{ending}::{token}::\n" if text else ""


def _commands(findings: Sequence[Finding]) -> Iterator[str]:
    for level in get_args(Level):
        found = [finding for finding in findings if finding.level == level]
        yield from map(_command, found[:MAX_ANNOTATIONS])
        if len(found) > MAX_ANNOTATIONS:
            yield f"{plural(len(found) - MAX_ANNOTATIONS, f'more {level}')} in the log above\n"


def _command(finding: Finding) -> str:
    place = f"file={escape_property(finding.path)},line={finding.line},title={escape_property(finding.code)}"
    words = f"{finding.message}. {finding.hint}" if finding.hint else finding.message
    return f"::{finding.level} {place}::{escape_data(printable(words))}\n"


def escape_data(text: str) -> str:
    """The message of a workflow command, as actions/toolkit escapes it (packages/core, command.ts).

    >>> escape_data("100%\\nof it")
    '100%25%0Aof it'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """A property of a workflow command: its separators are escaped as well.

    >>> escape_property("a,b:c")
    'a%2Cb%3Ac'
    """
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")
