"""Tests of hostile files below .git/memory-ci: no command waits for one, trusts it, or writes through it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.attacks.attack import (
    BELIEVED,
    BOUNDED,
    ERROR,
    LOST,
    SECRET,
    Area,
    Case,
    Launcher,
    assert_ended_clearly,
)
from tests.attacks.scene import FIXED_TIME
from tests.project import Project, copy_project, make_project

pytestmark = pytest.mark.slow

AREA = Area(
    "hostile caches",
    "each file below `.git/memory-ci` replaced by garbage, half of itself, another version, 4 GiB, nested lists, "
    "a pipe, a directory, a link to a file of the person or to nothing; then every command that reads it",
    "files of ours are opened only where they are regular, with a limit, and checked before they are used; "
    "derived data is built again",
)
HOLDS = (LOST, BELIEVED, SECRET, ERROR, BOUNDED)

FILES = (
    "index.db",
    "index.db.seal",
    "index.db-journal",
    "index.db-wal",
    "tasks.mpk",
    "episodes.mpk",
    "session-archive",
    "repeated.json",
    "moments.json",
    "checks.json",
    "journal",
    "forgotten.txt",
    "retrieved.jsonl",
    "given/s-1",
    "notes/n.md",
    "nudged",
    "prewarm.lock",
    "warmed",
    "made",
    "init",
    "remotes.json",
    "vectors.json",
    "backfill.json",
    "forge-cache/a",
    "replies/a.json",
)
"""The files that the commands below write, and files that need a forge, a model or an embedder."""

PRIVATE = "words of the person that nobody may see\n"
TASK = "retry a charge in the client"
EVENT = b'{"hook_event_name": "UserPromptSubmit", "session_id": "s-1", "prompt": "retry a charge in the client"}'
COMMANDS: Mapping[tuple[str, ...], bytes] = {
    ("retrieve", TASK): b"",
    ("hook", "agent", "--for", "claude-code"): EVENT,
    ("recall", "--tasks", TASK): b"",
    ("check",): b"",
    ("index",): b"",
    ("hook", "sync", "post-merge"): b"",
    ("sessions",): b"",
    ("forget", "Kestrel umbra", "--as", "words", "--plan"): b"",
    ("record", "--yes"): b"",
    ("init", "--remove", "--clone"): b"",
}


def put_garbage(path: Path, private: Path) -> None:
    path.write_bytes(bytes(range(256)) * 40)


def put_half(path: Path, private: Path) -> None:
    data = path.read_bytes() if path.exists() else b'{"a": ['
    path.write_bytes(data[: len(data) // 2])


def put_nothing(path: Path, private: Path) -> None:
    path.write_bytes(b"")


def put_other_version(path: Path, private: Path) -> None:
    data = path.read_bytes() if path.exists() else b'{"version": 1}'
    path.write_bytes(b"memory-ci tasks 999\n" + data[20:])


def put_huge(path: Path, private: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(4 << 30)  # a hole: it takes no place on the disk


def put_nested(path: Path, private: Path) -> None:
    path.write_bytes(b"[" * 200_000)


def put_pipe(path: Path, private: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def put_directory(path: Path, private: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def put_link(path: Path, private: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(private)


def put_dangling_link(path: Path, private: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(private.with_name("made-by-a-link"))


KINDS: Mapping[str, Callable[[Path, Path], None]] = {
    "garbage": put_garbage,
    "half of it": put_half,
    "empty": put_nothing,
    "another version": put_other_version,
    "4 GiB": put_huge,
    "nested lists": put_nested,
    "a pipe": put_pipe,
    "a directory": put_directory,
    "a link to a file": put_link,
    "a link to nothing": put_dangling_link,
}


def list_cases() -> Iterator[Case]:
    """Yield a case for each file and each kind of damage."""
    for file in FILES:
        for kind in KINDS:
            yield Case(
                f"{file} is {kind}",
                f"`{file}` is {kind}, then {len(COMMANDS)} commands",
                HOLDS,
                (file, kind),
            )


CASES = {case.name: case for case in list_cases()}
ALL_CASES = CASES


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Project:
    """Return a project with all the files that its commands write."""
    project = make_project(tmp_path_factory.mktemp("caches") / "shop")
    launcher.run(project.path, "init", "--clone", "--agent", "claude-code", env=FIXED_TIME)
    launcher.run(project.path, "record", "--yes", env=FIXED_TIME)
    for words, stdin in COMMANDS.items():
        if words[0] != "init":
            launcher.run(project.path, *words, stdin=stdin, env=FIXED_TIME)
    project.git("add", "-A")
    project.merge_work(
        "feat: queue\n\nDecision: mail goes through the queue in src/mail.py, for it drops.",
        "q",
        130,
    )
    return project


@pytest.fixture(scope="module")
def expected(
    template: Project, launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> set[str]:
    control = copy_project(template, tmp_path_factory.mktemp("control") / "shop")
    launcher.run(control.path, "record", "--yes", env=FIXED_TIME)
    return control.titles()


@pytest.mark.parametrize("case", CASES)
def test_no_command_waits_for_or_trusts_a_hostile_cache_file(
    case: str, template: Project, expected: set[str], launcher: Launcher, tmp_path: Path
) -> None:
    file, kind = CASES[case].data
    project = copy_project(template, tmp_path / "shop")
    private = tmp_path / "private"
    private.write_text(PRIVATE)
    path = project.path / ".git" / "memory-ci" / file
    path.parent.mkdir(exist_ok=True, parents=True)
    recorded = False  # a journal that cannot be locked is an error of `record`
    for words, stdin in COMMANDS.items():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        KINDS[kind](path, private)
        result = launcher.run(project.path, *words, stdin=stdin, env=FIXED_TIME, memory=3 << 30)
        assert_ended_clearly(result, words)
        recorded = recorded or (words[0] == "record" and result.status == 0)
        assert private.read_text() == PRIVATE, words
        assert not private.with_name("made-by-a-link").exists(), words
        assert PRIVATE.strip() not in result.printed, words
    if recorded:
        assert expected - project.titles() == set()


def test_the_cases_include_all_files_that_commands_write(template: Project) -> None:
    folder = template.path / ".git" / "memory-ci"
    files_left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    unknown = {name for name in files_left - set(FILES) if not name.startswith("given/")}
    assert unknown == set()
