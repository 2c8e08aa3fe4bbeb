"""Tests of headings as CommonMark reads them, and of titles that read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.store.headings import format_title, parse_heading, parse_title


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("## About C#", (2, "About C#")),
        ("## Closed ##", (2, "Closed")),
        ("#\tOne # \t", (1, "One")),
        ("### a # b", (3, "a # b")),
        ("## #", (2, "")),
        ("##", None),
        ("##No blank", None),
        ("####### Seven", None),
        ("text", None),
    ],
)
def test_a_heading_is_closed_only_by_hashes_after_a_blank(
    line: str, heading: tuple[int, str] | None
) -> None:
    assert parse_heading(line) == heading


def test_a_level_1_heading_is_not_a_title() -> None:
    assert (parse_title("# One"), parse_title("## Two")) == (None, "Two")


TITLES = st.text("a# \t", min_size=1, max_size=8).map(lambda text: text.strip(" \t")).filter(bool)


@given(TITLES)
def test_any_title_of_one_line_reads_back(title: str) -> None:
    assert parse_title(format_title(title)) == title


def test_a_heading_is_read_in_linear_time() -> None:
    """With half a million blanks and hashes a backtracking pattern would not end."""
    for inside in (" " * 500_000, "# " * 250_000, "#" * 500_000):
        assert parse_title(f"## a{inside}b") == f"a{inside}b"
