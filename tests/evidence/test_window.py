"""Tests of the evidence window: it keeps corrections, respects its budget, and reports omissions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.evidence.window import (
    OMISSION,
    EvidenceWindow,
    choose_pieces,
    estimate_piece_tokens,
    is_correction,
    shorten_middle,
)
from memory_ci.records.event import MID_TURN, Evidence, EvidenceSet
from memory_ci.text import estimate_tokens
from tests.evidence.make import make_piece
from tests.make import examples

S1, S2 = "claude-code:s1", "codex:s2"
LONG = "We should look at the parser again, and then at the reader.\n" * 10


def window(pieces: list[Evidence], budget: int, hit: str = "NEVER") -> EvidenceWindow:
    return choose_pieces(EvidenceSet(tuple(pieces)), budget, lambda text: hit in text)


def ids(result: EvidenceWindow) -> set[str]:
    """Return the ids of the pieces in a window."""
    return {piece.id for piece in result.pieces}


def test_evidence_that_fits_is_shown_whole_without_a_notice() -> None:
    pieces = [make_piece(number) for number in range(5)]
    result = window(pieces, 10_000)
    assert result == EvidenceWindow(
        pieces=tuple(pieces), tokens=sum(map(estimate_piece_tokens, pieces))
    )


def test_a_correction_in_the_last_of_two_thousand_turns_survives() -> None:
    pieces = [make_piece(number, LONG) for number in range(2_000)]
    pieces[-1] = make_piece(1_999, "no, the reader must close its file")
    result = window(pieces, 5_000)
    assert result.pieces[-1] == pieces[-1]
    assert result.pieces[0].id == "e0"
    assert result.notice.startswith(
        f"{2_000 - len(result.pieces)} of 2000 turns of session {S1} left out"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "rejection"},
        {"kind": "interrupt", "text": ""},
        {"kind": "check", "labels": (("outcome", "failed-then-passed"),)},
        {"kind": "review", "labels": (("state", "changes_requested"),)},
        {"kind": "review", "labels": (("outcome", "requested-then-made"),)},
        {"kind": "commit", "text": 'Revert "feat: retries"\n\nIt broke.'},
        {"kind": "premortem"},
        {"kind": "assumption"},
        {"kind": "intervention"},
    ],
)
def test_commits_and_reviews_in_the_middle_survive(fields: dict[str, Any]) -> None:
    pieces = [make_piece(number, LONG) for number in range(300)]
    pieces[150] = make_piece(150, **fields)
    assert pieces[150] in window(pieces, 2_500).pieces


def test_a_rule_hit_is_shown_with_two_turns_on_each_side_before_older_turns() -> None:
    pieces = [make_piece(number, LONG) for number in range(300)]
    pieces[100] = make_piece(100, "NEVER retry a POST\n" + LONG)
    kept_ids = ids(window(pieces, 5_000))
    assert {"e98", "e99", "e100", "e101", "e102"} <= kept_ids
    assert not {"e97", "e103"} & kept_ids


def test_a_turn_typed_while_the_agent_worked_is_a_hit() -> None:
    pieces = [make_piece(number, LONG) for number in range(300)]
    pieces[100] = make_piece(100, labels=(MID_TURN,))
    assert "e100" in ids(window(pieces, 5_000))


def test_the_remaining_budget_is_filled_from_the_newest_pieces() -> None:
    pieces = [make_piece(number, LONG) for number in range(100)]
    numbers = [int(piece.id[1:]) for piece in window(pieces, 5_000).pieces]
    assert numbers == [0, *range(101 - len(numbers), 100)]
    assert len(numbers) > 12


def test_reviews_and_commits_come_before_plain_turns_and_a_diff_after_them() -> None:
    structured = [
        make_piece(number, LONG, kind=kind, session=None)
        for number, kind in enumerate(["pr", "commit", "review"])
    ]
    diff = make_piece(3, LONG, kind="diff", session=None)
    turns = [make_piece(number, LONG) for number in range(4, 300)]
    kept_ids = ids(window([*structured, diff, *turns], 3_400))
    assert {"e0", "e1", "e2", "e4", "e299"} <= kept_ids
    assert not {"e3", "e5"} & kept_ids


def test_sessions_share_the_budget() -> None:
    big = [make_piece(number, LONG) for number in range(500)]
    small = [make_piece(500 + number, LONG, session=S2) for number in range(50)]
    result = window(big + small, 12_000)
    shares = [
        sum(estimate_piece_tokens(piece) for piece in result.pieces if piece.session == session)
        for session in (S1, S2)
    ]
    assert abs(shares[0] - shares[1]) <= estimate_piece_tokens(big[0])
    assert S1 in result.notice
    assert S2 in result.notice


def test_a_change_without_turns_has_a_notice_of_omitted_pieces() -> None:
    pieces = [make_piece(number, LONG, session=None, kind="commit") for number in range(100)]
    result = window(pieces, 3_000)
    assert result.notice == f"{100 - len(result.pieces)} of 100 pieces outside sessions left out"


def test_a_long_piece_is_shortened_at_line_ends_and_stays_quotable() -> None:
    lines = [f"line {number} of the log that somebody pasted" for number in range(3_000)]
    result = window([make_piece(1, "\n".join(lines)), make_piece(2, "no, close the file")], 4_000)
    long, last = result.pieces
    assert last.text == "no, close the file"
    head, mark, tail = long.text.partition("[… ")
    count, _, tail = tail.partition(" characters left out …]\n")
    assert "\n".join(lines).startswith(head)
    assert "\n".join(lines).endswith(tail)
    assert int(count) + len(head) - 1 + len(tail) == len("\n".join(lines))
    assert set(head.splitlines() + tail.splitlines()) <= set(lines)
    assert (mark, result.notice) == ("[… ", "1 long piece shortened")


def test_a_piece_with_thousands_of_paths_does_not_end_the_window() -> None:
    paths = tuple(f"src/generated/file_{number}.py" for number in range(5_000))
    labels = (
        *((f"Trailer-{number}", "x" * 150) for number in range(100)),
        ("outcome", "requested-then-made"),
    )
    pieces = [
        make_piece(0, kind="review", paths=paths, labels=labels),
        make_piece(1, "no, close the file"),
    ]
    result = window(pieces, 2_000)
    assert ids(result) == {"e0", "e1"}
    assert 0 < len(result.pieces[0].paths) < 50
    assert is_correction(result.pieces[0])


WORDS = st.sampled_from(
    [
        "no, close the file",
        "",
        LONG,
        "继续重试" * 300,
        '<b>"x"</b>\n' * 200,
        "a" * 5_000,
        "NEVER do it",
    ]
)
KINDS = st.sampled_from(
    ["text", "text", "text", "rejection", "interrupt", "tool_result", "review", "commit", "diff"]
)
PIECES = st.lists(st.tuples(KINDS, WORDS, st.sampled_from([None, S1, S2])), max_size=40).map(
    lambda rows: [
        make_piece(number, text, kind=kind, session=session)
        for number, (kind, text, session) in enumerate(rows)
    ]
)
BUDGETS = st.integers(0, 6_000)


@examples(60)
@given(PIECES, BUDGETS)
def test_a_window_is_never_over_budget_and_keeps_order_and_ids(
    pieces: list[Evidence], budget: int
) -> None:
    result = window(pieces, budget)
    assert result.tokens == sum(map(estimate_piece_tokens, result.pieces)) <= budget
    order = [piece.id for piece in pieces]
    assert [order.index(piece.id) for piece in result.pieces] == sorted(
        order.index(piece.id) for piece in result.pieces
    )
    counts = map(int, re.findall(r"(\d+) of \d+ ", result.notice))
    assert sum(counts) == len(pieces) - len(result.pieces)
    assert bool(result.notice) == (tuple(pieces) != result.pieces)


@examples(60)
@given(PIECES, BUDGETS)
def test_no_correction_is_left_out_while_a_plain_turn_is_kept(
    pieces: list[Evidence], budget: int
) -> None:
    result = window(pieces, budget)
    dropped = [piece for piece in pieces if is_correction(piece) and piece.id not in ids(result)]
    assert not dropped or all(map(is_correction, result.pieces))


@examples(30)
@given(PIECES, BUDGETS)
def test_the_same_evidence_gives_the_same_window(pieces: list[Evidence], budget: int) -> None:
    assert window(pieces, budget) == window(list(pieces), budget)


@examples(100)
@given(st.text(alphabet="ab \n", max_size=300), st.integers(0, 200))
def test_a_shortened_text_has_only_lines_of_the_original(text: str, width: int) -> None:
    short = shorten_middle(text, lambda short: len(short) <= width)
    lengths = [len(text) - length for length in range(len(text) + 1)]
    marks = [
        OMISSION.format(omitted)
        for omitted in lengths
        if f"\n{OMISSION.format(omitted)}\n" in short
    ]
    assert len(marks) == 1
    head, tail = short.split(f"\n{marks[0]}\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert marks[0] == OMISSION.format(len(text) - len(head) - len(tail))


def test_the_estimate_of_tokens_is_never_too_low() -> None:
    assert [estimate_tokens(text) for text in ("", "abc", "abcd", "再试一次", "é")] == [
        0,
        1,
        2,
        4,
        1,
    ]


def test_the_cost_of_a_piece_is_that_of_its_escaped_text() -> None:
    plain, escaped = (estimate_piece_tokens(make_piece(1, sign * 300)) for sign in ("a", "<"))
    assert escaped - plain == 500


def test_cost_counts_paths_tools_and_labels() -> None:
    plain = estimate_piece_tokens(make_piece(1))
    more: list[dict[str, Any]] = [
        {"tool": "Bash" * 9},
        {"paths": ("src/a.py",) * 9},
        {"labels": (("state", "approved"),)},
    ]
    assert all(estimate_piece_tokens(make_piece(1, **fields)) > plain for fields in more)
