"""Tests of the session note: entries are not served again to a session before they change."""

from __future__ import annotations

import os

import pytest

from memory_ci.anchors.anchors import format_anchor
from memory_ci.commands.retrieve.retrieve import list_served_ids
from memory_ci.records.anchor import Anchor
from memory_ci.sessions.session_note import (
    get_note_path,
    list_served_fingerprints,
    note_cleared,
    note_served,
)
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import NOW, Project

ASKED = "charge a card again"


@pytest.fixture
def shop(project: Project) -> Project:
    """Return a project with two entries that one task finds, and a norm."""
    entries = [
        make_entry(1, title="Charge a card once", body="Use a key."),
        make_entry(2, title="Charge a card late"),
    ]
    norm = format_entry(make_entry(3, title="Never push to main", body=""))
    project.commit(
        "Remember", {"MEMORY.md": "\n".join(map(format_entry, entries)), "institutional.md": norm}
    )
    return project


def retrieve_ids(shop: Project, **options: object) -> tuple[str, ...]:
    """Return the ids that a session is served, which its note records."""
    answer = shop.retrieve(ASKED, **{"session": "s1", **options})
    note_served(shop.workspace, str(options.get("session", "s1")), answer, NOW)
    return list_served_ids(answer)


def test_a_session_gets_each_entry_once_and_another_session_gets_all(shop: Project) -> None:
    everything = {make_id(1), make_id(2), make_id(3)}
    assert set(retrieve_ids(shop)) == everything
    assert retrieve_ids(shop) == ()
    assert set(retrieve_ids(shop, session="s2")) == everything
    assert set(retrieve_ids(shop, all_matches=True)) == everything
    assert set(list_served_ids(shop.retrieve(ASKED))) == everything, (
        "without a session nothing is held back"
    )
    second_retrieval = shop.retrieve(ASKED, session="s1")
    assert second_retrieval.known_count == 3
    assert "This session was served 3 entries before; `--all` shows them." in second_retrieval.notes


def test_a_changed_entry_is_served_again(shop: Project) -> None:
    retrieve_ids(shop)
    edited = [
        make_entry(1, title="Charge a card once", body="Use two keys."),
        make_entry(2, title="Charge a card late"),
    ]
    shop.write("MEMORY.md", "\n".join(map(format_entry, edited)))
    assert retrieve_ids(shop) == (make_id(1),)


def test_an_entry_is_served_again_when_its_code_changed(shop: Project) -> None:
    anchor = Anchor(path="src/client.py", commit=shop.git("rev-parse", "HEAD").strip())
    cite = format_anchor(anchor)
    entry = make_entry(1, title="Charge a card with src/client.py", cites=(cite,))
    shop.commit("Cite", {"MEMORY.md": format_entry(entry)})
    assert make_id(1) in retrieve_ids(shop)
    shop.git("rm", "-q", "src/client.py")
    assert retrieve_ids(shop, stale=True) == (make_id(1),)
    assert retrieve_ids(shop, stale=True) == ()


def test_after_compaction_everything_is_served_again(shop: Project) -> None:
    first = retrieve_ids(shop)
    note_cleared(shop.workspace, "s1", NOW)
    assert list_served_fingerprints(shop.workspace, "s1") == frozenset()
    assert retrieve_ids(shop) == first
    note_cleared(shop.workspace, "unknown", NOW)
    assert not get_note_path(shop.workspace, "unknown").exists()


def test_a_damaged_or_foreign_note_is_ignored(shop: Project) -> None:
    path = get_note_path(shop.workspace, "s1")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xfe half\n\0")
    assert len(retrieve_ids(shop)) == 3
    path.unlink()
    path.mkdir()
    assert len(list_served_ids(shop.retrieve(ASKED, session="s1"))) == 3


def test_notes_of_old_sessions_are_removed(shop: Project) -> None:
    retrieve_ids(shop, session="old")
    old = get_note_path(shop.workspace, "old")
    os.utime(old, (NOW.timestamp() - 40 * 86_400,) * 2)
    retrieve_ids(shop, session="new")
    assert not old.exists()
    assert get_note_path(shop.workspace, "new").exists()


@pytest.mark.parametrize("session", ["../../config", "", "a/b", "ü" * 5_000])
def test_the_name_of_a_session_cannot_leave_the_directory(shop: Project, session: str) -> None:
    assert get_note_path(shop.workspace, session).parent == shop.path / ".git/memory-ci/given"
    retrieve_ids(shop, session=session)
    assert retrieve_ids(shop, session=session) == ()
