"""Tests of dead names: an entry without anchors is marked when a name in it is gone from the tree."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import date, timedelta

import pytest
from msgspec.structs import replace

from memory_ci.commands.retrieve.text import render_context
from memory_ci.gitrepo import log
from memory_ci.gitrepo.repo import Repository
from memory_ci.memory import name_search
from memory_ci.memory.dead_names import find_dead_names
from memory_ci.memory.index import build_index
from memory_ci.memory.judged_view import JudgedView
from memory_ci.memory.workspace import index_path
from memory_ci.records.entry import Entry
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import Project

CODE = "def retry_twice(call):\n    return call() or call()\n"


@pytest.fixture
def shop(project: Project) -> Project:
    project.commit("Write code", {"src/client.py": CODE, "src/old/a.py": "x = 1\n"})
    return project


def remember(shop: Project, title: str, **fields: object) -> Entry:
    """Commit an entry with a title, and return it."""
    entry = make_entry(1, title=title, body="", source=f"commit:{shop.sha()[:12]}", **fields)
    shop.commit("Remember", {"MEMORY.md": format_entry(entry)})
    return entry


def list_dead_names(shop: Project, entry: Entry, view: str | None = None) -> list[str]:
    """Return the dead names of an entry with their kinds."""
    return [
        f"{dead_name.kind} {dead_name.path}"
        for dead_name in find_dead_names(JudgedView(shop.workspace, view), [entry]).values()
    ]


@pytest.mark.parametrize("view", [None, "HEAD"])
def test_an_entry_is_marked_when_a_name_in_it_was_removed_from_the_tree(
    shop: Project, view: str | None
) -> None:
    entry = remember(shop, "Never nest retry_twice, nor use no_such_name")
    assert list_dead_names(shop, entry, view) == []
    shop.commit("Rename it", {"src/client.py": CODE.replace("retry_twice", "again")})
    assert list_dead_names(shop, entry, view) == ["changed retry_twice"]
    shop.commit("Elsewhere", {"docs/more.md": "retry_twice was there\n"})
    assert list_dead_names(shop, entry, view) == []


def test_a_name_is_alive_while_another_file_has_it(shop: Project) -> None:
    shop.commit("A class", {"src/b.py": "class Old:\n    def send_all(self):\n        return 1\n"})
    entry = remember(shop, "Old.send_all sends once")
    shop.commit(
        "Rename it", {"src/b.py": "class New:\n    def send_all(self):\n        return 1\n"}
    )
    assert list_dead_names(shop, entry) == []


def test_a_renamed_path_is_alive_and_a_removed_path_is_dead(shop: Project) -> None:
    entry = remember(shop, "Keep src/old/a.py small")
    shop.git("mv", "src/old/a.py", "src/a.py")
    shop.git("commit", "-qm", "Move")
    assert list_dead_names(shop, entry) == []
    shop.git("rm", "-q", "src/a.py")
    shop.git("commit", "-qm", "Remove")
    assert list_dead_names(shop, entry) == ["changed src/old/a.py"]


@pytest.mark.parametrize(
    "fields", [{"adoption": "rejected"}, {"cites": ("src/client.py@3f2ab91c0ffe",)}]
)
def test_names_of_rejected_and_anchored_entries_are_not_searched(
    shop: Project, fields: dict[str, object]
) -> None:
    entry = remember(shop, "Never nest retry_twice", **fields)
    shop.commit("Rename it", {"src/client.py": CODE.replace("retry_twice", "again")})
    assert list_dead_names(shop, entry) == []


def test_retrieve_demotes_the_entry_and_names_the_dead_name(shop: Project) -> None:
    remember(shop, "Never nest retry_twice")
    shop.commit("Rename it", {"src/client.py": CODE.replace("retry_twice", "again")})
    answer = shop.retrieve("nest retry")
    assert dict(answer.hits[0].factors)["truth"] == 0.5
    assert "retry_twice (is nowhere in the code any more)" in render_context(answer)


@pytest.fixture
def searched_revisions(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record the revision of each search for words from now on."""
    searches: list[object] = []

    def find_words(
        repo: Repository, rev: str | None, *words: Sequence[str]
    ) -> set[tuple[str, str]]:
        searches.append(rev)
        return log.find_words(repo, rev, *words)

    monkeypatch.setattr(name_search, "find_words", find_words)
    return searches


def test_names_are_searched_again_if_the_tree_or_the_words_change(
    shop: Project, searched_revisions: list[object]
) -> None:
    entry = remember(shop, "Never nest retry_twice")
    build_index(shop.workspace, None)
    for text, expected in [
        (CODE, []),
        (CODE.replace("retry_twice", "again"), ["changed retry_twice"]),
    ]:
        shop.write("src/client.py", text)
        searched_revisions.clear()
        assert list_dead_names(shop, entry) == expected
        assert searched_revisions
        searched_revisions.clear()
        assert list_dead_names(shop, entry) == expected
        assert not searched_revisions
    assert list_dead_names(shop, replace(entry, title="Never nest retry_thrice")) == []
    assert searched_revisions == [None, shop.sha("HEAD~1")], (
        "the tree, then that in which it was written"
    )
    assert list_dead_names(shop, entry, "HEAD") == []


def test_a_new_entry_does_not_repeat_the_search_for_others(
    shop: Project, searched_revisions: list[object]
) -> None:
    entry = remember(shop, "Never nest retry_twice")
    build_index(shop.workspace, None)
    assert list_dead_names(shop, entry) == []
    assert searched_revisions == [None]
    other_entry = format_entry(make_entry(7, title="Never nest retry_once"))
    shop.write("MEMORY.md", f"{format_entry(entry)}\n{other_entry}")
    assert list_dead_names(shop, entry) == []
    assert searched_revisions == [None]
    shop.write("docs/guide.md", "no memory")
    assert list_dead_names(shop, entry) == []
    assert searched_revisions == [None, None]


def test_a_cache_of_names_that_others_wrote_is_ignored(
    shop: Project, searched_revisions: list[object]
) -> None:
    entry = remember(shop, "Never nest retry_twice")
    build_index(shop.workspace, None)
    assert list_dead_names(shop, entry) == []
    with closing(sqlite3.connect(index_path(shop.workspace), isolation_level=None)) as connection:
        connection.execute("""UPDATE verdicts SET outcome = '["retry_twice"]'""")
    searched_revisions.clear()
    assert list_dead_names(shop, entry) == []
    assert searched_revisions


def test_results_for_a_tree_that_changes_meanwhile_are_not_cached(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_words(
        repo: Repository, rev: str | None, *words: Sequence[str]
    ) -> set[tuple[str, str]]:
        matches = log.find_words(repo, rev, *words)
        shop.write("src/client.py", "")
        return matches

    entry = remember(shop, "Never nest retry_twice")
    build_index(shop.workspace, None)
    shop.write("src/client.py", "x = 1\n")
    monkeypatch.setattr(name_search, "find_words", find_words)
    assert list_dead_names(shop, entry) == ["changed retry_twice"]
    monkeypatch.undo()
    shop.git("checkout", "-q", ".")
    assert list_dead_names(shop, entry) == []


def test_the_commits_of_many_days_are_found_by_one_process(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [date(2025, 1, 1) + timedelta(days=number) for number in range(30)]
    entries = [
        make_entry(
            number, title=f"Never nest retry_{number:02}", created_at=day, last_reinforced=day
        )
        for number, day in enumerate(written)
    ]
    searched_days: list[set[date]] = []

    def find_commits(repo: Repository, rev: str, days: set[date]) -> dict[date, str]:
        searched_days.append(days)
        return {}

    monkeypatch.setattr(name_search, "find_commits_of_days", find_commits)
    find_dead_names(JudgedView(shop.workspace, None), entries)
    assert searched_days == [set(written)]


def test_names_of_an_entry_confirmed_today_are_searched_in_todays_tree(shop: Project) -> None:
    day = date(2026, 1, 5)
    entry = remember(shop, "Never nest retry_twice", created_at=day, last_reinforced=day)
    build_index(shop.workspace, None)
    shop.commit("Rename", {"src/client.py": CODE.replace("retry_twice", "again")})
    assert list_dead_names(shop, entry) == ["changed retry_twice"]
    confirmed = replace(entry, last_reinforced=date(2026, 12, 31))
    assert list_dead_names(shop, confirmed) == []


def test_a_commit_is_searched_once_however_often_the_code_changes(
    shop: Project, searched_revisions: list[object]
) -> None:
    entry = remember(shop, "Never nest retry_twice")
    build_index(shop.workspace, None)
    shop.commit("Rename it", {"src/client.py": CODE.replace("retry_twice", "again")})
    assert list_dead_names(shop, entry) == ["changed retry_twice"]
    searched_revisions.clear()
    for number in range(3):
        shop.commit("Work", {"src/other.py": f"number = {number}\n"})
        assert list_dead_names(shop, entry) == ["changed retry_twice"]
    assert searched_revisions == [None, None, None], "the work tree alone"
