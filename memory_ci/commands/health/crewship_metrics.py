"""The formulas of the metrics that the profile `crewship` measures by vectors and by age."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from statistics import median

from memory_ci.commands.health.metrics import (
    NO_ENTRY,
    UNINDEXED_ADVICE,
    Measurement,
    count_entries,
    score_share,
)
from memory_ci.records.entry import Entry
from memory_ci.text import plural

WORN_OUT_DAYS = 180  # The age at which Crewship's decay reaches its floor.
MAX_LINKS = 3  # Crewship links an entry with at most this many others.
TOP_K = 5  # Entries that Crewship's recall returns by default.
NEWER_WORK_ADVICE = "Let memory learn from newer work: `memory-ci record`, `memory-ci add`."
SCATTERED_ADVICE = (
    "See whether all of it is still of use: `memory-ci list`, `memory-ci upkeep retire`."
)
UNLINKED_ADVICE = (
    "Write `supports`, `contradicts` or `duplicates` and the other's id"
    " into `relations` of an entry."
)


def score_age(entries: Sequence[Entry], today: date) -> Measurement:
    """Return the metric `freshness` of Crewship, in percent: 1 - median age / 180 days.

    The age of an entry is counted from the day on which it was learned.
    """
    if not entries:
        return Measurement(None, NO_ENTRY)

    ages = []
    for entry in entries:
        learned_on = entry.created_at or entry.last_reinforced
        ages.append(max(0, (today - learned_on).days))
    median_age = median(ages)
    freshness = max(0.0, 1 - median_age / WORN_OUT_DAYS)
    basis = f"median age {median_age:g} days"
    return Measurement(100 * freshness, basis, advice=NEWER_WORK_ADVICE)


def score_indexed(indexed: int, left_out: int) -> Measurement:
    """Return Crewship's coverage: the share of indexable places that are indexed."""
    total = indexed + left_out
    return score_share(indexed, total, f"{indexed} of {total} indexed", UNINDEXED_ADVICE)


def score_neighbour_cosines(
    neighbour_cosines: Sequence[Sequence[float]], no_data_reason: str
) -> Measurement:
    """Return Crewship's coherence: the mean cosine of entries with their nearest others.

    Args:
        neighbour_cosines: for each entry the cosines of up to three nearest others.
        no_data_reason: the reason if there are no cosines.
    """
    means = [_mean_cosine(cosines) for cosines in neighbour_cosines if cosines]
    if not means:
        return Measurement(None, no_data_reason)

    mean_percent = 100 * math.fsum(means) / len(means)
    basis = f"mean cosine of {plural(len(means), 'text')} with the nearest {MAX_LINKS}"
    return Measurement(mean_percent, basis, advice=SCATTERED_ADVICE)


def score_hits(hit_cosines: Sequence[Sequence[float]], no_data_reason: str) -> Measurement:
    """Return Crewship's efficiency: the mean cosine of the best hits of all questions.

    Args:
        hit_cosines: for each question the cosines of its hits, best first.
        no_data_reason: the reason if there are no cosines.
    """
    cosines: list[float] = []
    for question_cosines in hit_cosines:
        cosines += question_cosines[:TOP_K]
    if not cosines:
        return Measurement(None, no_data_reason)

    titles = plural(len(hit_cosines), "title")
    basis = f"mean cosine of the best {TOP_K} for {titles} of merged changes"
    return Measurement(100 * _mean_cosine(cosines), basis)


def _mean_cosine(cosines: Sequence[float]) -> float:
    """Return the mean of cosines; a negative one counts as 0."""
    return math.fsum(max(0.0, cosine) for cosine in cosines) / len(cosines)


def score_linked(linked: int, total: int) -> Measurement:
    """Return Crewship's reachability: the share of entries that a relation leads to or from."""
    basis = f"{linked} of {count_entries(total)} with a relation"
    return score_share(linked, total, basis, UNLINKED_ADVICE)
