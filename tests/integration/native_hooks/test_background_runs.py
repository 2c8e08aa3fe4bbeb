"""Tests of updating the index in the background by native hooks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memory_ci.memory.prewarm import MAX_SECONDS, prewarm, try_lock
from memory_ci.memory.workspace import index_path
from tests.integration.git_in_background import Done, pausing, run_git
from tests.integration.native_hooks.hooked import count_starts, note, warmed
from tests.processes import CAN_ADOPT, Background
from tests.project import Project

pytestmark = pytest.mark.skipif(
    not CAN_ADOPT, reason="no way to wait for what goes on in the background"
)


def test_a_second_run_ends_at_once(
    project: Project, background: Background, tmp_path: Path
) -> None:
    with pausing(project, tmp_path) as paused:
        run_git(project.path, "commit -a -m x")
        paused.await_run()
        assert prewarm(project.path) is False
    background.wait()
    assert prewarm(project.path) is True


def test_while_a_run_works_no_other_python_is_started(
    project: Project, background: Background, tmp_path: Path
) -> None:
    with pausing(project, tmp_path) as paused:
        run_git(project.path, "commit -a -m x")
        run = paused.await_run()
        for number in range(5):
            project.write("MEMORY.md", note(20 + number))
            run_git(project.path, "commit -a -m y")
        background.wait(but_for=run)
    background.wait()
    assert paused.count_starts() == 1
    assert warmed(project) == project.sha()


@pytest.mark.parametrize("lock_text", ["ended", "of old", "none"])
def test_a_stale_process_id_in_the_lock_blocks_no_run(
    project: Project, background: Background, tmp_path: Path, lock_text: str
) -> None:
    lock = project.path / ".git/memory-ci/prewarm.lock"
    assert lock.read_text() == "", "who ends takes its number out"
    ended = subprocess.Popen(["true"])
    ended.wait()
    lock.write_text(
        {"ended": f"{ended.pid}\n", "of old": f"{os.getpid()}\n", "none": "nonsense\n"}[lock_text]
    )
    if lock_text == "of old":
        os.utime(lock, (0, 0))
    assert count_starts(project, tmp_path, background, "commit -a -m x") == ["sync"]


def test_a_repository_that_is_removed_stays_removed(
    project: Project, background: Background, tmp_path: Path
) -> None:
    with pausing(project, tmp_path) as paused:
        run_git(project.path, "commit -a -m x")
        paused.await_run()
        shutil.rmtree(project.path)
    background.wait()
    assert not project.path.exists()


def test_no_lock_is_made_in_a_removed_git_directory(project: Project) -> None:
    workspace = project.workspace
    shutil.rmtree(project.path / ".git")
    with (
        pytest.raises(FileNotFoundError),
        try_lock(index_path(workspace).with_name("prewarm.lock")),
    ):
        pass
    assert not (project.path / ".git").exists()


def test_a_run_checks_head_again_before_it_ends(
    project: Project, background: Background, tmp_path: Path
) -> None:
    with pausing(project, tmp_path) as paused:
        run_git(project.path, "commit -a -m x")
        paused.await_run()
        run_git(project.path, "-c core.hooksPath=/dev/null commit --allow-empty -m y")
    background.wait()
    assert warmed(project) == project.sha()


def test_a_run_has_its_own_session_and_no_open_files_of_the_hook(
    project: Project, background: Background, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    with pausing(project, tmp_path) as paused:
        assert run_git(project.path, "commit -q -a -m x", pass_fds=(writer,)) == Done(0, "")
        os.close(writer)
        run = paused.await_run()
        background.wait(but_for=run)
        assert background.list() == [run]
        assert os.getsid(run) == run
        assert os.read(reader, 1) == b"", (
            "the pipe of who called git is closed, while the run goes on"
        )
    os.close(reader)


def test_a_hanging_run_is_ended_by_its_alarm() -> None:
    """The test raises the alarm signal itself; a caller that ignores the signal changes nothing."""
    program = """import os, signal
from memory_ci.memory import prewarm
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
signal.alarm = lambda seconds: print(seconds, flush=True)
prewarm.detach_process()
os.kill(os.getpid(), signal.SIGALRM)
print("goes on")"""
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (completed.returncode, completed.stdout) == (-signal.SIGALRM, f"{MAX_SECONDS}\n")


def test_an_index_that_was_not_saved_is_not_reported_as_saved(
    project: Project, background: Background
) -> None:
    project.git("commit", "-qam", "x")
    background.wait()  # a run behind the commit would write where we remove
    shutil.rmtree(project.path / ".git/memory-ci")
    project.write(".git/memory-ci", "in the way")
    assert (
        subprocess.run(
            [sys.executable, "-m", "memory_ci", "hook", "sync"], cwd=project.path
        ).returncode
        == 0
    )
    assert (project.path / ".git/memory-ci").read_text() == "in the way"
