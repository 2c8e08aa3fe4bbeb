"""Candidates, the requests to engines that find them, and questions to people about them."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

from memory_ci.records import anchor
from memory_ci.records.check import ChangeCheck
from memory_ci.records.entry import Adoption, Domain, EntryType, Located
from memory_ci.records.event import Evidence
from memory_ci.records.repetition import Quotation

Kind = Literal["preference", "convention", "decision", "gotcha", "fix"]
Reach = Literal["project", "team", "session", "everyone"]
Weight = Literal["asked", "costly", "normal"]
Verdict = Literal["written", "restates", "suspected", "quarantined", "over_limit"]


class Quote(msgspec.Struct, frozen=True):
    """Exact words of evidence that prove a candidate.

    Attributes:
        evidence: the id of the piece of evidence.
        text: the words.
        origin: the address of the event that the evidence comes from.
    """

    evidence: str
    text: str
    origin: str = ""


class Repetition(msgspec.Struct, frozen=True, kw_only=True):
    """How often people asked for something, or a command failed.

    Attributes:
        kind: a request of people, or a failure of a command.
        sessions: the number of sessions.
        people: the number of people; 0 for a failure.
        first: the first day.
        last: the last day.
        quotes: up to three wordings of people.
        when: the moment at which an agent is to be reminded, as `records.entry.MOMENT`.
        score: how likely it is asked again, as `StandingRequest.score`; 0 for a failure.
        written_in: the document and line that say it already, as `AGENTS.md:12`; "" for none.
        hook: lines of `.pre-commit-config.yaml` with a hook that checks it; "" for none.
    """

    kind: Literal["request", "failure"]
    sessions: int
    people: int
    first: date
    last: date
    quotes: tuple[Quotation, ...] = ()
    when: str = "start"
    score: float = 0.0
    written_in: str = ""
    hook: str = ""


CheckSource = Literal["request", "entry", "document", "habit"]
"""The kind of place that the rule of a check was found in."""


class CheckProposal(msgspec.Struct, frozen=True, kw_only=True):
    """A check that is proposed, and the merged changes that would have violated it.

    Attributes:
        check: the check.
        source: the kind of place that its rule was found in.
        is_by_model: whether a model wrote it.
        place: the entry whose rule it is, or the document and line; "" for none.
        applicable: the number of merged changes that it is about.
        violations: the number of those that violate it, `spoken` in JSON.
        examples: each of these, as `2026-03-02 #128 Charge a card again`.
        with_session: the number of these that have a known session, `known` in JSON.
        asked_for: the number of these that a person asked for in a session, `asked` in JSON.
    """

    check: ChangeCheck
    source: CheckSource
    is_by_model: bool = False
    place: str = ""
    applicable: int
    violations: int = msgspec.field(name="spoken")
    examples: tuple[str, ...] = ()
    with_session: int = msgspec.field(default=0, name="known")
    asked_for: int = msgspec.field(default=0, name="asked")


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A learning that was found in a change or a session, and may become an entry of memory.

    Attributes:
        scope: a target, as `Entry.scope`.
        is_marked: its author marked it as a learning.
        engine: the engine that found it.
        session: the session of its first quote.
        relations: as `Entry.relations`.
        accepted: the person who accepted it, or the place; "" if nobody did.
        aka: words of a model by which it may be found.
        repetition: how often it was asked or failed; None for what one change says.
        proposal: the check that it proposes; None for a learning without one.
    """

    title: str
    body: str
    type: EntryType
    domain: Domain
    importance: float
    scope: str
    extraction_scope: str
    quotes: tuple[Quote, ...]
    is_marked: bool
    marker: str = ""
    cites: tuple[str, ...] = ()
    adoption: Adoption | None = None
    instead: str | None = None
    source: str = ""
    occurred_at: date | None = None
    engine: str = "rules"
    session: str | None = None
    relations: tuple[str, ...] = ()
    accepted: str = ""
    aka: str = ""
    repetition: Repetition | None = None
    proposal: CheckProposal | None = None


class Judged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A candidate and the decision on it.

    Attributes:
        change: the merged change that it comes from.
        entry_id: the entry that was written, or that it restates.
    """

    candidate: Candidate
    verdict: Verdict
    reason: str
    change: str = ""
    entry_id: str | None = None


ACCEPTED_IN_REQUEST = "in the memory pull request"

MAX_SUGGESTIONS = 5
"""Suggestions that are shown at once: as many as a person answers in a minute."""


class Suggestion(msgspec.Struct, frozen=True):
    """A candidate that a person may accept.

    Attributes:
        key: a hash of its title and body.
        reason: why it was not written.
        changes: the merged changes that say it.
        weight: how much speaks for it; 0 if it was quarantined.
    """

    key: str
    candidate: Candidate
    reason: str
    changes: tuple[str, ...]
    weight: float = 0.0

    @property
    def is_accepted(self) -> bool:
        """Whether a person accepted it."""
        return bool(self.candidate.accepted)


EngineTask = Literal["learnings", "premortem", "promotion", "consolidation", "requests", "checks"]


class ExistingEntry(msgspec.Struct, frozen=True):
    """An entry of memory that a model may restate or contradict by its id."""

    id: str
    title: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one merged change that an engine may read.

    Attributes:
        change: the label of the change.
        existing: entries of memory on the same subject.
        notice: a sentence on evidence that did not fit.
        about: a description of the change.
        changed: hunks of its diff.
    """

    change: str
    evidence: tuple[Evidence, ...]
    existing: tuple[ExistingEntry, ...] = ()
    notice: str = ""
    about: str = ""
    changed: str = ""
    task: EngineTask = "learnings"


class Usage(msgspec.Struct, frozen=True):
    """Tokens of a call; an engine without a model uses none.

    Attributes:
        input_tokens: those that were not read from a cache.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    is_batch: bool = False


class EngineReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of an engine.

    Attributes:
        text: JSON `{"learnings": [...]}` (extraction/reply.py), possibly incomplete or wrapped.
        usage: the tokens of all calls together.
        tries: the number of calls.
    """

    text: str
    stop_reason: str
    usage: Usage = Usage()
    model: str = ""
    tries: int = 1


QuestionKind = Literal[
    "request",
    "failure",
    "check",
    "candidate",
    "quarantined",
    "changed",
    "gone",
    "contradiction",
    "unused",
    "promotion",
]
REPEATED: frozenset[QuestionKind] = frozenset({"request", "failure"})
"""Questions about what is asked again and what fails again."""

LISTED: frozenset[QuestionKind] = REPEATED | {"check", "candidate"}
"""Questions about candidates that a person may accept as they are."""

Answer = Literal["accept", "keep", "retire", "never"]


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question to people: whether to write a candidate, or whether an entry still holds.

    Attributes:
        key: its name in the file of answers.
        why: the reason to ask.
        use: how much agents would be served the entry.
        doubt: how likely an answer changes that.
        suggestion: the candidate in question.
        located: the entry in question.
    """

    kind: QuestionKind
    key: str
    title: str
    why: str
    use: float
    doubt: float
    suggestion: Suggestion | None = None
    located: Located | None = None
    verdicts: tuple[anchor.Verdict, ...] = ()

    @property
    def score(self) -> float:
        """Expected use times doubt: the question with the highest is asked first."""
        return self.use * self.doubt

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The possible answers."""
        is_new = self.suggestion is not None or self.kind == "promotion"
        return ("accept", "never") if is_new else ("keep", "retire", "never")
