"""Tests of cached verdicts in the index: the oldest are removed first, and a missing cache is no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.search import verdicts
from memory_ci.search.builder import open_index
from memory_ci.search.verdicts import keep_verdicts, read_verdicts


def test_the_oldest_verdicts_are_removed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index.db"
    keep_verdicts(path, {"a": "1"})
    assert (path.exists(), read_verdicts(path, ["a"])) == (False, {})
    with open_index(path):
        pass
    monkeypatch.setattr(verdicts, "MAX_ROWS", 2)
    keep_verdicts(path, {"a": "1", "b": "2"})
    keep_verdicts(path, {"a": "3", "c": "4"})
    assert read_verdicts(path, ["a", "b", "c", "d"]) == {"a": "3", "c": "4"}


def test_a_changed_file_is_not_read_and_its_verdicts_are_deleted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "index.db"
    with open_index(path):
        pass
    keep_verdicts(path, {"a": "1"})
    path.with_name("index.db.seal").unlink()
    assert read_verdicts(path, ["a"]) == {}
    with open_index(path) as index:
        assert index.connection.execute("SELECT count(*) FROM verdicts").fetchone() == (0,)
