"""Tests of moments: lines that are shown before a command or an edit, or after a failure, once a session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.entry import MOMENT
from memory_ci.sessions.moments import (
    MAX_LINES,
    MAX_SERVED,
    MAX_TABLE,
    MAX_WHEN,
    SERVED_DIRECTORY,
    TABLE,
    AgentAction,
    TimedLine,
    claim_due_lines,
    delete_notes,
    find_common_dir,
    find_root,
    load_timed_lines,
    mute,
    save_timed_lines,
    select_due_lines,
)
from tests.cost import count_calls
from tests.make import examples, make_id
from tests.project import IMPORTED_FROM
from tests.repos import make_repo


def make_moments(*whens: str) -> list[TimedLine]:
    """Return moments with these conditions."""
    return [TimedLine(make_id(number), when, f"line {number}") for number, when in enumerate(whens)]


def is_due(when: str, point: AgentAction) -> bool:
    return bool(select_due_lines(make_moments(when), point))


@pytest.fixture
def common_dir(tmp_path: Path) -> Path:
    path = tmp_path / ".git"
    (path / "memory-ci").mkdir(parents=True)
    return path


# -- when a line is due


@pytest.mark.parametrize(
    ("when", "command"),
    [
        ("before:commit", "git commit -m x"),
        ("before:commit", "cd app && git add . && git commit --amend"),
        ("before:push", "git push -f origin main"),
        ("before:pull-request", "gh pr create --draft"),
        ("before:pull-request", "glab mr create"),
        ("before:command gh pr diff --stat", "gh pr diff 12 --stat --color | head"),
        ("before:command npm test", "CI=1 npm test -- src"),
    ],
)
def test_a_line_is_due_before_its_command(when: str, command: str) -> None:
    assert is_due(when, AgentAction(command))
    assert not is_due(when, AgentAction(command, is_failure=True))


@pytest.mark.parametrize(
    ("when", "command"),
    [
        ("before:commit", "git push"),
        ("before:commit", "git log commit"),
        ("before:commit", "echo 'git commit'"),
        ("before:push", 'git commit -m "then git push"'),
        ("before:push", 'git commit -m "x && git push"'),
        ("before:pull-request", "gh pr view"),
        ("before:command gh pr diff --stat", "gh pr diff 12"),
        ("before:command gh", "ghx pr"),
        ("before:command", "gh pr"),
        ("before:edit *", "git commit"),
        ("start", "git commit"),
        ("at:noon git", "git commit"),
        ("before:commit", ""),
    ],
)
def test_a_line_is_not_due_before_another_command(when: str, command: str) -> None:
    assert not is_due(when, AgentAction(command))


@pytest.mark.parametrize(
    ("path", "is_line_due"),
    [("db/a.sql", True), ("db/x/b.sql", True), ("db.sql", False), ("", False)],
)
def test_a_line_is_due_before_an_edit_of_its_files(path: str, is_line_due: bool) -> None:
    assert is_due("before:edit db/*.sql", AgentAction(paths=(path,))) is is_line_due


def test_a_line_is_due_after_its_command_has_failed() -> None:
    assert is_due("after:failure npm test", AgentAction("npm test -- src", is_failure=True))
    assert not is_due("after:failure npm test", AgentAction("npm test"))
    assert not is_due("after:failure npm test", AgentAction("npm run", is_failure=True))


@given(
    st.one_of(st.text(max_size=40), st.from_regex(MOMENT.compiled, fullmatch=True)),
    st.text(max_size=80),
)
@examples(200)
def test_any_moment_and_command_are_compared_without_an_error(when: str, command: str) -> None:
    for point in (
        AgentAction(command),
        AgentAction(command, is_failure=True),
        AgentAction(paths=(command,)),
    ):
        select_due_lines(make_moments(when), point)


def test_a_long_command_is_compared_in_linear_time() -> None:
    command = ("gh pr view " + "a" * 30 + " && ") * 200

    def count(size: int) -> int:
        lines = ["before:command gh pr diff --stat"] * size, ["before:edit *a*b*c"] * size
        table = make_moments(*lines[0], *lines[1])
        return count_calls(lambda: select_due_lines(table, AgentAction(command, ("a" * 500,))))

    assert count(1_000) < 3 * count(500)
    assert count(1_000) < 1_000_000  # the command is read once, not for each line


@pytest.mark.parametrize("unit", ["*a", "[a", "?", "*", "**/", "[!", "\\", "(a+)+", "{a,"])
def test_a_hostile_glob_is_matched_in_linear_time(unit: str) -> None:
    """A matcher that backtracks would need exponential time."""
    short = "before:edit " + unit * (180 // len(unit))
    long = "before:edit " + unit * (60_000 // len(unit))
    select_due_lines(make_moments(*[short, long] * 100), AgentAction(paths=("a" * 1_000,)))


def test_a_moment_beyond_the_limit_is_not_due() -> None:
    assert not is_due("before:edit " + "*" * MAX_WHEN, AgentAction(paths=("a",)))


# -- the table


def test_the_number_of_lines_in_a_table_is_limited(common_dir: Path) -> None:
    table = make_moments(*["before:commit"] * (MAX_LINES + 50))
    save_timed_lines(common_dir, table)
    assert load_timed_lines(common_dir) == table[:MAX_LINES]


def test_a_moment_beyond_the_limit_is_left_out_of_the_table(common_dir: Path) -> None:
    save_timed_lines(common_dir, make_moments("before:edit " + "x" * MAX_WHEN, "before:commit"))
    assert [moment.when for moment in load_timed_lines(common_dir)] == ["before:commit"]


def test_a_full_table_of_long_lines_is_read_back(common_dir: Path) -> None:
    wide = "\u20ac"
    when = "before:edit " + wide * (MAX_WHEN - 12)
    table = [TimedLine(f"{number:036}", when, wide * 300) for number in range(MAX_LINES)]
    save_timed_lines(common_dir, table)
    assert load_timed_lines(common_dir) == table


def test_a_forged_table_of_a_million_lines_is_ignored(common_dir: Path) -> None:
    row = b'{"id":"1","when":"before:commit","line":"x"}'
    path = common_dir / "memory-ci" / TABLE
    path.write_bytes(b"[" + b",\n".join([row] * 1_000_000) + b"]")
    assert load_timed_lines(common_dir) == []


def test_the_table_is_read_back_unchanged(common_dir: Path) -> None:
    table = make_moments("before:commit", "after:failure npm test")
    save_timed_lines(common_dir, table)
    assert load_timed_lines(common_dir) == table


def test_an_unchanged_table_is_not_written_again(common_dir: Path) -> None:
    save_timed_lines(common_dir, make_moments("before:commit"))
    before = (common_dir / "memory-ci" / TABLE).stat()
    save_timed_lines(common_dir, make_moments("before:commit"))
    assert (common_dir / "memory-ci" / TABLE).stat().st_ino == before.st_ino
    save_timed_lines(common_dir, [])
    assert load_timed_lines(common_dir) == []


HOSTILE = {
    "empty": b"",
    "no JSON": b"\xff\x00 {",
    "a number": b"5",
    "a list of numbers": b"[1, 2]",
    "wrong types": b'[{"id": 1, "when": [], "line": {}}]',
    "a missing field": b'[{"id": "1"}]',
    "nested": b"[" * 100_000,
    "nested inside": b'[{"id": "1", "when": "x", "line": "x", "y": ' + b"[" * 100_000,
    "too large": b" " * (MAX_TABLE + 1),
    "a lone surrogate": b'[{"id": "\\ud800", "when": "before:commit", "line": "x"}]',
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_broken_table_is_ignored_and_replaced(common_dir: Path, kind: str) -> None:
    path = common_dir / "memory-ci" / TABLE
    path.write_bytes(HOSTILE[kind])
    assert load_timed_lines(common_dir) == []
    save_timed_lines(common_dir, make_moments("before:commit"))
    assert load_timed_lines(common_dir) == make_moments("before:commit")


@pytest.mark.parametrize("kind", ["pipe", "directory", "link", "link to nothing"])
def test_a_pipe_or_link_in_place_of_the_table_is_not_opened(
    common_dir: Path, tmp_path: Path, kind: str
) -> None:
    path = common_dir / "memory-ci" / TABLE
    private = tmp_path / "private"
    private.write_text("mine")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(private if kind == "link" else tmp_path / "none")
    assert load_timed_lines(common_dir) == []
    save_timed_lines(common_dir, make_moments("before:commit"))
    assert private.read_text() == "mine"
    assert not (tmp_path / "none").exists()


# -- what a session was told


def test_a_line_is_shown_once_a_session(common_dir: Path) -> None:
    table = make_moments("before:commit")
    assert claim_due_lines(common_dir, "s1", table) == table
    assert claim_due_lines(common_dir, "s1", table) == []
    assert claim_due_lines(common_dir, "s2", table) == table


def test_at_most_three_lines_are_shown_in_a_session(common_dir: Path) -> None:
    table = make_moments(*["before:commit"] * 5)
    assert claim_due_lines(common_dir, "s1", table[:2]) == table[:2]
    assert claim_due_lines(common_dir, "s1", table) == [table[2]]
    assert claim_due_lines(common_dir, "s1", table) == []


def test_a_line_that_is_due_twice_is_shown_once(common_dir: Path) -> None:
    (moment,) = make_moments("before:commit")
    assert claim_due_lines(common_dir, "s1", [moment, moment]) == [moment]


def test_nothing_is_written_if_no_line_is_due(common_dir: Path) -> None:
    assert claim_due_lines(common_dir, "s1", []) == []
    assert not (common_dir / "memory-ci" / SERVED_DIRECTORY).exists()


def test_a_muted_session_is_shown_no_line(common_dir: Path) -> None:
    mute(common_dir, "s1")
    assert claim_due_lines(common_dir, "s1", make_moments("before:commit")) == []


@pytest.mark.parametrize("session", ["../../x", "a/b", "\0", "", "\ud800", "x" * 5_000])
def test_the_id_of_a_session_is_not_a_file_name(common_dir: Path, session: str) -> None:
    table = make_moments("before:commit")
    assert claim_due_lines(common_dir, session, table) == table
    (note,) = (common_dir / "memory-ci" / SERVED_DIRECTORY).iterdir()
    assert len(note.name) == 24


PROGRAM = """import sys
from pathlib import Path
from memory_ci.sessions.moments import TimedLine, claim_due_lines
table = [TimedLine(str(number), "before:commit", "line") for number in range(5)]
sys.stdin.readline()
for _ in range(20):
    for moment in claim_due_lines(Path(sys.argv[1]), "s1", table):
        print(moment.id)
"""


def test_only_one_of_concurrent_hooks_shows_a_line(common_dir: Path) -> None:
    pipe = subprocess.PIPE
    hooks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(common_dir)],
            stdin=pipe,
            stdout=pipe,
            text=True,
            env={**os.environ, "PYTHONPATH": IMPORTED_FROM},
        )
        for _ in range(4)
    ]
    for hook in hooks:
        assert hook.stdin
        hook.stdin.write("go\n")
        hook.stdin.flush()
    numbers = [line for hook in hooks for line in hook.communicate()[0].split()]
    assert sorted(numbers) == ["0", "1", "2"]


@pytest.mark.parametrize(
    "kind", ["pipe", "directory", "link", "link to nothing", "large", "binary"]
)
def test_an_invalid_note_shows_nothing_and_changes_no_file(
    common_dir: Path, tmp_path: Path, kind: str
) -> None:
    table = make_moments("before:commit")
    claim_due_lines(common_dir, "s1", table)
    (note,) = (common_dir / "memory-ci" / SERVED_DIRECTORY).iterdir()
    note.unlink()
    private = tmp_path / "private"
    private.write_text("mine\n")
    if kind == "pipe":
        os.mkfifo(note)
    elif kind == "directory":
        note.mkdir()
    elif kind.startswith("link"):
        note.symlink_to(private if kind == "link" else tmp_path / "none")
    elif kind == "large":
        with note.open("wb") as stream:
            stream.truncate(4 << 30)
    else:
        note.write_bytes(b"\xff\xfe\n" * MAX_SERVED)
    assert claim_due_lines(common_dir, "s1", table) == []
    mute(common_dir, "s1")
    assert private.read_text() == "mine\n"
    assert not (tmp_path / "none").exists()


def test_notes_behind_a_link_are_neither_read_nor_written_nor_removed(
    common_dir: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    old = mine / ("a" * 24)
    old.write_text("mine")
    os.utime(old, (0, 0))
    (common_dir / "memory-ci" / SERVED_DIRECTORY).symlink_to(mine)
    assert claim_due_lines(common_dir, "s1", make_moments("before:commit")) == []
    mute(common_dir, "s1")
    delete_notes(common_dir, 1e12)
    assert [path.name for path in mine.iterdir()] == ["a" * 24]


def test_notes_of_old_sessions_are_removed_and_nothing_else(common_dir: Path) -> None:
    for session in ("old", "new"):
        claim_due_lines(common_dir, session, make_moments("before:commit"))
    folder = common_dir / "memory-ci" / SERVED_DIRECTORY
    notes = sorted(folder.iterdir())
    (folder / "README").write_text("mine")
    for path in (notes[0], folder / "README"):
        os.utime(path, (0, 0))
    delete_notes(common_dir, 1.0)
    assert sorted(path.name for path in folder.iterdir()) == ["README", notes[1].name]


def test_without_notes_there_is_nothing_to_remove(common_dir: Path) -> None:
    delete_notes(common_dir, 1e12)
    assert not (common_dir / "memory-ci" / SERVED_DIRECTORY).exists()


def test_no_line_is_shown_if_the_directory_of_notes_cannot_be_made(common_dir: Path) -> None:
    (common_dir / "memory-ci" / SERVED_DIRECTORY).write_text("")
    assert claim_due_lines(common_dir, "s1", make_moments("before:commit")) == []


# -- where the table is


def test_all_work_trees_share_one_directory(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    repo.commit("Start", {"src/a.py": ""})
    linked = repo.worktree(tmp_path / "linked", "other")
    (linked.path / "src/x").mkdir(parents=True)
    for start in (repo.path, repo.path / "src", linked.path, linked.path / "src/x"):
        directory = find_common_dir(start)
        assert directory is not None
        assert directory.samefile(repo.path / ".git")
    assert find_root(linked.path / "src/x") == linked.path
    assert find_root(repo.path / "src") == repo.path


def test_a_submodule_has_its_own_directory(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    (repo.path / ".git/modules/lib").mkdir(parents=True)
    (repo.path / "lib").mkdir()
    (repo.path / "lib/.git").write_text("gitdir: ../.git/modules/lib\n")
    directory = find_common_dir(repo.path / "lib")
    assert directory is not None
    assert directory.samefile(repo.path / ".git/modules/lib")


@pytest.mark.parametrize("text", [b"", b"gitdir:", b"\xff", b"x" * 100])
def test_a_git_file_without_a_target_has_no_directory(tmp_path: Path, text: bytes) -> None:
    (tmp_path / ".git").write_bytes(text)
    assert find_common_dir(tmp_path) is None


def test_outside_of_a_repository_there_is_no_directory(tmp_path: Path) -> None:
    assert find_common_dir(tmp_path) is None
    assert find_root(tmp_path) == tmp_path


def test_the_table_is_plain_json(common_dir: Path) -> None:
    save_timed_lines(common_dir, make_moments("before:commit"))
    (row,) = json.loads((common_dir / "memory-ci" / TABLE).read_text())
    assert row == {"id": make_id(0), "when": "before:commit", "line": "line 0"}
