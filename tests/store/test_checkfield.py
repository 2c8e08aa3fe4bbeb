"""Tests of checks in front matter: reading with the line of each fault, and writing."""

from __future__ import annotations

import pytest

from memory_ci.errors import UsageError
from memory_ci.records.check import (
    AbsentCheck,
    BeforeCheck,
    ChangeCheck,
    MessageCheck,
    PresentCheck,
    UntouchedCheck,
    WithCheck,
)
from memory_ci.store.checkfield import format_check, parse_check_text
from memory_ci.store.document import parse_memory_file
from memory_ci.store.edits import format_entry
from tests.make import make_entry

CHECKS: tuple[ChangeCheck, ...] = (
    WithCheck(("src/**", "**/*.py"), ("CHANGELOG.md",)),
    UntouchedCheck(("it's here", "!vendor/ours")),
    AbsentCheck(("*.py",), "print\\(\\s*# x: 'y'"),
    PresentCheck(("src/**/*.py",), 'a "b" {c}, [d]'),
    MessageCheck(r"^\w+: "),
    MessageCheck("WIP", is_forbidden=True),
    BeforeCheck("pull-request", ("make lint", "pytest -q")),
)


@pytest.mark.parametrize("check", CHECKS, ids=format_check)
def test_a_written_check_is_read_back(check: ChangeCheck) -> None:
    assert parse_check_text(format_check(check)) == check
    entry = make_entry(1, check=check, level="warn")
    text = format_entry(entry)
    assert parse_memory_file("MEMORY.md", text.encode()).entries == (entry,)
    crlf = text.replace("\n", "\r\n").encode()
    assert parse_memory_file("MEMORY.md", crlf).entries[0].check == check


def test_a_check_may_be_written_over_several_lines() -> None:
    text = "with:\n  when:\n  - src/**\n  also: CHANGELOG.md"
    assert parse_check_text(text) == WithCheck(("src/**",), ("CHANGELOG.md",))


@pytest.mark.parametrize(
    ("field", "line", "reason"),
    [
        ("check: x", 0, "needs a mapping"),
        ("check: [a]", 0, "needs a mapping"),
        ("check: {}", 0, "needs one of"),
        ("check:\n  foo: 1", 1, "'foo' is none of with, untouched"),
        ("check:\n  untouched: [a]\n  absent: {in: [a], text: b}", 1, "nothing else"),
        ("check:\n  with: {when: [src/**]}", 1, "lacks also"),
        ("check:\n  with:\n    when: [a]\n    also: [b]\n    if: c", 4, "unknown key 'if'"),
        ("check:\n  with:\n    when: [a]\n    also: ['!b']", 3, "negated"),
        ("check:\n  untouched: []", 1, "at least one glob"),
        ("check:\n  untouched: [[a]]", 1, "single text"),
        ("check:\n  untouched: [a?\\]", 1, "unclosed"),
        ("check:\n  absent:\n    in: [a]\n    text: '('", 3, "no regular expression"),
        ("check:\n  absent: {in: [a], text: ''}", 1, "is empty"),
        ("check:\n  message: {has: a}", 1, "needs match or not"),
        ("check:\n  message: {match: a, not: b}", 1, "nothing else"),
        ("check:\n  before: {command: merge, ran: [a]}", 1, "none of commit, push"),
        ("check:\n  before: {command: commit, ran: []}", 1, "1 to 10 commands"),
        ("check:\n  before: {command: commit, ran: [a], since: start}", 1, "since is edit"),
        ("check:\n  before: {command: commit, ran: [a]}\nlevel: fail", 2, "no effect on"),
        ("check:\n  untouched: [a]\nlevel: hard", 2, "remind, warn, fail"),
        ("level: warn", 0, "there is none"),
    ],
)
def test_invalid_checks_are_refused_with_line_and_reason(
    field: str, line: int, reason: str
) -> None:
    lines = format_entry(make_entry(1)).splitlines()
    first = lines.index("---", 1)
    lines[first:first] = field.splitlines()
    (finding,) = parse_memory_file("MEMORY.md", "\n".join(lines).encode()).findings
    assert (finding.code, finding.line) == ("bad-value", first + line + 1)
    assert reason in finding.message


def test_an_invalid_check_on_the_command_line_is_refused_with_the_valid_forms() -> None:
    with pytest.raises(UsageError) as caught:
        parse_check_text("with: {when: [a]}")
    assert caught.value.slug == "bad-check"
    assert "untouched: [GLOB]" in caught.value.hint
