"""Measure many jobs that push to one remote at once: `record --push push` against `git pull --rebase; git push`.

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
    """The result of a writer's job.

    Attributes:
        tries: how often it tried to push.
        is_done: whether it succeeded.
    """

    tries: int
    seconds: float
    is_done: bool


class Outcome(NamedTuple):
    """The state of the remote after a race.

    Attributes:
        jobs: the result of each writer's job.
        landed: how many writers' entries are on the remote.
        twice: how many of these are there more than once.
    """

    jobs: Sequence[Job]
    landed: int
    twice: int


def bench_race(root: Path) -> list[Row]:
    """Return the time of the median job with six and twelve writers, for each kind of job."""
    rows = []
    for count in WRITERS:
        naive = run_race(root / f"naive{count}", count, pull_and_push)
        ours = run_race(root / f"ours{count}", count, record_and_push)
        alone = run_race(root / f"alone{count}", count, record_own)
        baseline = _median(naive)
        races = (
            ("record; pull --rebase; push", naive),
            ("record --push push", ours),
            ("the same, each its own change", alone),
        )
        for name, outcome in races:
            title = f"{count} writers, {name}"
            rows.append(Row(title, _median(outcome), baseline, _note(outcome, count)))
    return rows


def run_race(root: Path, count: int, job: Callable[[Path, int], Job]) -> Outcome:
    """Let writers merge a change and run a job, all at once.

    Args:
        root: the directory of the remote and the clones.
        count: the number of writers.
        job: runs the job of a writer in its clone, by its number.
    """
    remote = _make_remote(root, count)
    clones = [_make_clone(root, remote, number) for number in range(count)]
    merge_lock = Lock()  # A forge merges one request after another.
    barrier = Barrier(count)
    jobs: list[Job] = []

    def write(number: int) -> None:
        barrier.wait(SECONDS)
        with merge_lock:
            _merge(clones[number], number)
        jobs.append(job(clones[number], number))

    threads = [Thread(target=write, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    titles = Counter(TITLE.findall(_git(remote, "show", "main:MEMORY.md")))
    repeated = sum(times > 1 for times in titles.values())
    return Outcome(jobs, landed=len(titles), twice=repeated)


def record_and_push(clone: Path, _number: int) -> Job:
    """Run `record --push push`: if the remote's tip moved before the push, it plans again on the new tip."""
    start = time.perf_counter()
    process = _call(clone, *RECORD, "--push", "push", "--json")
    seconds = time.perf_counter() - start
    is_done = process.returncode == 0
    tries = json.loads(process.stdout)["published"]["tries"] if is_done else 0
    return Job(tries, seconds, is_done)


def record_own(clone: Path, number: int) -> Job:
    """Record and push the writer's own change alone, so that no job does the work of another."""
    start = time.perf_counter()
    first_commit = _git(clone, "rev-list", "--max-parents=0", "HEAD").strip()
    arguments = (str(clone), f"#{number + 1}", first_commit)
    process = _call(clone, sys.executable, "-m", "tests.one_writer", *arguments)
    seconds = time.perf_counter() - start
    return Job(int(process.stdout or 0), seconds, process.returncode == 0)


def pull_and_push(clone: Path, _number: int) -> Job:
    """Run the usual job once: commit locally, rebase on the remote's branch, and push."""
    start = time.perf_counter()
    commands = (
        [*RECORD, "--push", "none"],
        ["git", "pull", "-q", "--rebase", "origin", "main"],
        ["git", "push", "-q"],
    )
    is_done = all(_call(clone, *command).returncode == 0 for command in commands)
    return Job(1, time.perf_counter() - start, is_done)


def _make_remote(root: Path, count: int) -> Path:
    """Create a bare repository with memory-ci set up, and a branch with a learning for each writer."""
    first = root / "first"
    remote = root / "remote.git"
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
        learning = (
            f"Learning: Worker {number} takes lock {number * 7} before queue {number * 3},"
            " because it is not reentrant."
        )
        _git(first, "commit", "-q", "-m", f"fix: part {number}", "-m", learning)
    _git(first, "clone", "-q", "--bare", str(first), str(remote))
    _git(remote, "symbolic-ref", "HEAD", "refs/heads/main")
    return remote


def _make_clone(root: Path, remote: Path, number: int) -> Path:
    clone = root / f"writer{number}"
    _git(root, "clone", "-q", f"file://{remote}", str(clone))
    return clone


def _merge(clone: Path, number: int) -> None:
    """Merge a writer's branch into the remote's main branch as a forge does.

    A job may push in between: the merge is then made again on the new tip.
    """
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
    """Return a sentence on a race: what landed, failures, tries, and the slowest job."""
    tries = sorted(job.tries for job in outcome.jobs)
    failed = sum(not job.is_done for job in outcome.jobs)
    slowest = max(job.seconds for job in outcome.jobs)
    return (
        f"{outcome.landed} of {count} entries landed, {outcome.twice} twice, {failed} jobs failed; tries"
        f" {tries[0]} to {tries[-1]}, median {statistics.median(tries):g}; slowest {slowest:.1f} s"
    )


def _call(cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a directory, with a home and a git identity of its own."""
    environment = {**bench_environment(cwd), "PYTHONPATH": str(ROOT), "HOME": str(cwd.parent)}
    for role in ("AUTHOR", "COMMITTER"):
        for key, value in IDENTITY.items():
            environment[f"GIT_{role}_{key}"] = value
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=SECONDS
    )


def _git(cwd: Path, *args: str) -> str:
    process = _call(cwd, "git", *args)
    if process.returncode:
        raise RuntimeError(f"git {' '.join(args)}: {process.stderr}")
    return process.stdout
