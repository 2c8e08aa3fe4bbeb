"""Tests of held-out sessions: they are served nothing; the log, the trailer and the episode say so."""

from __future__ import annotations

import pytest

from memory_ci.commands.retrieve.retrieve import list_noted_ids, list_served_ids
from memory_ci.memory.episodes import load_episodes
from memory_ci.records.episode import Episode
from memory_ci.sessions.served_ids import add_served_trailer, record_served
from memory_ci.sessions.session_note import (
    HELD_OUT_LINE,
    hash_session_id,
    is_held_out,
    list_served_fingerprints,
    note_served,
)
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import NOW, Project

ASKED = "charge a card again"
HELD, OTHER = "s5", "s1"


@pytest.fixture
def shop(project: Project) -> Project:
    memory = format_entry(make_entry(1, title="Charge a card once", body="Use a key."))
    project.commit(
        "Remember", {"MEMORY.md": memory, ".memory-ci.yaml": "retrieve:\n  holdout: 0.5\n"}
    )
    return project


def test_the_configured_share_of_sessions_is_held_out_for_good() -> None:
    marks = [hash_session_id(f"session-{number}") for number in range(4000)]
    assert sum(is_held_out(mark, 0.1) for mark in marks) == pytest.approx(400, abs=60)
    assert all(is_held_out(mark, 0.2) for mark in marks if is_held_out(mark, 0.1))
    assert hash_session_id("claude-code:abc") == hash_session_id("abc")
    assert not any(is_held_out(mark, 0.0) for mark in marks)


def test_a_held_out_session_is_served_nothing(shop: Project) -> None:
    held = shop.retrieve(ASKED, session=HELD)
    assert (list_served_ids(held), held.hints.changes, held.held_out) == (
        (),
        (),
        hash_session_id(HELD),
    )
    assert list_served_ids(shop.retrieve(ASKED, session=HELD, about="MEMORY.md")) == ()
    for shown in (
        {"session": OTHER},
        {},
        {"session": HELD, "all_matches": True},
        {"session": HELD, "at": "HEAD"},
    ):
        assert list_served_ids(shop.retrieve(ASKED, **shown)) == (make_id(1),)


def test_off_by_default(shop: Project) -> None:
    shop.commit("No holdout", {".memory-ci.yaml": "{}\n"})
    assert list_served_ids(shop.retrieve(ASKED, session=HELD)) == (make_id(1),)


def test_a_held_out_session_is_noted_in_its_log_the_trailer_and_the_episode(shop: Project) -> None:
    start = shop.git("rev-parse", "HEAD").strip()
    for _ in range(2):
        answer = shop.retrieve(ASKED, session=HELD)
        note_served(shop.workspace, HELD, answer, NOW)
        record_served(shop.workspace, list_noted_ids(answer), NOW)
    assert list_served_fingerprints(shop.workspace, HELD) == {HELD_OUT_LINE}
    message = shop.write("msg", "fix: charge once\n")
    assert add_served_trailer(shop.workspace, message)
    assert message.read_text() == f"fix: charge once\n\nMemory-Holdout: {hash_session_id(HELD)}\n"
    text = message.read_text()
    message.unlink()
    shop.commit(text, {"src/client.py": "key = 1\n"})
    shop.record(since=start)
    episodes = [
        episode
        for episode in load_episodes(shop.workspace, None).records
        if isinstance(episode, Episode)
    ]
    assert [item.context.get("holdout") for item in episodes] == [hash_session_id(HELD)]
    assert episodes[0].retrieved == ()
