"""Records of health and of the effect of memory (docs/report.md)."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

from memory_ci.records.check_outcome import RuleCheckOutcome
from memory_ci.records.proportion import Share
from memory_ci.records.repetition import RuleOutcome

MetricName = Literal[
    "truth", "recency", "freshness", "coverage", "coherence", "efficiency", "reachability"
]
Band = Literal["red", "yellow", "green"]
Profile = Literal["git", "crewship"]


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of health.

    Attributes:
        name: its name.
        weight: its weight in percent.
        value: a number in [0, 100]; None without data.
        target: the value from which nothing has to be done.
        basis: the counts behind the value, in words.
        advice: what to do about a weak value, with the command; "" for a good one.
        missing: titles that find nothing, or ids of entries that nothing leads to, newest
            first.
    """

    name: MetricName
    weight: int
    value: float | None
    basis: str
    advice: str = ""
    missing: tuple[str, ...] = ()
    target: int = 75


class AskedRule(msgspec.Struct, frozen=True):
    """A rule that people asked for again after it was written.

    Attributes:
        place: the id of the entry, or the document and line.
        title: the rule.
        sessions: in how many sessions it was asked for since.
        since: the day on which it was written.
    """

    place: str
    title: str
    sessions: int
    since: date


class AskedAgain(msgspec.Struct, frozen=True):
    """How often people repeated a request, and how often although a rule says it.

    Attributes:
        repetitions: sessions that made a request which two earlier ones had made.
        although_written: those of them that a rule preceded.
        rules: the rules that were asked for again, the most often first.
        outcomes: what became of the rules and known failures that sessions were served, the least
            followed first.
    """

    repetitions: int
    although_written: int
    rules: tuple[AskedRule, ...] = ()
    outcomes: tuple[RuleOutcome, ...] = ()


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the memory of a commit or of the work tree.

    Attributes:
        profile: whose definitions of metrics were used.
        today: the day that counted as today.
        commit: the commit; None for the work tree, "" for the time before the first commit.
        score: the mean of the metrics by weight; None where a metric has no value.
        band: the colour of the score; None without one.
        is_partial: whether a metric has no value.
        metrics: the metrics of the profile.
        asked_again: what people asked again; None where it was not counted.
        checks: what became of the checks of entries, where it was counted.
    """

    profile: Profile
    today: date
    commit: str | None
    score: float | None
    band: Band | None
    is_partial: bool
    metrics: tuple[Metric, ...]
    asked_again: AskedAgain | None = None
    checks: tuple[RuleCheckOutcome, ...] = ()

    @property
    def weakest(self) -> Metric | None:
        """The metric that is furthest below its target, or least above; the first of several."""
        measured = [metric for metric in self.metrics if metric.value is not None]
        return min(measured, key=lambda metric: (metric.value or 0.0) - metric.target, default=None)


class ArmComparison(msgspec.Struct, frozen=True):
    """The frequency of an outcome in sessions that were served memory, and in those held out.

    Attributes:
        name: the outcome.
        served: how often it occurred in the arm that was served memory; `served` in JSON.
        held_out: how often it occurred in the arm that was held out.
        low: the lower end of the 95 % interval of their difference; None if an arm is empty.
        high: its upper end.
        needed_count: the number of sessions in both arms together that detects a share lower by a
            third; None if it cannot be computed; `needed` in JSON.
        needed_weeks: the weeks until that number, at the present rate; `weeks` in JSON.
    """

    name: str
    served: Share
    held_out: Share
    low: float | None = None
    high: float | None = None
    needed_count: int | None = msgspec.field(default=None, name="needed")
    needed_weeks: float | None = msgspec.field(default=None, name="weeks")


class EffectReport(msgspec.Struct, frozen=True):
    """The comparison of the two arms.

    Attributes:
        holdout: the share of sessions that is held out now.
        since: the day of the first session known to be held out; or None.
        effects: one comparison for each thing that may happen.
    """

    holdout: float
    since: date | None = None
    effects: tuple[ArmComparison, ...] = ()
