"""Labelled data and the figures of an evaluation, as values."""

from __future__ import annotations

from datetime import date

import msgspec

from memory_ci.records.event import Actor, EventKind, Trust
from memory_ci.records.proportion import Share
from memory_ci.records.retrieval import Strength

# Measures that a change of memory may not worsen, and which way is better.
GATED = {
    "nDCG@10": 1,
    "recall at given": 1,
    "precision at given": 1,
    "kept": 1,
    "unrelated answered": -1,
}
SIZES = {
    "entries given",
    "characters given",
}  # They may grow by ten times the margin, as a share of what they were.


class Golden(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task, the ids of the entries that it should be given, and of those that it should not. Where `relevant` is
    empty nothing in memory speaks of it. `name` sets a query apart in lists, `kind` in tables."""

    query: str
    relevant: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    kind: str = ""
    name: str = ""


class Asking(msgspec.Struct, frozen=True):
    """One query as it is judged: grades by entry id (above zero), unwanted ids, the day that counts as today."""

    name: str
    text: str
    grades: dict[str, float]
    negative: tuple[str, ...]
    kind: str
    today: date


class Answered(msgspec.Struct, frozen=True):
    """How a query was answered: the ranking before floor and budget, each score's factors, the verdict, the seconds.
    `given` is what is left of the ranking, `characters` what is printed of it, the wrapper included."""

    asking: Asking
    ranking: tuple[str, ...]
    factors: tuple[tuple[tuple[str, float], ...], ...]
    verdict: Strength
    seconds: float
    given: tuple[str, ...] = ()
    characters: int = 0


class Measure(msgspec.Struct, frozen=True):
    """A mean over queries with its 95 % interval."""

    name: str
    value: float
    low: float
    high: float


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """How good retrieval is on one set of queries. `milliseconds` are the median and the 95th percentile of a query.
    `kind` is "" for all queries together. Measures count the queries that have a relevant entry; `false_hits` counts
    those that have none and are called a HIT, `unanswerable` is how many those are."""

    kind: str
    queries: int
    measures: tuple[Measure, ...]
    milliseconds: tuple[float, float]
    unanswerable: int = 0
    false_hits: int = 0


class Fall(msgspec.Struct, frozen=True):
    """A query that is answered worse than before: its nDCG@10 then and now."""

    name: str
    before: float
    now: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Memory now and at `rev`: which measures got worse by more than `margin`, and where nDCG@10 fell, worst first."""

    rev: str
    margin: float
    before: Quality
    now: Quality
    falls: tuple[Fall, ...]

    @property
    def worse(self) -> tuple[tuple[str, float, float], ...]:
        """Each measure that gates and got worse: its name, and what it was and is."""
        now = {measure.name: measure.value for measure in self.now.measures}
        pairs = (
            (one.name, one.value, now[one.name]) for one in self.before.measures if one.name in now
        )
        return tuple(pair for pair in pairs if _loss(*pair) > self.margin)


def _loss(name: str, before: float, now: float) -> float:
    if name in SIZES:
        return (now - before) / before / 10 if before else 0.0
    return GATED.get(name, 0) * (before - now)


class GoldPiece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One piece of evidence of a window."""

    text: str
    kind: EventKind = "text"
    actor: Actor = "human"
    trust: Trust = "T1"
    paths: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


class GoldLearning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What should be learned, and the exact words that prove it."""

    says: str
    quote: str


class GoldLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether one labeller found anything worth keeping."""

    by: str
    is_durable: bool


class GoldWindow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One merged change as an engine would see it. Without `learnings` it is a negative: abstaining is right.
    `existing` are titles of entries that memory has; `attack` names what an obeying engine would have done."""

    id: str
    evidence: tuple[GoldPiece, ...]
    learnings: tuple[GoldLearning, ...] = ()
    labels: tuple[GoldLabel, ...] = ()
    existing: tuple[str, ...] = ()
    attack: str = ""
    about: str = ""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine did on gold windows. Every share says of what; `agreement` is Cohen's kappa of the labellers."""

    engine: str
    windows: int
    negatives: int
    precision: Share
    recall: Share
    abstention: Share
    evidence_validity: Share
    duplicates: int
    dropped: int
    secrets_leaked: int
    injections_obeyed: int
    failures: int
    failed_because: str
    tokens_per_window: float
    agreement: float | None = None
    labelled_twice: int = 0
    misses: tuple[str, ...] = ()
    false_positives: tuple[str, ...] = ()


class ReaderQuality(msgspec.Struct, frozen=True):
    """What one reader approves: of all that the model replied, and of what the gate of today writes of it."""

    name: str
    replied: Share
    written: Share


class SetEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """How a model and the gate did on a set of windows, to readers. `abstained`: replies without a learning.
    `not_written`: learnings by the reason that kept them out. `agreement`: of two readers Cohen's kappa, and how many
    learnings both judged. Tokens are estimates of one window."""

    windows: int
    learnings: int
    abstained: Share
    written: Share
    not_written: dict[str, int]
    tokens_in: float
    tokens_out: float
    readers: tuple[ReaderQuality, ...]
    agreement: tuple[tuple[str, str, float | None, int], ...]


class Drawn(msgspec.Struct, frozen=True):
    """A set that was drawn: its windows, of how many, how many were answered, and the sheets to fill in."""

    windows: int
    of: int
    answered: int
    sheets: tuple[str, ...] = ()
