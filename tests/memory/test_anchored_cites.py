"""Tests of turning cites of code into anchors."""

from __future__ import annotations

from memory_ci.memory.cites import anchor_entries
from tests.make import make_entry
from tests.memory.cited_code import remember
from tests.project import Project


def test_a_bare_cite_is_anchored_to_the_definition_that_the_learning_names(shop: Project) -> None:
    (cite,) = remember(shop).cites
    assert cite.startswith(
        f"src/client.py:8-11@{shop.sha('HEAD~1')[:12]} symbol:Client.post words:"
    )


def test_a_bare_cite_gets_a_hash_if_the_learning_names_no_definition(shop: Project) -> None:
    (cite,) = remember(shop, "Keys are needed").cites
    assert cite.partition(" ")[0] == f"src/client.py@{shop.sha('HEAD~1')[:12]}"
    assert " words:" in cite


def test_a_cite_that_cannot_be_anchored_is_unchanged(shop: Project) -> None:
    sha = shop.sha()[:12]
    cites = (
        f"src/none.py@{sha}",
        "src/client.py@0123456789ab",
        "see the wiki",
        f"src@{sha}",
        f"../x@{sha}",
        f"a\rb@{sha}",
    )
    entry = make_entry(1, cites=cites)
    assert anchor_entries(shop.workspace, [entry]) == (entry,)
    assert anchor_entries(shop.workspace, []) == ()
    anchored = remember(shop)
    assert anchor_entries(shop.workspace, [anchored]) == (anchored,)
