"""Tests of searching with regular expressions under a time limit."""

from __future__ import annotations

import re
import signal
import threading

import pytest

from memory_ci.checks import patterns
from memory_ci.checks.patterns import (
    PatternError,
    UnjudgedError,
    compile_pattern,
    find_match,
    limit_time,
)


def test_the_first_text_with_a_match_is_found() -> None:
    assert find_match(compile_pattern(r"\bprint\("), ["x", "print(1)", "print(2)"]) == 1


def test_a_text_without_a_match_is_not_found() -> None:
    assert find_match(compile_pattern("^x"), ["ax"]) is None


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*b", r"^(\w+\s?)*$"])
def test_a_pattern_that_runs_out_of_time_is_not_judged(
    monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.05)
    text = "a" * 60 + "!"
    with pytest.raises(UnjudgedError, match="took more than"), limit_time():
        find_match(compile_pattern(pattern), [text])


def test_the_timer_and_its_handler_are_restored() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with limit_time():
        find_match(re.compile("a"), ["a"])
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_long_line_is_not_judged_if_no_other_line_matches() -> None:
    with pytest.raises(UnjudgedError, match="10,000 characters"):
        find_match(re.compile("b"), ["a" * 1_000_000, "a"])


def test_a_match_counts_although_another_line_is_too_long() -> None:
    assert find_match(re.compile("b"), ["a" * 1_000_000, "b"]) == 1


def test_a_pattern_is_not_judged_in_another_thread() -> None:
    reasons: list[str] = []

    def search() -> None:
        try:
            with limit_time():
                find_match(re.compile("a"), ["a"])
        except UnjudgedError as error:
            reasons.append(str(error))

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert "main thread" in reasons[0]


@pytest.mark.parametrize("text", ["", "  ", "(", "a" * 501, "(" * 400, "a(?i)b", "[[a]"])
def test_an_invalid_pattern_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(text)
