"""Tests of the text of recalled episodes: one line for each, with any content."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from memory_ci.commands.episodes.text import quote_for_agent, render_episodes
from memory_ci.records.episode import Action, Episode, Factor, Recalled, RecalledEpisode, Situation

OCCURRED = datetime(2026, 11, 20, 14, tzinfo=UTC)


def make_recalled(
    episode: Episode, *factors: Factor, likeness: str = "", still: int | None = None
) -> Recalled:
    return Recalled("similar", likeness, (RecalledEpisode(episode, 0.5, factors, still),))


def make_episode(summary: str, text: str = "", **situation: str) -> Episode:
    about = Situation(summary=summary, **situation)
    return Episode(
        id="pr-128",
        occurred_at=OCCURRED,
        situation=about,
        action=Action(files=("a", "b")),
        text=text,
    )


def test_an_episode_has_date_subject_and_outcome() -> None:
    told_episode = make_episode("retry failed charges", domain="payments", topic="retries")
    expected = (
        "pr-128 retry failed charges (2026-11-20, payments: retries, still 1 of 2 files; neutral)\n"
    )
    assert render_episodes(make_recalled(told_episode, still=1)) == expected


@pytest.mark.parametrize(
    ("address", "action", "link"),
    [
        (
            "https://github.com/acme/shop",
            Action(pr=128, commit="9" * 40),
            "https://github.com/acme/shop/pull/128",
        ),
        ("https://gitlab.com/a/b", Action(pr=128), "https://gitlab.com/a/b/-/merge_requests/128"),
        (
            "https://gitlab.com/a/b",
            Action(commit="9" * 40),
            "https://gitlab.com/a/b/-/commit/999999999999",
        ),
        ("https://github.com/acme/shop", Action(), ""),
        ("", Action(pr=128), ""),
    ],
)
def test_number_date_and_link_appear_once(address: str, action: Action, link: str) -> None:
    episode = replace(
        make_episode("Retry failed charges", "Retry failed charges (#128)"), action=action
    )
    rendered = render_episodes(replace(make_recalled(episode), address=address))
    assert rendered == f"pr-128 Retry failed charges (2026-11-20; neutral) {link}".rstrip() + "\n"


def test_facts_from_git_are_below_the_episodes_and_marked() -> None:
    recalled = replace(make_recalled(make_episode("retry")), likeness="tf-idf")
    hit = RecalledEpisode(make_episode("Charge once", "Merged."), 8.0, (Factor("bm25", 8.0),))
    lines = quote_for_agent(replace(recalled, changes=(hit,)), explain=True).splitlines()
    assert lines[4] == "> pr-128 retry (2026-11-20; neutral)"
    assert lines[7:10] == [
        "## From git history, counted now; nobody reviewed these lines",
        "> pr-128 Charge once (2026-11-20; neutral)",
        ">       8.0000 = bm25 8.000",
    ]


def test_files_are_not_spoken_of_where_nobody_looked() -> None:
    assert (
        render_episodes(make_recalled(make_episode("retry")))
        == "pr-128 retry (2026-11-20; neutral)\n"
    )


def test_nothing_moves_the_cursor_or_starts_a_line() -> None:
    hostile = make_episode(
        "a\x1b[2Jb\r\nc", "d\x1b[2Je\nf", domain="\x1b]0;g\x07", topic="h\u202ei"
    )
    lines = render_episodes(make_recalled(hostile), explain=True)
    assert lines.count("\n") == 3
    assert all(line.isprintable() for line in lines.splitlines())


def test_products_and_sums_are_explained_differently() -> None:
    product = make_recalled(
        make_episode("a"), Factor("cosine", 0.5), Factor("outcome", 1.0), likeness="tf-idf"
    )
    total = make_recalled(make_episode("a"), Factor("topic", 1.0, 0.3), Factor("utility", 1.0, 0.2))
    explanations = [
        render_episodes(item, explain=True).splitlines()[1].strip() for item in (product, total)
    ]
    assert explanations == [
        "0.5000 = cosine 0.500 x outcome 1.000 (likeness by tf-idf)",
        "0.5000 = 0.3 x topic 1.000 + 0.2 x utility 1.000",
    ]
