"""Tests of anchors as text: reading, writing, and making them from cites."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.anchors.anchors import (
    enrich_anchor,
    format_anchor,
    make_anchor,
    parse_anchor,
    strip_layout,
)
from memory_ci.anchors.symbols import find_mentioned_definition
from memory_ci.records.anchor import Anchor
from tests.anchors.anchored_code import CLIENT, COMMIT, POST
from tests.make import examples

paths = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), min_size=1
).filter(lambda path: not path.startswith(("/", "./", "../")))

lines = st.none() | st.tuples(st.integers(1, 9999), st.integers(0, 99)).map(
    lambda pair: (pair[0], sum(pair))
)

names = st.none() | st.text(
    st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=1
).filter(lambda name: "@" not in name)


@examples(200)
@given(paths, lines, st.text("0123456789abcdef", min_size=7, max_size=40), names, st.booleans())
def test_a_formatted_anchor_parses_to_the_same_anchor(
    path: str, span: tuple[int, int] | None, commit: str, symbol: str | None, is_hashed: bool
) -> None:
    first, last = span or (None, None)
    digest = "9f31c2d09f31" if is_hashed else None
    anchor = Anchor(path=path, commit=commit, first=first, last=last, symbol=symbol, digest=digest)
    assert parse_anchor(format_anchor(anchor)) == anchor


@pytest.mark.parametrize(
    "path", ["a:12", "a:3-4", "a:-", "a:-:-", "a:0", "a@3f2ab91", "a text:9f31c2d0", "a "]
)
@pytest.mark.parametrize("line", [None, 7])
def test_a_path_that_looks_like_an_anchor_is_read_as_a_path(path: str, line: int | None) -> None:
    anchor = Anchor(path=path, commit=COMMIT, first=line, last=line)
    assert parse_anchor(format_anchor(anchor)) == anchor


@examples(200)
@given(st.text() | st.from_regex(r"\A.{0,9}:?[0-9-]{0,5}@[0-9a-f]{5,9}( symbol:.?)?( text:.*)?"))
def test_parsing_any_text_raises_no_error(cite: str) -> None:
    anchor = parse_anchor(cite)
    assert anchor is None or parse_anchor(format_anchor(anchor)) == anchor


@pytest.mark.parametrize(
    "cite",
    [
        "",
        "the client",
        "src/client.py",
        "a.py@main",
        "a.py@3f2ab9",
        "/etc/passwd@3f2ab91",
        "../a.py@3f2ab91",
        "./a.py@3f2ab91",
        "a.py:9-3@3f2ab91",
        "a\nb@3f2ab91",
        "a.py@3f2ab91 text:short",
        "a.py@3f2ab91 and more",
    ],
)
def test_text_that_is_not_an_anchor_is_not_parsed(cite: str) -> None:
    assert parse_anchor(cite) is None


def test_the_forms_that_extraction_and_the_manual_write_are_read() -> None:
    assert parse_anchor("src/client.py@3f2ab91c0ffe") == Anchor(path="src/client.py", commit=COMMIT)
    assert parse_anchor("a b:c@d.py:12@3f2ab91") == Anchor(
        path="a b:c@d.py", commit="3f2ab91", first=12, last=12
    )
    whole = parse_anchor("src/payments/client.py:41-58@3f2ab91 symbol:Client.post text:9f31c2d0")
    assert whole == Anchor(
        path="src/payments/client.py",
        commit="3f2ab91",
        first=41,
        last=58,
        symbol="Client.post",
        digest="9f31c2d0",
    )


def test_folding_removes_only_the_differences_that_formatters_make() -> None:
    assert strip_layout("f (\n\t'b' ,  c,\r\n\n);") == strip_layout('f("b", c)')
    assert strip_layout("value = (\n    a\n    + b\n)") == strip_layout("value = a \\\n  + b")
    assert (
        len(
            {
                strip_layout(text)
                for text in ("x = 1", "x = 2", "x == 1", "y = 1", "x = [1]", "X = 1")
            }
        )
        == 6
    )


@given(st.lists(st.text(max_size=8)))
def test_folding_each_line_gives_the_folded_text(parts: list[str]) -> None:
    assert "".join(map(strip_layout, parts)) == strip_layout("\n".join(parts))


def test_an_anchor_of_a_definition_has_its_lines_and_its_whole_name() -> None:
    anchor = make_anchor("client.py", CLIENT, COMMIT, symbol="post")
    assert (anchor.first, anchor.last, anchor.symbol) == (*POST, "Client.post")
    assert make_anchor("client.py", CLIENT, COMMIT, lines=POST).digest == anchor.digest
    assert make_anchor("client.py", CLIENT, COMMIT).digest != anchor.digest


@pytest.mark.parametrize(
    ("prose", "symbol"),
    [
        ("Client.post needs a key", "Client.post"),
        ("call `post` with a key", "Client.post"),
        ("post() needs a key", "Client.post"),
        ("post the letter and get the answer", None),
        ("RETRIES is too low for the client", None),
        ("`RETRIES` is too low", "RETRIES"),
        ("see client.py", None),
    ],
)
def test_only_what_looks_like_code_names_a_definition(prose: str, symbol: str | None) -> None:
    definition = find_mentioned_definition("client.py", CLIENT, prose)
    assert (definition.name if definition else None) == symbol


def test_enriching_gives_a_bare_cite_a_hash_and_a_named_definition_and_nothing_twice() -> None:
    bare = Anchor(path="client.py", commit=COMMIT)
    assert enrich_anchor(bare, CLIENT, "about nothing").first is None
    rich = enrich_anchor(bare, CLIENT, "Client.post needs a key")
    assert (rich.first, rich.last, rich.symbol) == (*POST, "Client.post")
    assert enrich_anchor(rich, "another text", "Client.get is fine") == rich
    cited = enrich_anchor(
        Anchor(path="client.py", commit=COMMIT, first=5, last=5), CLIENT, "Client.post needs a key"
    )
    assert (cited.first, cited.symbol, cited.digest is None) == (5, None, False)
