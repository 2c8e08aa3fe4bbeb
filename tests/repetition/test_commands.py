"""Tests of the forms of shell commands, and of output lines without variable parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.repetition.commands import MAX_COMMAND, list_forms, mask_line
from tests.make import examples

HOSTILE = (
    *(" ", "\t", "\n", "\n ", "&", "&&", "|", ";", "<<", "<<a", "<<'", "<", "> ", "2>", "'", '"'),
    *("\\", "\\'", '\\"', "=", "a=", "FOO=", "sudo ", "(", ")", "--a ", "-", "a-", "a:", "/", "/a"),
    *("~/", "a/", "0", "0.", "0123456789abcdef", "a", "REDACTED", "[redacted", "\u2028", "\u4e00"),
)


def find_forms(command: str) -> list[str]:
    """Return the forms of the commands in a command line."""
    return [str(form) for form in list_forms(command)]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git push \\\n  --force", ["git push --force"]),
        ("# don't stop\ngit push # it's done", ["git push"]),
        ("gh pr diff 12 --stat", ["gh pr diff --stat"]),
        ("cd app && FOO=1 npm run test:unit", ["npm run test:unit"]),
        ("sudo time git push", ["git push"]),
        ("git commit -m 'x' --amend", ["git commit -m --amend"]),
        ("git log --format=%H -5 | head -3", ["git log --format", "head"]),
        ("/usr/bin/git status; ./scripts/run.sh now", ["git status", "./scripts/run.sh now"]),
        ("cat <<'EOF' > x\nrm -rf /\nEOF", ["cat"]),
        ("python -m pytest -q tests", ["python -m -q"]),
        ("export A=1; echo done", []),
        ("git log 2>&1 | cat", ["git log", "cat"]),
        ("", []),
    ],
)
def test_a_form_has_program_subcommands_and_options(command: str, expected: list[str]) -> None:
    assert find_forms(command) == expected


@pytest.mark.parametrize(
    "command",
    [
        'git commit -m "fix it && git push; npm test"',
        "git commit -m 'fix it | git push\nnpm test'",
        'git commit -m "say \\"git push\\" && npm test"',
    ],
)
def test_text_in_quotation_marks_is_not_a_command(command: str) -> None:
    assert find_forms(command) == ["git commit -m"]


def test_an_unclosed_quotation_mark_hides_no_command() -> None:
    assert find_forms("git commit -m don't && git push") == ["git commit -m", "git push"]


def test_a_word_that_is_not_a_program_name_has_no_form() -> None:
    assert find_forms('"$HOME/x y" run; {a,b} c; $(which git) log') == []


def test_a_form_contains_no_secret() -> None:
    command = "TOKEN=hunter2x curl -H 'Auth: hunter2x' --user=ada:hunter2x https://x/hunter2x"
    assert find_forms(command) == ["curl -H --user"]


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("fatal: /home/ada/shop/.git/index.lock exists", "fatal: PATH exists"),
        ("bash: ~/bin/x: No such file", "bash: PATH: No such file"),
        ("pid 4711 of 0123abcd4567", "pid N of N"),
        ("job 0b1c2d3e-0000-4000-8000-000000000001 ended", "job N ended"),
        ("key [redacted:github-token] refused", "key N refused"),
        ("src/client.py  is   missing", "src/client.py is missing"),
        ("unknown flag: --stat", "unknown flag: --stat"),
    ],
)
def test_paths_outside_the_repository_ids_and_numbers_are_masked(line: str, masked: str) -> None:
    assert mask_line(line) == masked


@given(st.text(max_size=300))
@examples(300)
def test_masking_a_line_removes_all_numbers_and_is_idempotent(line: str) -> None:
    masked = mask_line(line)
    assert mask_line(masked) == masked


@given(st.lists(st.sampled_from([*HOSTILE, "git", "commit", " push "]), max_size=60))
@examples(300)
def test_any_command_line_is_read_without_an_error(parts: list[str]) -> None:
    for form in list_forms("".join(parts)):
        assert form.program
        assert str(form).split() == [form.program, *form.subcommands, *form.options]


@pytest.mark.parametrize("unit", HOSTILE)
def test_repeated_signs_are_read_in_linear_time(unit: str) -> None:
    """A backtracking pattern would take hours."""
    line = unit * (100_000 // len(unit))
    for end in ("", "!", "="):
        list_forms(line[:MAX_COMMAND] + end)
        list_forms(line + end)
        mask_line(line + end)
