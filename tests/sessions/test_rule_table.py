"""Tests of the table of checks in the git directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.records.check import BeforeCheck, RuleCheck, UntouchedCheck
from memory_ci.sessions.moments import RULES as FILE
from memory_ci.sessions.moments import has_rules
from memory_ci.sessions.rule_table import MAX_TABLE, load_rules, save_rules

RULES = (
    RuleCheck(id="7f3a", name="7f3a", title="x", check=UntouchedCheck(("vendor/",))),
    RuleCheck(id="8f3a", name="8f3a", title="y", check=BeforeCheck("push", ("make lint",))),
)


@pytest.fixture
def common_dir(tmp_path: Path) -> Path:
    path = tmp_path / ".git"
    (path / "memory-ci").mkdir(parents=True)
    return path


def test_the_table_is_read_back_unchanged(common_dir: Path) -> None:
    save_rules(common_dir, RULES)
    assert has_rules(common_dir)
    assert load_rules(common_dir) == RULES


def test_without_checks_there_is_no_table(common_dir: Path) -> None:
    save_rules(common_dir, RULES)
    save_rules(common_dir, ())
    assert not has_rules(common_dir)
    assert load_rules(common_dir) == ()


def test_checks_that_are_too_long_are_left_out(common_dir: Path) -> None:
    long = RuleCheck(id="9", name="9", title="z" * MAX_TABLE, check=UntouchedCheck(("vendor/",)))
    save_rules(common_dir, [RULES[0], long, RULES[1]])
    assert load_rules(common_dir) == RULES[:1]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"5",
        b"[" * 100_000,
        b'[{"id": "1", "name": "1", "title": "x", "check": {"kind": "x"}}]',
        b" " * (MAX_TABLE + 1),
    ],
    ids=["empty", "a number", "nested", "a check of no kind", "too large"],
)
def test_a_broken_table_is_ignored_and_replaced(common_dir: Path, data: bytes) -> None:
    (common_dir / "memory-ci" / FILE).write_bytes(data)
    assert load_rules(common_dir) == ()
    save_rules(common_dir, RULES)
    assert load_rules(common_dir) == RULES
