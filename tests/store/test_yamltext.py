"""Tests of reading YAML: the fast path and the YAML parser agree, and ambiguous text is refused."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.store.yamltext import (
    YamlTextError,
    find_trailing_comment,
    format_scalar,
    parse_fields,
    parse_simple_lines,
    parse_with_yaml,
)

KEYS = st.sampled_from(["id", "type", "x", "a-b", "_y", "true", "12"])
VALUES = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            " a",
            " a b",
            " a:b",
            " a: b",
            " a:",
            " 12:30",
            " #c",
            " a #c",
            " a#c",
            " 'q'",
            " 'it''s'",
        ]
    ),
    st.sampled_from(
        [
            " ''",
            " NO",
            " 0123",
            " a  b",
            " a ",
            "  a",
            " -",
            " - a",
            " [a, b]",
            " {a: b}",
            " |",
            " 'a: b'",
            "\t",
        ]
    ),
    st.text("abc '\"#:-,[]{}&*!|>%@`?\\~\t", max_size=8),
)
LINES = st.lists(
    st.one_of(
        st.builds("{}:{}".format, KEYS, VALUES),
        st.builds("-{}".format, VALUES),
        st.builds("  {}".format, VALUES),
    ),
    min_size=1,
    max_size=5,
)


@given(LINES)
def test_the_fast_path_agrees_with_the_parser_or_calls_it(lines: list[str]) -> None:
    fast = parse_simple_lines(lines)
    if fast is not None:
        assert fast == parse_with_yaml(lines)


@given(LINES)
def test_any_lines_are_fields_or_an_error_with_a_line(lines: list[str]) -> None:
    try:
        fields = parse_fields(lines)
    except YamlTextError as error:
        assert 0 <= error.line < len(lines) or not lines  # noqa: PT017 - both outcomes are legal
    else:
        assert len({field.key for field in fields}) == len(fields)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_scalar_reads_back_in_yaml_1_1(text: str) -> None:
    assert yaml.safe_load(f"key: {format_scalar(text)}") == {"key": text}


@pytest.mark.parametrize(
    "text",
    [
        "{a: 1, id: x}",
        "- a",
        "a: &x 1",
        "a: *x",
        "a: !!int 1",
        "? a\n: b",
        "a: 1\na: 2",
        "  a: 1",
        "a: 1\n--- b",
    ],
)
def test_ambiguous_text_is_refused(text: str) -> None:
    with pytest.raises(YamlTextError):
        parse_fields(text.split("\n"))


def test_a_comment_is_no_field_and_is_kept() -> None:
    fields = parse_fields(
        ["a: 1", "# about b", "", "b:", "  - x", "  # inside", "  - y", "c: {d: e}"]
    )
    assert [(field.key, field.value, field.first, field.last) for field in fields] == [
        ("a", "1", 0, 0),
        ("b", ("x", "y"), 3, 6),
        ("c", None, 7, 7),
    ]


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("a: |\n  text\n  # still text\n# about b\nb: 1", 2),
        ("a: >-\n  text\n\n  # still text\n\nb: 1", 3),
        ("a:\n- |\n  # all text\n  # of it\n  # a remark less deep would be one\nb: 1", 4),
        ("a: |\n  text\n # a comment\nb: 1", 1),
        ("a: |\n  text\n  # to the end", 2),
    ],
)
def test_a_line_of_a_block_text_is_not_a_comment(text: str, last: int) -> None:
    assert parse_fields(text.split("\n"))[0].last == last


@pytest.mark.parametrize(
    "text",
    ["a: " + "[" * 40_000, "a: " + "{b: " * 10_000, "a:\n " + "- " * 20_000, "a: " + "x" * 100_001],
)
def test_text_that_is_slow_to_parse_is_refused(text: str) -> None:
    """The YAML parser needs quadratic time for forty thousand brackets and would not end."""
    with pytest.raises(YamlTextError) as raised:
        parse_fields(text.split("\n"))
    # Newer versions of libyaml refuse such nesting themselves, in words of their own.
    reasons = ("deeper than", "maximum nesting depth", "a line of more than")
    assert any(reason in raised.value.reason for reason in reasons)


def test_ordinary_nesting_is_read() -> None:
    assert parse_fields(["a: " + "[" * 19 + "]" * 19])[0].value is None


@pytest.mark.parametrize("line", ["b: [x", "b: {x: 1", "b 2", "b: 'x", "b: x: y", "b: %x"])
def test_the_error_for_unreadable_text_has_its_first_line(line: str) -> None:
    with pytest.raises(YamlTextError) as raised:
        parse_fields(["a: 1", line, "c: 3", "d: 4"])
    assert raised.value.line == 1


@pytest.mark.parametrize("char", "\r\x85\u2028\u2029")
def test_a_line_break_that_only_yaml_knows_is_refused_with_its_line(char: str) -> None:
    with pytest.raises(YamlTextError) as raised:
        parse_fields(["a: 1", f"b: x{char}y", "c: 2"])
    assert raised.value.line == 1


@pytest.mark.parametrize(
    ("line", "comment"),
    [
        ("a: 0   # set by Ann", "   # set by Ann"),
        ("a: 'it''s # no' # yes", " # yes"),
        ('a: "\\" # no"\t# yes', "\t# yes"),
        ("a: # yes", " # yes"),
        ("a: x#no", ""),
        ("a: it's # yes", " # yes"),
        ("a: 'x'", ""),
    ],
)
def test_the_comment_after_a_value_is_found(line: str, comment: str) -> None:
    assert find_trailing_comment(line) == comment
