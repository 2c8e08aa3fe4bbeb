"""Trust goes by who wrote the words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory_ci.evidence.trust import is_author, tier
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import Actor, Event, EventKind, Origin

BOTS = ExtractionConfig().bot_authors


def make_event(author: str = "Ada <ada@example.com>", actor: Actor = "human", kind: EventKind = "commit") -> Event:
    return Event(
        seq=0,
        at=datetime(2026, 9, 1, tzinfo=UTC),
        actor=actor,
        kind=kind,
        text="x",
        origin=Origin("commit", "a" * 40),
        author=author,
    )


@pytest.mark.parametrize(
    ("author", "is_bot"),
    [
        ("dependabot[bot] <49699333+dependabot[bot]@users.noreply.github.com>", True),
        ("pre-commit-ci[bot] <x@users.noreply.github.com>", True),
        ("Renovate Bot <bot@renovateapp.com>", True),
        ("github-actions <actions@github.com>", True),
        ("Bob Otto <bob@example.com>", False),
        ("Robot Wieland <tobto@example.com>", False),
    ],
)
def test_brackets_in_author_patterns_are_brackets(author: str, is_bot: bool) -> None:
    assert is_author(author, BOTS) is is_bot
    assert (tier(make_event(author), ["*"], BOTS) == "T3") is is_bot


def test_a_trusted_authors_commit_is_the_most_trusted() -> None:
    assert tier(make_event(), ["*@example.com"], BOTS) == "T0"
    assert tier(make_event(), ["someone else"], BOTS) == "T1"


def test_a_humans_words_outside_the_branch_are_quotable_only() -> None:
    assert tier(make_event(kind="text"), ["*"], BOTS) == "T1"


@pytest.mark.parametrize(
    ("actor", "expected"), [("agent", "T2"), ("subagent", "T2"), ("tool", "T3"), ("injected", "T3"), ("bot", "T3")]
)
def test_who_is_not_human_is_never_quotable(actor: Actor, expected: str) -> None:
    assert tier(make_event(actor=actor), ["*"], BOTS) == expected
