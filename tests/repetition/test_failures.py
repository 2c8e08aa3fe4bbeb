"""Tests of finding commands that fail in the same way in several sessions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.repetition import CommandRun, KnownFailure
from memory_ci.repetition.failures import (
    MAX_LINE,
    FailedRun,
    find_known_failures,
    find_misuse,
    list_failed,
    list_succeeded,
)
from tests.make import examples
from tests.repetition.typed_turns import START, make_run

UNKNOWN = "unknown flag: --stat"
DIFF = "gh pr diff 12 --stat"


def make_failures(days: int, command: str = DIFF, output: str = UNKNOWN) -> list[FailedRun]:
    """Return runs of one command that fails in a session of each day."""
    return [
        run
        for day in range(1, days + 1)
        for run in list_failed([make_run(command, output, day=day)])
    ]


def find_one(failed: list[FailedRun]) -> KnownFailure:
    (failure,) = find_known_failures(failed)
    return failure


def test_an_unknown_option_in_three_sessions_is_a_known_failure() -> None:
    failure = find_one(make_failures(3))
    assert (failure.form, failure.error, failure.sessions) == ("gh pr diff --stat", UNKNOWN, 3)
    assert failure.worked == ""
    assert (failure.last - failure.first).days == 2


def test_two_sessions_are_too_few_without_what_worked() -> None:
    assert find_known_failures(make_failures(2)) == []


def test_two_sessions_suffice_if_the_environment_fails() -> None:
    error = ".husky/pre-commit: line 3: lefthook: command not found"
    failure = find_one(make_failures(2, "git commit -m 'Add a page'", error))
    assert (failure.sessions, failure.error) == (2, error.replace("line 3", "line N"))
    assert find_known_failures(make_failures(1, "git commit -m 'Add a page'", error)) == []


def test_two_sessions_suffice_if_the_same_other_form_worked() -> None:
    failed = []
    for day in (1, 2):
        runs = [make_run(DIFF, UNKNOWN, day=day), make_run("gh pr diff 12 --name-only", day=day)]
        failed += list_failed(runs)
    assert find_one(failed).worked == "gh pr diff --name-only"


def test_two_sessions_in_which_other_forms_worked_are_too_few() -> None:
    failed = []
    for day, worked in ((1, "gh pr diff 12 --name-only"), (2, "gh pr diff 12 --patch")):
        failed += list_failed([make_run(DIFF, UNKNOWN, day=day), make_run(worked, day=day)])
    assert find_known_failures(failed) == []


def test_the_form_that_worked_is_a_success_of_the_same_subcommand_soon_after() -> None:
    later = [make_run("gh pr view 12"), make_run("ls"), make_run("gh pr diff 12 --name-only")]
    (run,) = list_failed([make_run(DIFF, UNKNOWN), *later])
    assert run.worked == "gh pr view"
    (run,) = list_failed([make_run(DIFF, UNKNOWN), *[make_run("ls")] * 6, *later])
    assert run.worked == ""
    (run,) = list_failed([make_run(DIFF, UNKNOWN), make_run("gh issue list")])
    assert run.worked == ""


def test_a_session_counts_once() -> None:
    assert find_known_failures(make_failures(1) * 3) == []


def test_a_failure_whose_form_has_succeeded_since_is_left_out() -> None:
    at = START + timedelta(days=9)
    assert find_known_failures(make_failures(3), [{"gh pr diff --stat": at}]) == []
    before = START + timedelta(days=2)
    assert len(find_known_failures(make_failures(3), [{"gh pr diff --stat": before}])) == 1
    assert len(find_known_failures(make_failures(3), [{"gh pr diff": at}])) == 1


def test_the_failures_of_most_sessions_come_first() -> None:
    failed = [
        *make_failures(3),
        *make_failures(4, "npm run lint", "npm error Missing script: lint"),
    ]
    assert [failure.sessions for failure in find_known_failures(failed)] == [4, 3]


@pytest.mark.parametrize(
    ("command", "output", "form"),
    [
        ("gh pr diff 3 --stat --color", UNKNOWN, "gh pr diff --stat"),
        ("npm run lint", "npm error Missing script: lint", "npm run lint"),
        ("make lnt", "make: *** No rule to make target 'lnt'.  Stop.", "make lnt"),
        ("cd x && rg foo", "bash: rg: command not found", "rg"),
        ("ls | jq .", "bash: jq: command not found", "jq"),
        ("git commit -m x", "fatal: Unable to create '/home/ada/x/.git/index.lock'", "git commit"),
        ("git push", "remote: error: GH006: Protected branch update failed", "git push"),
        ("python -m tool", "/usr/bin/python: No module named tool", "python"),
        ("cd src && ls", "bash: cd: src: No such file or directory", "cd"),
    ],
)
def test_the_wrong_use_of_a_tool_is_a_failure_of_its_form(
    command: str, output: str, form: str
) -> None:
    assert [run.form for run in list_failed([make_run(command, output)])] == [form]


@pytest.mark.parametrize(
    "output",
    [
        "FAILED tests/test_retry.py::test_key - assert 1 == 2",
        '  File "src/client.py", line 3\nModuleNotFoundError: No module named shop, in x.py", line 3',
        "retry_test.go:12: unknown flag",
        "--- FAIL: TestRetry unknown option",
        "src/client.py:3:1: E501 line too long",
        f"unknown flag {'x' * MAX_LINE}",
        "cat: /home/ada/x: No such file or directory",
        "zsh: no matches found: src/*.py",
        "",
    ],
    ids=[
        *("a test", "a stack trace", "a line of a test", "a failing test", "a linter"),
        *("a long line", "a missing file outside", "a pattern", "nothing"),
    ],
)
def test_failures_of_the_current_work_are_not_misuse(output: str) -> None:
    assert find_misuse(make_run("make test", output, ok=False)) == ""


def test_after_a_pipe_only_the_tools_own_message_at_the_start_counts() -> None:
    quiet = "error: unknown option --stat"
    assert find_misuse(make_run("gh x | head", quiet, ok=True)) == quiet
    assert find_misuse(make_run("gh x | head", f"one\ntwo\n{quiet}", ok=True)) == ""
    assert find_misuse(make_run("cat log", "it said unknown option --stat", ok=True)) == ""


def test_a_failed_command_keeps_no_outside_path_id_or_number() -> None:
    output = "fatal: Unable to create '/home/ada/shop/.git/index.lock': pid 4711 job 0123abcd4567"
    assert (
        find_misuse(make_run("git add .", output)) == "fatal: Unable to create 'PATH': pid N job N"
    )


def test_variable_parts_do_not_make_a_different_failure() -> None:
    failed = [
        run
        for day in (1, 2, 3)
        for run in list_failed(
            [
                make_run(
                    f"git add {day}.py",
                    f"fatal: Unable to create '/home/u{day}/x/.git/index.lock': pid {day}",
                    day=day,
                )
            ]
        )
    ]
    assert find_one(failed).sessions == 3


def test_forms_that_succeeded_are_listed_with_their_last_time() -> None:
    runs = [make_run("git push", minute=1), make_run("git push && ls", minute=5)]
    runs.append(make_run(DIFF, UNKNOWN, minute=6))
    succeeded = list_succeeded(runs)
    assert succeeded.keys() == {"git push", "ls"}
    assert succeeded["git push"].minute == 5


@given(
    st.lists(
        st.tuples(st.text(max_size=60), st.text(max_size=200), st.booleans()),
        max_size=6,
    )
)
@examples(200)
def test_any_commands_are_read_without_an_error(runs: list[tuple[str, str, bool]]) -> None:
    commands = [CommandRun("s", START, command, output, ok) for command, output, ok in runs]
    assert len(list_failed(commands)) <= len(commands)
    list_succeeded(commands)


@pytest.mark.parametrize(
    "line",
    [
        "zsh:1: command not found: rg",
        "(eval):1: command not found: rg",
        "bash: rg: command not found",
    ],
)
def test_messages_of_all_shells_for_a_missing_program_are_equal(line: str) -> None:
    assert find_misuse(make_run("rg x", line)) == "command not found: rg"


def test_a_refusing_hook_counts_for_the_command_that_runs_it() -> None:
    (run,) = list_failed(
        [make_run("git add . && git commit -m x", "husky - pre-commit script failed")]
    )
    assert run.form == "git commit"
