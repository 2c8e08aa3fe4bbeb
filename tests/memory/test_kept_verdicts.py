"""Tests of cached verdicts, and of the changes that make them be judged again."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from memory_ci.anchors import verdicts as verdicts_module
from memory_ci.gitrepo import log
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.gitrepo.repo import Repository
from memory_ci.memory import cite_verdicts, cites, judged_view
from memory_ci.memory.cite_verdicts import judge_anchors
from memory_ci.memory.index import build_index
from memory_ci.memory.workspace import index_path
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Located
from memory_ci.search.database import seal
from tests.memory.cited_code import CLIENT, POST, located, remember
from tests.project import Project


@pytest.fixture
def judged_entries(shop: Project) -> list[Located]:
    """Return entries of an indexed project whose code was edited, renamed, moved or removed afterwards."""
    shop.commit(
        "Add",
        {
            "src/old.py": "def send(a):\n    return a\n\n\ndef drop(a):\n    return -a\n",
            "src/gone.py": POST,
        },
    )
    entries = [
        remember(shop),
        remember(shop, "`send` gives back what it gets", "src/old.py", 2),
        remember(shop, "`drop` turns the sign", "src/old.py", 3),
        remember(shop, "src/gone.py posts", "src/gone.py", 4),
        remember(shop, "`Client.get` has a timeout", number=5),
    ]
    edited = (
        CLIENT.replace("no idempotency", "no")
        .replace("def get(", "def fetch(")
        .replace("=30", "=60")
    )
    shop.commit("Edit", {"src/client.py": edited})
    shop.commit(
        "Rename",
        {"src/old.py": None, "src/new.py": "def send(a):\n    return a\n", "src/gone.py": None},
    )
    shop.commit("Move", {"src/far.py": "def drop(a):\n    return -a\n"})
    build_index(shop.workspace, None)
    return located(*entries)


def list_kinds(shop: Project, entries: list[Located], view: str | None = None) -> list[str]:
    verdicts = judge_anchors(shop.workspace, entries, view)
    return [verdicts[place.entry.id, place.entry.cites[0]].kind for place in entries]


JUDGED = ["changed", "moved", "moved", "gone", "changed"]


def test_a_kept_verdict_is_neither_compared_nor_searched_again(
    shop: Project, judged_entries: list[Located], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list_kinds(shop, judged_entries) == JUDGED
    workspace, trace = shop.workspace, tmp_path / "trace"
    monkeypatch.setattr(verdicts_module, "judge_anchor", None)
    monkeypatch.setenv("GIT_TRACE", str(trace))
    verdicts = judge_anchors(workspace, judged_entries, None)
    assert [
        verdicts[place.entry.id, place.entry.cites[0]].kind for place in judged_entries
    ] == JUDGED
    assert trace.read_text().count("trace: built-in: git ") == 2


def test_renames_are_searched_once_for_a_commit(
    shop: Project, judged_entries: list[Located], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list_kinds(shop, judged_entries) == JUDGED
    monkeypatch.setattr(cite_verdicts, "list_renames", None)
    shop.write("src/far.py", "x = 1\n")
    assert list_kinds(shop, judged_entries) == ["changed", "moved", "gone", "gone", "changed"]
    monkeypatch.undo()
    shop.git("checkout", "-q", ".")
    shop.commit(
        "Rename",
        {"src/far.py": None, "src/new.py": None, "src/newest.py": "def send(a):\n    return a\n"},
    )
    assert list_kinds(shop, judged_entries) == ["changed", "moved", "gone", "gone", "changed"]


def test_an_edit_of_a_cited_or_searched_file_changes_the_verdicts(
    shop: Project, judged_entries: list[Located]
) -> None:
    assert list_kinds(shop, judged_entries) == JUDGED
    shop.commit(
        "Mend", {"src/client.py": CLIENT, "src/far.py": "def drop(a):\n    return -a * 2 - a * 3\n"}
    )
    assert list_kinds(shop, judged_entries) == ["fresh", "moved", "changed", "gone", "fresh"]
    shop.commit("Return", {"src/back.py": POST})
    assert list_kinds(shop, judged_entries) == ["fresh", "moved", "changed", "moved", "fresh"]


def test_verdicts_of_the_work_tree_are_not_used_for_a_commit(
    shop: Project, judged_entries: list[Located]
) -> None:
    shop.write("src/client.py", CLIENT)
    shop.write("src/back.py", POST)
    for _ in range(2):
        assert list_kinds(shop, judged_entries) == ["fresh", "moved", "moved", "moved", "fresh"]
        assert list_kinds(shop, judged_entries, "HEAD") == JUDGED
    shop.git("checkout", "-q", ".")
    (shop.path / "src/back.py").unlink()
    assert list_kinds(shop, judged_entries) == JUDGED


def test_a_work_tree_that_is_written_meanwhile_is_judged_again(
    shop: Project, judged_entries: list[Located], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is changed and restored while git searches: the result must not be cached for the old text."""

    def find_mentions(repo: Repository, rev: str | None, words: Collection[str]) -> tuple[str, ...]:
        shop.write("src/far.py", "")
        return log.find_mentions(repo, rev, words)

    monkeypatch.setattr(cite_verdicts, "find_mentions", find_mentions)
    assert list_kinds(shop, judged_entries) != JUDGED
    monkeypatch.undo()
    shop.git("checkout", "-q", ".")
    assert list_kinds(shop, judged_entries) == JUDGED


def test_a_file_that_is_written_before_it_is_read_is_judged_again(
    shop: Project, judged_entries: list[Located], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_texts(repo: Repository, files: Iterable[TreeFile]) -> dict[TreeFile, str]:
        shop.write("src/client.py", CLIENT)
        return cites.read_texts(repo, files)

    shop.write("src/client.py", CLIENT.replace("key is None", "not key"))
    monkeypatch.setattr(cite_verdicts, "read_texts", read_texts)
    assert list_kinds(shop, judged_entries)[0] == "fresh"
    monkeypatch.undo()
    shop.write("src/client.py", CLIENT.replace("key is None", "not key"))
    assert list_kinds(shop, judged_entries)[0] == "changed"


@pytest.mark.parametrize(
    ("outcome", "is_resealed"),
    [('[{"kind": "fresh", "path": "x"}, ""]', False), ("[{}]", True), (b"\xff", True)],
)
def test_a_cache_of_verdicts_that_others_wrote_is_ignored(
    shop: Project, judged_entries: list[Located], outcome: object, is_resealed: bool
) -> None:
    """A cache file that was changed since we wrote it is dropped, and so are invalid verdicts."""
    path = index_path(shop.workspace)
    assert list_kinds(shop, judged_entries) == JUDGED
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE verdicts SET outcome = ?", (outcome,))
    if is_resealed:
        seal(path)
    assert list_kinds(shop, judged_entries) == JUDGED
    build_index(shop.workspace, None)
    assert list_kinds(shop, judged_entries) == JUDGED


def test_changed_source_code_of_the_judging_modules_discards_kept_verdicts(
    shop: Project, judged_entries: list[Located], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list_kinds(shop, judged_entries) == JUDGED
    monkeypatch.setattr(judged_view, "hash_verdict_modules", lambda: "other")
    monkeypatch.setattr("memory_ci.anchors.verdicts.judge_anchor", lambda *_: Verdict("fresh", "x"))
    assert set(list_kinds(shop, judged_entries)) == {"fresh"}


def test_every_module_that_decides_on_a_verdict_invalidates_the_cache() -> None:
    judges, root = set(judged_view.VERDICT_MODULES), Path(judged_view.__file__).parent.parent
    assert {
        "anchors/verdicts",
        "memory/cite_verdicts",
        "memory/dead_names",
        "memory/name_search",
    } <= judges
    for name in judges - {"memory/cites"}:  # which makes anchors and upholds them as well
        imported = re.findall(
            r"^from memory_ci\.anchors\.(\w+)", (root / f"{name}.py").read_text("utf-8"), re.M
        )
        assert {f"anchors/{module}" for module in imported} <= judges, name
    assert all((root / f"{name}.py").is_file() for name in judges)


def test_keeping_verdicts_creates_no_index_and_does_not_block_on_a_pipe(
    shop: Project, judged_entries: list[Located]
) -> None:
    path = index_path(shop.workspace)
    os.mkfifo(path.with_name("index.db-journal"))
    assert list_kinds(shop, judged_entries) == JUDGED
    path.with_name("index.db-journal").unlink()
    path.unlink()
    assert list_kinds(shop, judged_entries) == JUDGED
    assert not path.exists()
