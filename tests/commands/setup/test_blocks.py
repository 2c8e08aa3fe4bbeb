"""Tests of our blocks in YAML files of others: the other bytes and their meaning do not change."""

from __future__ import annotations

import pytest
import yaml

from memory_ci.commands.setup.ci_files import (
    add_items,
    add_keys,
    is_changed,
    list_blocks,
    remove_blocks,
)
from memory_ci.store.yamltext import YamlTextError

ITEM = "- repo: ours\n  hooks:\n  - id: check # why\n"
KEYS = "types: [one, two]\nstages: [one]\n"
COMMENTED = """\
# Ask Ada before you add one.
fail_fast: true   # yes

repos:
  # whitespace
  - repo: &local local
    hooks:
      - id: tabs     # they hurt
        args: ['a', "b",
               c]
      # - id: later

# the end
last: *local
"""
KEPT = [
    COMMENTED,
    COMMENTED.replace("\n", "\r\n"),
    "repos:\n- a: b",
    "repos:\n- a: |\n    # text\n\n# no text\n",
    "repos:\n- a: |+\n    kept\n\n\nz: 1\n",
    "---\nrepos:\n- !tag [a, {b: c}]\n",
    "\ufeffrepos:\n- b\n\n# tail",
    "repos:\n- a:\n- b:\n",
]


@pytest.mark.parametrize("text", KEPT)
def test_a_block_changes_nothing_else_and_comes_out_byte_for_byte(text: str) -> None:
    added = add_items(text, "repos", ITEM)
    both = add_keys(added, KEYS)
    assert remove_blocks(added) == remove_blocks(both) == text
    plain, ours = (yaml.safe_load(item.replace("!tag ", "")) for item in (text, both))
    assert ours == {
        **plain,
        "repos": [*plain["repos"], *yaml.safe_load(ITEM)],
        **yaml.safe_load(KEYS),
    }
    assert list_blocks(both) == tuple(sorted((ITEM, KEYS)))
    assert not is_changed(both)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "# nothing yet"])
def test_a_file_without_a_key_gets_ours(text: str) -> None:
    added = add_keys(text, KEYS)
    assert (added.startswith(text), remove_blocks(added)) == (True, text)
    assert yaml.safe_load(added) == yaml.safe_load(KEYS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("repos: [a]\n", "no list with an item a line"),
        ("{repos: [a]}\n", "not a mapping with a key a line"),
        ("repos:\n- a\n---\nb: 1\n", "not one YAML document"),
        ("repos:\n- a\n-\n", "would change the meaning of the rest"),
        ("repos:\n- a: [\n", "not valid YAML"),
    ],
)
def test_an_edit_that_cannot_be_verified_is_refused(text: str, reason: str) -> None:
    with pytest.raises(YamlTextError, match=reason):
        add_items(text, "repos", ITEM)


def test_a_document_that_is_closed_gets_no_keys() -> None:
    with pytest.raises(YamlTextError):
        add_keys("repos:\n- b\n...\n", KEYS)


def test_a_block_that_was_changed_stays() -> None:
    edited = add_items(COMMENTED, "repos", ITEM).replace("id: check", "id: other")
    assert is_changed(edited)
    assert remove_blocks(edited) == edited
    assert remove_blocks(add_keys(edited, KEYS)) == edited, "the other one goes"
