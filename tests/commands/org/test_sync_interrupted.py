"""Tests of `org sync`: killed and concurrent runs, and an index that is damaged or lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from memory_ci.commands.org.verification import verify_org
from memory_ci.errors import RepositoryError
from tests.commands.org.organisation import Organisation, as_remote


def test_files_left_by_a_killed_sync_are_removed(org: Organisation) -> None:
    org.write(as_remote(org.add("pay", "A note")))
    org.sync()
    (org.index / "operator" / "scratch" / "memory-ci-org-x").mkdir()
    org.sync()
    assert list((org.index / "operator" / "scratch").iterdir()) == []


def test_a_damaged_index_is_built_again(org: Organisation) -> None:
    org.add("pay", "A note on charges")
    org.write("pay")
    org.sync()
    (org.index / "operator" / "internal.db").write_bytes(b"damaged")
    (org.index / "internal.db").unlink()
    org.sync()
    assert org.titles() == ["A note on charges"]


def test_a_sync_without_its_state_files_continues_from_the_published_index(
    org: Organisation, started: Path
) -> None:
    org.add("pay", "A note on charges")
    org.add("shop", "A note on prices")
    org.write("pay", "shop")
    org.sync()
    shutil.rmtree(org.index / "operator")
    org.repositories["shop"].commit("Broken", {".memory-ci.yaml": "scopes: [\n"})
    started.write_text("")
    report = org.sync()
    assert (report.unchanged, [name for name, _ in report.failed]) == (1, ["shop"])
    assert org.titles() == ["A note on charges", "A note on prices"]


def test_a_second_sync_at_the_same_time_is_refused(org: Organisation) -> None:
    from memory_ci.files import lock_file

    org.add("pay", "A note")
    org.write("pay")
    org.sync()
    with (org.index / "operator" / "lock").open("ab") as lock:
        assert lock_file(lock.fileno())
        with pytest.raises(RepositoryError) as caught:
            org.sync()
    assert caught.value.slug == "org-locked"


SYNC = """
import os, sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from memory_ci.commands.org.sync import sync_org
from memory_ci.commands.org.targets import gather_targets
from memory_ci.commands.org.sqlite import SqliteEngine
gather = partial(gather_targets, [Path(sys.argv[1])], (), (), os.environ)

def stop(*_):
    print("step", flush=True)
    sys.stdin.readline()

def stopping(step):
    def work(*arguments, **named):
        stop()
        return step(*arguments, **named)
    return work

for name in ("sync", "publish", "save_state"):
    setattr(SqliteEngine, name, stopping(getattr(SqliteEngine, name)))
sys.addaudithook(lambda event, _: stop() if event in ("os.rename", "os.remove", "os.link") else None)
sync_org(sys.argv[2], gather, os.environ, datetime(2026, 11, 23, tzinfo=UTC), jobs=2)
"""


def start_sync(org: Organisation) -> subprocess.Popen[bytes]:
    """Start a sync that waits before each of its steps."""
    command, pipe = [sys.executable, "-c", SYNC, str(org.list), str(org.index)], subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, env=dict(os.environ), start_new_session=True
    )


def go_on(process: subprocess.Popen[bytes]) -> bool:
    """Let a sync continue to its next step, and return whether there is one."""
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError):
        process.stdin.write(b"\n")
        process.stdin.flush()
    return process.stdout.readline() != b""


def test_a_killed_sync_loses_nothing_and_publishes_nothing_partial(org: Organisation) -> None:
    """Readers see the whole state before the run or after it, and the next run continues."""
    names = [f"r{n}" for n in range(4)]
    for name in names:
        org.add(name, f"A note of {name}", f"Another note of {name}")
    org.write(*names)
    org.sync()
    before = org.titles()
    for name in names:
        org.add(name, f"A newer note of {name}")
    after = sorted(f"A newer note of {name}" for name in names)
    states = []
    for steps in range(1, 100, 2):
        process = start_sync(org)
        is_over = not all(go_on(process) for _ in range(steps))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        states.append(org.titles())
        if is_over:
            break
    assert len(states) > 4
    assert before in states
    assert all(state in (before, after) for state in states)
    assert org.sync().failed == ()
    assert org.titles() == after
    assert verify_org(str(org.index), org.environ) == ((), len(names))
