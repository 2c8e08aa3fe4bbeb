"""Tests of the back-test, which counts the results of checks on past changes."""

from __future__ import annotations

import pytest

from memory_ci.checks import backtest as module
from memory_ci.checks import patterns
from memory_ci.checks.backtest import PastChange, backtest
from memory_ci.checks.judge import AddedLine, CheckedChange
from memory_ci.records.check import AbsentCheck, ChangeCheck, RuleCheck, UntouchedCheck, WithCheck
from memory_ci.records.history import FileChange
from tests.make import make_change, make_commit


def make_past_change(number: int, *paths: str, text: str = "") -> PastChange:
    """Return a past change that touches files."""
    merged = make_change(make_commit(f"Work {number}", sha=f"{number:040x}"))
    files = tuple(FileChange("M", path) for path in paths)
    added = (AddedLine(paths[0], 1, text),) if text else ()
    return PastChange(merged, CheckedChange(files=files, added=added))


def make_rule(check: ChangeCheck) -> RuleCheck:
    """Return a rule with a check."""
    return RuleCheck(id="7f3a", name="7f3a", title="x", check=check)


def test_each_check_gets_its_counts_and_the_newest_changes_first() -> None:
    history = [
        make_past_change(1, "src/a"),
        make_past_change(2, "src/a", "CHANGELOG.md"),
        make_past_change(3, "docs/a"),
        make_past_change(4, "src/b"),
    ]
    checks = (WithCheck(("src/**",), ("CHANGELOG.md",)), UntouchedCheck(("docs/",)))
    first, second = backtest([make_rule(check) for check in checks], iter(history))
    assert (first.changes, first.applicable, first.share) == (4, 3, 2 / 3)
    assert [violation.merged.title for violation in first.violations] == ["Work 4", "Work 1"]
    assert (second.applicable, [violation.merged.title for violation in second.violations]) == (
        4,
        ["Work 3"],
    )


def test_an_empty_history_has_no_counts() -> None:
    (result,) = backtest([make_rule(UntouchedCheck(("a",)))], ())
    assert (result.changes, result.applicable, result.share) == (0, 0, 0.0)


def test_a_slow_pattern_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.02)
    monkeypatch.setattr(module, "MAX_UNJUDGED", 3)
    history = [make_past_change(number, "a", text="a" * 60 + "!") for number in range(500)]
    (result,) = backtest([make_rule(AbsentCheck(("a",), "(a+)+$"))], history)
    assert (result.changes, result.unjudged, result.violations) == (500, 500, ())
    assert "took more than" in result.reason
