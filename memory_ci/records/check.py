"""Checks of changes, which entries may carry (docs/checks.md)."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

CheckLevel = Literal["remind", "warn", "fail"]
"""The effect of a violation: a line for the agent and a note, an annotation, or a failure."""

CheckedCommand = Literal["commit", "push", "pull-request"]
"""The commands before which a session may have to run others."""

MIN_ID = 4
"""Characters of an entry's id that name it in a `Memory-Skip` trailer, at least."""

SKIP_TRAILER = "Memory-Skip"
"""The trailer by which a commit passes a check: the start of the entry's id, then a reason."""


class WithCheck(msgspec.Struct, frozen=True, tag_field="kind", tag="with"):
    """A change that touches a file of `when` touches a file of `also`, too."""

    when: tuple[str, ...]
    also: tuple[str, ...]


class UntouchedCheck(msgspec.Struct, frozen=True, tag_field="kind", tag="untouched"):
    """A change leaves these files alone."""

    paths: tuple[str, ...]


class AbsentCheck(msgspec.Struct, frozen=True, tag_field="kind", tag="absent"):
    """No line that a change adds to these files matches a pattern."""

    paths: tuple[str, ...]
    text: str


class PresentCheck(msgspec.Struct, frozen=True, tag_field="kind", tag="present"):
    """Each new file among these has a line that matches a pattern."""

    paths: tuple[str, ...]
    text: str


class MessageCheck(msgspec.Struct, frozen=True, tag_field="kind", tag="message"):
    """The commit messages, or the title of the request, match a pattern or do not.

    Attributes:
        text: the pattern.
        is_forbidden: whether they must not match.
    """

    text: str
    is_forbidden: bool = False


class BeforeCheck(msgspec.Struct, frozen=True, tag_field="kind", tag="before"):
    """A session has run some commands since its last edit, before it runs another.

    Attributes:
        command: the command that comes after.
        ran: the forms of the commands, as `make lint`; the session must have run all of them.
    """

    command: CheckedCommand
    ran: tuple[str, ...]


ChangeCheck = WithCheck | UntouchedCheck | AbsentCheck | PresentCheck | MessageCheck | BeforeCheck


class RuleCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The check of an entry in force, with the facts that a message on a violation needs.

    Attributes:
        id: the id of the entry.
        name: the start of the id, long enough to name one check.
        title: the title of the entry.
        check: the check.
        level: the effect of a violation.
        sessions: the number of sessions whose requests are the entry's evidence.
        last: the day of the last of them; without any, the day on which the entry was learned.
        path: the file of the entry.
        line: its line there, from 1.
    """

    id: str
    name: str
    title: str
    check: ChangeCheck
    level: CheckLevel = "remind"
    sessions: int = 0
    last: date | None = None
    path: str = ""
    line: int = 1


CheckVerdict = Literal["followed", "violated", "skipped", "not-applicable", "not-judged"]


class CheckOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one check of the base.

    Attributes:
        id: the id of its entry.
        title: the title of its entry.
        reason: why it was skipped or could not be judged, "" otherwise.
    """

    id: str
    title: str
    level: CheckLevel
    verdict: CheckVerdict
    reason: str = ""
