"""Tests of signals at the moment a run moves a branch: no learning is lost, no later commit undoes it.

MEMORY_CI_SIGNALS=200 pytest tests/integration/test_interrupted_runs.py sends that many; -s prints the figures.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from memory_ci.gitrepo.repo import JOURNAL
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import Project, copy_project, make_project

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
COUNT = int(os.environ.get("MEMORY_CI_SIGNALS", "6"))
BODY = (
    "a retry doubled the charge because the gateway had booked the first request before it answered"
)
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
MAIN, SESSIONS, INDEX = ".git/refs/heads/main", ".git/refs/memory-ci", ".git/memory-ci/index.db"
COMMANDS = {
    "record": (("record",), MAIN),
    "compact": (
        ("upkeep", "compact"),
        MAIN,
    ),
    "promote": (
        ("upkeep", "promote"),
        MAIN,
    ),
    "capture": (("sessions", "--capture", "../session.jsonl"), SESSIONS),
    "index": (("index",), INDEX),
}
"""Each command, and the path that changes when it does its work."""

ORDER = ("record", "compact", "promote", "record", "capture", "index")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with merged work to learn from, and entries to compact and promote."""
    project = make_project(tmp_path_factory.mktemp("template") / "shop")
    near_duplicates = [
        make_entry(n, title="Retry with a key", body=f"{BODY}{' again' * (n - 1)}") for n in (1, 2)
    ]
    project.commit("Near-duplicates", {"MEMORY.md": "\n".join(map(format_entry, near_duplicates))})
    lock = {
        n: make_entry(n, title="Lock before the queue is read", session=f"claude:{n}")
        for n in (3, 4, 5)
    }
    project.commit(
        "Three sessions", {f"job-{n}/MEMORY.md": format_entry(entry) for n, entry in lock.items()}
    )
    return project


def write_session(project: Project) -> None:
    """Write a transcript of the project next to it."""
    fields = {
        "type": "user",
        "uuid": "u",
        "parentUuid": None,
        "sessionId": "79e9becd",
        "version": "2.1.132",
    }
    when = {
        "timestamp": "2026-11-20T10:00:00Z",
        "message": {"role": "user", "content": "Charge once."},
    }
    (project.path.parent / "session.jsonl").write_text(
        json.dumps(fields | when | {"cwd": str(project.path)}) + "\n"
    )


AIMED = """
import os, sys
watched, number, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.argv[1:4] = []

def state():
    try:
        found = os.stat(watched)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size

class Aim:
    is_busy, before, left = False, state(), steps

    def __call__(self, event, arguments):
        if event not in ("open", "os.rename", "os.remove", "subprocess.Popen") or self.is_busy:
            return
        self.is_busy = True
        if state() != self.before:
            self.left -= 1
            if self.left == -1:
                os.killpg(0, number)
        self.is_busy = False

sys.addaudithook(Aim())
from memory_ci.__main__ import main
main()
"""
"""A command that signals its own process group at a step after a path changed. A step is the opening, renaming or
removal of a file, or the start of a program."""


def start(project: Project, *args: str, aim: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start the command as leader of its own process group."""
    command = [sys.executable, *(("-c", AIMED, *aim) if aim else ("-m", "memory_ci")), *args]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        command,
        cwd=project.path,
        env=environment,
        stdout=quiet,
        stderr=quiet,
        start_new_session=True,
    )


def state_of(path: Path) -> object:
    """Return the state of a path, which changes when a directory gets a file, or a file is written or replaced."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def send_signal(project: Project, name: str, number: int, steps: int) -> bool:
    """Send a signal to a command's group `steps` steps after the change; return whether it got that far."""
    args, watched = COMMANDS[name]
    before = state_of(project.path / watched)
    process = start(project, *args, aim=(str(project.path / watched), str(number), str(steps)))
    status = process.wait()
    assert state_of(project.path / watched) != before, f"{name} did nothing"
    return status != 0


def list_ids(project: Project) -> set[str]:
    """Return the ids in the last commit by which learnings are found."""
    paths = project.git("ls-files", "*MEMORY.md").splitlines()
    entries = [entry for path in paths for entry in project.entries(path)]
    return {name for entry in entries for name in (entry.id, *entry.supersedes)}


def test_no_signal_loses_a_learning(template: Project, tmp_path: Path) -> None:
    control = copy_project(template, tmp_path / "control")
    control.record()  # it compacts and promotes, too
    expected = control.titles()
    chance, hits = random.Random(12), Counter[str]()  # noqa: S311 - when to shoot is no secret
    for at in range(COUNT):
        name, number = ORDER[at % len(ORDER)], SIGNALS[(at + at // len(ORDER)) % len(SIGNALS)]
        project = copy_project(template, tmp_path / f"shop-{at}")
        write_session(project)
        is_alive = send_signal(project, name, number, chance.choice((0, 0, 1, 2, 3, 5, 8)))
        what = f"{name} {number.name}"
        is_cut = (project.path / ".git" / JOURNAL).exists()
        hits[f"{what}{', cut short' if is_cut else '' if is_alive else ', over before'}"] += 1
        assert number == signal.SIGKILL or not is_cut, what
        assert project.workspace.findings == (), what
        assert name != "capture" or start(project, *COMMANDS[name][0]).wait() == 0
        assert name != "capture" or project.git("for-each-ref", "refs/memory-ci/sessions/") != "", (
            what
        )
        assert project.git("status", "--porcelain", "--untracked-files=no") == "", what
        project.git("fsck", "--strict", "--no-dangling")
        tip = project.sha()
        project.git("commit", "-q", "--allow-empty", "-am", "Mine")
        assert project.git("diff", "--stat", tip, "HEAD") == "", what
        project.record()
        assert (project.titles(), project.status()) == (expected, ""), what
        assert {make_id(n) for n in (1, 2, 3, 4, 5)} <= list_ids(project), what
    sys.stdout.write("".join(f"{count:4d} {what}\n" for what, count in sorted(hits.items())))
