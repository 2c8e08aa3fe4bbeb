"""A fleet: many repositories, some of them stopped, run by `memory-ci ci`; their lines of JSON name those that stopped.

    python -m benchmarks.fleet [--repositories 200] [--lines FILE]

Every twentieth is broken, in one of five ways in turn: a configuration that cannot be read, a remote that is gone, a
remote that refuses, a model that fails, a policy whose text is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.project import IMPORTED_FROM, Project, copy_project, make_project

EVERY = 20
HOOK = "#!/bin/sh\necho no memory here >&2\nexit 1\n"


def break_one(repo: Project, remote: Path, way: int) -> None:
    """Break a repository in one of five ways."""
    if way == 0:
        repo.commit("Break", {".memory-ci.yaml": "publish: {mode: nowhere}\n"})
    elif way == 1:
        repo.git("remote", "set-url", "origin", "/nowhere.git")
    elif way == 2:
        (remote / "hooks" / "pre-receive").write_text(HOOK)
        (remote / "hooks" / "pre-receive").chmod(0o755)
    elif way == 3:
        repo.commit("Ask a model", {".memory-ci.yaml": "engine: {name: command}\n"})
        repo.git("push", "-q", "origin", "main")
        repo.merge_work(
            "More\n\nDecision: one clerk a drawer rather than two, because one counts.", "more", 130
        )
        repo.git("push", "-q", "origin", "main")
    else:
        extends = f"extends: https://git.example.com/policy@v1 sha256:{'0' * 64}\n"
        repo.commit("Extend a policy without its text", {".memory-ci.yaml": extends})


def run_fleet(count: int, place: Path) -> tuple[list[dict[str, object]], set[str]]:
    """The lines of `count` repositories, and the names of those that were broken."""
    template = make_project(place / "template")
    env = {**os.environ, "PYTHONPATH": IMPORTED_FROM, "MEMORY_CI_ENGINE_COMMAND": "false"}
    lines, broken = [], set()
    for number in range(count):
        repo, remote = (
            copy_project(template, place / f"work-{number:03}"),
            place / f"repo-{number:03}.git",
        )
        repo.git("clone", "-q", "--bare", ".", str(remote))
        repo.git("remote", "add", "origin", str(remote))
        if number % EVERY == EVERY - 1:
            break_one(repo, remote, number // EVERY % 5)
            broken.add(f"acme/repo-{number:03}")
        command = [sys.executable, "-m", "memory_ci", "ci", "--provider", "none", "--push", "push"]
        env["CI_PROJECT_PATH"] = f"acme/repo-{number:03}"
        done = subprocess.run(
            command, cwd=repo.path, env=env, capture_output=True, text=True, check=False
        )
        lines.append(json.loads(done.stdout.splitlines()[-1]))
        sys.stderr.write(f"\r{number + 1} of {count}")
    return lines, broken


def main() -> None:
    """Print what the lines say, and whether they name exactly those that were broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repositories", type=int, default=200)
    parser.add_argument("--lines", type=Path, help="keep the lines in this file")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        lines, broken = run_fleet(asked.repositories, Path(place))
    if asked.lines:
        asked.lines.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    named = {
        str(line["repository"]): line for line in lines if line["state"] in ("stopped", "failed")
    }
    print(
        f"\n{len(lines)} repositories, {used.ru_utime + used.ru_stime:.0f} s of CPU, making them included"
    )
    for name, line in named.items():
        print(f"{name}\t{line['state']}\t{line['reason']}")
    print(f"named: {len(named)}; broken: {len(broken)}; the same: {set(named) == broken}")


if __name__ == "__main__":
    main()
