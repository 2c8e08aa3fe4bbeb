"""Health as Crewship's table words it; the formulas are ours where it gives none (docs/health.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from statistics import median

from memory_ci.lifecycle.health import NO_ENTRY, UNINDEXED, Measured
from memory_ci.records.entry import Entry
from memory_ci.text import plural

WORN_OUT_DAYS = 180
"""The age at which Crewship's decay leaves nothing but its floor."""

LINKS = 3
"""Crewship links an entry with so many others at most."""

TOP_K = 5
"""How many entries its recall gives where nobody says."""

NEWER = "Let memory learn from newer work: `memory-ci record`, `memory-ci add`."
SCATTERED = "See whether all of it is still of use: `memory-ci list`, `memory-ci retire`."
UNLINKED = "Write `supports`, `contradicts` or `duplicates` and the other's id into `relations` of an entry."


def score_age(entries: Sequence[Entry], today: date) -> Measured:
    """Freshness: 1 - median age / 180 days, the age counted from when an entry was learned."""
    if not entries:
        return Measured(None, NO_ENTRY)
    age = median(max(0, (today - (entry.created_at or entry.last_reinforced)).days) for entry in entries)
    return Measured(100 * max(0.0, 1 - age / WORN_OUT_DAYS), f"median age {age:g} days", NEWER)


def score_indexed(indexed: int, left_out: int) -> Measured:
    """Coverage: the share of what could be indexed that is."""
    total = indexed + left_out
    if not total:
        return Measured(None, NO_ENTRY)
    return Measured(100 * indexed / total, f"{indexed} of {total} indexed", UNINDEXED)


def score_tightness(near: Sequence[Sequence[float]], silence: str) -> Measured:
    """Coherence: the mean cosine of an entry with its nearest others, of which `near` has up to three for each."""
    means = [math.fsum(max(0.0, cosine) for cosine in row) / len(row) for row in near if row]
    if not means:
        return Measured(None, silence)
    basis = f"mean cosine of {plural(len(means), 'text')} with the nearest {LINKS}"
    return Measured(100 * math.fsum(means) / len(means), basis, SCATTERED)


def score_hits(answers: Sequence[Sequence[float]], silence: str) -> Measured:
    """Efficiency: the mean cosine of the best hits of all questions."""
    cosines = [max(0.0, cosine) for answer in answers for cosine in answer[:TOP_K]]
    if not cosines:
        return Measured(None, silence)
    basis = f"mean cosine of the best {TOP_K} for {plural(len(answers), 'title')} of merged changes"
    return Measured(100 * math.fsum(cosines) / len(cosines), basis)


def score_linked(linked: int, total: int) -> Measured:
    """Reachability: the share of entries that a relation leads to or from."""
    if not total:
        return Measured(None, NO_ENTRY)
    return Measured(100 * linked / total, f"{linked} of {plural(total, 'entry')} with a relation", UNLINKED)
