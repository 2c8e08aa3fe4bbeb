"""Tests of the cache key of an index, which identifies its tree."""

from __future__ import annotations

import re

from memory_ci.search.database import cache_key

FILES = {"MEMORY.md": "a1", "src/MEMORY.md": "b2"}


def test_the_key_names_the_version_and_does_not_depend_on_the_order_of_files() -> None:
    assert re.fullmatch(r"memory-ci-index-v9-[0-9a-f]{32}", cache_key(FILES))
    assert cache_key(FILES) == cache_key(dict(reversed(FILES.items())))


def test_another_tree_has_another_key() -> None:
    trees = [
        {},
        FILES,
        {"MEMORY.md": "a1"},
        FILES | {"MEMORY.md": "a2"},
        {"MEMORY.mda": "1", "src/MEMORY.md": "b2"},
    ]
    assert len({cache_key(tree) for tree in trees}) == len(trees)


def test_a_path_that_is_not_utf_8_has_a_key() -> None:
    assert cache_key({"caf\udce9/MEMORY.md": "a1"}) != cache_key({})
