"""Candidate: a learning proposed, not yet kept. What an engine, or a person, is asked of it and answers."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

from memory_ci.records import anchor
from memory_ci.records.entry import Adoption, Domain, EntryType, Located
from memory_ci.records.event import Evidence

Kind = Literal["preference", "convention", "decision", "gotcha", "fix"]
Reach = Literal["project", "team", "session", "everyone"]
Weight = Literal["asked", "costly", "normal"]
Verdict = Literal["written", "restates", "suspected", "quarantined", "over_limit"]


class Quote(msgspec.Struct, frozen=True):
    """Words that prove a candidate: the evidence they stand in, its origin, and the exact text."""

    evidence: str
    text: str
    origin: str = ""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A proposed learning. `scope` is a target as in Entry.scope; `is_marked`: its author marked it.

    `engine` found it; `session` is that of its first quote; `relations` are as in Entry.relations. `accepted` says by
    whom or where a person accepted it; `aka` has words of a model by which it may be found.
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


class Judged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A candidate and what became of it; `entry_id` is the entry written or restated."""

    candidate: Candidate
    verdict: Verdict
    reason: str
    change: str = ""
    entry_id: str | None = None


ACCEPTED_IN = "in the memory pull request"
MAX_SUGGESTIONS = 5  # Shown at once: what a person answers in a minute.


class Suggestion(msgspec.Struct, frozen=True):
    """A candidate that a person may accept: a hash of what it says, why it was not written, the changes that say it.
    `weight` is what speaks for it, 0 for one that was quarantined."""

    key: str
    candidate: Candidate
    reason: str
    changes: tuple[str, ...]
    weight: float = 0.0

    @property
    def is_accepted(self) -> bool:
        return bool(self.candidate.accepted)


EngineTask = Literal["learnings", "premortem", "promotion", "consolidation"]


class Known(msgspec.Struct, frozen=True):
    """An entry that memory holds already: a model may say again or contradict it by its id."""

    id: str
    title: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine may read of one merged change. `existing` is a digest of what is already known; `notice` says what
    the window left out, `about` what the change is; `changed` has hunks of it."""

    change: str
    evidence: tuple[Evidence, ...]
    existing: tuple[Known, ...] = ()
    notice: str = ""
    about: str = ""
    changed: str = ""
    task: EngineTask = "learnings"


class Usage(msgspec.Struct, frozen=True):
    """Tokens that a call cost; an engine without a model costs none. `input_tokens` are those not read from a cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    is_batch: bool = False


class EngineReply(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine answered: JSON `{"learnings": [...]}` (see reply.py), possibly cut short or wrapped. `tries`
    counts the calls that it took; `usage` is that of all of them."""

    text: str
    stop_reason: str
    usage: Usage = Usage()
    model: str = ""
    tries: int = 1


QuestionKind = Literal[
    "candidate", "quarantined", "changed", "gone", "contradiction", "unused", "promotion"
]
Answer = Literal["accept", "keep", "retire", "never"]


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked: of a candidate (`suggestion`) whether to write it, of an entry (`located`) whether it holds. `key`
    is what the file of answers calls it; `use` how much agents would be given it, `doubt` how likely an answer changes
    that."""

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
        """Expected use x doubt: what comes first."""
        return self.use * self.doubt

    @property
    def answers(self) -> tuple[Answer, ...]:
        is_new = self.suggestion is not None or self.kind == "promotion"
        return ("accept", "never") if is_new else ("keep", "retire", "never")
