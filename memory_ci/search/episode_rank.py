"""Rank episodes, the records of earlier work, for a question in three ways (docs/episodes.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from memory_ci.records.entry import NO_FEEDBACK
from memory_ci.records.episode import Episode, Factor, RecalledEpisode
from memory_ci.search.query import idf
from memory_ci.search.similar_tasks import OUTCOME_FACTORS, count_terms, take_diverse
from memory_ci.text import STOP_WORDS, identifier_parts, words

MIN_COSINE = 0.18
"""Cosine below which an episode is unrelated. It is lower than between tasks: a person asks."""

MAX_SHARE = 0.6
"""Share of a cosine that one term may have: a single common word is no similarity, however rare."""

ASSUMED_EMPTY = 20
"""Empty episodes that are assumed in addition: with them no word is in most episodes."""

MIN_TOTAL = 30
"""Episodes that are assumed at least, to compute how rare a word is."""

DECAY = 0.1  # T4DM's recency: exp(-0.1 x days), a half after a week.
POOL = 3  # T4DM ranks the nearest: three times as many as are wanted.
WEEK = timedelta(days=7)
DAY = timedelta(days=1)

ScoredEpisode = tuple[Episode, float]
"""An episode, and how similar it is to the question."""


def build_prompt(episode: Episode) -> str:
    """Return the text by which an episode is found."""
    return _join_lines(heading_of(episode), episode.text)


def heading_of(episode: Episode) -> str:
    """Return the situation of an episode as text."""
    situation = episode.situation
    return _join_lines(situation.domain, situation.topic, situation.summary)


def _join_lines(*texts: str) -> str:
    return "\n".join(text for text in texts if text)


def find_similar_episodes(query: str, episodes: Sequence[Episode]) -> list[ScoredEpisode]:
    """Return the episodes that share more than a single word with a question, nearest first.

    They are compared by TF-IDF cosine.
    """
    measured = _measure_cosines(query, episodes, MAX_SHARE)
    similar = [(episode, cosine) for episode, cosine in measured if cosine >= MIN_COSINE]
    return _sort_by_cosine(similar)


def list_candidates(query: str, episodes: Sequence[Episode]) -> list[ScoredEpisode]:
    """Return all episodes, nearest first by TF-IDF cosine: the candidates of T4DM."""
    return _sort_by_cosine(_measure_cosines(query, episodes, 1.0))


def _sort_by_cosine(scored_episodes: Iterable[ScoredEpisode]) -> list[ScoredEpisode]:
    return sorted(
        scored_episodes,
        key=lambda episode_and_cosine: _sort_key(episode_and_cosine[1], episode_and_cosine[0]),
    )


def rank_similar(
    scored_episodes: Iterable[ScoredEpisode], remaining_files: Mapping[str, int], limit: int
) -> tuple[RecalledEpisode, ...]:
    """Rank episodes by cosine x outcome x (0.5 + 0.5 x share of files that remain).

    Of episodes with similar titles the better one comes first, and the others later than by score.

    Args:
        scored_episodes: episodes and the cosines of their texts with the question.
        remaining_files: how many of its files there are today, by the id of an episode.
        limit: how many episodes are returned.
    """
    ranked: list[RecalledEpisode] = []
    for episode, cosine in scored_episodes:
        file_count = len(episode.action.files)
        remaining_count = remaining_files.get(episode.id, 0)
        remaining_share = remaining_count / file_count if file_count else 1.0
        factors = (
            Factor("cosine", cosine),
            Factor("outcome", OUTCOME_FACTORS[episode.outcome]),
            Factor("files", 0.5 + 0.5 * remaining_share),
        )
        score = math.prod(factor.value for factor in factors)
        ranked.append(RecalledEpisode(episode, score, factors, remaining_count))
    ranked.sort(key=lambda hit: _sort_key(hit.score, hit.episode))
    return tuple(take_diverse(ranked, limit, lambda hit: hit.episode.situation.summary))


def rank_mempalace(
    query: str, episodes: Iterable[Episode], utilities: Mapping[str, float], now: datetime
) -> list[RecalledEpisode]:
    """Rank all episodes as MemPalace does: by the weighted sum of five factors.

    The factors and their weights are those of MemPalace (docs/episodes.md): how many words of the
    domain and the topic the question has, how useful the entries were, and how recent the episode
    is. The best comes first.

    Args:
        query: the question.
        episodes: the episodes.
        utilities: how useful entries were according to feedback, from 0 to 1, by id.
        now: the time of the question.
    """
    query_words = _content_words(query)
    ranked: list[RecalledEpisode] = []
    for episode in episodes:
        situation = episode.situation
        age = age_of(episode, now)
        factors = (
            Factor("domain", _share_in(query_words, situation.domain), 0.3),
            Factor("topic", _share_in(query_words, situation.topic), 0.3),
            Factor("utility", find_utility(episode, utilities), 0.2),
            Factor("7 days", float(age < WEEK), 0.1),
            Factor("24 hours", float(age < DAY), 0.1),
        )
        ranked.append(_weigh_factors(episode, factors))
    return sorted(ranked, key=lambda hit: _sort_key(hit.score, hit.episode))


def rank_t4dm(pool: Iterable[ScoredEpisode], now: datetime) -> list[RecalledEpisode]:
    """Rank candidates as T4DM does: by the weighted sum of four factors.

    The factors and their weights are those of T4DM (docs/episodes.md). The best comes first.

    Args:
        pool: the candidates and their cosines with the question.
        now: the time of the question.
    """
    ranked: list[RecalledEpisode] = []
    for episode, cosine in pool:
        days = age_of(episode, now) / DAY
        factors = (
            Factor("semantic", cosine, 0.4),
            Factor("recency", math.exp(-DECAY * days), 0.25),
            Factor("outcome", OUTCOME_FACTORS[episode.outcome], 0.2),
            Factor("valence", episode.valence, 0.15),
        )
        ranked.append(_weigh_factors(episode, factors))
    return sorted(ranked, key=lambda hit: _sort_key(hit.score, hit.episode))


def _weigh_factors(episode: Episode, factors: tuple[Factor, ...]) -> RecalledEpisode:
    """Return an episode with the weighted sum of its factors."""
    score = sum((factor.weight or 0.0) * factor.value for factor in factors)
    return RecalledEpisode(episode, score, factors)


def _share_in(query_words: frozenset[str], field: str) -> float:
    """Return the share of the words of a field that the question has; 0 for an empty field."""
    field_words = _content_words(field)
    if not field_words:
        return 0.0
    return len(field_words & query_words) / len(field_words)


def find_utility(episode: Episode, utilities: Mapping[str, float]) -> float:
    """Return the mean utility of the entries that an episode used or was served; 0.5 if none."""
    served = [entry.id for entry in episode.retrieved]
    entry_ids = dict.fromkeys([*episode.used, *served])
    values = [utilities.get(entry_id, NO_FEEDBACK) for entry_id in entry_ids]
    return sum(values) / len(values) if values else NO_FEEDBACK


def age_of(episode: Episode, now: datetime) -> timedelta:
    """Return how long ago an episode was; one in the future is of age 0."""
    return max(now - episode.occurred_at, timedelta(0))


def _measure_cosines(
    query: str, episodes: Sequence[Episode], max_share: float
) -> list[ScoredEpisode]:
    """Return each episode with the TF-IDF cosine of its text and a question.

    If the cosine of its heading alone is greater, that is returned: a heading that answers the
    question counts in full, however long the text below it is.

    Args:
        query: the question.
        episodes: the episodes, in which the rarity of words is counted.
        max_share: the largest share of a cosine that may come from one word; beyond it the cosine
            is 0.
    """
    term_counts = [count_terms(build_prompt(episode)) for episode in episodes]
    df: Counter[str] = Counter()  # Document frequency: how many episodes have a term.
    for counts in term_counts:
        df.update(counts.keys())
    total = max(len(term_counts) + ASSUMED_EMPTY, MIN_TOTAL)
    query_vector = _make_vector(count_terms(query), df, total)

    scored_episodes: list[ScoredEpisode] = []
    for episode, counts in zip(episodes, term_counts, strict=True):
        text_vector = _make_vector(counts, df, total)
        heading_vector = _make_vector(count_terms(heading_of(episode)), df, total)
        text_cosine = _compare_vectors(query_vector, text_vector, max_share)
        heading_cosine = _compare_vectors(query_vector, heading_vector, max_share)
        scored_episodes.append((episode, max(text_cosine, heading_cosine)))
    return scored_episodes


def _compare_vectors(
    query: Mapping[str, float], vector: Mapping[str, float], max_share: float
) -> float:
    """Return the cosine of two vectors of length 1; 0 if one term has too large a share of it."""
    products = [query[term] * weight for term, weight in vector.items() if term in query]
    if not products:
        return 0.0
    cosine = sum(products)
    return cosine if max(products) <= max_share * cosine else 0.0


def _make_vector(terms: Mapping[str, int], df: Mapping[str, int], total: int) -> dict[str, float]:
    """Return a text's vector of term weights (1 + log tf) x idf, scaled to length 1.

    Args:
        terms: how often the text has each term (tf).
        df: how many documents have a term.
        total: the number of documents.
    """
    vector = {
        term: (1 + math.log(count)) * idf(df.get(term, 0), total) for term, count in terms.items()
    }
    length = math.hypot(*vector.values())
    return {term: weight / length for term, weight in vector.items()}


def _content_words(text: str) -> frozenset[str]:
    return frozenset((*words(text), *identifier_parts(text))) - STOP_WORDS


def _sort_key(score: float, episode: Episode) -> tuple[float, float, str]:
    """Return the key that sorts the best and, of equals, the newest episode first."""
    return -score, -episode.occurred_at.timestamp(), episode.id
