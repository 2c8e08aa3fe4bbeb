"""What a job of the GitHub Action costs on a repository of 10,000 commits, cold and warm.

    python -m benchmarks action [COMMITS]

The action's own scripts run, each as a step of a runner does, in a clone of a scratch repository.
Cold: pip has no cache, and no index is restored. Warm: pip has its cache, and the index and the
tasks of the run before are put back. What a runner itself does (starting, uploading) is not here.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import growth
from benchmarks.timing import bench_environment

ACTION = Path(__file__).parents[1] / "action"
COMMITS = 10_000
ENTRIES = 300
CACHED = ("index.db", "tasks.mpk")
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
NO_INPUTS = dict.fromkeys(("ENGINE", "EXTRACT", "APPLY", "PUSH", "EXTRAS", "ANTHROPIC_API_KEY"), "")


class Spent(NamedTuple):
    """Seconds of a step: processor time, and wall time."""

    processor: float
    wall: float


class Jobs:
    """A remote repository, and a place where jobs of a runner work on clones of it."""

    def __init__(self, scratch: Path, commits: int) -> None:
        self.scratch = scratch
        self.source = growth.make_repository(
            scratch / "source", growth.SMALL | {"history": commits, "entries": ENTRIES}
        )
        self.remote = scratch / "remote.git"
        self.work = scratch / "work"
        self.temp = scratch / "runner"
        self.cache = scratch / "cache"
        self.pip_cache = scratch / "pip"
        self.cache.mkdir()
        clone = ["git", "clone", "-q", "--bare", str(self.source), str(self.remote)]
        subprocess.run(clone, check=True)

    def run_job(self, event: str, *, is_warm: bool) -> dict[str, Spent]:
        """Return what each step of a job costs."""
        for place in (self.work, self.temp):
            shutil.rmtree(place, ignore_errors=True)
        self.temp.mkdir()
        if not is_warm:
            shutil.rmtree(self.pip_cache, ignore_errors=True)
        spent = {}
        clone = ["git", "clone", "-q", f"file://{self.remote}", str(self.work)]
        spent["checkout, whole history"] = _spend(clone, self.scratch, {})
        environment = self._prepare(event)
        for name, script in (("install", "install.sh"), ("name the index", "name_index.sh")):
            spent[name] = self._step(script, environment)
        if is_warm:
            restored = self.work / ".git" / "memory-ci"
            restored.mkdir(exist_ok=True)
            for name in CACHED:
                if (self.cache / name).exists():
                    shutil.copy(self.cache / name, restored / name)
        spent["verify or record"] = self._step("run.sh", environment)
        if event == "push":
            for name in CACHED:
                made = self.work / ".git" / "memory-ci" / name
                if made.exists():
                    shutil.copy(made, self.cache / name)
        return spent

    def merge(self) -> None:
        """Put a merged change with a learning on the remote's branch."""
        growth.run_git(self.source, "pull", "-q", "--ff-only", str(self.remote), "main")
        growth.merge_learning(self.source)
        growth.run_git(self.source, "push", "-q", str(self.remote), "main")

    def _step(self, script: str, environment: Mapping[str, str]) -> Spent:
        return _spend([*BASH, f"source '{ACTION / script}'"], self.work, environment)

    def _prepare(self, event: str) -> dict[str, str]:
        """Return the variables of a runner for an event; a pull request adds an entry."""
        repository = {"full_name": "acme/shop", "default_branch": "main", "fork": False}
        content: dict[str, object] = {"repository": repository}
        if event == "pull_request":
            base = growth.run_git(self.work, "rev-parse", "HEAD")
            growth.run_git(self.work, "branch", "-f", "--no-track", "topic", "main")
            growth.add_topic(self.work)
            growth.run_git(self.work, "checkout", "-q", "--detach", "topic")
            sides = {"base": {"sha": base, "repo": repository}, "head": {"repo": repository}}
            content["pull_request"] = {"title": "", **sides}
        (self.temp / "event.json").write_text(json.dumps(content), encoding="utf-8")
        return {
            **NO_INPUTS,
            "INSTALL": "package",
            "DRY_RUN": "false",
            "PUSH": "push" if event == "push" else "",
            "ENGINE": "rules",
            "COMMAND": str(self.temp / "memory-ci" / "bin" / "memory-ci"),
            "PIP_CACHE_DIR": str(self.pip_cache),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(self.temp / "output"),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md"),
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(self.temp / "event.json"),
            "GITHUB_REF": "refs/heads/main" if event == "push" else "refs/pull/7/merge",
            "GITHUB_ACTIONS": "true",
            "CI": "true",
        }


def main(args: Sequence[str]) -> None:
    """Print the steps of a job that records and of one that verifies, cold and warm."""
    with tempfile.TemporaryDirectory() as scratch:
        jobs = Jobs(Path(scratch), int(args[0]) if args else COMMITS)
        columns = {}
        for event, name in (("push", "record"), ("pull_request", "verify")):
            for is_warm in (False, True):
                if event == "push":
                    jobs.merge()
                title = f"{name}, {'warm' if is_warm else 'cold'}"
                columns[title] = jobs.run_job(event, is_warm=is_warm)
    print(f"| step | {' | '.join(columns)} |")
    print("|---|" + "---|" * len(columns))
    for step in next(iter(columns.values())):
        cells = [
            f"{spent[step].processor:.1f} ({spent[step].wall:.1f})" for spent in columns.values()
        ]
        print(f"| {step} | {' | '.join(cells)} |")
    sums = [sum(step.processor for step in spent.values()) for spent in columns.values()]
    print(f"| all | {' | '.join(f'{seconds:.1f}' for seconds in sums)} |")


def _spend(args: Sequence[str], cwd: Path, variables: Mapping[str, str]) -> Spent:
    """Run a step; one that fails ends the benchmark, but for what verify finds."""
    identity = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com"}
    identity |= {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.com"}
    environment = {**bench_environment(cwd), **identity, **variables}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        args, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode > 1:
        sys.exit(f"{' '.join(args)}: {done.stdout}{done.stderr}")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(processor, wall)
