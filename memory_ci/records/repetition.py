"""What people ask of agents again and again, and the commands that fail again and again."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated

import msgspec

AwareTime = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its zone: a cache without one is refused, for such times cannot be compared."""


class PersonTurn(msgspec.Struct, frozen=True):
    """A text that a person typed in a session, or wrote in a review.

    Attributes:
        session: the key of the session, or the label of the pull request.
        at: when it was written.
        person: its author as `Name <e-mail>`, "" if unknown.
        text: the text, redacted.
        then: the moment that came next, as `before:commit`, if the agent committed, pushed or
            opened a pull request before the person's next turn; else "".
    """

    session: str
    at: AwareTime
    person: str
    text: str
    then: str = ""


class Quotation(msgspec.Struct, frozen=True):
    """Words of a person, with their session and day."""

    text: str
    session: str
    day: date


class StandingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request about how to work that was made in several sessions.

    Attributes:
        text: its clearest wording, as a person wrote it.
        terms: the stems by which its wordings are recognised.
        sessions: the number of sessions in which it was made.
        people: the number of people who made it.
        occurrences: its wording in each session, the earliest first.
        when: the moment at which it was made, as `records.entry.MOMENT`.
        score: expected number of requests in the next session, times how likely it is about
            how to work and not about the work in hand.
    """

    text: str
    terms: tuple[str, ...]
    sessions: int
    people: int
    occurrences: tuple[Quotation, ...]
    when: str
    score: float

    @property
    def first(self) -> date:
        """The day on which it was first made."""
        return self.occurrences[0].day

    @property
    def last(self) -> date:
        """The day on which it was last made."""
        return self.occurrences[-1].day

    @property
    def days(self) -> int:
        """The number of days on which it was made."""
        return len({occurrence.day for occurrence in self.occurrences})

    @property
    def quotes(self) -> tuple[Quotation, ...]:
        """Its first wording and the last two."""
        return (*self.occurrences[:1], *self.occurrences[1:][-2:])


class CommandRun(msgspec.Struct, frozen=True):
    """A shell command of an agent.

    Attributes:
        session: the key of the session.
        at: when it was run.
        command: the command line, redacted.
        output: the beginning of its output, redacted.
        ok: whether it succeeded.
    """

    session: str
    at: datetime
    command: str
    output: str
    ok: bool


class KnownFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A command that failed for the same reason in several sessions.

    Attributes:
        form: the command without its variable parts, as `gh pr diff --stat`.
        error: the line that says why, without its variable parts.
        worked: the form that worked instead, "" if none is known.
        sessions: the number of sessions in which it failed.
        first: the day on which it first failed.
        last: the day on which it last failed.
        session: the session in which it last failed.
    """

    form: str
    error: str
    worked: str
    sessions: int
    first: date
    last: date
    session: str


class RuleOutcome(msgspec.Struct, frozen=True):
    """What became of a rule in the sessions that were served it.

    Attributes:
        id: the id of its entry, or the key of a request that nobody agreed to yet.
        title: the rule.
        sessions: the number of sessions that were served it and whose words are known.
        asked_again: in how many of them a person asked for it nevertheless.
        failed_again: in how many of them the command failed nevertheless.
    """

    id: str
    title: str
    sessions: int = 0
    asked_again: int = 0
    failed_again: int = 0

    @property
    def followed(self) -> int:
        """The number of sessions in which it was neither asked for nor failed again."""
        return self.sessions - self.asked_again - self.failed_again
