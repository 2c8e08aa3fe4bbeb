"""Health: what is counted becomes five numbers, and these one score (docs/health.md); Crewship's table as well."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from functools import lru_cache, partial
from statistics import median
from typing import NamedTuple

from memory_ci.commands.health.records import Band, Health, Metric, MetricName, Profile
from memory_ci.lifecycle.consolidation import find_contradictions
from memory_ci.lifecycle.prominence import floor_of, recency
from memory_ci.lifecycle.relations import relations_of
from memory_ci.lifecycle.similarity import find_partners, said, similar_pairs
from memory_ci.records.anchor import MARKED, VerdictKind
from memory_ci.records.config import Decay
from memory_ci.records.entry import Entry, Located
from memory_ci.records.names import LEAST_WIDTH, ORIGIN
from memory_ci.text import plural

WEIGHTS: Mapping[Profile, Mapping[MetricName, int]] = {
    "git": {
        "truth": 15,
        "recency": 10,
        "coverage": 25,
        "coherence": 20,
        "efficiency": 15,
        "reachability": 15,
    },
    "crewship": {
        "freshness": 25,
        "coverage": 25,
        "coherence": 20,
        "efficiency": 15,
        "reachability": 15,
    },
}  # They sum to 100. Ours share Crewship's weight of freshness between truth and recency.
YELLOW, GREEN = 50, 75  # Where a band begins: red < 50 <= yellow < 75 <= green.
LEAST_JUDGED = Fraction(1, 4)  # Share of the entries: of fewer, truth says too little.
LEAST_CHANGES = 3  # Merged changes: of fewer, a share says too little.
ENOUGH_JOBS = (
    20  # So many jobs must have been given something before it tells much how much of it they used.
)
_said = lru_cache(maxsize=16_384)(
    said
)  # Two metrics ask for it, and a history asks month by month.
STANDING: Mapping[VerdictKind | None, str] = {
    "fresh": "fresh", "moved": "fresh", "changed": "marked", "gone": "withheld"
}  # fmt: skip
"""How an entry is served by what its anchors say; one that cannot be verified is as good as unanchored."""

NO_ENTRY = "there is no active entry"
_entries = partial(plural, noun="entry")

ADVICE: Mapping[MetricName, str] = {
    "truth": "Look at each entry whose code has changed, and keep, edit or retire it: `memory-ci review --stale`.",
    "recency": "Retire what no longer holds: `memory-ci retire --stale`; work that uses an entry keeps it recent.",
    "freshness": "Retire what no longer holds: `memory-ci retire --stale`; work that uses an entry keeps it fresh.",
    "coverage": "Let memory catch up with what was merged: `memory-ci record`.",
    "coherence": "Unite what says the same: `memory-ci compact`. Of two that contradict, let one supersede the other.",
    "efficiency": "Where work taught something that the next such work should know, note it: `memory-ci add`, or a mark"
    " in the next commit (`memory-ci help extraction`). Where there was nothing to learn, it is no fault."
    " `memory-ci health` names the titles.",
    "reachability": "Say where an entry comes from: write `source: commit:<sha>` into it by hand, or `cites` or"
    " `relations` (`memory-ci show ID` names the file); a new one gets it from `memory-ci add --source commit:<sha>`."
    " `memory-ci health` names the entries.",
}
UNINDEXED = "See what is kept out of the index, and why: `memory-ci check`."


class Measured(NamedTuple):
    """A metric before it is weighed: None where there is no data, from what it is, advice of its own, what it lacks."""

    value: float | None
    basis: str
    advice: str = ""
    missing: tuple[str, ...] = ()


class Jobs(NamedTuple):
    """Jobs that were given something, how many entries they were given, and how many of these they used."""

    jobs: int = 0
    given: int = 0
    used: int = 0


def weigh(
    profile: Profile, today: date, commit: str | None, measured: Mapping[MetricName, Measured]
) -> Health:
    """Return the health: each metric, and their mean by weight where every one has a value.

    A mean of what is left would rise by having less to measure.
    """
    metrics = []
    for name, weight in WEIGHTS[profile].items():
        found, basis, advice, missing = measured[name]
        value = None if found is None else round(min(100.0, max(0.0, found)), 1)
        advice = (advice or ADVICE[name]) if value is not None and value < GREEN else ""
        metrics.append(
            Metric(
                name=name, weight=weight, value=value, basis=basis, advice=advice, missing=missing
            )
        )
    known = [(metric.weight, metric.value) for metric in metrics if metric.value is not None]
    is_partial = len(known) < len(metrics)
    score = (
        None if is_partial else round(math.fsum(weight * value for weight, value in known) / 100, 1)
    )
    return Health(
        profile=profile,
        today=today,
        commit=commit,
        score=score,
        band=None if score is None else band_of(score),
        is_partial=is_partial,
        metrics=tuple(metrics),
    )


def band_of(score: float) -> Band:
    """The colour of a score.

    >>> band_of(49.9), band_of(50), band_of(75)
    ('red', 'yellow', 'green')
    """
    return "green" if score >= GREEN else "yellow" if score >= YELLOW else "red"


def names_of_source(entry: Entry) -> frozenset[str]:
    """The changes that an entry comes from, as `pr:128` and `commit:3f2ab91`."""
    found = re.finditer(ORIGIN, entry.source or "")
    return frozenset(
        f"pr:{one['number']}" if one["number"] else f"commit:{one['sha'][:LEAST_WIDTH]}"
        for one in found
    )


def score_truth(kinds: Mapping[str, VerdictKind | None]) -> Measured:
    """How many of the entries that cite code are fresh; one that is marked counts half, one that is withheld nothing.
    `kinds` says of each entry, by id and newest first, what its anchors say together; None where it has none."""
    count = Counter(map(STANDING.get, kinds.values()))
    total, judged = len(kinds), len(kinds) - count[None]
    if not judged:
        return Measured(None, NO_ENTRY if not kinds else f"no anchor to judge in {_entries(total)}")
    if judged < LEAST_JUDGED * total:
        return Measured(None, f"only {judged} of {_entries(total)} cite code that can be compared")
    shares = ", ".join(
        f"{name} {count[name] / total:.0%}" for name in ("fresh", "marked", "withheld")
    )
    basis = f"{shares}, not compared {count[None] / total:.0%} of {_entries(total)}"
    stale = tuple(entry_id for entry_id, kind in kinds.items() if kind in MARKED)
    return Measured(100 * (count["fresh"] + count["marked"] / 2) / judged, basis, missing=stale)


def score_recency(entries: Sequence[Entry], today: date, decay: Decay) -> Measured:
    """The mean recency with the floor taken off: what is as old as can be counts nothing."""
    if not entries:
        return Measured(None, NO_ENTRY)
    floor = floor_of(decay)
    left = math.fsum((recency(entry, today, decay) - floor) / (1 - floor) for entry in entries)
    return Measured(
        100 * left / len(entries), f"mean recency of {_entries(len(entries))}, ageing {decay}"
    )


def score_coverage(
    judged: int, eligible: int | None, indexed: int, left_out: int, silence: str = ""
) -> Measured:
    """The share of merged changes that were judged, times the share of what was kept that the index holds. `eligible`
    None: history cannot be read, for the reason in `silence`."""
    if not indexed and not left_out:
        return Measured(None, NO_ENTRY)
    held = indexed / (indexed + left_out)
    lost = f"; {plural(left_out, 'place')} kept out of the index" if left_out else ""
    if not eligible:
        why = silence or "nothing was merged in the last 90 days that could teach anything"
        return Measured(100 * held if left_out else None, why + lost, UNINDEXED)
    if eligible < LEAST_CHANGES:
        few = f"only {plural(eligible, 'change')} merged in the last 90 days"
        return Measured(100 * held if left_out else None, few + lost, UNINDEXED)
    share = judged / eligible
    basis = f"{judged} of {plural(eligible, 'merged change')} of the last 90 days judged{lost}"
    advice = (ADVICE["coverage"] if judged < eligible else "", UNINDEXED if left_out else "")
    return Measured(100 * share * held, basis, " ".join(filter(None, advice)))


def score_coherence(located: Sequence[Located]) -> Measured:
    """How few of the entries repeat or contradict another."""
    if not located:
        return Measured(None, NO_ENTRY)
    same, opposed = (
        count_near_duplicates([place.entry for place in located]),
        count_contradictions(located),
    )
    faults = f"{plural(same, 'near-duplicate pair')} and {plural(opposed, 'open contradiction')}"
    basis = f"{faults} among {_entries(len(located))}"
    return Measured(100 * (1 - (same + opposed) / len(located)), basis)


def score_efficiency(asked: int, empty: int, jobs: Jobs, silence: str = "") -> Measured:
    """How many of the questions find something; and, once enough jobs tell, how much of what was given was used."""
    if not asked:
        return Measured(None, silence)
    found = 1 - empty / asked
    basis = f"{empty} of {plural(asked, 'title')} of merged changes find nothing"
    if not jobs.given:
        return Measured(100 * found, basis)
    rate = jobs.used / jobs.given
    basis += f"; {plural(jobs.jobs, 'job')} used {jobs.used} of {_entries(jobs.given)} given ({rate:.0%})"
    return Measured(100 * ((found + rate) / 2 if jobs.jobs >= ENOUGH_JOBS else found), basis)


def score_reachability(reached: int, total: int) -> Measured:
    """How many of the entries something leads to or comes from."""
    return _score_share(
        reached, total, f"{reached} of {_entries(total)} with a relation or evidence that is there"
    )


def _score_share(part: int, total: int, basis: str, advice: str = "") -> Measured:
    return Measured(100 * part / total, basis, advice) if total else Measured(None, NO_ENTRY)


def count_near_duplicates(entries: Iterable[Entry]) -> int:
    """Pairs of entries that say nearly the same and make the same claims; one without a word says nothing. Of those
    with equal words each after the first is one pair: a hundred copies are not five thousand faults."""
    groups: defaultdict[object, Counter[frozenset[str]]] = defaultdict(Counter)
    for words, claims in map(_said, entries):
        if words:
            groups[claims][words] += 1
    copies = sum(count - 1 for group in groups.values() for count in group.values())
    return copies + sum(
        len(similar_pairs(list(group))) for group in groups.values() if len(group) > 1
    )


def count_contradictions(located: Sequence[Located]) -> int:
    """Pairs that are found to contradict each other, or that say so, and that nobody has settled."""
    by_id = {place.entry.id: place.entry for place in located if place.entry.adoption != "rejected"}
    found = {
        frozenset((pair.one.entry.id, pair.other.entry.id)) for pair in find_contradictions(located)
    }
    stated = {
        frozenset((entry.id, relation.id))
        for entry in by_id.values()
        for relation in relations_of(entry)
        if relation.kind == "contradicts" and relation.id in by_id and relation.id != entry.id
    }
    pairs = ([by_id[name] for name in pair] for pair in found | stated)
    return sum(
        other.id not in one.supersedes and one.id not in other.supersedes for one, other in pairs
    )


def find_related(entries: Iterable[Entry], known: Collection[str]) -> frozenset[str]:
    """The ids of entries with a relation to one of `known`, told by them or of them; so have those that replace one. No
    entry is reached from itself."""
    found: set[str] = set()
    for entry in entries:
        named = {relation.id for relation in relations_of(entry) if relation.id in known} - {
            entry.id
        }
        if named or any(older in known and older != entry.id for older in entry.supersedes):
            found |= {entry.id, *named}
    return frozenset(found)


def find_alike(
    entries: Iterable[Entry], least: float, wanted: Container[str] | None = None
) -> frozenset[str]:
    """The ids of entries, of those `wanted` if that is said, that share more than `least` of their words with another.
    By the Jaccard index; only the wanted are compared, each with all."""
    by_words: defaultdict[frozenset[str], list[str]] = defaultdict(list)
    for entry in entries:
        by_words[_said(entry).words].append(entry.id)
    texts = list(filter(None, by_words))
    asked = {
        at
        for at, text in enumerate(texts)
        if wanted is None or any(one in wanted for one in by_words[text])
    }
    found = find_partners(texts, asked, Fraction(str(least)))
    near = {texts[at] for at, partners in found if next(partners, None) is not None}
    copies = {words for words in texts if len(by_words[words]) > 1}
    ids = (entry_id for words in near | copies for entry_id in by_words[words])
    return frozenset(entry_id for entry_id in ids if wanted is None or entry_id in wanted)


WORN_OUT_DAYS = 180  # The age at which Crewship's decay leaves nothing but its floor.
LINKS = 3  # Crewship links an entry with so many others at most.
TOP_K = 5  # How many entries its recall gives where nobody says.
NEWER = "Let memory learn from newer work: `memory-ci record`, `memory-ci add`."
SCATTERED = "See whether all of it is still of use: `memory-ci list`, `memory-ci retire`."
UNLINKED = "Write `supports`, `contradicts` or `duplicates` and the other's id into `relations` of an entry."


def score_age(entries: Sequence[Entry], today: date) -> Measured:
    """Freshness: 1 - median age / 180 days, the age counted from when an entry was learned."""
    if not entries:
        return Measured(None, NO_ENTRY)
    age = median(
        max(0, (today - (entry.created_at or entry.last_reinforced)).days) for entry in entries
    )
    return Measured(100 * max(0.0, 1 - age / WORN_OUT_DAYS), f"median age {age:g} days", NEWER)


def score_indexed(indexed: int, left_out: int) -> Measured:
    """Coverage: the share of what could be indexed that is."""
    total = indexed + left_out
    return _score_share(indexed, total, f"{indexed} of {total} indexed", UNINDEXED)


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
    return _score_share(linked, total, f"{linked} of {_entries(total)} with a relation", UNLINKED)
