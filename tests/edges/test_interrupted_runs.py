"""Signals aimed at the moment a run moves what it moves: no learning is lost, and no commit of the user undoes the run.

MEMORY_CI_SIGNALS=200 pytest tests/edges/test_interrupted_runs.py sends that many; the figures are printed with -s.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from memory_ci.gitrepo.repo import JOURNAL
from memory_ci.store.edits import format_entry
from tests.flows.project import Project, copy_project, make_project
from tests.make import make_entry, make_id

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
COUNT = int(os.environ.get("MEMORY_CI_SIGNALS", "6"))
SECONDS = 60
"""Bounds what must not hang; nothing here waits that long."""

BODY = "a retry doubled the charge because the gateway had booked the first request before it answered"
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
MAIN, SESSIONS, INDEX = ".git/refs/heads/main", ".git/refs/memory-ci", ".git/memory-ci/index.db"
COMMANDS = {
    "record": (("record",), MAIN),
    "compact": (("compact",), MAIN),
    "promote": (("promote",), MAIN),
    "capture": (("capture", "../session.jsonl"), SESSIONS),
    "index": (("index",), INDEX),
}
"""Each command, and what moves when it does its work."""

ORDER = ("record", "compact", "promote", "record", "capture", "index")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Merged work to learn from, and entries to compact and to promote."""
    project = make_project(tmp_path_factory.mktemp("template") / "shop")
    near = [make_entry(n, title="Retry with a key", body=f"{BODY}{' again' * (n - 1)}") for n in (1, 2)]
    project.commit("Near-duplicates", {"MEMORY.md": "\n".join(map(format_entry, near))})
    lock = {n: make_entry(n, title="Lock before the queue is read", session=f"claude:{n}") for n in (3, 4, 5)}
    project.commit("Three sessions", {f"job-{n}/MEMORY.md": format_entry(entry) for n, entry in lock.items()})
    return project


def write_session(project: Project) -> None:
    """A transcript of the project's own, beside it."""
    said = {"type": "user", "uuid": "u", "parentUuid": None, "sessionId": "79e9becd", "version": "2.1.132"}
    when = {"timestamp": "2026-11-20T10:00:00Z", "message": {"role": "user", "content": "Charge once."}}
    (project.path.parent / "session.jsonl").write_text(json.dumps(said | when | {"cwd": str(project.path)}) + "\n")


def start(project: Project, *args: str) -> subprocess.Popen[bytes]:
    """The command as a process that leads its own group."""
    command = [sys.executable, "-m", "memory_ci", *args]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        command, cwd=project.path, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
    )


def state_of(path: Path) -> object:
    """What is there: a directory changes when something is put into it, a file when it is written or replaced."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def shoot(project: Project, name: str, number: int, delay: float) -> bool:
    """Send a signal to the group of a command, `delay` seconds after it moved something; whether it was still alive."""
    args, watched = COMMANDS[name]
    before = state_of(project.path / watched)
    process = start(project, *args)
    until = time.monotonic() + SECONDS
    while state_of(project.path / watched) == before and process.poll() is None and time.monotonic() < until:
        pass
    assert state_of(project.path / watched) != before, f"{name} did nothing"
    time.sleep(delay)
    is_alive = process.poll() is None
    if is_alive:
        os.killpg(process.pid, number)
    process.wait(SECONDS)
    return is_alive


def ids(project: Project) -> set[str]:
    """The ids by which learnings are found in the last commit."""
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
        is_alive = shoot(project, name, number, chance.choice((0, 0, 0.002, 0.005, 0.01, 0.02, 0.05)))
        what = f"{name} {number.name}"
        is_cut = (project.path / ".git" / JOURNAL).exists()
        hits[f"{what}{', cut short' if is_cut else '' if is_alive else ', over before'}"] += 1
        assert number == signal.SIGKILL or not is_cut, what
        assert project.workspace.findings == (), what
        assert name != "capture" or start(project, *COMMANDS[name][0]).wait(SECONDS) == 0
        assert name != "capture" or project.git("for-each-ref", "refs/memory-ci/sessions/") != "", what
        assert project.git("status", "--porcelain", "--untracked-files=no") == "", what
        project.git("fsck", "--strict", "--no-dangling")
        tip = project.sha()
        project.git("commit", "-q", "--allow-empty", "-am", "Mine")
        assert project.git("diff", "--stat", tip, "HEAD") == "", what
        project.record()
        assert (project.titles(), project.status()) == (expected, ""), what
        assert {make_id(n) for n in (1, 2, 3, 4, 5)} <= ids(project), what
    sys.stdout.write("".join(f"{count:4d} {what}\n" for what, count in sorted(hits.items())))
