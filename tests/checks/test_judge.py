"""Tests of judging a change by each kind of check."""

from __future__ import annotations

from datetime import date

import pytest

from memory_ci.checks import patterns
from memory_ci.checks.judge import AddedLine, CheckedChange, Judgement, judge, list_read_globs
from memory_ci.checks.lines import render_violation
from memory_ci.records.check import (
    AbsentCheck,
    BeforeCheck,
    ChangeCheck,
    MessageCheck,
    PresentCheck,
    RuleCheck,
    UntouchedCheck,
    WithCheck,
)
from memory_ci.records.history import FileChange

CHANGELOG = WithCheck(("src/**",), ("CHANGELOG.md",))
PRINT = AbsentCheck(("*.py",), r"\bprint\(")
LICENCE = PresentCheck(("src/**/*.py",), "SPDX-License-Identifier")


def touch_files(*paths: str, status: str = "M") -> CheckedChange:
    """Return a change that touches paths."""
    return CheckedChange(files=tuple(FileChange(status, path) for path in paths))


def add_lines(path: str, *lines: str, status: str = "M") -> CheckedChange:
    """Return a change that adds lines to a file."""
    added = tuple(AddedLine(path, number, text) for number, text in enumerate(lines, start=1))
    return CheckedChange(files=(FileChange(status, path),), added=added)


def write_messages(*messages: str, title: str = "") -> CheckedChange:
    """Return a change with commit messages and a title."""
    return CheckedChange(files=(FileChange("M", "a"),), messages=messages, title=title)


def find_fault(check: ChangeCheck, change: CheckedChange) -> str:
    """Return the violation of a check as a line, or an empty text."""
    judgement = judge(check, change)
    assert judgement.is_applicable
    return judgement.fault.message if judgement.fault else ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (touch_files("src/a.py"), "CHANGELOG.md is not touched"),
        (touch_files("src/a.py", "CHANGELOG.md"), ""),
        (
            CheckedChange(files=(FileChange("R", "lib/a.py", "src/a.py"),)),
            "CHANGELOG.md is not touched",
        ),
        (touch_files("src/a.py", status="D"), "CHANGELOG.md is not touched"),
    ],
)
def test_a_change_of_one_file_needs_a_change_of_the_other(
    change: CheckedChange, message: str
) -> None:
    assert find_fault(CHANGELOG, change) == message


@pytest.mark.parametrize(
    "change", [touch_files("docs/a.md"), touch_files("CHANGELOG.md"), CheckedChange()]
)
def test_a_check_does_not_apply_if_the_change_touches_none_of_its_files(
    change: CheckedChange,
) -> None:
    assert judge(CHANGELOG, change) == Judgement(is_applicable=False)


def test_several_files_may_satisfy_a_check() -> None:
    check = WithCheck(("src/**",), ("changelog.d/*", "CHANGELOG.md"))
    assert (
        find_fault(check, touch_files("src/a.py"))
        == "nothing in changelog.d/*, CHANGELOG.md is touched"
    )
    assert find_fault(check, touch_files("src/a.py", "changelog.d/1.md")) == ""


def test_a_file_that_is_both_cause_and_companion_is_a_companion() -> None:
    check = WithCheck(("src/**",), ("src/version.py",))
    assert not judge(check, touch_files("src/version.py")).is_applicable


def test_touched_files_that_must_not_change_are_named() -> None:
    check = UntouchedCheck(("vendor/", "*.snap"))
    assert find_fault(check, touch_files("a", "vendor/x/y.c")) == "vendor/x/y.c is touched"
    assert find_fault(check, touch_files("a")) == ""


def test_an_added_line_with_the_text_is_found_with_its_place() -> None:
    judgement = judge(PRINT, add_lines("a.py", "x = 1", "print(x)"))
    assert judgement.fault is not None
    assert (judgement.fault.path, judgement.fault.line) == ("a.py", 2)
    assert judgement.fault.message == r"a.py:2 adds text that matches /\bprint\(/"


def test_text_in_another_file_is_not_searched() -> None:
    change = CheckedChange(
        files=(FileChange("M", "a.py"), FileChange("M", "a.md")),
        added=(AddedLine("a.md", 1, "print(1)"),),
    )
    assert find_fault(PRINT, change) == ""


def test_a_deleted_file_adds_no_text() -> None:
    assert not judge(PRINT, touch_files("a.py", status="D")).is_applicable


def test_a_new_file_needs_the_text_and_an_old_one_does_not() -> None:
    assert find_fault(LICENCE, add_lines("src/x/a.py", "import os", status="A")).startswith(
        "src/x/a.py has no text"
    )
    assert (
        find_fault(LICENCE, add_lines("src/a.py", "# SPDX-License-Identifier: MIT", status="A"))
        == ""
    )
    assert not judge(LICENCE, add_lines("src/a.py", "import os")).is_applicable


def test_an_empty_new_file_needs_no_text() -> None:
    assert not judge(LICENCE, touch_files("src/__init__.py", status="A")).is_applicable


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (write_messages("feat: a", "fix: b"), ""),
        (write_messages("feat: a", "oops"), "a commit message does not match /^(feat|fix): /"),
        (write_messages("oops", title="feat: a"), ""),
        (write_messages(title="oops"), "the title does not match /^(feat|fix): /"),
        (write_messages("oops\n\nfix: b"), ""),
    ],
)
def test_each_message_or_the_title_matches(change: CheckedChange, message: str) -> None:
    assert find_fault(MessageCheck("^(feat|fix): "), change) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (write_messages("Work"), ""),
        (write_messages("Work\n\nWIP"), "a commit message matches /WIP/"),
        (write_messages("Work", title="WIP"), "a commit message matches /WIP/"),
    ],
)
def test_no_message_and_no_title_has_a_forbidden_text(change: CheckedChange, message: str) -> None:
    assert find_fault(MessageCheck("WIP", is_forbidden=True), change) == message


def test_a_change_without_a_message_yet_is_not_judged_by_messages() -> None:
    assert not judge(MessageCheck("^x"), touch_files("a")).is_applicable


def test_a_check_of_session_commands_does_not_apply_to_a_change() -> None:
    assert not judge(BeforeCheck("commit", ("make lint",)), touch_files("a")).is_applicable


def test_a_pattern_that_times_out_is_neither_followed_nor_violated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.05)
    judgement = judge(AbsentCheck(("*",), "(a+)+$"), add_lines("a", "a" * 60 + "!"))
    assert judgement.fault is None
    assert "took more than" in judgement.unjudged


def test_unread_text_is_not_judged() -> None:
    change = CheckedChange(files=(FileChange("M", "a.py"),), unread="too much")
    assert judge(PRINT, change).unjudged == "too much"


def test_a_violation_counts_even_if_some_text_was_not_read() -> None:
    change = CheckedChange(
        files=(FileChange("M", "a.py"),), added=(AddedLine("a.py", 1, "print("),), unread="too much"
    )
    assert judge(PRINT, change).fault is not None


def test_a_hundred_thousand_files_are_judged() -> None:
    change = touch_files(*(f"src/d{number % 100}/f{number}.py" for number in range(100_000)))
    assert find_fault(CHANGELOG, change) == "CHANGELOG.md is not touched"


def test_only_checks_of_text_need_lines() -> None:
    checks = (CHANGELOG, PRINT, LICENCE, MessageCheck("x"))
    assert list_read_globs(checks) == ("*.py", "src/**/*.py")


@pytest.mark.parametrize(
    ("sessions", "last", "why"),
    [
        (10, date(2026, 11, 12), "asked in 10 sessions, last 12 November; 7f3a"),
        (1, date(2025, 1, 2), "asked in 1 session, last 2 January 2025; 7f3a"),
        (0, date(2026, 9, 1), "a rule since 1 September; 7f3a"),
        (0, None, "7f3a"),
    ],
)
def test_the_line_contains_the_fault_the_reason_and_the_remedy(
    sessions: int, last: date | None, why: str
) -> None:
    rule = RuleCheck(
        id="7f3a", name="7f3a", title="x", check=CHANGELOG, sessions=sessions, last=last
    )
    fault = judge(CHANGELOG, touch_files("src/a.py")).fault
    assert fault is not None
    assert render_violation(rule, fault, date(2026, 11, 28)) == (
        f"CHANGELOG.md is not touched ({why}): add a line, or Memory-Skip: 7f3a <reason>"
    )


SLOW = ("a" * 16 + "!", "a")
"""Lines that `SLOW_PATTERN` searches for milliseconds; the second line matches."""

SLOW_PATTERN = "^(a+)+$"


@pytest.mark.parametrize(
    ("check", "change"),
    [
        (MessageCheck(SLOW_PATTERN), write_messages(*["\n".join(SLOW)] * 300)),
        (
            PresentCheck(("*.py",), SLOW_PATTERN),
            CheckedChange(
                files=tuple(FileChange("A", f"{number}.py") for number in range(300)),
                added=tuple(
                    AddedLine(f"{number // 2}.py", 1, SLOW[number % 2]) for number in range(600)
                ),
            ),
        ),
    ],
)
def test_all_searches_of_a_check_share_one_time_limit(
    monkeypatch: pytest.MonkeyPatch, check: ChangeCheck, change: CheckedChange
) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.05)
    assert "took more than" in judge(check, change).unjudged


def test_a_moved_line_is_not_an_added_line() -> None:
    check = AbsentCheck(("*.py",), r"print\(")
    moved = AddedLine("a.py", 1, "print(1)", moved_from="a.py")
    change = CheckedChange(files=(FileChange("M", "a.py"),), added=(moved,))
    assert find_fault(check, change) == ""


def test_a_line_moved_from_an_allowed_file_is_an_added_line() -> None:
    check = AbsentCheck(("src/**",), r"print\(")
    moved = AddedLine("src/a.py", 1, "print(1)", moved_from="scripts/a.py")
    change = CheckedChange(files=(FileChange("M", "src/a.py"),), added=(moved,))
    assert "print" in find_fault(check, change)


def test_a_line_moved_into_a_new_file_is_found_there() -> None:
    check = PresentCheck(("*.py",), "SPDX")
    moved = AddedLine("a.py", 1, "# SPDX", moved_from="b.py")
    change = CheckedChange(files=(FileChange("A", "a.py"),), added=(moved,))
    assert find_fault(check, change) == ""
