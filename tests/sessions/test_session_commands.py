"""Tests of the commands that a session ran since its last edit."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.check import BeforeCheck
from memory_ci.records.history import Staging
from memory_ci.sessions.moments import delete_notes
from memory_ci.sessions.session_commands import (
    find_missing_runs,
    list_commands,
    note_edit,
    note_run,
    read_message,
    read_staging,
)
from tests.make import examples

LINT = BeforeCheck("commit", ("make lint", "pytest"))
COMMIT = "git commit -m x"
P = ("app/a.py", "app/../lib/b.py")


@pytest.fixture
def common_dir(tmp_path: Path) -> Path:
    (tmp_path / "memory-ci").mkdir()
    return tmp_path


def missing(common_dir: Path, command: str = COMMIT, session: str = "s1") -> str:
    fault = find_missing_runs(common_dir, session, LINT, command)
    return fault.message if fault else ""


def test_a_session_without_an_edit_need_not_run_anything(common_dir: Path) -> None:
    note_run(common_dir, "s1", "ls")
    assert missing(common_dir) == ""


def test_commands_that_were_not_run_since_the_edit_are_named(common_dir: Path) -> None:
    note_edit(common_dir, "s1")
    assert missing(common_dir) == "`make lint`, `pytest` were not run since the last edit"
    note_run(common_dir, "s1", "make lint && ls")
    assert missing(common_dir) == "`pytest` was not run since the last edit"


def test_all_commands_after_the_edit_count(common_dir: Path) -> None:
    note_edit(common_dir, "s1")
    note_run(common_dir, "s1", "cd app && make lint")
    note_run(common_dir, "s1", ".venv/bin/pytest -q tests; pytest tests")
    assert missing(common_dir) == ""


def test_an_edit_resets_the_commands(common_dir: Path) -> None:
    note_edit(common_dir, "s1")
    note_run(common_dir, "s1", "make lint; pytest")
    note_edit(common_dir, "s1")
    assert "make lint" in missing(common_dir)


def test_a_command_that_failed_does_not_count(common_dir: Path) -> None:
    note_edit(common_dir, "s1")
    note_run(common_dir, "s1", "make lint; pytest")
    note_run(common_dir, "s1", "pytest", is_failure=True)
    assert missing(common_dir) == "`pytest` was not run since the last edit"


def test_commands_before_the_commit_in_the_same_line_count_and_later_ones_do_not(
    common_dir: Path,
) -> None:
    note_edit(common_dir, "s1")
    assert missing(common_dir, f"make lint && pytest && {COMMIT}") == ""
    assert "`pytest` was" in missing(common_dir, f"make lint && {COMMIT} && pytest")


def test_sessions_are_independent(common_dir: Path) -> None:
    note_edit(common_dir, "s1")
    note_edit(common_dir, "s2")
    note_run(common_dir, "s2", "make lint; pytest")
    assert missing(common_dir) != ""
    assert missing(common_dir, session="s2") == ""


def test_notes_of_old_sessions_are_removed(common_dir: Path) -> None:
    note_edit(common_dir, "s1")
    delete_notes(common_dir, 1e12)
    assert list((common_dir / "memory-ci/ran").iterdir()) == []


def test_the_size_of_a_note_is_limited(common_dir: Path) -> None:
    note_edit(common_dir, "s1")
    for number in range(60):
        line = "; ".join(f"tool{number}x{line_number} run" for line_number in range(20))
        note_run(common_dir, "s1", line)
    (note,) = (common_dir / "memory-ci/ran").iterdir()
    assert note.stat().st_size < 20_000


@pytest.mark.parametrize("width", [1, 70])
def test_the_newest_of_many_runs_are_kept(common_dir: Path, width: int) -> None:
    note_edit(common_dir, "s1")
    for number in range(250):
        option = "x" * width
        note_run(common_dir, "s1", f"tool{number} --{option} --a{option} --b{option}")
    assert missing(common_dir) != ""
    note_run(common_dir, "s1", "make lint; pytest")
    assert missing(common_dir) == ""


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("git add -A && git commit -m x", ["commit"]),
        ("git commit -m x && git push && gh pr create --fill", ["commit", "push", "pull-request"]),
        ("glab mr create", ["pull-request"]),
        ("git log", []),
    ],
)
def test_the_commands_of_a_line_are_read(command: str, names: list[str]) -> None:
    assert list_commands(command) == names


@pytest.mark.parametrize(
    ("command", "staging"),
    [
        ("git commit -m x", Staging()),
        ("git commit -am x", Staging(has_tracked=True)),
        ("git commit --all -m x", Staging(has_tracked=True)),
        ("git commit -m'add all'", Staging()),
        ("git commit -m -a", Staging()),
        ("git commit -Sabc -m x", Staging()),
        ("git commit --amend -m x", Staging()),
        ("git commit -m x -- src/a.py", Staging(paths=("src/a.py",))),
        ("git add -A && git commit -m x", Staging(is_whole_tree=True)),
        ("git add --all && git commit -m x", Staging(is_whole_tree=True)),
        ("git add -u && git commit -m x", Staging(has_tracked=True)),
        ("git add -p && git commit -m x", Staging()),
        ("git add . && git commit -m x", Staging(paths=(".",))),
        ("git add -A src 'a b' && git commit -m x", Staging(paths=("src", "a b"))),
        ("cd app && git add a.py; cd ../lib && git commit b.py", Staging(paths=P)),
        ("git commit -m x && git add -A", Staging()),
    ],
)
def test_a_commit_with_unstaged_changes_is_recognised(command: str, staging: Staging) -> None:
    assert read_staging(command) == staging


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("git commit -m 'a b' -m c", "a b\n\nc"),
        ("git commit -am a", "a"),
        ("git commit --message=a", "a"),
        ("git commit", ""),
        ("git commit -m 'a", ""),
        ("python -m pytest && git commit -m x", "x"),
        ("mkdir -m 755 d; git commit -F msg", ""),
        ("git commit -mtext", "text"),
        ("git commit -amtext", "text"),
        ("git commit --message 'a; b' --author '-m <m@x.y>'", "a; b"),
        ("git commit -F -m", ""),
        ("git commit -- -m x", ""),
        ("git commit -m 'a << b' && ls", "a << b"),
        ('git commit -m "$(cat <<\'EOF\'\nIt\'s a\n\nb "c"\nEOF\n)" && ls', 'It\'s a\n\nb "c"'),
        ("cat <<EOF > run.sh\ngit commit -m x\nEOF", ""),
    ],
)
def test_the_message_of_a_line_is_read(command: str, message: str) -> None:
    assert read_message(command) == message


@given(st.text(max_size=80))
@examples(200)
def test_any_command_is_read_without_an_error(command: str) -> None:
    list_commands(command)
    read_staging(command)
    read_message(command)
