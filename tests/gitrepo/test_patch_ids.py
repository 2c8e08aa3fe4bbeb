"""Tests of patch ids: for pairs of commits, and patches without an id."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.gitrepo.repo import find_repository
from memory_ci.gitrepo.squash_trailers import list_patch_ids
from tests.repos import RepoBuilder

LINES = "".join(f"line {number}\n" for number in range(40))


@pytest.fixture
def builder(builder_template: RepoBuilder, tmp_path: Path) -> RepoBuilder:
    """Return a repository with a file on `main` and a branch `topic` with two more commits."""
    builder = builder_template.copy(tmp_path / "repo")
    builder.commit("Code", {"app.py": LINES})
    builder.branch("topic")
    builder.commit("Retry", {"app.py": LINES.replace("line 3\n", "retry\n")})
    builder.commit("Test it", {"test_app.py": "assert True\n"})
    builder.checkout("main")
    return builder


def test_the_ids_are_those_of_the_requested_patches(builder: RepoBuilder) -> None:
    """Cases: one commit against several, an empty patch between others, more than one batch."""
    repo = find_repository(builder.path)
    tip, middle, start = (builder.sha(rev) for rev in ("topic", "topic~1", "main"))
    pairs = [(tip, tip), (tip, start), (tip, middle), (tip, tip), (middle, start), (middle, middle)]
    ids = list_patch_ids(repo, pairs)
    expected = {(tip, start), (tip, middle), (middle, start)}
    assert ids.keys() == expected
    assert len(set(ids.values())) == 3
    assert ids == {pair: list_patch_ids(repo, [pair])[pair] for pair in expected}
    assert ids == list_patch_ids(repo, pairs, limit=700), (
        "700 bytes hold each of the three, but no two"
    )


def test_a_patch_that_is_too_long_has_no_id(builder: RepoBuilder) -> None:
    repo = find_repository(builder.path)
    builder.checkout("topic")
    builder.commit("Long", {"long.py": LINES})
    long, short = ((builder.sha(rev), builder.sha(f"{rev}~1")) for rev in ("topic", "topic~1"))
    assert list_patch_ids(repo, [long, short]).keys() == {long, short}
    assert list_patch_ids(repo, [long, short], limit=400).keys() == {short}
