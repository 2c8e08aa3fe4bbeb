"""The fast path and the YAML parser read every text alike; what they cannot, they refuse."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.store.yamltext import YamlTextError, _fast_fields, _yaml_fields, format_scalar, parse_fields

KEYS = st.sampled_from(["id", "type", "x", "a-b", "_y", "true", "12"])
VALUES = st.one_of(
    st.sampled_from(
        ["", " ", " a", " a b", " a:b", " a: b", " a:", " 12:30", " #c", " a #c", " a#c", " 'q'", " 'it''s'"]
    ),
    st.sampled_from(
        [" ''", " NO", " 0123", " a  b", " a ", "  a", " -", " - a", " [a, b]", " {a: b}", " |", " 'a: b'", "\t"]
    ),
    st.text("abc '\"#:-,[]{}&*!|>%@`?\\~\t", max_size=8),
)
LINES = st.lists(
    st.one_of(
        st.builds("{}:{}".format, KEYS, VALUES), st.builds("-{}".format, VALUES), st.builds("  {}".format, VALUES)
    ),
    min_size=1,
    max_size=5,
)


@given(LINES)
def test_the_fast_path_agrees_with_the_parser_or_leaves_it_to_it(lines: list[str]) -> None:
    fast = _fast_fields(lines)
    if fast is not None:
        assert fast == _yaml_fields(lines)


@given(LINES)
def test_any_lines_are_fields_or_an_error_with_a_line_of_theirs(lines: list[str]) -> None:
    try:
        fields = parse_fields(lines)
    except YamlTextError as error:
        assert 0 <= error.line < len(lines) or not lines  # noqa: PT017 - both outcomes are legal
    else:
        assert len({field.key for field in fields}) == len(fields)


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_a_scalar_reads_back_as_the_same_text_in_yaml_1_1(text: str) -> None:
    assert yaml.safe_load(f"key: {format_scalar(text)}") == {"key": text}


@pytest.mark.parametrize(
    "text",
    ["{a: 1, id: x}", "- a", "a: &x 1", "a: *x", "a: !!int 1", "? a\n: b", "a: 1\na: 2", "  a: 1", "a: 1\n--- b"],
)
def test_what_a_reader_and_a_writer_could_read_differently_is_refused(text: str) -> None:
    with pytest.raises(YamlTextError):
        parse_fields(text.split("\n"))


def test_a_comment_belongs_to_nobody_and_survives() -> None:
    fields = parse_fields(["a: 1", "# about b", "", "b:", "  - x", "  # inside", "  - y", "c: {d: e}"])
    assert [(field.key, field.value, field.first, field.last) for field in fields] == [
        ("a", "1", 0, 0),
        ("b", ("x", "y"), 3, 6),
        ("c", None, 7, 7),
    ]
