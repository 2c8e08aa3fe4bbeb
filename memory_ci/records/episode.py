"""Episode: a piece of work, what memory gave to it, what came of it; risks and assumptions; episodes recalled."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

# Merged and kept; merged after requested changes; closed unmerged or reverted within 30 days; talk only.
Outcome = Literal["success", "partial", "failure", "neutral"]
FeedbackKind = Literal["confirmed", "corrected", "rejected", "undone", "ignored"]

EventKind = Literal[FeedbackKind, "touched"]
"""What may be told of an entry: `touched` is what facts alone say, that the work was about the same thing. It adds
nothing to a utility."""


def in_utc(time: datetime) -> datetime:
    """The same moment in UTC; one without a zone as it is, for no store takes it."""
    return time if time.tzinfo is None else time.astimezone(UTC)


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What the work was about: a part of the repository, a few words, one line."""

    domain: str = ""
    topic: str = ""
    summary: str = ""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that was injected into the work: its place among those that the work names. `at` is the commit that the
    work stood at. `rank` 0: not known."""

    id: str
    rank: int = 0
    at: str = ""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """What was done: the pull request, the merged commit, the files that it touched, the tools of its sessions."""

    pr: int | None = None
    commit: str = ""
    files: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """What one piece of work, or a person, said of one entry. `id` is that of the entry. Two of one entry, kind and
    `ref` are the same event, whoever tells it; without a `ref`, those of one entry, kind, `by` and `at` are."""

    id: str
    kind: EventKind
    at: datetime
    by: str = ""
    ref: str = ""


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """One merged or declined change (docs/episodes.md). `id` is `pr-128`, else `commit-<12 digits>`. `used` are the
    entries that the work said it used; `context` is a snapshot (branch, agent, stage, session); `valence` in [0, 1] is
    how much the episode matters; `text` is one line."""

    id: str
    occurred_at: datetime
    situation: Situation
    context: dict[str, str] = {}
    retrieved: tuple[Given, ...] = ()
    used: tuple[str, ...] = ()
    action: Action = Action()
    outcome: Outcome = "neutral"
    valence: float = 0.5
    feedback: tuple[Feedback, ...] = ()
    text: str = ""


class UseCount(msgspec.Struct, frozen=True):
    """To how many pieces of work an entry was given, and how many of these used it."""

    given: int = 0
    used: int = 0


class Amendment(msgspec.Struct, frozen=True, kw_only=True):
    """What was learned later, in a file of its own: nothing that was written is rewritten. `amends` is the id of an
    episode, "" for feedback that belongs to none. `outcome`, `valence` None: as before."""

    id: str
    at: datetime
    amends: str = ""
    outcome: Outcome | None = None
    valence: float | None = None
    feedback: tuple[Feedback, ...] = ()
    text: str = ""


Telling = Episode | Amendment  # What an episode file holds.


Ranking = Literal["similar", "mempalace", "t4dm"]  # The orders in which episodes are recalled.


class Factor(msgspec.Struct, frozen=True):
    """A part of a score: one of a product, or with a `weight` one of a sum of weight x value."""

    name: str
    value: float
    weight: float | None = None


class RecalledEpisode(msgspec.Struct, frozen=True):
    """An episode and its score. `still` of its `files` are there today; None where nobody looked."""

    episode: Episode
    score: float
    factors: tuple[Factor, ...]
    still: int | None = None


class Recalled(msgspec.Struct, frozen=True):
    """The episodes, best first, by which ranking, and what the caller should know. `likeness` says how words were
    compared: `tf-idf`, or the name of the model whose vectors were; "" if neither was. `changes` are merged changes
    that answer too, as git tells of them; `address` is the repository's on the web."""

    ranking: Ranking
    likeness: str = ""
    hits: tuple[RecalledEpisode, ...] = ()
    notes: tuple[str, ...] = ()
    changes: tuple[RecalledEpisode, ...] = ()
    address: str = ""


State = Literal["open", "held", "failed"]


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may go wrong: why, how one would notice, what to do; `source` is where it is known from."""

    title: str
    why: str = ""
    signal: str = ""
    mitigation: str = ""
    source: str = ""


class Assumption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `.assumptions.jsonl`: what was taken for granted at a milestone, and what became of it. `by` is the
    session of the agent that noted it, `<agent>:<id>`; "" stands for a person."""

    at: datetime
    assumption: str
    state: State
    milestone: str = ""
    because: str = ""
    by: str = ""
