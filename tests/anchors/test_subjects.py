"""Tests of the definitions that an entry is about, out of all that its change touched."""

from __future__ import annotations

import pytest

from memory_ci.anchors.subjects import (
    TouchedDefinition,
    choose_touched_definitions,
    find_mentioned_definitions,
    list_touched_definitions,
)

BEFORE = """LIMIT = 3


class Client:
    timeout = 1

    def get(self, url):
        return self.send(url)

    def post(self, url):
        return self.send(url)


def wrap(function):
    def inner():
        return function()
    return inner
"""


def list_touched_names(
    *edits: tuple[str, str], path: str = "client.py", before: str = BEFORE
) -> list[str]:
    """Return the names of the definitions that an edit of a file touches."""
    after = before
    for old, new in edits:
        assert old in after
        after = after.replace(old, new, 1)
    return [
        definition.name for definition in list_touched_definitions({path: before}, {path: after})
    ]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (("send(url)", "send(url, 3)"), ["Client.get"]),
        (("LIMIT = 3", "LIMIT = 4"), ["LIMIT"]),
        (("timeout = 1", "timeout = 2"), ["Client"]),
        (("return function()", "return function(1)"), ["wrap"]),
        (("def wrap", "# a remark\ndef wrap"), []),
        (("LIMIT = 3", "import time\n\nLIMIT = 3"), []),
    ],
)
def test_a_change_touches_the_definitions_whose_words_changed(
    edit: tuple[str, str], expected: list[str]
) -> None:
    assert list_touched_names(edit) == expected


def test_moved_definitions_are_not_touched_and_new_definitions_are() -> None:
    moved = BEFORE[BEFORE.index("def wrap") :]
    after = {
        "client.py": BEFORE.replace(moved, ""),
        "wrap.py": f"{moved}\n\ndef more():\n    return 1\n",
    }
    assert [
        (definition.path, definition.name)
        for definition in list_touched_definitions({"client.py": BEFORE}, after)
    ] == [("wrap.py", "more")]
    assert [
        definition.name for definition in list_touched_definitions({}, {"a.toml": "[a]\nb = 1\n"})
    ] == []


TOUCHED = [
    TouchedDefinition("src/a.py", "Client.post", 4, False),
    TouchedDefinition("src/a.py", "Client.get", 9, False),
    TouchedDefinition("src/b.py", "Server", 30, True),
    TouchedDefinition("src/b.py", "Server.run", 5, False),
    TouchedDefinition("tests/test_a.py", "test_post", 50, False),
]


@pytest.mark.parametrize(
    ("prose", "named", "expected"),
    [
        ("`Client.post` needs a key", [], ["Client.post"]),
        ("post() and run() wait; other.get() does not", [], ["Server.run", "Client.post"]),
        ("Sends twice", ["src/a.py"], ["Client.get", "Client.post"]),
        ("post waits", ["src/a.py"], ["Client.post", "Client.get"]),
        ("Never merge on Fridays", [], ["Client.get", "Server.run", "Client.post"]),
        ("test_post is slow", [], ["test_post"]),
    ],
)
def test_an_entry_is_about_the_definitions_it_names_or_all_touched_definitions(
    prose: str, named: list[str], expected: list[str]
) -> None:
    assert [
        definition.name for definition in choose_touched_definitions(prose, TOUCHED, named)
    ] == expected


def test_no_definition_is_chosen_for_a_change_that_touched_many() -> None:
    many_touched = [*TOUCHED, TouchedDefinition("src/c.py", "stop", 1, False)]
    assert choose_touched_definitions("Never merge on Fridays", many_touched, []) == []
    assert [
        definition.name
        for definition in choose_touched_definitions("it is stop() that hangs", many_touched, [])
    ] == ["stop"]


def test_a_named_definition_is_chosen_even_if_only_its_comment_changed() -> None:
    texts = {"client.py": BEFORE}
    assert find_mentioned_definitions("`Client.post` sends a key; see wrap()", texts) == [
        ("client.py", "Client.post"),
        ("client.py", "wrap"),
    ]
    assert find_mentioned_definitions("send a key with each charge", texts) == []
