"""Tests of reading objects with one long-lived git process, which is replaced when it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo import objects
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.repo import Repository, find_commit, find_objects, find_repository
from tests.repos import RepoBuilder, make_repo

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there each question has a process")


Processes = list[subprocess.Popen[bytes]]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    """Record the git processes that are started from now on."""
    begun: Processes = []
    start = subprocess.Popen.__init__

    def noted(self: subprocess.Popen[bytes], *args: Any, **options: Any) -> None:
        begun.append(self)
        start(self, *args, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    return begun


def started(git_calls: Callable[[], list[str]]) -> int:
    return sum("cat-file" in line for line in git_calls())


def test_names_and_contents_are_read_by_one_process(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    objects.close_all()
    sha = builder.commit("One", {"a.txt": "one\n", "empty": ""})
    before = started(git_calls)
    assert find_commit(repo, "HEAD") == sha
    object_ids = find_objects(repo, ["HEAD:a.txt", "HEAD:none", "HEAD:empty"])
    files = [
        TreeFile("a.txt", object_ids[0] or ""),
        TreeFile("gone", "0" * 40),
        TreeFile("empty", object_ids[2] or ""),
    ]
    assert [content.data for content in read_files(repo, files, 100)] == [b"one\n", None, b""]
    newer = builder.commit("Two", {"a.txt": "two\n"})
    assert find_commit(repo, "HEAD") == newer, "what a name stands for is never kept"
    assert started(git_calls) - before == 1


def test_a_process_that_ended_is_replaced(
    builder: RepoBuilder, repo: Repository, processes: Processes
) -> None:
    sha = builder.commit("One", {"a.txt": "one\n"})
    assert find_commit(repo, "main") == sha
    (process,) = [process for process in processes if process.poll() is None]
    process.send_signal(signal.SIGKILL)
    process.wait()
    (oid,) = find_objects(repo, ["main:a.txt"])
    assert oid
    assert [content.data for content in read_files(repo, [TreeFile("a.txt", oid)], 100)] == [
        b"one\n"
    ]


def test_a_git_version_without_the_command_is_supported(
    builder: RepoBuilder, repo: Repository, wrap_git: Callable[[str], None]
) -> None:
    sha = builder.commit("One", {"a.txt": "one\n"})
    wrap_git('case "$*" in *--batch-command*) exit 129;; esac')
    objects.close_all()
    assert find_commit(repo, "main") == sha
    (oid, none) = find_objects(repo, ["main:a.txt", "main:b.txt"])
    assert none is None
    files = [TreeFile("a.txt", oid or ""), TreeFile("gone", "0" * 40)]
    assert [content.data for content in read_files(repo, files, 100)] == [b"one\n", None]


def test_requests_larger_than_a_pipe_buffer_are_answered(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("One", {f"{number}.txt": f"{number}\n" * 9_000 for number in range(70)})
    names = [f"HEAD:{number % 71}.txt" for number in range(5_000)]
    object_ids = find_objects(repo, names)
    assert [name for name, oid in zip(names, object_ids, strict=True) if oid is None] == [
        "HEAD:70.txt"
    ] * (5_000 // 71)
    files = [TreeFile(name, oid) for name, oid in zip(names, object_ids, strict=True) if oid][:200]
    assert all(
        (content.data or b"").startswith(content.file.path[5:].removesuffix(".txt").encode())
        for content in read_files(repo, files, 1 << 20)
    )


def test_another_environment_or_another_repository_at_the_path_has_its_own_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: Processes
) -> None:
    builder = make_repo(tmp_path / "repo")
    repo, sha = find_repository(builder.path), builder.commit("One", {"a": "1"})
    assert find_commit(repo, "main") == sha
    monkeypatch.setenv("GIT_TRACE_SETUP", "0")
    assert find_commit(repo, "main") == sha
    shutil.rmtree(builder.path)
    second_repo = make_repo(tmp_path / "repo")
    other_commit = second_repo.commit("Other", {"a": "2"})
    assert find_commit(repo, "main") == other_commit
    assert sum(process.poll() is None for process in processes) <= objects.MAX_OPEN


def test_a_name_that_crashes_git_is_an_error_and_the_next_request_is_answered(
    builder: RepoBuilder, repo: Repository
) -> None:
    sha = builder.commit("One", {"a.txt": "one\n"})
    with pytest.raises(RepositoryError, match=r"outside repository|relative path"):
        find_objects(repo, ["HEAD:../../x"])
    assert find_commit(repo, "main") == sha


def test_an_interrupted_request_ends_its_process(
    builder: RepoBuilder, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: IO[bytes]) -> None:
        raise KeyboardInterrupt

    builder.commit("One", {"a.txt": "one\n"})
    objects.close_all()
    deaf = subprocess.Popen(
        ["tail", "-f", "/dev/null"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: deaf)
    with pytest.raises(KeyboardInterrupt):
        objects.ask_objects(repo.git_dir, "info", ["HEAD"], interrupt)
    assert deaf.returncode == -signal.SIGKILL


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only there a pipe is made smaller"
)
def test_pipes_of_one_page_are_enough(
    builder: RepoBuilder, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    processes: list[subprocess.Popen[bytes]] = []

    def start(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = begin(*args, **options)
        processes.append(process)
        for pipe in (process.stdin, process.stdout):
            assert pipe
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4_096)
        return process

    builder.commit("One", {"a": "one\n"})
    begin = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    objects.close_all()
    stuck = threading.Timer(600, lambda: processes[0].kill())
    stuck.start()
    assert set(find_objects(repo, ["HEAD:a"] * 3_000)) != {None}
    stuck.cancel()
    assert processes[0].poll() is None
    objects.close_all()
