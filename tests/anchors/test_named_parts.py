"""Tests of the parts of a file that an entry names, and of the share of a file that was edited."""

from __future__ import annotations

import pytest

from memory_ci.anchors.named_parts import (
    FEW_PARTS,
    MAX_PARTS,
    anchor_named_parts,
    find_edited_share,
    find_named_parts,
    list_parts,
    list_terms,
)
from memory_ci.records.anchor import Anchor

CODE = """import os

LIMIT = int(os.environ["SEND_LIMIT"])

class Client:
    timeout_ms = 30

    def send(self, body):
        return self.queue_up(body, "no body")

    def close(self):
        self.queue_up(None)

register(Client, name="sender")
"""
SETTINGS = """[project]
name = "shop"

[tool.ruff]
line-length = 100
select = [
    "E",
    "F",
]

[tool.mypy]
strict = true
"""
PIPELINE = """name: tests
jobs:
  unit:
    timeout-minutes: 5
    steps:
      - run: make
  lint:
    runs-on: ubuntu
"""
PAGE = """# Shop

Text before.

## Retry policy

A request is sent twice.

### Limits

At most `MAX_TRIES`.

## Release

Tag it.
"""


@pytest.mark.parametrize(
    ("path", "text", "prose", "lines"),
    [
        ("a.py", CODE, "Mind `timeout_ms`", [(6, 6)]),
        ("a.py", CODE, "It is read from SEND_LIMIT", [(3, 3)]),
        ("a.py", CODE, 'It says "no body"', [(8, 9)]),
        ("a.py", CODE, "queue_up may block", [(8, 9), (11, 12)]),
        (
            "a.py",
            CODE,
            "`Client.send` may block",
            [],
        ),  # cited as a definition, not as a name in a file
        ("a.py", CODE, "`send` may block", [(8, 9)]),
        ("a.py", CODE, 'It is registered as "sender"', [(14, 14)]),
        ("a.py", CODE, "Limits are reached when you send", []),
        ("a.py", CODE, "Mind `other_name`", []),
        ("pyproject.toml", SETTINGS, "Keep ruff below 0.5", [(4, 10)]),
        ("pyproject.toml", SETTINGS, "`line-length` is 100", [(5, 5)]),
        ("pyproject.toml", SETTINGS, "What select holds is agreed", [(6, 9)]),
        ("ci.yml", PIPELINE, "Leave lint as it is", [(7, 8)]),
        ("ci.yml", PIPELINE, "`timeout-minutes` is for hangs", [(4, 4)]),
        ("a.md", PAGE, "The retry policy is agreed", [(5, 12)]),
        ("a.md", PAGE, "MAX_TRIES is agreed", [(11, 11)]),
        ("a.md", PAGE, "Release on Mondays", []),
    ],
)
def test_an_entry_names_parts_of_a_file(
    path: str, text: str, prose: str, lines: list[tuple[int, int]]
) -> None:
    assert [part.lines for part in find_named_parts(path, text, prose)] == lines


def test_a_name_in_many_parts_counts_only_if_no_name_is_in_few_parts() -> None:
    many = "".join(f"def f{number}():\n    log_it({number})\n" for number in range(FEW_PARTS + 1))
    text = f"{many}def last():\n    close_all()\n"
    assert [
        part.lines for part in find_named_parts("a.py", text, "`log_it`, then `close_all`")
    ] == [(9, 10)]
    assert len(find_named_parts("a.py", text, "Mind `log_it`")) == FEW_PARTS + 1
    anywhere = "".join(
        f"def f{number}():\n    log_it({number})\n" for number in range(MAX_PARTS + 1)
    )
    assert find_named_parts("a.py", anywhere, "Mind `log_it`") == []


def test_a_part_is_anchored_by_its_definition_where_only_one_has_the_name() -> None:
    anchor = Anchor(path="a.py", commit="3f2ab91c0ffe")
    assert anchor_named_parts(anchor, CODE, '"no body" and `timeout_ms`') == [
        Anchor(path="a.py", commit="3f2ab91c0ffe", first=6, last=6),
        Anchor(path="a.py", commit="3f2ab91c0ffe", first=8, last=9, symbol="Client.send"),
    ]
    twice = "class A:\n    def go(self):\n        x_y\n\nclass A:\n    def go(self):\n        z\n"
    assert [anchored.symbol for anchored in anchor_named_parts(anchor, twice, "`x_y`")] == [None]


def test_short_and_long_words_are_not_names() -> None:
    long = "x" * 300
    assert list_terms("a.py", f"ab {long} abc", f"`ab` `{long}` `abc`") == ["abc"]


@pytest.mark.parametrize(
    ("edited", "share"),
    [
        (CODE, 0),
        (CODE.replace("import os", "import os, sys"), 0),
        (CODE + "\n\ndef more():\n    return 1\n", 0),
        (CODE.replace("    def close", "    # closes\n    def close"), 0),
        ("", 1),
    ],
)
def test_imports_comments_and_additions_are_not_edits(edited: str, share: float) -> None:
    assert find_edited_share("a.py", CODE, "a.py", edited) == share


def test_the_edited_share_is_that_of_the_words_of_edited_parts() -> None:
    parts = list_parts("a.py", CODE)
    (send,) = [part for part in parts if part.definition and part.definition.name == "Client.send"]
    total = sum(len(part.words) for part in parts if part.words[0] != "import")
    edited = CODE.replace('"no body"', '"no text"')
    assert find_edited_share("a.py", CODE, "b.py", edited) == pytest.approx(len(send.words) / total)


def test_a_part_that_occurred_twice_and_occurs_once_is_edited() -> None:
    assert find_edited_share("a.md", "one two\n\none two\n", "a.md", "one two\n") == 0.5


def test_a_file_without_words_is_not_edited() -> None:
    assert find_edited_share("a.py", "# nothing\n", "a.py", "x = 1\n") == 0


@pytest.mark.parametrize("path", ["a.md", "a.toml", "a.yaml", "a.json", "a.py"])
@pytest.mark.parametrize(
    "line", ["# " + " " * 100_000, "[" * 100_000, "[" + " " * 100_000, '"' * 100_000]
)
def test_lines_that_are_slow_for_patterns_are_skipped(path: str, line: str) -> None:
    assert find_named_parts(path, f"max_tries = 1\n{line}\n", f"`max_tries` {'`' * 5_000}") != []
