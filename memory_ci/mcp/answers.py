"""What tools answer. Words that were not ours stand in `context` alone, inside the wrapper of untrusted hints."""

from __future__ import annotations

import msgspec

from memory_ci.records.episode import FeedbackKind, Outcome, Ranking
from memory_ci.records.retrieval import Mode, Strength


class Retrieved(msgspec.Struct, frozen=True):
    """What memory knows about a task."""

    context: str
    ids: tuple[str, ...]
    mode: Mode
    verdict: Strength | None
    notes: tuple[str, ...] = ()


class Told(msgspec.Struct, frozen=True):
    """One episode; its words are in the context of the answer, under its id."""

    id: str
    occurred_at: str
    outcome: Outcome
    valence: float
    score: float


class Recollection(msgspec.Struct, frozen=True):
    """Episodes, best first."""

    context: str
    ranking: Ranking
    episodes: tuple[Told, ...]
    notes: tuple[str, ...] = ()


class Kept(msgspec.Struct, frozen=True):
    """What was written, where; `is_new` False: it was known, and nothing was written."""

    id: str
    path: str
    is_new: bool
    notes: tuple[str, ...] = ()


class Judged(msgspec.Struct, frozen=True):
    """Feedback, and the utility of its entry before and after."""

    id: str
    kind: FeedbackKind
    path: str
    is_new: bool
    before: float
    after: float


class Failure(msgspec.Struct, frozen=True):
    """What went wrong, by the slug of docs/errors.md, and what to do."""

    slug: str
    message: str
    hint: str
