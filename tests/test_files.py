"""Tests of reading given files: irregular and large files are refused at once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from memory_ci.commands.evaluate.evaluate import load_gold
from memory_ci.commands.evaluate.json_lines import load_lines
from memory_ci.commands.evaluate.retrieval_set import SetEntry
from memory_ci.errors import EngineError, UsageError
from memory_ci.extraction.engines.replay import ReplayEngine
from memory_ci.files import open_regular, read_regular, replacing
from memory_ci.forge.github import EventReader
from memory_ci.records.candidate import Request
from memory_ci.sources.transcripts.registry import read_transcript


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="over the limit of 4 bytes"):
        read_regular(path, 4)


def test_an_irregular_file_is_not_opened(pipe: Path, tmp_path: Path) -> None:
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(path)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "missing"])
def test_an_invalid_name_is_a_file_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match=r"name|No such"):
        open_regular(tmp_path / name)


def test_no_command_waits_for_a_pipe(pipe: Path) -> None:
    with pytest.raises(UsageError, match="not a regular file"):
        read_transcript(pipe)
    with pytest.raises(UsageError, match="not a regular file"):
        load_gold(pipe)
    with pytest.raises(UsageError, match="not a regular file"):
        load_lines(pipe, SetEntry, "bad-queries", "")
    with pytest.raises(EngineError, match="not a regular file"):
        ReplayEngine(pipe).extract(Request(change="c", evidence=()))
    assert EventReader(pipe).find_pull_request(1) is None


def git(*words: str, cwd: Path) -> None:
    subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True)


@pytest.mark.parametrize("place", ["", "a/deep/folder", "../linked", "../linked/a"])
def test_in_a_repository_the_temporary_file_is_in_the_git_directory(
    tmp_path: Path, place: str
) -> None:
    repository = tmp_path / "repository"
    git("init", "-q", str(repository), cwd=tmp_path)
    git(
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@b",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "First",
        cwd=repository,
    )
    git("worktree", "add", "-q", str(tmp_path / "linked"), cwd=repository)
    path = repository / place / "MEMORY.md"
    with replacing(path) as temporary:
        temporary.write_text("new\n")
        assert temporary.is_relative_to(repository / ".git")
    assert path.read_text() == "new\n"


@pytest.mark.parametrize("text", ["gitdir: elsewhere\n", "nonsense", ""])
def test_outside_a_repository_the_temporary_file_is_next_to_the_file(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".git").write_text(text)
    with replacing(tmp_path / "a" / "MEMORY.md") as temporary:
        assert temporary.parent == tmp_path / "a"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_failing_block_changes_no_file_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "MEMORY.md"
    path.write_text("old\n")

    def fail_half_way() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_half_way()
    assert [child.name for child in tmp_path.iterdir()] == ["MEMORY.md"]
    assert path.read_text() == "old\n"
