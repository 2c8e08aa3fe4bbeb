"""Hypothesis strategies for episodes and amendments with hostile text, and functions that make them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

from hypothesis import strategies as st

from memory_ci.records.episode import (
    Action,
    Amendment,
    Episode,
    Feedback,
    FeedbackKind,
    Outcome,
    ServedEntry,
    Situation,
)
from tests.make import ID

SEPTEMBER = ".memory/episodes/2026-09/_all.md"
WHEN = datetime(2026, 11, 20, 14, 2, 11, tzinfo=UTC)
PATH = ".memory/episodes/2026-11/pr-128.md"

YAML = [
    "---",
    "a\n---\nid: x\n---\n",
    "NO",
    "0123",
    "12:30",
    "null",
    "~",
    "it's",
    '"',
    "a: b",
    "a #b",
    "{",
    "]",
    "- a",
    "&a",
]

ODD = [
    "*a",
    "!t",
    "\x00\x1b[2J\x7f",
    "\x85\u2028",
    "\ufeff",
    "\r\n",
    " ",
    "",
    "<<<<<<< HEAD",
    "at: noon",
    "\U0001f600",
    "?",
]
HOSTILE = st.sampled_from([*YAML, *ODD, "e\u0301", "\\u0041", "a,"])
TEXTS = st.one_of(HOSTILE, st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
TIMES = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - the bounds are bare
SHARES = st.floats(0, 1)
IDS = st.from_regex(r"[a-z0-9][a-z0-9.+-]{0,80}", fullmatch=True)

FEEDBACK = st.builds(
    Feedback,
    id=st.one_of(st.just(ID), TEXTS),
    kind=st.sampled_from(get_args(FeedbackKind)),
    at=TIMES,
    by=TEXTS,
    ref=TEXTS,
)


def tuples(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=3).map(tuple)


EPISODES = st.builds(
    Episode,
    id=IDS,
    occurred_at=TIMES,
    situation=st.builds(Situation, domain=TEXTS, topic=TEXTS, summary=TEXTS),
    context=st.dictionaries(
        st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True), TEXTS, max_size=3
    ),
    retrieved=tuples(
        st.builds(
            ServedEntry,
            id=TEXTS,
            rank=st.integers(0, 10**18 - 1),
            at=TEXTS,
        )
    ),
    used=tuples(TEXTS),
    action=st.builds(
        Action,
        pr=st.one_of(st.none(), st.integers(0, 10**18 - 1)),
        commit=TEXTS,
        files=tuples(TEXTS),
        tools=tuples(TEXTS),
    ),
    outcome=st.sampled_from(get_args(Outcome)),
    valence=SHARES,
    feedback=tuples(FEEDBACK),
    text=TEXTS,
)

AMENDMENTS = st.builds(
    Amendment,
    id=IDS.map(lambda name: f"{name}+0123456789ab"),
    at=TIMES,
    amends=st.one_of(st.just(""), IDS),
    outcome=st.one_of(st.none(), st.sampled_from(get_args(Outcome))),
    valence=st.one_of(st.none(), SHARES),
    feedback=tuples(FEEDBACK),
    text=TEXTS,
)
EPISODE_RECORDS = st.one_of(EPISODES, AMENDMENTS)


def make_episode(name: str = "pr-128", **fields: Any) -> Episode:
    defaults: dict[str, Any] = {"id": name, "occurred_at": WHEN, "situation": Situation()}
    return Episode(**defaults | fields)


def document(**fields: str) -> str:
    """Return an episode's file with some fields of its front matter replaced or added."""
    lines = {
        "id": "pr-128",
        "occurred_at": "'2026-11-20T14:02:11+00:00'",
        "outcome": "success",
    } | fields
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in lines.items()) + "---\nText\n"
