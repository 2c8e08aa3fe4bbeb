"""Episodes, feedback on entries, recalled episodes, and risks and assumptions of work."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

Outcome = Literal["success", "partial", "failure", "neutral"]
"""The outcome of work, in this order: merged and kept; merged after requested changes; closed
unmerged, or reverted within 30 days; talk only."""

FeedbackKind = Literal["confirmed", "corrected", "rejected", "undone", "ignored"]

EventKind = Literal[FeedbackKind, "touched"]
"""The kind of an event on an entry. `touched` follows from facts alone: the work was on the same
subject. It does not change a utility."""


def to_utc(time: datetime) -> datetime:
    """Return a time in UTC.

    A time without a zone is returned unchanged; no store accepts it.
    """
    return time if time.tzinfo is None else time.astimezone(UTC)


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of work: a part of the repository, a few words, and one line."""

    domain: str = ""
    topic: str = ""
    summary: str = ""


class ServedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that was served to work.

    Attributes:
        rank: its position among the entries that the work names, from 1; 0 if unknown.
        at: the commit on which the work began.
    """

    id: str
    rank: int = 0
    at: str = ""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that work made.

    Attributes:
        pr: the number of its pull request.
        commit: the merged commit.
        files: the files that it touched.
        tools: the tools that its sessions used.
    """

    pr: int | None = None
    commit: str = ""
    files: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback of one piece of work, or of a person, on one entry.

    Two with the same entry, kind and `ref` are the same event, whatever their source. Without a
    `ref`, two with the same entry, kind, `by` and `at` are.

    Attributes:
        id: the id of the entry.
    """

    id: str
    kind: EventKind
    at: datetime
    by: str = ""
    ref: str = ""


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """One merged or declined change (docs/episodes.md).

    Attributes:
        id: `pr-128`, or `commit-<12 digits>`.
        context: a snapshot: branch, agent, stage, session.
        retrieved: the entries that were served to the work.
        used: the entries that it declares to have used.
        valence: how much the episode matters, in [0, 1].
        text: one line.
    """

    id: str
    occurred_at: datetime
    situation: Situation
    context: dict[str, str] = {}
    retrieved: tuple[ServedEntry, ...] = ()
    used: tuple[str, ...] = ()
    action: Action = Action()
    outcome: Outcome = "neutral"
    valence: float = 0.5
    feedback: tuple[Feedback, ...] = ()
    text: str = ""


class UseCount(
    msgspec.Struct, frozen=True, rename={"served_count": "served", "used_count": "used"}
):
    """The number of pieces of work that were served an entry, and of those that used it."""

    served_count: int = 0
    used_count: int = 0


class Amendment(msgspec.Struct, frozen=True, kw_only=True):
    """A later addition to an episode, in a file of its own; no written episode is rewritten.

    Attributes:
        amends: the id of the episode; "" for feedback without an episode.
        outcome: the new outcome; None if it is unchanged, as for `valence`.
    """

    id: str
    at: datetime
    amends: str = ""
    outcome: Outcome | None = None
    valence: float | None = None
    feedback: tuple[Feedback, ...] = ()
    text: str = ""


EpisodeRecord = Episode | Amendment
"""The content of an episode file."""

Ranking = Literal["similar", "mempalace", "t4dm"]
"""The orders of recalled episodes."""


class Factor(msgspec.Struct, frozen=True):
    """A part of a score.

    Attributes:
        weight: None for a factor of a product; the weight of the value in a weighted sum.
    """

    name: str
    value: float
    weight: float | None = None


class RecalledEpisode(msgspec.Struct, frozen=True, rename={"remaining_count": "still"}):
    """An episode and its score.

    Attributes:
        remaining_count: how many of its files exist today; None if this was not counted.
    """

    episode: Episode
    score: float
    factors: tuple[Factor, ...]
    remaining_count: int | None = None


class Recalled(msgspec.Struct, frozen=True):
    """Recalled episodes, best first.

    Attributes:
        likeness: how texts were compared: `tf-idf`, or the name of the embedding model; "" if they
            were not.
        notes: sentences for the caller on how the episodes were ranked.
        changes: merged changes in git history that match, too.
        address: the address of the repository on the web.
    """

    ranking: Ranking
    likeness: str = ""
    hits: tuple[RecalledEpisode, ...] = ()
    notes: tuple[str, ...] = ()
    changes: tuple[RecalledEpisode, ...] = ()
    address: str = ""


State = Literal["open", "held", "failed"]


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """A risk of planned work.

    Attributes:
        why: the reason that it may happen.
        signal: how one would notice it.
        mitigation: the remedy.
        source: the entry, episode or change that the risk is known from.
    """

    title: str
    why: str = ""
    signal: str = ""
    mitigation: str = ""
    source: str = ""


class Assumption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An assumption at a milestone and its state: one line of `.assumptions.jsonl`.

    Attributes:
        by: the session of the agent that noted it, `<agent>:<id>`; "" for a person.
    """

    at: datetime
    assumption: str
    state: State
    milestone: str = ""
    because: str = ""
    by: str = ""
