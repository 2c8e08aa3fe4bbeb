"""Tests of running git: failures, exit statuses, input and output, and streams."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.process import ask_git, decode_path, encode_path, run_git, stream_git
from tests.repos import RepoBuilder


def test_a_failure_names_the_command_and_quotes_git(builder: RepoBuilder) -> None:
    with pytest.raises(RepositoryError) as failure:
        run_git(builder.path, "-c", "core.quotePath=false", "rev-list", "no-such-branch", "--")
    assert failure.value.slug == "git-failed"
    assert failure.value.message == "git rev-list failed: fatal: bad revision 'no-such-branch'"


def test_an_expected_exit_status_is_not_a_failure(builder: RepoBuilder) -> None:
    assert run_git(builder.path, "config", "no.such.key", ok=(0, 1)) == b""


def test_input_and_output_are_bytes(builder: RepoBuilder) -> None:
    oid = (
        run_git(builder.path, "hash-object", "-w", "--stdin", input=b"\xff\x00\n").strip().decode()
    )
    assert run_git(builder.path, "cat-file", "blob", oid) == b"\xff\x00\n"


def test_the_error_without_git_says_that_git_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RepositoryError) as failure:
        run_git(tmp_path, "version")
    assert failure.value.slug == "git-missing"
    with pytest.raises(RepositoryError) as failure, stream_git(tmp_path, "version"):
        pass
    assert failure.value.slug == "git-missing"


def test_a_missing_directory_is_not_reported_as_missing_git(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="gone: No such file or directory") as failure:
        run_git(tmp_path / "gone", "version")
    assert failure.value.slug == "git-failed"


def test_a_yes_no_command_gives_true_false_or_an_error(builder: RepoBuilder) -> None:
    builder.commit("More")
    assert ask_git(builder.path, "merge-base", "--is-ancestor", "HEAD~1", "HEAD")
    assert not ask_git(builder.path, "merge-base", "--is-ancestor", "HEAD", "HEAD~1")
    with pytest.raises(RepositoryError):
        ask_git(builder.path, "merge-base", "--is-ancestor", "nowhere", "HEAD")


def test_a_stream_that_fails_at_its_end_raises(builder: RepoBuilder) -> None:
    with (
        pytest.raises(RepositoryError, match="bad revision"),
        stream_git(builder.path, "log", "nowhere", "--") as stream,
    ):
        assert stream.read() == b""


def test_large_input_and_large_output_do_not_deadlock(builder: RepoBuilder) -> None:
    oid = builder.git("rev-parse", "HEAD:README.md")
    requests = f"{oid}\n".encode() * 5_000
    with stream_git(builder.path, "cat-file", "--batch", input=requests) as stream:
        assert stream.read().count(b"hello") == 5_000


def test_a_stream_may_be_closed_before_git_has_read_its_input(builder: RepoBuilder) -> None:
    requests = b"HEAD:README.md\n" * 100_000
    with stream_git(builder.path, "cat-file", "--batch", input=requests) as stream:
        assert stream.readline().endswith(b" blob 6\n")


def test_large_output_on_standard_error_does_not_block_the_stream(
    builder: RepoBuilder, wrap_git: Callable[[str], None]
) -> None:
    wrap_git("head -c 300000 /dev/zero >&2")
    with stream_git(builder.path, "rev-parse", "HEAD") as stream:
        assert stream.read().decode().strip() == builder.sha()


ENDLESS = 'test "$1" = endless && { echo $$ > pid; exec yes; }'


@pytest.mark.parametrize("way_out", ["break", "raise"])
def test_closing_a_stream_early_ends_git_without_an_error(
    builder: RepoBuilder, wrap_git: Callable[[str], None], way_out: str
) -> None:
    wrap_git(ENDLESS)
    try:
        with stream_git(builder.path, "endless") as stream:
            assert stream.readline() == b"y\n"
            pid = int((builder.path / "pid").read_text())
            if way_out == "raise":
                raise KeyError(way_out)
    except KeyError:
        assert way_out == "raise"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_path_that_is_not_utf_8_is_passed_and_read_unchanged() -> None:
    assert encode_path(decode_path(b"caf\xe9/\xff")) == b"caf\xe9/\xff"
