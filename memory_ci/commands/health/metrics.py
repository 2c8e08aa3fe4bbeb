"""The formulas of health: each metric from counts, and one score from the metrics."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from memory_ci.commands.health.records import Band, Health, Metric, MetricName, Profile
from memory_ci.lifecycle import similarity
from memory_ci.lifecycle.consolidation import find_contradictions
from memory_ci.lifecycle.prominence import DECAY_FLOOR, recency
from memory_ci.lifecycle.relations import parse_relations
from memory_ci.records.anchor import STALE_KINDS, VerdictKind
from memory_ci.records.entry import Entry, Located
from memory_ci.records.names import MIN_SHA_WIDTH, ORIGIN
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
}
"""The weight of each metric in percent; a profile's weights sum to 100.

The profile `git` splits Crewship's weight of freshness between truth and recency.
"""

LEAST_YELLOW = 50  # Lowest score of the yellow band; red is below.
LEAST_GREEN = 75  # Lowest score of the green band, and the target of most metrics.
USED_TARGET = 30  # Percent of served entries that work uses: three of ten.
LEAST_JUDGED = Fraction(1, 4)  # Least share of entries with a verdict for truth to have a value.
UNJUDGED_ADVICE = (
    "Name the code that an entry speaks of: `cites` in its file, or `memory-ci add --cite`."
)
LEAST_CHANGES = 3  # Least number of merged changes for a share of them to have a value.
ENOUGH_JOBS = 20  # Jobs that were served entries, before their use of them counts.

SERVED_STATES: Mapping[VerdictKind | None, str] = {
    "fresh": "fresh",
    "moved": "fresh",
    "changed": "marked",
    "gone": "withheld",
}
"""How an entry is served, by the verdict of its cites. Without a verdict it is not compared."""

NO_ENTRY = "there is no active entry"
ADVICE: Mapping[MetricName, str] = {
    "truth": (
        "Look at each entry whose code has changed, and keep, edit or retire it:"
        " `memory-ci review --stale`."
    ),
    "recency": (
        "Retire what no longer holds: `memory-ci upkeep retire --stale`;"
        " work that uses an entry keeps it recent."
    ),
    "freshness": (
        "Retire what no longer holds: `memory-ci upkeep retire --stale`;"
        " work that uses an entry keeps it fresh."
    ),
    "coverage": "Let memory catch up with what was merged: `memory-ci record`.",
    "coherence": (
        "Merge duplicate entries: `memory-ci upkeep compact`. "
        "Where two entries contradict each other, let one supersede the other."
    ),
    "efficiency": (
        "Reword or retire entries that are served and not used: `memory-ci review`."
        " These titles of merged changes find nothing; where such work taught something that the"
        " next should know, note it: `memory-ci add`."
    ),
    "reachability": (
        "Say where an entry comes from: write `source: commit:<sha>` into it by hand,"
        " or `cites` or `relations` (`memory-ci show ID` names the file);"
        " a new one gets it from `memory-ci add --source commit:<sha>`."
        " `memory-ci health` names the entries."
    ),
}
UNINDEXED_ADVICE = "See what is kept out of the index, and why: `memory-ci check`."


class Measurement(NamedTuple):
    """A metric before it is weighed.

    Attributes:
        value: None without data; values outside [0, 100] are clipped when weighed.
        basis: the counts behind the value, in words.
        advice: advice of its own, instead of the metric's usual one.
        missing: titles or ids that the metric lacks, newest first.
        target: the value from which nothing has to be done.
    """

    value: float | None
    basis: str
    advice: str = ""
    missing: tuple[str, ...] = ()
    target: int = LEAST_GREEN


class JobUsage(NamedTuple):
    """Usage of entries by jobs.

    Attributes:
        jobs: how many jobs were served any entry.
        served: how many entries they were served, summed over the jobs.
        used: how many of these they used.
    """

    jobs: int = 0
    served: int = 0
    used: int = 0


def weigh_metrics(
    profile: Profile,
    today: date,
    commit: str | None,
    measurements: Mapping[MetricName, Measurement],
) -> Health:
    """Return the health: all metrics of a profile, and as score their mean by weight.

    There is a score only if every metric has a value. Otherwise a memory with less to measure
    would have a better score.

    Args:
        profile: the metrics and their weights.
        today: the day that counted as today.
        commit: the commit that was measured; None: the work tree, "": before the first commit.
        measurements: the measurement of each metric of the profile.
    """
    weights = WEIGHTS[profile]
    metrics = [_make_metric(name, weight, measurements[name]) for name, weight in weights.items()]
    weighted_values = [
        metric.weight * metric.value for metric in metrics if metric.value is not None
    ]
    is_partial = len(weighted_values) < len(metrics)
    score = None
    if not is_partial:
        score = round(math.fsum(weighted_values) / 100, 1)
    return Health(
        profile=profile,
        today=today,
        commit=commit,
        score=score,
        band=None if score is None else band_of(score),
        is_partial=is_partial,
        metrics=tuple(metrics),
    )


def _make_metric(name: MetricName, weight: int, measurement: Measurement) -> Metric:
    """Return a metric with its value clipped to [0, 100], and advice if it misses its target."""
    value = measurement.value
    advice = ""
    if value is not None:
        value = round(min(100.0, max(0.0, value)), 1)
        if value < measurement.target:
            advice = measurement.advice or ADVICE[name]

    return Metric(
        name=name,
        weight=weight,
        value=value,
        basis=measurement.basis,
        advice=advice,
        missing=measurement.missing,
        target=measurement.target,
    )


def band_of(score: float) -> Band:
    """Return the colour of a score.

    >>> band_of(49.9), band_of(50), band_of(75)
    ('red', 'yellow', 'green')
    """
    if score >= LEAST_GREEN:
        return "green"
    return "yellow" if score >= LEAST_YELLOW else "red"


def parse_source_names(entry: Entry) -> frozenset[str]:
    """Return the names of the changes in an entry's source, as `pr:128` and `commit:3f2ab91`."""
    names = set()
    for match in re.finditer(ORIGIN, entry.source or ""):
        if match["number"]:
            names.add(f"pr:{match['number']}")
        else:
            names.add(f"commit:{match['sha'][:MIN_SHA_WIDTH]}")
    return frozenset(names)


# -- the profile "git"


def score_truth(kinds: Mapping[str, VerdictKind | None]) -> Measurement:
    """Return the share of entries whose cited code is unchanged; a changed entry counts half.

    An entry that cites no code that can be compared counts as 0: it is not known to hold.

    Args:
        kinds: for each entry id, newest first, whether the code that the entry cites is unchanged;
            None where it cites none that can be compared.
    """
    # How many entries are served as fresh, are served with a mark, are withheld, or have no verdict
    # on their code (the key None).
    counts = Counter(SERVED_STATES.get(kind) for kind in kinds.values())
    total = len(kinds)
    unjudged_count = counts[None]
    judged_count = total - unjudged_count
    if not total:
        return Measurement(None, NO_ENTRY)
    if not judged_count:
        return Measurement(None, f"no anchor to judge in {count_entries(total)}")
    if judged_count < LEAST_JUDGED * total:
        return Measurement(
            None, f"only {judged_count} of {count_entries(total)} cite code that can be compared"
        )

    shares = ", ".join(
        f"{state} {counts[state] / total:.0%}" for state in ("fresh", "marked", "withheld")
    )
    basis = f"{shares}, not compared {unjudged_count / total:.0%} of {count_entries(total)}"
    stale_ids = tuple(entry_id for entry_id, kind in kinds.items() if kind in STALE_KINDS)
    value = 100 * (counts["fresh"] + counts["marked"] / 2) / total
    advice = [ADVICE["truth"]] if stale_ids else []
    if unjudged_count:
        advice.append(UNJUDGED_ADVICE)
    return Measurement(value, basis, " ".join(advice), stale_ids)


def score_recency(entries: Sequence[Entry], today: date) -> Measurement:
    """Return the mean recency of entries, in percent.

    The recency of an entry decays with its age from 1 to `DECAY_FLOOR`, where it stays. It is
    scaled here so that an entry at the floor counts 0.
    """
    if not entries:
        return Measurement(None, NO_ENTRY)

    scaled_sum = math.fsum(
        (recency(entry, today) - DECAY_FLOOR) / (1 - DECAY_FLOOR) for entry in entries
    )
    basis = f"mean recency of {count_entries(len(entries))}"
    return Measurement(100 * scaled_sum / len(entries), basis)


def score_coverage(
    judged: int, eligible: int, indexed: int, unindexed: int, no_data_reason: str = ""
) -> Measurement:
    """Return the share of merged changes that were judged, times the share of entries indexed.

    With too few merged changes, the share of entries indexed counts alone.

    Args:
        judged: how many of the eligible changes a run of `record` has read and decided on.
        eligible: how many merged changes of the last 90 days could teach something.
        indexed: how many active entries the index holds.
        unindexed: how many entries it does not hold: unreadable, or withheld as unsafe.
        no_data_reason: why history cannot be read, if it cannot.
    """
    if not indexed and not unindexed:
        return Measurement(None, NO_ENTRY)

    indexed_share = indexed / (indexed + unindexed)
    unindexed_words = f"; {plural(unindexed, 'place')} kept out of the index" if unindexed else ""
    if eligible < LEAST_CHANGES:
        reason = "nothing was merged in the last 90 days that could teach anything"
        if eligible:
            reason = f"only {plural(eligible, 'change')} merged in the last 90 days"
        elif no_data_reason:
            reason = no_data_reason
        # That all entries are indexed says too little for a value.
        indexed_percent = 100 * indexed_share if unindexed else None
        return Measurement(indexed_percent, reason + unindexed_words, UNINDEXED_ADVICE)

    value = 100 * (judged / eligible) * indexed_share
    merged_changes = plural(eligible, "merged change")
    basis = f"{judged} of {merged_changes} of the last 90 days judged{unindexed_words}"
    advice = []
    if judged < eligible:
        advice.append(ADVICE["coverage"])
    if unindexed:
        advice.append(UNINDEXED_ADVICE)
    return Measurement(value, basis, " ".join(advice))


def score_coherence(located_entries: Sequence[Located]) -> Measurement:
    """Return 1 - (near duplicates + contradictions) / entries, in percent."""
    if not located_entries:
        return Measurement(None, NO_ENTRY)

    total = len(located_entries)
    duplicates = count_near_duplicates(located.entry for located in located_entries)
    contradictions = len(list_contradictions(located_entries))
    basis = (
        f"{plural(duplicates, 'near-duplicate pair')} and"
        f" {plural(contradictions, 'open contradiction')} among {count_entries(total)}"
    )
    return Measurement(100 * (1 - (duplicates + contradictions) / total), basis)


def score_efficiency(
    questions: int, unanswered: int, usage: JobUsage, no_data_reason: str = ""
) -> Measurement:
    """Return the share of served entries that the work used, if at least `ENOUGH_JOBS` jobs ran.

    The counts in words also say how many titles of merged changes find no entry when they are
    searched. These do not lower the share: else a memory could raise it by useless entries.

    Args:
        questions: how many titles of merged changes were asked of memory.
        unanswered: how many of them found nothing.
        usage: the use of entries by jobs.
        no_data_reason: the reason if there are no questions.
    """
    if not questions and not usage.served:
        return Measurement(None, no_data_reason, target=USED_TARGET)

    parts = []
    used_percent = None
    if usage.served:
        jobs = plural(usage.jobs, "job")
        served_entries = count_entries(usage.served)
        used_share = usage.used / usage.served
        parts.append(f"{jobs} used {usage.used} of {served_entries} served ({used_share:.0%})")
        if usage.jobs >= ENOUGH_JOBS:
            used_percent = 100 * usage.used / usage.served
    if used_percent is None:
        parts.append(f"fewer than {ENOUGH_JOBS} jobs were served entries")
    if questions:
        titles = plural(questions, "title")
        parts.append(f"{unanswered} of {titles} of merged changes find nothing")
    return Measurement(used_percent, "; ".join(parts), target=USED_TARGET)


def score_reachability(reached: int, total: int) -> Measurement:
    """Return the share of entries with a relation to another one or with evidence that exists."""
    basis = f"{reached} of {count_entries(total)} with a relation or evidence that is there"
    return score_share(reached, total, basis)


def score_share(part: int, total: int, basis: str, advice: str = "") -> Measurement:
    """Return a share in percent; None without a total.

    Args:
        part: how many of the total count.
        total: how many there are.
        basis: the counts in words.
        advice: what to do about a low share, instead of the usual advice of the metric.
    """
    if not total:
        return Measurement(None, NO_ENTRY)
    return Measurement(100 * part / total, basis, advice)


def count_entries(number: int) -> str:
    """Return a number of entries in words: `1 entry`, `2 entries`."""
    return plural(number, "entry")


# Two metrics parse the same entries, and a history does so for each month.
_parse_words = lru_cache(maxsize=16_384)(similarity.parse_entry_words)


def count_near_duplicates(entries: Iterable[Entry]) -> int:
    """Count the pairs of entries with nearly the same words and the same claims.

    Claims are the word pairs in which two similar texts can contradict each other. Of entries
    with equal words, each after the first counts as one pair: a hundred copies are not five
    thousand faults. An entry without words has no duplicates.
    """
    # For each set of claims, how many entries have each set of words.
    counts_by_claims: defaultdict[object, Counter[frozenset[str]]] = defaultdict(Counter)
    for entry in entries:
        words, claims = _parse_words(entry)
        if words:
            counts_by_claims[claims][words] += 1

    pairs = 0
    for word_set_counts in counts_by_claims.values():
        distinct_word_sets = list(word_set_counts)
        copies = word_set_counts.total() - len(distinct_word_sets)
        pairs += copies
        if len(distinct_word_sets) > 1:
            pairs += len(similarity.similar_pairs(distinct_word_sets))
    return pairs


def list_contradictions(located_entries: Sequence[Located]) -> frozenset[frozenset[str]]:
    """Return the pairs of ids of entries that contradict each other and are not settled.

    A contradiction is found in the texts of two entries, or one of them states it in a relation.
    It is settled where one entry supersedes the other.
    """
    pairs = {
        frozenset((contradiction.first.entry.id, contradiction.second.entry.id))
        for contradiction in find_contradictions(located_entries)
    }
    entries = {
        located.entry.id: located.entry
        for located in located_entries
        if located.entry.adoption != "rejected"
    }
    for entry in entries.values():
        for relation in parse_relations(entry):
            is_to_another = relation.id in entries and relation.id != entry.id
            if relation.kind == "contradicts" and is_to_another:
                pairs.add(frozenset((entry.id, relation.id)))
    return frozenset(pair for pair in pairs if not _is_settled(pair, entries))


def _is_settled(pair: frozenset[str], entries: Mapping[str, Entry]) -> bool:
    first_id, second_id = pair
    return second_id in entries[first_id].supersedes or first_id in entries[second_id].supersedes


def find_related(entries: Iterable[Entry], known_ids: Collection[str]) -> frozenset[str]:
    """Return the ids of entries that are related to another entry.

    A relation relates the entries at both its ends. Of an entry that supersedes another one, only
    the newer entry is related: the older one is out of date. Relations of an entry to itself, and
    to ids that never were entries, do not count.

    Args:
        entries: the entries.
        known_ids: ids of entries that exist or once existed.
    """
    related_ids: set[str] = set()
    for entry in entries:
        target_ids = {relation.id for relation in parse_relations(entry)} - {entry.id}
        target_ids.intersection_update(known_ids)
        superseded_ids = set(entry.supersedes) - {entry.id}
        if target_ids or not superseded_ids.isdisjoint(known_ids):
            related_ids.add(entry.id)
            related_ids |= target_ids
    return frozenset(related_ids)


def find_similar_entries(
    entries: Iterable[Entry], threshold: float, wanted_ids: Container[str] | None = None
) -> frozenset[str]:
    """Return the ids of entries whose words are similar to those of another entry.

    Args:
        entries: the entries to compare with.
        threshold: the Jaccard index of the words must be strictly above it.
        wanted_ids: compare only these entries, each with all; None compares all.
    """
    ids_by_words: defaultdict[frozenset[str], list[str]] = defaultdict(list)
    for entry in entries:
        words = _parse_words(entry).words
        if words:
            ids_by_words[words].append(entry.id)

    def is_wanted(entry_id: str) -> bool:
        return wanted_ids is None or entry_id in wanted_ids

    word_sets = list(ids_by_words)
    wanted_indices = [
        index
        for index, words in enumerate(word_sets)
        if any(is_wanted(entry_id) for entry_id in ids_by_words[words])
    ]
    # Entries with equal words are similar; the others are compared.
    similar_word_sets = {words for words, ids in ids_by_words.items() if len(ids) > 1}
    partners = similarity.find_partners(word_sets, wanted_indices, Fraction(str(threshold)))
    for index, partner_indices in partners:
        has_partner = next(partner_indices, None) is not None
        if has_partner:
            similar_word_sets.add(word_sets[index])

    similar_ids: set[str] = set()
    for words in similar_word_sets:
        similar_ids.update(entry_id for entry_id in ids_by_words[words] if is_wanted(entry_id))
    return frozenset(similar_ids)
