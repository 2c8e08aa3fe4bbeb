"""Helpers that write the episodes of a project, and recall them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memory_ci.commands.episodes.recall import RecallQuery, recall_episodes
from memory_ci.records.episode import Amendment, Episode, Recalled, Situation
from memory_ci.store.episodes import episode_record_path, format_episode_record
from tests.project import NOW, Project

RETRY = "Retry failed charges in the payments client"
ASK = "retry failed charges of payments"
MERGED = datetime(2026, 1, 10, 9, tzinfo=UTC)


def make_episode(name: str = "pr-128", summary: str = RETRY, **fields: Any) -> Episode:
    defaults: dict[str, Any] = {"occurred_at": MERGED, "situation": Situation(summary=summary)}
    return Episode(id=name, **defaults | fields)


def tell(shop: Project, *tellings: Episode | Amendment) -> str:
    """Commit episode files."""
    return shop.commit(
        "Tell",
        {episode_record_path(episode): format_episode_record(episode) for episode in tellings},
    )


def recall(shop: Project, query: str = ASK, **options: Any) -> Recalled:
    environ = options.pop("environ", None)
    return recall_episodes(shop.workspace, RecallQuery(query, **{"now": NOW} | options), environ)


def names(recalled: Recalled) -> list[str]:
    return [hit.episode.id for hit in recalled.hits]


def factors(recalled: Recalled) -> dict[str, float]:
    return {factor.name: factor.value for factor in recalled.hits[0].factors}
