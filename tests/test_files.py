"""Files that others name: what is no regular file, or too large, is refused at once and never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory_ci.errors import EngineError, UsageError
from memory_ci.extraction.engines.replay import ReplayEngine
from memory_ci.files import open_regular, read_regular
from memory_ci.flows.measure.evaluate import load_gold, load_lines
from memory_ci.flows.measure.evaluate_retrieval import SetEntry
from memory_ci.forge.github import Offline
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


def test_what_is_no_regular_file_is_not_opened(pipe: Path, tmp_path: Path) -> None:
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(path)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "missing"])
def test_a_name_that_is_none_is_an_error_of_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match=r"name|No such"):
        open_regular(tmp_path / name)


def test_no_pipe_holds_up_whoever_is_given_one(pipe: Path) -> None:
    with pytest.raises(UsageError, match="not a regular file"):
        read_transcript(pipe)
    with pytest.raises(UsageError, match="not a regular file"):
        load_gold(pipe)
    with pytest.raises(UsageError, match="not a regular file"):
        load_lines(pipe, SetEntry, "bad-queries", "")
    with pytest.raises(EngineError, match="not a regular file"):
        ReplayEngine(pipe).extract(Request(change="c", evidence=()))
    assert Offline(pipe).find_pull_request(1) is None
