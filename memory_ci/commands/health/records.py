"""Health: how well a memory is kept (docs/health.md), and what doctor looked at; how good answers and engines are."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

from memory_ci.records.proportion import Share

MetricName = Literal[
    "truth", "recency", "freshness", "coverage", "coherence", "efficiency", "reachability"
]
Band = Literal["red", "yellow", "green"]
Profile = Literal["git", "crewship"]


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One number in [0, 100], None where there is nothing to reckon it from. `basis` says from what it is. `advice` is
    what to do about a weak one, with the command. `missing` names, newest first, what it lacks: the titles that find
    nothing, the ids of entries that nothing leads to."""

    name: MetricName
    weight: int
    value: float | None
    basis: str
    advice: str = ""
    missing: tuple[str, ...] = ()


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the memory of a commit (None: of the work tree, "": of before the first), with `today` for the
    present day. `score` and `band` are None where a metric has no value: `is_partial`."""

    profile: Profile
    today: date
    commit: str | None
    score: float | None
    band: Band | None
    is_partial: bool
    metrics: tuple[Metric, ...]

    @property
    def weakest(self) -> Metric | None:
        """The lowest metric; the first of several."""
        known = [metric for metric in self.metrics if metric.value is not None]
        return min(known, key=lambda metric: metric.value or 0.0, default=None)


class ArmComparison(msgspec.Struct, frozen=True):
    """How often something happened where memory was given and where it was held out. `low`, `high`: the 95 % interval
    of the difference. `needed`: so many in both arms together, within so many `weeks`, until the share lowered by a
    third would be seen. None where nothing can be reckoned."""

    name: str
    given: Share
    held_out: Share
    low: float | None = None
    high: float | None = None
    needed: int | None = None
    weeks: float | None = None


class EffectReport(msgspec.Struct, frozen=True):
    """The comparison of the arms: the share that is held out now, and since when any session is known to be."""

    holdout: float
    since: date | None = None
    effects: tuple[ArmComparison, ...] = ()


# -- golden queries and extractions, and how good retrieval and engines are on them (docs/ranking.md)
