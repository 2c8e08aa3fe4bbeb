"""Tests of formatting text for a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.cli.terminal import (
    ProgressLine,
    bar,
    columns,
    cut,
    fold,
    paint,
    render_csv,
    render_entries,
    render_excerpt,
    render_finding_block,
    short_ids,
)
from memory_ci.records.anchor import CodeEdit
from memory_ci.records.report import Finding
from tests.make import make_id, make_located

ANSI = re.compile(r"\x1b\[[\d;]*m")
WORDS = st.text(st.sampled_from("ab/.:█ 語"), max_size=200)


@given(WORDS, st.integers(40, 120))
def test_folding_keeps_all_words_and_only_single_words_exceed_the_width(
    text: str, width: int
) -> None:
    folded = fold(text, width)
    assert folded.split() == text.split()
    assert all(columns(line) <= width or len(line.split()) <= 2 for line in folded.splitlines())


@given(WORDS)
def test_paint_adds_colour_and_nothing_else(text: str) -> None:
    assert ANSI.sub("", paint(text)) == text


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("Error: gone [bad-config]", "Error"),
        ("at src/client.py:10-20 it", "src/client.py:10-20"),
        ("3f2ab91c Retry once", "3f2ab91c"),
        ("run `memory-ci list` now", "`memory-ci list`"),
        ("warn  hooks  none", "warn"),
    ],
)
def test_kinds_of_words_have_a_colour(line: str, word: str) -> None:
    assert re.search(rf"\x1b\[[\d;]+m{re.escape(word)}\x1b\[0m", paint(line))


@pytest.mark.parametrize(
    "line", ["it was 10:30:00 then", "on 2026-11-20", "commit:6352a624b818", "sha 6352a624b8"]
)
def test_similar_words_have_no_colour(line: str) -> None:
    assert paint(line) == line


def test_continuation_lines_are_indented_and_commands_are_not_broken() -> None:
    row = "0f6f1f0e  0.80  corrective  " + "word " * 20
    first, second, *_ = fold(row, 60).splitlines()
    assert second.index("word") == first.index("word")
    assert "`memory-ci help learning`" in fold(
        f"{'word ' * 9}(`memory-ci help learning`) " + "more " * 9, 60
    )
    command = "                     -> memory-ci init --clone --agent claude-code --agent codex --agent gemini"
    assert fold(command, 60) == f"{command}\n"


def test_a_cut_text_counts_wide_letters_twice() -> None:
    assert cut("語語語語", 5) == "語語…"
    assert cut("as it is", 8) == "as it is"


@pytest.mark.parametrize(
    ("source", "message", "under"),
    [
        ("type: novel", "type: 'novel' is not one of these", "novel"),
        ("  max_chars: many", "retrieve.max_chars must be a whole number", "max_chars"),
        ("  max_char: 100", "unknown key 'retrieve.max_char'", "max_char"),
        ("  # Title", "something else", "# Title"),
        (f"{'x ' * 80}'odd' y", "'odd' is odd", "odd"),
    ],
)
def test_a_finding_points_to_its_text(source: str, message: str, under: str) -> None:
    block = render_finding_block(
        Finding("a/MEMORY.md", 12, "bad-value", message, "Mend it."), source
    )
    head, _, line, marks, hint = block.splitlines()[:5]
    start = marks.index("^")
    assert line[start : start + marks.count("^")] == under
    assert head == f"a/MEMORY.md:12:{source.index(under) + 1}: bad-value {message}"
    assert hint == "help: Mend it."


@pytest.mark.parametrize(
    ("source", "under"),
    [
        ("    def charge(self, order, timeout=60):", "charge"),
        ('        return self.post("/v2/charge", charge(order))', "charge("),
        ('        return self.post("/v2/charge", order)', 'return self.post("/v2/charge", order)'),
        ("        recharge(order); charge_all(order)", "recharge(order); charge_all(order)"),
        ("        doesn't(slow)", "doesn't(slow)"),
    ],
)
def test_the_caret_of_changed_code_points_at_the_symbol_or_the_line(
    source: str, under: str
) -> None:
    edit = CodeEdit("Client.charge", "7521943aaaaaaaaa", 12)
    message = f'memory speaks about the code that changes here ({edit}): 05662eca "`order` doesn\'t wait at slow" at a.md:6'
    block = render_finding_block(
        Finding("src/client.py", 2, "anchor-changed", message, level="warning"), source
    )
    head, _, line, marks = block.splitlines()[:4]
    start = marks.index("^")
    assert line[start : start + marks.count("^")] == under.rstrip("(")
    assert head.startswith(f"src/client.py:2:{source.index(under) + 1}: anchor-changed (warning) ")


def test_the_caret_of_changed_lines_of_no_definition_points_at_the_line() -> None:
    message = f'memory speaks about the code that changes here ({CodeEdit("", "7521943")}): 05662eca "`x` is slow" at a.md:6'
    block = render_finding_block(Finding("a.py", 2, "anchor-changed", message), "x = 1")
    assert block.splitlines()[3].count("^") == 5


def test_a_hostile_line_of_a_file_moves_no_cursor() -> None:
    finding = Finding("MEMORY.md", 1, "bad-value", "odd", level="warning")
    assert "\x1b" not in render_finding_block(finding, "a\x1b[2Jb")
    assert render_finding_block(finding, None) == "MEMORY.md:1:1: bad-value (warning) odd\n\n"


def test_a_bar_stays_within_its_width() -> None:
    assert [bar(share, 4) for share in (-1, 0, 0.5, 1, 7)] == [
        "░░░░",
        "░░░░",
        "██░░",
        "████",
        "████",
    ]


def test_a_short_id_is_long_enough_to_be_unique() -> None:
    ids = [f"{start}{make_id(1)[8:]}" for start in ("0f6f1f0e", "3f2ab91c")]
    twin = f"0f6f1f0e-0001{make_id(1)[13:]}"
    short_id_of = short_ids([*ids, twin])
    assert [short_id_of[entry_id] for entry_id in (*ids, twin)] == [
        "0f6f1f0e-0000",
        f"3f2ab91c-{make_id(1)[9:13]}",
        "0f6f1f0e-0001",
    ]
    assert set(map(len, short_ids(ids).values())) == {8}


def test_a_table_of_entries_has_names_and_fits_at_a_terminal_and_is_whole_elsewhere() -> None:
    places = [(0.5, make_located(number, title="word " * 40)) for number in (1, 2)]
    head, *rows = render_entries(places, {}, 80).splitlines()
    assert head.split() == ["id", "title"]
    assert {len(row) for row in rows} <= set(range(75, 81))
    assert len(render_entries(places, {}).splitlines()) == 2
    assert render_entries(places, {}).count("word") == 80


def test_a_column_whose_cells_differ_follows_the_title_at_a_terminal() -> None:
    places = [(0.5, make_located(1, title="word " * 40)), (0.25, make_located(2, title="Retry"))]
    head, first, second = render_entries(places, {}, 60).splitlines()
    assert head.split() == ["id", "title", "score"]
    assert (first[-7:], second[-7:]) == ("…  0.50", "   0.25")
    assert {len(head), len(first), len(second)} <= {60, 61, 59}


def test_columns_that_would_cut_a_title_too_short_are_left_out_at_a_terminal() -> None:
    places = [
        (0.5, make_located(1, title="word " * 40)),
        (
            0.25,
            make_located(2, "institutional.md", "institutional", title="Retry", type="directive"),
        ),
    ]
    assert render_entries(places, {}, 80).splitlines()[0].split() == [
        "id",
        "title",
        "score",
        "type",
    ]
    assert render_entries(places, {}, 120).splitlines()[0].split()[-1] == "scope"


def test_text_in_csv_is_never_a_formula() -> None:
    text = render_csv(
        ("id", "title", "score"), [("1", '=HYPERLINK("x")', -0.5), ("2", 'a, "b"\x1b[2J', 1)]
    )
    assert text == 'id,title,score\r\n1,"\'=HYPERLINK(""x"")",-0.5\r\n2,"a, ""b""\\x1b[2J",1\r\n'


def test_carets_are_below_wide_letters_and_long_ones_are_painted_in_linear_time() -> None:
    _, source, marks = render_excerpt(3, "漢字: 値", "no 値 here: '値'")[0].splitlines()
    assert columns(marks.partition("^")[0]) == columns(source.partition("値")[0])
    assert marks.endswith(" ^^")
    paint(f"{'^' * 1_000_000} no end\n")  # a painter that looks at each pair of them would not end


def test_a_progress_line_counts_and_never_exceeds_the_terminal() -> None:
    written: list[str] = []
    line = ProgressLine(40, written.append)
    line.draw("Reading merged work", 3, 12)
    line.draw("Reading sessions of no merged change", 0, 0)
    assert written == [
        "\x1b[KReading merged work  3 of 12 █████░░░░…\r",
        "\x1b[KReading sessions of no merged change…\r",
    ]


def test_a_count_is_drawn_for_some_of_many_items_and_for_the_last() -> None:
    written: list[str] = []
    line = ProgressLine(80, written.append)
    for done in range(10_001):
        line.draw("Reading files", done, 10_000)
    assert len(written) < 5_000
    assert written[-1].startswith("\x1b[KReading files 10,000 of 10,000 ")
