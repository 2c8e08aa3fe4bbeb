"""Queries with known answers, and how good retrieval is on them (docs/ranking.md, evaluation)."""

from __future__ import annotations

from datetime import date

import msgspec

from memory_ci.records.retrieval import Strength


class Golden(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task, the ids of the entries that it should be given, and of those that it should not.

    Where `relevant` is empty nothing in memory speaks of it. `name` sets a query apart in lists, `kind` in tables.
    """

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
    """What a query was given: the ids in order, with each score's factors, the verdict, and the seconds it took."""

    asking: Asking
    ranking: tuple[str, ...]
    factors: tuple[tuple[tuple[str, float], ...], ...]
    verdict: Strength
    seconds: float


class Measure(msgspec.Struct, frozen=True):
    """A mean over queries with its 95 % interval."""

    name: str
    value: float
    low: float
    high: float


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """How good retrieval is on one set of queries. `milliseconds` are the median and the 95th percentile of a query.

    `kind` is "" for all queries together. Measures count the queries that have a relevant entry; `false_hits` counts
    those that have none and are called a HIT, `unanswerable` is how many those are.
    """

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
    """Memory now and at `rev`: whether nDCG@10 fell by more than `margin`, and where it fell, worst first."""

    rev: str
    margin: float
    before: Quality
    now: Quality
    falls: tuple[Fall, ...]

    @property
    def has_fallen(self) -> bool:
        return ndcg_of(self.now) < ndcg_of(self.before) - self.margin


def ndcg_of(quality: Quality) -> float:
    """The measure that gates."""
    return next(measure.value for measure in quality.measures if measure.name == "nDCG@10")
