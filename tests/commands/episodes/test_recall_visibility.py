"""Tests of recall: the state at an earlier time, and the episodes that each session may read."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from memory_ci.commands.episodes.recall import RecallQuery, recall_episodes
from memory_ci.errors import RepositoryError
from memory_ci.lifecycle.episodes import make_amendment
from memory_ci.memory.workspace import open_workspace
from tests.commands.episodes.episodes_at_work import ASK, factors, make_episode, names, recall, tell
from tests.project import NOW, Project
from tests.repos import START

# -- time


def test_recall_at_a_moment_finds_only_episodes_of_the_branch_at_that_time(shop: Project) -> None:
    before = shop.sha()
    tell(shop, make_episode())
    shop.at(START + timedelta(days=3)).commit("Later")
    assert recall(shop, at=before).hits == ()
    assert names(recall(shop, at="2026-01-05")) == ["pr-128"]
    assert recall(shop, at="2026-01-04").hits == ()
    assert recall(shop, at="2026-01-04").notes == (
        "There was no commit yet on 2026-01-04, and no memory.",
    )


def test_recall_as_of_a_moment_ignores_later_amendments_and_ranks_as_of_then(shop: Project) -> None:
    tell(shop, make_episode(outcome="success", occurred_at=START))
    shop.at(START + timedelta(days=9))
    tell(shop, make_amendment(START, "pr-128", outcome="failure"))
    then, today = recall(shop, at="2026-01-06", ranking="t4dm"), recall(shop, ranking="t4dm")
    assert (factors(then)["outcome"], factors(today)["outcome"]) == (1.2, 0.8)
    assert factors(then)["recency"] > 0.8 > factors(today)["recency"]


def test_recall_as_of_a_moment_is_exact_to_the_second(shop: Project) -> None:
    tell(shop, make_episode())
    committed = datetime.fromisoformat(shop.git("log", "-1", "--format=%cI"))
    assert names(recall(shop, now=committed, at=committed)) == ["pr-128"]
    assert recall(shop, now=committed, at=committed - timedelta(seconds=1)).hits == ()
    assert "no commit yet" in recall(shop, at=START - timedelta(days=9)).notes[0]


def test_recall_distinguishes_when_an_episode_occurred_and_when_it_was_recorded(
    shop: Project,
) -> None:
    tell(shop, make_episode(occurred_at=datetime(2025, 6, 1, 23, 30, tzinfo=UTC)))
    inside, outside = (date(2025, 6, 1), date(2025, 6, 1)), (date(2025, 6, 2), date(2026, 6, 1))
    assert names(recall(shop, occurred=inside, at="HEAD")) == ["pr-128"]
    assert recall(shop, occurred=outside).hits == ()


def test_a_shallow_clone_cannot_answer_for_the_past(shop: Project, tmp_path: Path) -> None:
    shop.at(START + timedelta(days=9)).commit("Later")
    shop.git("clone", "-q", "--depth=1", f"file://{shop.path}", str(tmp_path / "clone"))
    with pytest.raises(RepositoryError) as raised:
        recall_episodes(open_workspace(tmp_path / "clone"), RecallQuery(ASK, NOW, at="2026-01-06"))
    assert raised.value.slug == "shallow-clone"


# -- who may see what


def test_an_episode_of_a_session_is_seen_by_that_session_alone(shop: Project) -> None:
    tell(shop, make_episode("own", context={"session": "job-7"}))
    assert recall(shop).hits == ()
    assert recall(shop, session="job-8").hits == ()
    assert names(recall(shop, session="job-7")) == ["own"]
    assert names(recall(shop, all_sessions=True)) == ["own"]
    assert recall(shop, now=NOW, at=NOW).hits == ()


def test_only_episodes_with_the_chosen_outcomes_are_recalled(shop: Project) -> None:
    tell(shop, make_episode("bad", outcome="failure"), make_episode("good", outcome="success"))
    assert names(recall(shop, outcomes=["failure"])) == ["bad"]
