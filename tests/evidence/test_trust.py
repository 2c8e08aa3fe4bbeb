"""Tests of trust, which depends on the author of the words."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from memory_ci.evidence.trust import classify_trust, is_author
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import Actor, EventKind, Trust
from tests.evidence.make import make_event

BOTS = ExtractionConfig().bot_authors


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
    assert (classify_trust(make_event(author=author), ["*"], BOTS) == "T3") is is_bot


def test_a_trusted_authors_commit_is_the_most_trusted() -> None:
    assert classify_trust(make_event(), ["*@example.com"], BOTS) == "T0"
    assert classify_trust(make_event(), ["someone else"], BOTS) == "T1"


def test_a_humans_words_outside_the_branch_are_quotable_only() -> None:
    assert classify_trust(make_event(kind="text"), ["*"], BOTS) == "T1"


@pytest.mark.parametrize(
    ("actor", "expected"),
    [("agent", "T2"), ("subagent", "T2"), ("tool", "T3"), ("injected", "T3"), ("bot", "T3")],
)
def test_words_of_bots_and_agents_are_never_quotable(actor: Actor, expected: str) -> None:
    assert classify_trust(make_event(actor=actor), ["*"], BOTS) == expected


BY_KIND: dict[EventKind, tuple[Trust, Trust]] = {
    "commit": ("T0", "T1"),
    "adr": ("T0", "T1"),
    "review": ("T1", "T1"),
    "pr": ("T1", "T1"),
    "check": ("T1", "T1"),
    "diff": ("T1", "T1"),
    "entry": ("T1", "T1"),
    "tool_call": ("T1", "T1"),
    "tool_result": ("T1", "T1"),
    "compaction": ("T2", "T2"),
    "text": ("T1", "T3"),
    "rejection": ("T1", "T3"),
    "interrupt": ("T1", "T3"),
    "intent": ("T1", "T3"),
    "premortem": ("T1", "T3"),
    "assumption": ("T1", "T3"),
    "intervention": ("T1", "T3"),
}
"""The trust in a person's words inside the repository, by event kind: of a trusted author, and of another."""

BY_ACTOR: dict[Actor, Trust] = {
    "agent": "T2",
    "subagent": "T2",
    "tool": "T3",
    "system": "T3",
    "injected": "T3",
    "bot": "T3",
}


def expected(actor: Actor, kind: EventKind, is_outside: bool, is_trusted: bool) -> Trust:
    if is_outside:
        return "T3"
    if actor == "human":
        return BY_KIND[kind][0 if is_trusted else 1]
    return "T2" if kind == "compaction" and actor != "bot" else BY_ACTOR[actor]


def test_each_actor_kind_and_origin_has_its_trust_tier() -> None:
    sides = (False, True)
    for actor, kind, is_outside, is_trusted in product(
        get_args(Actor), get_args(EventKind), sides, sides
    ):
        event = make_event("fix\n\n/remember x", actor=actor, kind=kind, is_outside=is_outside)
        trust = classify_trust(event, ["*@example.com"] if is_trusted else ["nobody"], BOTS)
        assert trust == expected(actor, kind, is_outside, is_trusted), (
            actor,
            kind,
            is_outside,
            is_trusted,
        )


@pytest.mark.parametrize(
    ("text", "permission", "trusted", "expected_trust"),
    [
        ("/remember never retry a POST", "write", "*", "T0"),
        ("Nice.\n\n  /remember never retry a POST", "write", "*", "T0"),
        ("/remember never retry a POST", "unknown", "*", "T1"),
        ("/remember never retry a POST", "write", "ada", "T1"),
        ("/remember", "write", "*", "T1"),
        ("> /remember never retry a POST", "write", "*", "T1"),
        ("please /remember never retry a POST", "write", "*", "T1"),
        ("never retry a POST", "write", "*", "T1"),
    ],
)
def test_remember_in_a_review_counts_by_a_trusted_person_with_write_access(
    text: str, permission: str, trusted: str, expected_trust: Trust
) -> None:
    event = make_event(text, kind="review", author="bea", labels=(("permission", permission),))
    assert classify_trust(event, [trusted], BOTS) == expected_trust


def test_a_commit_in_a_transcript_has_the_trust_of_a_turn() -> None:
    event = make_event("fix: x\n\nDirective: obey", session="aider:1")
    assert classify_trust(event, ["*"], BOTS) == "T1"
    assert classify_trust(event, ["nobody"], BOTS) == "T3"
