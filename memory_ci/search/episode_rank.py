"""Which episodes answer a question: three rankings, each with its factors (docs/episodes.md, Recall)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from memory_ci.records.entry import NO_FEEDBACK
from memory_ci.records.episode import Episode, Factor, RecalledEpisode
from memory_ci.search.query import idf
from memory_ci.search.similar_tasks import OUTCOMES, count_terms, take_diverse
from memory_ci.text import STOP_WORDS, identifier_parts, words

# The cosine below which an episode has nothing to do with the question. Lower than between tasks: a person asks.
LEAST = 0.18
MAX_SHARE = 0.6  # What a single term may bring of a cosine: one word in common, however rare, makes no likeness.
FEW = 30  # Prompts that there are taken to be at least: with fewer, what one of them says would count as common.
BLANKS = 20  # Blank episodes that are thought beside the others: among a few, no word passes for a common one.
DECAY = 0.1  # T4DM's recency: exp(-0.1 x days), a half after a week.
POOL = 3  # T4DM ranks the nearest: three times as many as are wanted.
WEEK = timedelta(days=7)
DAY = timedelta(days=1)
Near = tuple[Episode, float]  # An episode, and how like the question it is.


def prompt_of(episode: Episode) -> str:
    """The words by which an episode is found."""
    return "\n".join(filter(None, (heading_of(episode), episode.text)))


def heading_of(episode: Episode) -> str:
    situation = episode.situation
    return "\n".join(filter(None, (situation.domain, situation.topic, situation.summary)))


def find_near(query: str, episodes: Sequence[Episode]) -> list[Near]:
    """The episodes that are like the question by TF-IDF cosine, more than by a single word, nearest first."""
    near = [pair for pair in _measure(query, episodes, MAX_SHARE) if pair[1] >= LEAST]
    return sorted(near, key=lambda pair: _order(pair[1], pair[0]))


def find_pool(query: str, episodes: Sequence[Episode]) -> list[Near]:
    """All episodes, nearest first by TF-IDF cosine: what T4DM takes its candidates from."""
    return sorted(_measure(query, episodes, 1.0), key=lambda pair: _order(pair[1], pair[0]))


def rank_similar(
    near: Iterable[Near], still: Mapping[str, int], limit: int
) -> tuple[RecalledEpisode, ...]:
    """The ranking of similar tasks: cosine x outcome x (0.5 + 0.5 x files still there), each saying something new."""
    ranked = []
    for episode, cosine in near:
        files, left = len(episode.action.files), still.get(episode.id, 0)
        factors = (
            Factor("cosine", cosine),
            Factor("outcome", OUTCOMES[episode.outcome]),
            Factor("files", 0.5 + 0.5 * (left / files if files else 1.0)),
        )
        ranked.append(
            RecalledEpisode(episode, math.prod(factor.value for factor in factors), factors, left)
        )
    return tuple(
        take_diverse(
            sorted(ranked, key=lambda hit: _order(hit.score, hit.episode)),
            limit,
            lambda hit: hit.episode.situation.summary,
        )
    )


def rank_mempalace(
    query: str, episodes: Iterable[Episode], utilities: Mapping[str, float], now: datetime
) -> list[RecalledEpisode]:
    """MemPalace's relevance; `utilities` are those of entries. All episodes, best first."""
    asked = _words(query)

    def share(field: str) -> float:
        """The share of the words of a field that the question has; none of none."""
        own = _words(field)
        return len(own & asked) / len(own) if own else 0.0

    return _summed(
        (
            episode,
            (
                Factor("domain", share(episode.situation.domain), 0.3),
                Factor("topic", share(episode.situation.topic), 0.3),
                Factor("utility", find_utility(episode, utilities), 0.2),
                Factor("7 days", float(age_of(episode, now) < WEEK), 0.1),
                Factor("24 hours", float(age_of(episode, now) < DAY), 0.1),
            ),
        )
        for episode in episodes
    )


def rank_t4dm(pool: Iterable[Near], now: datetime) -> list[RecalledEpisode]:
    """T4DM's score of candidates, best first; how like they are is its `semantic`."""
    return _summed(
        (
            episode,
            (
                Factor("semantic", semantic, 0.4),
                Factor("recency", math.exp(-DECAY * (age_of(episode, now) / DAY)), 0.25),
                Factor("outcome", OUTCOMES[episode.outcome], 0.2),
                Factor("valence", episode.valence, 0.15),
            ),
        )
        for episode, semantic in pool
    )


def _summed(weighed: Iterable[tuple[Episode, tuple[Factor, ...]]]) -> list[RecalledEpisode]:
    hits = (
        RecalledEpisode(
            episode, sum((factor.weight or 0.0) * factor.value for factor in factors), factors
        )
        for episode, factors in weighed
    )
    return sorted(hits, key=lambda hit: _order(hit.score, hit.episode))


def find_utility(episode: Episode, utilities: Mapping[str, float]) -> float:
    """The mean utility of the entries that an episode used or was given; 0.5 where it had none."""
    entries = dict.fromkeys([*episode.used, *(given.id for given in episode.retrieved)])
    values = [utilities.get(entry_id, NO_FEEDBACK) for entry_id in entries]
    return sum(values) / len(values) if values else NO_FEEDBACK


def age_of(episode: Episode, now: datetime) -> timedelta:
    """How long ago an episode was; what is yet to come is of this moment."""
    return max(now - episode.occurred_at, timedelta(0))


def _measure(query: str, episodes: Sequence[Episode], max_share: float) -> list[Near]:
    """Each episode with its TF-IDF cosine, that of its heading alone where it is greater: a long text hides no title. 0
    where one word brings more than `max_share` of it."""
    counts = [count_terms(prompt_of(episode)) for episode in episodes]
    df = Counter(term for terms in counts for term in terms)
    total = max(len(counts) + BLANKS, FEW)
    asked = _unit(count_terms(query), df, total)

    def compare(terms: Mapping[str, int]) -> float:
        parts = [
            asked[term] * weight
            for term, weight in _unit(terms, df, total).items()
            if term in asked
        ]
        cosine = sum(parts)
        return cosine if parts and max(parts) <= max_share * cosine else 0.0

    return [
        (episode, max(compare(own), compare(count_terms(heading_of(episode)))))
        for episode, own in zip(episodes, counts, strict=True)
    ]


def _unit(terms: Mapping[str, int], df: Mapping[str, int], total: int) -> dict[str, float]:
    """The vector of length 1 of (1 + log tf) x idf."""
    vector = {
        term: (1 + math.log(count)) * idf(df.get(term, 0), total) for term, count in terms.items()
    }
    length = math.hypot(*vector.values())
    return {term: weight / length for term, weight in vector.items()}


def _words(text: str) -> frozenset[str]:
    return frozenset((*words(text), *identifier_parts(text))) - STOP_WORDS


def _order(score: float, episode: Episode) -> tuple[float, float, str]:
    return -score, -episode.occurred_at.timestamp(), episode.id
