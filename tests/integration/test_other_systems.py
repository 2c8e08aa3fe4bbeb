"""Tests on systems without POSIX functions: the same commands write the same bytes to commits and index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_ci.files import lock_file
from tests.project import IMPORTED_FROM, Project, make_project

pytestmark = pytest.mark.slow

WITHOUT_POSIX = """
import fcntl, os, signal, subprocess, sys, tempfile, types

def locking(handle, mode, count):
    assert count == 1 and os.lseek(handle, 0, os.SEEK_CUR) > 1 << 20, "nobody may read a byte that is locked"
    fcntl.flock(handle, fcntl.LOCK_EX | (0 if mode == 1 else fcntl.LOCK_NB))

for name in ("fcntl", "pwd", "grp", "resource", "termios", "pty", "tty"):
    sys.modules[name] = None
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_LOCK=1, LK_NBLCK=2)
for name in "setsid killpg fork getuid geteuid pwrite fchmod O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_NOCTTY".split():
    delattr(os, name)
for name in ("SIGHUP", "SIGALRM", "alarm", "pthread_sigmask"):
    delattr(signal, name)
"""
"""Text of `sitecustomize` that hides modules and functions which Windows lacks; paths, shells and files are unchanged."""

VERBS = (
    ("record",),
    ("add", "Amounts are integers in cents", "--body", "A float lost a cent."),
    ("check",),
    ("retrieve", "how are charges retried", "--session", "s1"),
    ("index",),
    ("hook", "sync", "--detached"),
    ("health",),
)


def run_verbs(project: Project, extra: dict[str, str]) -> list[str]:
    """Run each command with more environment variables, and return their outputs."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1800000000", "PYTHONPATH": IMPORTED_FROM, **extra}
    outputs = []
    for verb in VERBS:
        command = [sys.executable, "-m", "memory_ci", *verb]
        completed = subprocess.run(
            command, cwd=project.path, env=env, capture_output=True, text=True, check=False
        )
        assert completed.returncode == 0, (verb, completed.stderr)
        outputs.append(completed.stdout)
    return outputs


def test_the_same_commands_give_the_same_commits_without_posix(tmp_path: Path) -> None:
    commits = []
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_POSIX)
    for name, extra in (
        ("here", {}),
        ("there", {"PYTHONPATH": f"{tmp_path}{os.pathsep}{IMPORTED_FROM}"}),
    ):
        project = make_project(tmp_path / name)
        outputs = run_verbs(project, extra)
        assert "retried a POST" in outputs[3]
        commits.append(project.sha())
    assert commits[0] == commits[1]


def test_a_lock_is_exclusive(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    assert lock_file(first)
    assert not lock_file(second)
    os.close(first)
    assert lock_file(second)
    os.close(second)
