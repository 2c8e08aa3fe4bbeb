"""Tests of verdicts on anchors: fresh, moved, changed, gone and unverifiable."""

from __future__ import annotations

import pytest

from memory_ci.anchors.anchors import make_anchor, parse_anchor
from memory_ci.anchors.verdicts import judge_anchor
from memory_ci.records.anchor import Anchor
from tests.anchors.anchored_code import (
    CLIENT,
    COMMIT,
    CRLF,
    EDITED,
    POST,
    SHIFTED,
    SYMBOL,
    WHOLE,
    judge_text,
)

LINES = make_anchor("client.py", CLIENT, COMMIT, lines=POST)
REINDENTED = CLIENT.replace("    ", "\t").replace("\n", "\n\n")

WRAPPED = CLIENT.replace(
    '(url, headers={"Idempotency-Key": key})',
    '(\n            url,\n            headers={"Idempotency-Key": key}\n        )',
)


@pytest.mark.parametrize("then", [CLIENT, None])
@pytest.mark.parametrize("anchor", [WHOLE, LINES, SYMBOL])
@pytest.mark.parametrize(
    "text", [CLIENT, CRLF, WRAPPED, CLIENT.rstrip(), CLIENT.replace("(url, key)", "( url,key )")]
)
def test_a_reformatted_text_is_fresh(anchor: Anchor, text: str, then: str | None) -> None:
    verdict = judge_text(anchor, text, then)
    assert (verdict.kind, verdict.path) == ("fresh", "client.py")


@pytest.mark.parametrize("anchor", [LINES, SYMBOL])
def test_shifted_and_respaced_lines_are_moved(anchor: Anchor) -> None:
    verdict = judge_text(anchor, SHIFTED)
    assert (verdict.kind, verdict.first, verdict.last) == ("moved", 10, 13)
    assert judge_text(anchor, REINDENTED).kind == "moved"
    assert judge_text(anchor, SHIFTED, then=None).kind == "moved"


@pytest.mark.parametrize("anchor", [WHOLE, LINES, SYMBOL])
@pytest.mark.parametrize("then", [CLIENT, None])
def test_different_text_in_the_same_place_is_changed(anchor: Anchor, then: str | None) -> None:
    assert judge_text(anchor, EDITED, then).kind == "changed"


def test_a_changed_definition_is_shown_where_it_is_now() -> None:
    verdict = judge_text(SYMBOL, "# one line more\n" + EDITED)
    assert (verdict.kind, verdict.first, verdict.last) == ("changed", 8, 11)


def test_an_edit_around_a_definition_leaves_it_fresh_and_the_file_changed() -> None:
    text = CLIENT.replace("RETRIES = 3", "RETRIES = 4").replace("timeout=30", "timeout=60")
    assert [judge_text(anchor, text).kind for anchor in (WHOLE, LINES, SYMBOL)] == [
        "changed",
        "fresh",
        "fresh",
    ]


@pytest.mark.parametrize("anchor", [WHOLE, LINES, SYMBOL])
def test_a_renamed_file_is_moved_and_not_stale(anchor: Anchor) -> None:
    verdict = judge_anchor(anchor, CLIENT, {"net/http.py": CLIENT}, "net/http.py")
    assert (verdict.kind, verdict.path, verdict.note) == ("moved", "net/http.py", "was client.py")
    assert judge_anchor(anchor, CLIENT, {"net/http.py": EDITED}, "net/http.py").kind == "changed"


@pytest.mark.parametrize("anchor", [LINES, SYMBOL])
def test_a_definition_moved_into_another_file_is_moved(anchor: Anchor) -> None:
    remaining_text = CLIENT.replace("\n".join(CLIENT.split("\n")[6:10]), "")
    sender_text = "class Sender:\n" + "\n".join(CLIENT.split("\n")[6:10]) + "\n"
    verdict = judge_text(anchor, remaining_text, sender=sender_text)
    assert (verdict.kind, verdict.path, verdict.first) == ("moved", "sender.py", 2)


def test_a_removed_definition_is_gone_and_a_renamed_definition_is_moved() -> None:
    removed = CLIENT.replace("\n".join(CLIENT.split("\n")[6:10]), "")
    assert judge_text(SYMBOL, removed).kind == "gone"
    renamed = CLIENT.replace("def post", "def send")
    assert (judge_text(SYMBOL, renamed).kind, judge_text(SYMBOL, renamed).note) == (
        "moved",
        "was Client.post",
    )
    assert judge_text(SYMBOL, renamed.replace("no idem", "an idem")).kind == "changed"
    assert judge_text(SYMBOL, CLIENT.replace("post", "send")).kind == "changed", (
        "what it calls has another name, too"
    )


def test_overloads_that_moved_together_are_found_together() -> None:
    heads = "".join(f"@overload\ndef turn(x: {kind}) -> {kind}: ...\n" for kind in ("int", "str"))
    text = f"{heads}def turn(x):\n    return type(x)(x) if x else None\n"
    anchor = make_anchor("a.py", f"a = 1\n{text}", COMMIT, symbol="turn")
    for files, successor in (({"a.py": "a = 1\n", "b.py": text}, "a.py"), ({"b.py": text}, None)):
        verdict = judge_anchor(anchor, f"a = 1\n{text}", files, successor)
        assert (verdict.kind, verdict.path, verdict.first, verdict.last) == ("moved", "b.py", 1, 6)


def test_a_short_definition_with_another_name_is_not_the_same() -> None:
    anchor = make_anchor(
        "a.py", "def first(row):\n    return row.cells[0]\n", COMMIT, symbol="first"
    )
    then = "def first(row):\n    return row.cells[0]\n"
    assert (
        judge_anchor(anchor, then, {"a.py": then.replace("first", "head")}, "a.py").kind
        == "changed"
    )


@pytest.mark.parametrize("anchor", [WHOLE, LINES, SYMBOL])
def test_a_removed_file_is_gone(anchor: Anchor) -> None:
    assert judge_text(anchor, None).kind == "gone"
    assert judge_text(anchor, None, other="x = 1\n").kind == "gone"


def test_a_different_definition_of_the_same_name_is_not_the_moved_one() -> None:
    removed = CLIENT.replace("\n".join(CLIENT.split("\n")[6:10]), "")
    namesake = (
        "class Letter:\n    def post(self):\n        self.box.open()\n        self.box.drop(self)\n"
    )
    assert judge_text(SYMBOL, removed, letter=namesake).kind == "gone"
    assert judge_text(SYMBOL, removed + namesake).kind == "gone"
    assert judge_text(SYMBOL, None, letter=namesake).kind == "gone"


def test_an_anchor_without_commit_and_hash_is_unverifiable() -> None:
    bare = Anchor(path="client.py", commit=COMMIT)
    assert judge_text(bare, CLIENT, then=None).kind == "unverifiable"
    assert judge_text(WHOLE, None, then=None).kind == "unverifiable", (
        "perhaps it was renamed: without its commit nobody knows"
    )
    assert judge_anchor(WHOLE, CLIENT, {}, "client.py").kind == "unverifiable", (
        "there, but not readable"
    )


def test_a_line_with_little_text_is_not_searched_elsewhere() -> None:
    text = "def f():\n    return 1\n\ndef g():\n    return 1\n"
    anchor = make_anchor("a.py", text, COMMIT, lines=(2, 2))
    assert (
        judge_anchor(anchor, text, {"a.py": text.replace("return 1", "return 2", 1)}, "a.py").kind
        == "changed"
    )


def test_an_unchanged_copy_does_not_hide_a_changed_line() -> None:
    block = "    value = compute_the_first_thing(argument)\n"
    text = f"def f():\n{block}\ndef g():\n{block}"
    anchor = make_anchor("a.py", text, COMMIT, lines=(2, 2))
    assert (
        judge_anchor(anchor, text, {"a.py": text.replace("first", "second", 1)}, "a.py").kind
        == "changed"
    )


def test_an_anchored_line_that_was_extended_is_changed() -> None:
    text = "total = price_of(order) + shipping\n"
    anchor = make_anchor("a.py", text, COMMIT, lines=(1, 1))
    assert (
        judge_anchor(
            anchor, text, {"a.py": "total = price_of(order) + shipping - discount\n"}, "a.py"
        ).kind
        == "changed"
    )


@pytest.mark.parametrize("then", [CLIENT, None])
def test_an_anchor_in_the_old_format_is_read(then: str | None) -> None:
    old = parse_anchor("client.py:7-10@3f2ab91c0ffe symbol:Client.post text:7981136aa91b")
    assert old is not None
    assert judge_text(old, CLIENT, then).kind == "fresh"
    assert judge_text(old, SHIFTED, then).kind == "moved"
    assert judge_text(old, WRAPPED, then).kind == "fresh"
    assert judge_text(old, EDITED, then).kind == "changed"
    lines = parse_anchor("client.py:7-10@3f2ab91c0ffe text:7981136aa91b")
    assert lines is not None
    assert (judge_text(lines, SHIFTED, then).kind, judge_text(lines, EDITED, then).kind) == (
        "moved",
        "changed",
    )
