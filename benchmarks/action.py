"""What a job of the GitHub Action takes on a repository of 10,000 commits, cold and warm.

    python -m benchmarks action [COMMITS]

The runner `act` runs the whole action, with its own steps, on this machine. Cold: pip has no cache, and no
index is restored. Warm: both are as the job before left them. The doubles of `checkout` and `cache` read and
write this disk, so what a network takes is not here, but for the packages that pip loads.
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import growth
from memory_ci import __version__
from tests.integration.act import ROOT, Act, name_pinned
from tests.servers import Answer, HttpRequest, json_answer, serve

COMMITS = 10_000
ENTRIES = 300
REPOSITORY = {"full_name": "acme/shop", "default_branch": "main", "fork": False}
MERGE_REF = "refs/pull/7/merge"
STEP = re.compile(r"(?s)Success - Main (.+) \[[^\]]*\]$")
"""The message of a step that ended well: its name, and how long it took."""

WORKFLOW = f"""
on: [push, pull_request]
permissions: {{}}
jobs:
  memory:
    runs-on: ubuntu-24.04
    steps:
      - uses: {name_pinned("actions/checkout")}
        with: {{fetch-depth: 0}}
      - uses: OWNER/memory-ci/action@v{__version__}
        with: {{push: push, engine: rules}}
"""


class Job(NamedTuple):
    """What a job took: seconds of each step by name, and the processor time of all."""

    steps: Mapping[str, float]
    processor: float


class OnlineAct(Act):
    """A runner that may load packages, and keeps pip's cache between its jobs."""

    def _environment(self, place: Path) -> dict[str, str]:
        environment = super()._environment(place)
        for proxy in ("HTTP_PROXY", "HTTPS_PROXY"):
            del environment[proxy]
        pip_settings = {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
        return environment | pip_settings | {"PIP_CACHE_DIR": str(self.scratch / "pip")}

    def forget(self) -> None:
        """Remove what earlier jobs left: pip's cache and the saved indexes."""
        for place in (self.scratch / "pip", self.cache):
            shutil.rmtree(place, ignore_errors=True)


class Shop:
    """A repository with a history, its remote, and a runner."""

    def __init__(self, scratch: Path, commits: int, forge: str) -> None:
        sizes = growth.SMALL | {"history": commits, "entries": ENTRIES}
        self.source = growth.make_repository(scratch / "source", sizes)
        self.remote = scratch / "remote.git"
        clone = ["git", "clone", "-q", "--bare", str(self.source), str(self.remote)]
        subprocess.run(clone, check=True)
        variables = {"GITHUB_API_URL": forge, "GITHUB_GRAPHQL_URL": f"{forge}/graphql"}
        self.act = OnlineAct(scratch / "act", f"file://{self.remote}", variables)
        _copy_project(self.act.scratch / "ours")

    def record(self) -> Job:
        """Merge a change with a learning, and run the job of that push."""
        growth.run_git(self.source, "pull", "-q", "--ff-only", str(self.remote), "main")
        growth.merge_learning(self.source)
        self._push("main", "main")
        return self._run("push", {}, self._find_commit("main"), "refs/heads/main")

    def verify(self) -> Job:
        """Propose a change that adds an entry, and run the job of that pull request."""
        base = self._find_commit("main")
        growth.run_git(self.source, "branch", "-f", "--no-track", "topic", "main")
        growth.add_topic(self.source)
        self._push("+topic", MERGE_REF)
        sides = {"base": {"sha": base, "repo": REPOSITORY}, "head": {"repo": REPOSITORY}}
        request = {"number": 7, "pull_request": {"number": 7, "title": "", **sides}}
        return self._run("pull_request", request, self._find_commit("topic"), MERGE_REF)

    def _push(self, branch: str, ref: str) -> None:
        growth.run_git(self.source, "push", "-q", str(self.remote), f"{branch}:{ref}")

    def _find_commit(self, branch: str) -> str:
        return growth.run_git(self.source, "rev-parse", branch)

    def _run(self, event: str, content: Mapping[str, Any], commit: str, ref: str) -> Job:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        payload = {"repository": REPOSITORY, **content}
        runner = self.act.start(WORKFLOW, event, payload, commit, ref)
        printed, errors = runner.communicate()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if runner.returncode or "memory stopped" in printed:
            sys.exit(f"The job failed: {printed}{errors}")
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Job(_read_steps(printed), processor)


def _copy_project(folder: Path) -> None:
    """Replace a folder by the files of the newest commit, from which the action installs."""
    shutil.rmtree(folder)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")


def _read_steps(printed: str) -> dict[str, float]:
    """Return the seconds of checkout and of each step of our action, from the runner's JSON lines."""
    steps = {}
    for line in printed.splitlines():
        event = json.loads(line)
        match = STEP.search(event["msg"])
        is_ours = event["stepID"][0] == "1" if match else False
        is_step = len(event["stepID"]) == (2 if is_ours else 1) if match else False
        if match and is_step:
            steps[match[1].partition("@")[0]] = event["executionTime"] / 1e9
    return steps


def _answer_nothing(request: HttpRequest) -> Answer:
    """Answer like a forge that has no pull request."""
    return json_answer({"permission": "write"} if "/collaborators/" in request.path else [])


def main(args: Sequence[str]) -> None:
    """Print what each step of a job that records and of one that verifies takes, cold and warm."""
    jobs: dict[str, Job] = {}
    commits = int(args[0]) if args else COMMITS
    with tempfile.TemporaryDirectory() as scratch, serve(_answer_nothing) as forge:
        shop = Shop(Path(scratch), commits, forge.url)
        jobs["record, cold"] = shop.record()
        jobs["record, warm"] = shop.record()
        jobs["verify, warm"] = shop.verify()
        shop.act.forget()
        jobs["verify, cold"] = shop.verify()
    print(f"| step, s | {' | '.join(jobs)} |")
    print("|---|" + "---|" * len(jobs))
    names = dict.fromkeys(name for job in jobs.values() for name in job.steps)
    for name in names:
        cells = [f"{job.steps[name]:.1f}" if name in job.steps else "" for job in jobs.values()]
        print(f"| {name} | {' | '.join(cells)} |")
    sums = [f"{sum(job.steps.values()):.1f}" for job in jobs.values()]
    print(f"| all | {' | '.join(sums)} |")
    print(f"| all, processor | {' | '.join(f'{job.processor:.1f}' for job in jobs.values())} |")
