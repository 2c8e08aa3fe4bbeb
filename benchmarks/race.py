"""Writers at once on one remote: `record --push push` against a job that pulls with rebase and pushes, in one run.

    make bench ARGS=race

Each writer is a clone with a branch of its own. All start together: each merges its branch, one after the other, as a
forge's button does, and then runs its job, as a push to the default branch would start it. A job of ours records all
that is merged and not recorded yet; in the third row each records its own change alone, so that no job does the work of
another and all of them must push.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Barrier, Lock, Thread
from typing import NamedTuple

from benchmarks.timing import Row, bench_environment

ROOT = Path(__file__).parent.parent
WRITERS = (6, 12)
SECONDS = 120
TITLE = re.compile(r"^## (Worker \d+ .*)$", re.MULTILINE)
RECORD = [sys.executable, "-m", "memory_ci", "record"]
IDENTITY = {"NAME": "Bench", "EMAIL": "bench@example.com"}


class Job(NamedTuple):
    """How a writer's job ended."""

    tries: int
    seconds: float
    is_done: bool


class Outcome(NamedTuple):
    """What is on the remote after a race: how many writers' entries, and how many are there more than once."""

    jobs: Sequence[Job]
    landed: int
    twice: int


def bench_race(root: Path) -> list[Row]:
    """Six and twelve writers, each way; the time is that of the median job."""
    rows = []
    for count in WRITERS:
        naive = run_race(root / f"naive{count}", count, pull_and_push)
        ours = run_race(root / f"ours{count}", count, record_and_push)
        alone = run_race(root / f"alone{count}", count, record_own)
        baseline = _median(naive)
        rows += [
            Row(
                f"{count} writers, record; pull --rebase; push",
                baseline,
                baseline,
                _note(naive, count),
            ),
            Row(
                f"{count} writers, record --push push", _median(ours), baseline, _note(ours, count)
            ),
            Row(
                f"{count} writers, the same, each its own change",
                _median(alone),
                baseline,
                _note(alone, count),
            ),
        ]
    return rows


def run_race(root: Path, count: int, job: Callable[[Path, int], Job]) -> Outcome:
    """`count` writers at once, each with a merged change of its own."""
    remote = _make_remote(root, count)
    clones = [_make_clone(root, remote, number) for number in range(count)]
    button, barrier, done = Lock(), Barrier(count), list[Job]()

    def write(number: int) -> None:
        barrier.wait(SECONDS)
        with button:
            _merge(clones[number], number)
        done.append(job(clones[number], number))

    threads = [Thread(target=write, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    titles = Counter(TITLE.findall(_git(remote, "show", "main:MEMORY.md")))
    return Outcome(done, len(titles), sum(times > 1 for times in titles.values()))


def record_and_push(clone: Path, _number: int) -> Job:
    """Ours: planned on the remote's tip, pushed on condition that it is still there, planned again if not."""
    start = time.perf_counter()
    done = _call(clone, *RECORD, "--push", "push", "--json")
    seconds = time.perf_counter() - start
    tries = json.loads(done.stdout)["published"]["tries"] if not done.returncode else 0
    return Job(tries, seconds, done.returncode == 0)


def record_own(clone: Path, number: int) -> Job:
    """The same, but of a plan that holds the writer's own change alone."""
    start = time.perf_counter()
    first = _git(clone, "rev-list", "--max-parents=0", "HEAD").strip()
    done = _call(
        clone, sys.executable, "-m", "tests.one_writer", str(clone), f"#{number + 1}", first
    )
    return Job(int(done.stdout or 0), time.perf_counter() - start, done.returncode == 0)


def pull_and_push(clone: Path, _number: int) -> Job:
    """The usual job: commit here, bring it on top of what is there now, push; once."""
    start = time.perf_counter()
    commands = ([*RECORD, "--push", "none"], ["git", "pull", "-q", "--rebase", "origin", "main"])
    is_done = all(
        not _call(clone, *command).returncode for command in (*commands, ["git", "push", "-q"])
    )
    return Job(1, time.perf_counter() - start, is_done)


def _make_remote(root: Path, count: int) -> Path:
    first, remote = root / "first", root / "remote.git"
    first.mkdir(parents=True)
    _git(first, "init", "-q", "--initial-branch=main")
    (first / "client.py").write_text("one\n")
    _call(first, sys.executable, "-m", "memory_ci", "init")
    _git(first, "add", ".")
    _git(first, "commit", "-q", "-m", "Add memory")
    for number in range(count):
        _git(first, "checkout", "-q", "-b", f"work{number}", "main")
        (first / f"worker{number}.py").write_text("one\n")
        _git(first, "add", ".")
        said = f"Learning: Worker {number} takes lock {number * 7} before queue {number * 3}, because it is not reentrant."
        _git(first, "commit", "-q", "-m", f"fix: part {number}", "-m", said)
    _git(first, "clone", "-q", "--bare", str(first), str(remote))
    _git(remote, "symbolic-ref", "HEAD", "refs/heads/main")
    return remote


def _make_clone(root: Path, remote: Path, number: int) -> Path:
    clone = root / f"writer{number}"
    _git(root, "clone", "-q", f"file://{remote}", str(clone))
    return clone


def _merge(clone: Path, number: int) -> None:
    """What a forge does at once: a merge on top of whatever is there. Here a job may push in between."""
    message = f"Merge pull request #{number + 1} from ada/work{number}\n\nfix: part {number}"
    for _ in range(SECONDS):
        _git(clone, "fetch", "-q", "origin")
        _git(clone, "reset", "-q", "--hard", "origin/main")
        _git(clone, "merge", "-q", "--no-ff", f"origin/work{number}", "-m", message)
        if not _call(clone, "git", "push", "-q").returncode:
            return
    raise RuntimeError("the merge did not land")


def _median(outcome: Outcome) -> float:
    return statistics.median(job.seconds for job in outcome.jobs)


def _note(outcome: Outcome, count: int) -> str:
    tries = sorted(job.tries for job in outcome.jobs)
    failed = sum(not job.is_done for job in outcome.jobs)
    slowest = max(job.seconds for job in outcome.jobs)
    return (
        f"{outcome.landed} of {count} entries landed, {outcome.twice} twice, {failed} jobs failed; tries"
        f" {tries[0]} to {tries[-1]}, median {statistics.median(tries):g}; slowest {slowest:.1f} s"
    )


def _call(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**bench_environment(place), "PYTHONPATH": str(ROOT), "HOME": str(place.parent)}
    environment |= {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in IDENTITY.items()
    }
    return subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=SECONDS
    )


def _git(place: Path, *args: str) -> str:
    done = _call(place, "git", *args)
    if done.returncode:
        raise RuntimeError(f"git {' '.join(args)}: {done.stderr}")
    return done.stdout
