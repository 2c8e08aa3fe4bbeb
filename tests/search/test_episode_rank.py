"""Tests of ranking episodes: each score follows its documented formula, and every factor is shown."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.episode import Action, Episode, RecalledEpisode, ServedEntry, Situation
from memory_ci.search.episode_rank import (
    MIN_COSINE,
    find_similar_episodes,
    find_utility,
    list_candidates,
    rank_mempalace,
    rank_similar,
    rank_t4dm,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
RETRY = "Retry failed charges in the payments client"
ASK = "retry failed charges of payments"


def make_episode(
    name: str = "pr-1",
    summary: str = RETRY,
    *,
    domain: str = "",
    topic: str = "",
    days: float = 30,
    **fields: Any,
) -> Episode:
    """Return an episode that happened some days ago."""
    situation = Situation(domain=domain, topic=topic, summary=summary)
    return Episode(id=name, occurred_at=NOW - timedelta(days=days), situation=situation, **fields)


def recall_similar(
    *episodes: Episode, query: str = ASK, limit: int = 10, **still: int
) -> list[RecalledEpisode]:
    """Return the episodes that are similar to a query, in order."""
    return list(rank_similar(find_similar_episodes(query, episodes), still, limit))


def factors(hit: RecalledEpisode) -> dict[str, float]:
    return {factor.name: factor.value for factor in hit.factors}


def names(hits: list[RecalledEpisode]) -> list[str]:
    return [hit.episode.id for hit in hits]


# -- similar


def test_a_similar_episode_is_found_among_others() -> None:
    other_episode = make_episode("pr-2", "Add a dark theme to the settings page")
    assert names(recall_similar(make_episode(), other_episode)) == ["pr-1"]


def test_a_single_episode_is_found_without_word_frequencies() -> None:
    assert names(recall_similar(make_episode())) == ["pr-1"]


@pytest.mark.parametrize("query", ["translate the manual into French", "", "the of and", "client"])
def test_an_unrelated_query_finds_nothing(query: str) -> None:
    assert recall_similar(make_episode(), query=query) == []


def test_domain_topic_and_text_of_an_episode_are_searched() -> None:
    episode = make_episode(
        summary="Mend it", domain="ledger", topic="rounding", text="Cents were lost."
    )
    assert recall_similar(episode, query="the rounding of cents in the ledger")


def test_successful_episodes_rank_above_partial_and_failed_ones() -> None:
    episodes = [
        make_episode(outcome, outcome=outcome)
        for outcome in ("failure", "neutral", "partial", "success")
    ]
    hits = recall_similar(*episodes)
    assert [factors(hit)["outcome"] for hit in hits] == [1.2, 1.0, 1.0, 0.8]
    assert names(hits)[0] == "success"


def test_an_episode_whose_files_are_gone_counts_half() -> None:
    action = Action(files=("a.py", "b.py"))
    gone, present = make_episode("gone", action=action), make_episode("there", action=action)
    hits = recall_similar(gone, present, there=2)
    assert [(hit.episode.id, factors(hit)["files"]) for hit in hits] == [
        ("there", 1.0),
        ("gone", 0.5),
    ]


def test_the_second_result_differs_from_the_first() -> None:
    twin = make_episode("twin", f"{RETRY} again")
    other_episode = make_episode("other", "Refund failed charges in the payments worker")
    query = "retry failed charges in payments: client or worker"
    assert names(recall_similar(make_episode(), twin, other_episode, query=query, limit=2)) == [
        "pr-1",
        "other",
    ]


def test_a_score_is_the_product_of_its_factors() -> None:
    (hit,) = recall_similar(make_episode(outcome="failure"))
    assert hit.score == pytest.approx(math.prod(factors(hit).values()))
    assert factors(hit)["cosine"] >= MIN_COSINE


# -- MemPalace


def recall_relevant(
    *episodes: Episode, query: str = ASK, **utilities: float
) -> list[RecalledEpisode]:
    """Return all episodes in the order of their relevance to a query."""
    return rank_mempalace(query, episodes, utilities, NOW)


def test_relevance_is_the_sum_of_the_formula_of_mempalace() -> None:
    (hit,) = recall_relevant(
        make_episode(domain="payments", topic="retry policy", days=3, used=("a",)), a=0.9
    )
    assert factors(hit) == {
        "domain": 1.0,
        "topic": 0.5,
        "utility": 0.9,
        "7 days": 1.0,
        "24 hours": 0.0,
    }
    assert hit.score == pytest.approx(0.3 * 1 + 0.3 * 0.5 + 0.2 * 0.9 + 0.1)


@pytest.mark.parametrize(
    ("days", "expected"),
    [(0, (1, 1)), (0.99, (1, 1)), (1, (1, 0)), (6.99, (1, 0)), (7, (0, 0)), (-5, (1, 1))],
)
def test_recent_means_less_than_seven_days_and_less_than_one(
    days: float, expected: tuple[int, int]
) -> None:
    factor_of = factors(recall_relevant(make_episode(days=days))[0])
    assert (factor_of["7 days"], factor_of["24 hours"]) == expected


def test_identifiers_of_a_domain_are_matched_by_their_parts() -> None:
    (hit,) = recall_relevant(make_episode(domain="src/payments"), query="payments")
    assert 0 < factors(hit)["domain"] < 1


def test_an_episode_whose_entries_proved_useful_comes_first() -> None:
    good, bad = make_episode("good", used=("a",)), make_episode("bad", used=("b",), days=29)
    assert names(recall_relevant(bad, good, a=0.9, b=0.1)) == ["good", "bad"]


def test_utility_is_the_mean_over_used_and_served_entries_each_once() -> None:
    episode = make_episode(
        used=("a",), retrieved=(ServedEntry(id="a"), ServedEntry(id="b"), ServedEntry(id="c"))
    )
    assert find_utility(episode, {"a": 0.9, "b": 0.1}) == pytest.approx((0.9 + 0.1 + 0.5) / 3)
    assert find_utility(make_episode(), {"a": 0.9}) == 0.5


# -- T4DM


def test_the_score_is_the_sum_of_the_formula_of_t4dm() -> None:
    (hit,) = rank_t4dm([(make_episode(outcome="success", valence=0.9, days=10), 0.6)], NOW)
    assert factors(hit) == {
        "semantic": 0.6,
        "recency": pytest.approx(math.exp(-1)),
        "outcome": 1.2,
        "valence": 0.9,
    }
    assert hit.score == pytest.approx(0.4 * 0.6 + 0.25 * math.exp(-1) + 0.2 * 1.2 + 0.15 * 0.9)


def test_a_future_episode_has_age_zero() -> None:
    (hit,) = rank_t4dm([(make_episode(days=-100), 0.0)], NOW)
    assert factors(hit)["recency"] == 1.0


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"outcome": "success"}, {"outcome": "failure"}),
        ({"valence": 0.9}, {"valence": 0.1}),
        ({"days": 1}, {"days": 9}),
    ],
    ids=["outcome", "valence", "age"],
)
def test_each_part_of_the_score_affects_the_order(
    better: dict[str, Any], worse: dict[str, Any]
) -> None:
    pool = [(make_episode("a", **worse), 0.5), (make_episode("b", **better), 0.5)]
    assert names(rank_t4dm(pool, NOW)) == ["b", "a"]


def test_the_candidates_are_all_episodes_most_similar_first() -> None:
    other_episode = make_episode("pr-2", "Add a dark theme", days=1)
    pool = list_candidates("charges", [other_episode, make_episode()])
    assert [(episode.id, cosine > 0) for episode, cosine in pool] == [
        ("pr-1", True),
        ("pr-2", False),
    ]


# -- order


def test_equal_scores_are_ordered_by_age_and_then_id() -> None:
    episodes = [make_episode("b"), make_episode("a"), make_episode("new", days=29)]
    assert names(recall_relevant(*episodes)) == ["new", "a", "b"]
    assert names(rank_t4dm([(make_episode("b"), 0.1), (make_episode("a"), 0.1)], NOW)) == ["a", "b"]
    assert [episode.id for episode, _ in list_candidates("", episodes)] == ["new", "a", "b"]


SUMMARIES = [
    RETRY,
    "Retry charges of payments twice",
    "Failed payments",
    "Dark theme",
    "Retry of failed payments",
]


@given(
    st.permutations([make_episode(f"pr-{number}", text) for number, text in enumerate(SUMMARIES)])
)
def test_the_order_of_reading_episodes_does_not_matter(episodes: list[Episode]) -> None:
    expected = [make_episode(f"pr-{number}", text) for number, text in enumerate(SUMMARIES)]
    assert list_candidates(ASK, episodes) == list_candidates(ASK, expected)
    assert names(recall_similar(*episodes)) == names(recall_similar(*expected))
    assert names(recall_relevant(*episodes)) == names(recall_relevant(*expected))
