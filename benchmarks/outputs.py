"""Compare what two versions of memory-ci print, return and write on the same repositories.

    python -m benchmarks.outputs prepare SCENES --program OLD HISTORY [HISTORY ...]
    python -m benchmarks.outputs record SCENES RESULTS --program PROGRAM
    python -m benchmarks.outputs compare RESULTS_BEFORE RESULTS_AFTER

`prepare` clones the newest changes of each history, sets memory up and records them with one
version. `record` runs the command lines of `outputs_commands.txt` in copies of these scenes and
writes one text file per command line: exit status, standard output and error, new commits,
changed files. `compare` prints what differs and exits with status 1 if anything does.

The time is given by SOURCE_DATE_EPOCH and git's variables, so ids of commits are the same in both
runs. What still varies (paths, durations, process ids) is masked.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

COMMANDS = Path(__file__).with_name("outputs_commands.txt")
NOW = "2026-11-24 09:00:00"
SETUP_DAY = "2026-11-20 09:00:00"
CHANGES = 60
"""First-parent commits of a history that the scene records."""

SUBJECTS = 20
"""Commits whose subjects become entries."""

LONGEST_FILE = 20_000
"""Characters of a written file that a result keeps."""

MASKS = (
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|seconds?|MB|KB|KiB|MiB)\b"), "<amount>"),
    (re.compile(r"(?<=pid )\d+"), "<pid>"),
    (re.compile(r"[/-]tmp[/-][\w./-]+"), "<temporary>"),
)
HEX_ID = re.compile(r"\b(?=[0-9a-f-]*\d)[0-9a-f]{7,64}(?:-[0-9a-f]{4}){0,4}(?:-[0-9a-f]{12})?\b")
CONFIG = """[user]
  name = Ada
  email = ada@example.com
[init]
  defaultBranch = main
[advice]
  detachedHead = false
[maintenance]
  auto = false
"""

SHOP_COMMITS = (
    ("src/payments/client.py", "def charge(key):\n    return key\n", "Add the payments client"),
    (
        "src/payments/client.py",
        "def charge(key, amount):\n    return key, amount\n",
        "fix: charge a card once\n\n"
        "Root cause: the client retried a POST after a timeout.\n"
        "Fix: send an idempotency key with each charge.\n\n"
        "Decision: retries live in src/payments/client.py rather than in each caller, "
        "because only the client knows the key.",
    ),
    (
        "docs/adr/0001-amounts.md",
        "# 1. Amounts are integers in cents\n\n## Status\n\nAccepted\n\n## Context\n\n"
        "A float lost a cent.\n\n## Decision\n\nAmounts are integers in cents.\n",
        "Decide how amounts are kept",
    ),
    ("src/payments/cache.py", "CACHE = {}\n", "Cache charges in memory"),
)
RETRY_MESSAGE = "Retry a charge three times\n\nLearning: never retry a charge without its key"


class Command(NamedTuple):
    """One line of the table: its words, and whether it gets a copy of the scene of its own."""

    line: str
    is_writing: bool


class Scene(NamedTuple):
    """A prepared repository and the values that command lines are filled with."""

    name: str
    repository: Path
    values: Mapping[str, str]


def read_commands(path: Path = COMMANDS) -> list[Command]:
    """Return the command lines of the table; a line that begins with `!` writes."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Command(line.removeprefix("!").strip(), line.startswith("!"))
        for line in lines
        if line and not line.startswith("#")
    ]


def make_environment(home: Path, program: Path, now: str) -> dict[str, str]:
    """Return the environment of a run: an empty home, a fixed time, the program first on PATH."""
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text(CONFIG, encoding="utf-8")
    seconds = int(datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp())
    return {
        "HOME": str(home),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        "GIT_CONFIG_NOSYSTEM": "1",
        "SOURCE_DATE_EPOCH": str(seconds),
        "GIT_AUTHOR_DATE": f"{seconds} +0000",
        "GIT_COMMITTER_DATE": f"{seconds} +0000",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(
    command: Sequence[str], place: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Return the completed process of a command, with its output as text."""
    return subprocess.run(
        command,
        cwd=place,
        env=dict(environment),
        input="",
        capture_output=True,
        text=True,
        errors="backslashreplace",
    )


def git(place: Path, environment: Mapping[str, str], *words: str) -> str:
    """Return what git prints; a failure ends the program."""
    done = run(("git", *words), place, environment)
    if done.returncode:
        sys.exit(f"git {shlex.join(words)} in {place}: {done.stderr}")
    return done.stdout


def prepare_scene(history: Path, scenes: Path, program: Path) -> None:
    """Clone a history, set memory up before its newest changes, and record these.

    Args:
        history: a git repository, bare or not; a folder `owner+name/repo` gives its name.
        scenes: the folder in which the scene is made, with a file of values beside it.
        program: the memory-ci that sets up and records.
    """
    name = (history.parent.name if history.name in {"repo", ".git"} else history.name).split("+")[
        -1
    ]
    repository = scenes / name / "repository"
    repository.parent.mkdir(parents=True)
    environment = make_environment(scenes / name / "home", program, SETUP_DAY)
    git(scenes, environment, "clone", "--quiet", str(history), str(repository))
    git(repository, environment, "checkout", "--quiet", "-B", "main")
    subject = git(repository, environment, "log", "-n1", "--no-merges", "--format=%s").strip()
    check_run(run(("memory-ci", "init"), repository, environment))
    git(repository, environment, "add", "--all")
    git(repository, environment, "commit", "--quiet", "--message", "Set memory up")
    add_entries(repository, environment)
    depth = git(repository, environment, "rev-list", "--first-parent", "--count", "HEAD")
    since = f"HEAD~{min(CHANGES, int(depth) - 1)}"
    recording = ("memory-ci", "record", "--yes", "--since", since)
    check_run(run(recording, repository, environment))
    values = find_values(repository, environment) | {"task": subject.replace('"', "'")}
    path = scenes / name / "values.json"
    path.write_text(json.dumps(values, indent=1), encoding="utf-8")
    print(f"{name}: {values['entries']} entries")


def make_shop(folder: Path, program: Path) -> Path:
    """Make a small history with marked learnings, a merge, a decision record and a revert."""
    environment = make_environment(folder / "home", program, SETUP_DAY)
    shop = folder / "shop"
    (shop / "src/payments").mkdir(parents=True)
    (shop / "docs/adr").mkdir(parents=True)
    git(folder, environment, "init", "--quiet", str(shop))
    for path, text, message in SHOP_COMMITS:
        (shop / path).write_text(text, encoding="utf-8")
        git(shop, environment, "add", "--all")
        git(shop, environment, "commit", "--quiet", "--message", message)
    git(shop, environment, "revert", "--no-edit", "HEAD")
    git(shop, environment, "checkout", "--quiet", "-b", "retry", "HEAD~1")
    (shop / "src/payments/retry.py").write_text("RETRIES = 3\n", encoding="utf-8")
    git(shop, environment, "add", "--all")
    git(shop, environment, "commit", "--quiet", "--message", RETRY_MESSAGE)
    git(shop, environment, "checkout", "--quiet", "main")
    title = "Merge pull request #128 from ada/retry\n\nRetry a charge three times"
    git(shop, environment, "merge", "--quiet", "--no-ff", "retry", "--message", title)
    return shop


def check_run(done: subprocess.CompletedProcess[str]) -> None:
    """End the program if a step of the preparation failed."""
    if done.returncode:
        sys.exit(f"{shlex.join(done.args)}: {done.returncode}\n{done.stdout}{done.stderr}")


def add_entries(repository: Path, environment: Mapping[str, str]) -> None:
    """Add five entries by hand and some from subjects of commits, and commit them."""
    source = find_source(repository, environment)
    learnings = (
        ("directive", "Run the tests of a package before you commit it", ()),
        ("corrective", f"{Path(source).name} is read at start, never cached", ("--cite", source)),
        ("declarative", "The release branch is cut from main on Mondays", ()),
        ("procedural", "To regenerate the fixtures run the script beside them", ()),
        ("directive", "Retry a request only with an idempotency key", ()),
    )
    for kind, title, options in learnings:
        body = f"Agreed on in review. {title}."
        words = ("memory-ci", "add", title, "--type", kind, "--body", body, *options)
        check_run(run(words, repository, environment))
    for title, path in list_subjects(repository, environment):
        words = ("memory-ci", "add", f"In {path}: {title}", "--cite", path)
        run(words, repository, environment)  # a title may be refused: one entry fewer
    git(repository, environment, "add", ".memory")
    git(repository, environment, "commit", "--quiet", "--message", "Note what we agreed on")


def list_subjects(repository: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield subjects of commits, each with a file that it changed and that is still there."""
    words = ("log", "-n40", "--no-merges", "--format=%x00%s", "--name-only")
    for commit in git(repository, environment, *words).split("\0")[1 : SUBJECTS + 1]:
        subject, *paths = [line for line in commit.splitlines() if line]
        for path in paths:
            if (repository / path).is_file():
                yield subject, path
                break


def find_source(repository: Path, environment: Mapping[str, str]) -> str:
    """Return the source file that changed most often in the newest commits."""
    listing = git(repository, environment, "log", "-n200", "--name-only", "--format=")
    counts: dict[str, int] = {}
    for path in listing.split("\n"):
        if path.endswith((".py", ".go", ".ts", ".js")) and (repository / path).is_file():
            counts[path] = counts.get(path, 0) + 1
    if not counts:
        return "README.md"
    return max(sorted(counts), key=counts.__getitem__)


def find_values(repository: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the placeholders of command lines stand for in a scene."""
    listing = run(("memory-ci", "list", "--format", "ids"), repository, environment)
    ids = listing.stdout.split() or ["00000000"]
    return {
        "id": ids[0],
        "last_id": ids[-1],
        "entries": str(len(ids)),
        "source": find_source(repository, environment),
        "commit": git(repository, environment, "rev-parse", "HEAD~1").strip(),
    }


def load_scenes(folder: Path) -> list[Scene]:
    """Return the scenes that `prepare` made."""
    return [
        Scene(path.parent.name, path.parent / "repository", json.loads(path.read_text("utf-8")))
        for path in sorted(folder.glob("*/values.json"))
    ]


def record_scene(scene: Scene, commands: Sequence[Command], results: Path, program: Path) -> None:
    """Run the command lines in copies of a scene and write one result file for each."""
    folder = results / scene.name
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        shared = copy_repository(scene, Path(scratch, "shared"))
        for number, command in enumerate(commands, 1):
            place = shared
            if command.is_writing:
                place = copy_repository(scene, Path(scratch, "copy"))
            text = run_command(command, scene, place, Path(scratch), program)
            name = re.sub(r"[^\w.-]+", "-", command.line).strip("-")[:80]
            (folder / f"{number:03}-{name}.txt").write_text(text, encoding="utf-8")
            if command.is_writing:
                shutil.rmtree(place)
    print(f"{scene.name}: {len(commands)} command lines")


def copy_repository(scene: Scene, target: Path) -> Path:
    """Copy the repository of a scene, with the times of its files."""
    shutil.copytree(scene.repository, target, symlinks=True)
    return target


def run_command(command: Command, scene: Scene, place: Path, scratch: Path, program: Path) -> str:
    """Return the report of one command line: what it printed, returned and changed."""
    environment = make_environment(scratch / "home", program, NOW)
    line = command.line.format_map(scene.values)
    before = git(place, environment, "rev-parse", "HEAD").strip()
    done = run(("bash", "-c", line), place, environment)
    parts = [f"$ {line}", f"status {done.returncode}", "-- output", done.stdout]
    parts += ["-- errors", done.stderr]
    if command.is_writing:
        parts += list_changes(place, environment, before)
    text = "\n".join(parts).replace(str(place), "<repository>").replace(str(scratch), "<scratch>")
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return mask_ids(text)


def mask_ids(text: str) -> str:
    """Replace ids (commits, entries, hashes) by numbers in the order in which they first appear.

    Ids of entries added by hand are random, and so are the commits that contain them.
    """
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        start = match[0][:7]
        return f"<id {numbers.setdefault(start, len(numbers) + 1)}>"

    return HEX_ID.sub(number, text)


def list_changes(place: Path, environment: Mapping[str, str], before: str) -> Iterator[str]:
    """Yield what a command wrote: commits, the diff, untracked files, hooks and settings."""
    yield "-- commits"
    yield git(place, environment, "log", "--format=%s%n%b", "--stat=200", f"{before}..HEAD")
    yield "-- changes"
    yield git(place, environment, "diff", before)
    yield git(place, environment, "status", "--porcelain", "--untracked-files=all")
    yield "-- refs"
    yield git(place, environment, "for-each-ref", "--format=%(refname)", "refs/memory-ci")
    listing = git(place, environment, "ls-files", "--others", "--exclude-standard")
    hooks = [f".git/hooks/{path.name}" for path in sorted((place / ".git/hooks").iterdir())]
    settings = [".git/config", ".git/info/exclude", *hooks]
    for name in (*listing.splitlines(), *settings):
        path = place / name
        if path.is_file() and not name.endswith(".sample"):
            yield f"-- file {name}"
            yield path.read_text(encoding="utf-8", errors="backslashreplace")[:LONGEST_FILE]


def compare(before: Path, after: Path) -> int:
    """Print the differences of two folders of results; return how many files differ."""
    names = {
        path.relative_to(folder) for folder in (before, after) for path in folder.rglob("*.txt")
    }
    different = 0
    for name in sorted(names):
        old, new = read_lines(before / name), read_lines(after / name)
        if old == new:
            continue
        different += 1
        print(f"\n=== {name}")
        for line in difflib.unified_diff(old, new, "before", "after", n=1, lineterm=""):
            print(line)
    print(f"\n{different} of {len(names)} command lines differ")
    return different


def read_lines(path: Path) -> list[str]:
    """Return the lines of a result; none where the other version has no such command line."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `prepare`, `record` or `compare`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    preparing = verbs.add_parser("prepare")
    preparing.add_argument("scenes", type=Path)
    preparing.add_argument("histories", type=Path, nargs="+")
    preparing.add_argument("--program", type=Path, required=True)
    recording = verbs.add_parser("record")
    recording.add_argument("scenes", type=Path)
    recording.add_argument("results", type=Path)
    recording.add_argument("--program", type=Path, required=True)
    recording.add_argument("--only", default="", help="only command lines with this text")
    comparing = verbs.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args(arguments)
    if options.verb == "compare":
        sys.exit(1 if compare(options.before, options.after) else 0)
    program = options.program.absolute()
    scenes = options.scenes.absolute()
    if options.verb == "prepare":
        scenes.mkdir(parents=True)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            for history in (make_shop(Path(scratch), program), *options.histories):
                prepare_scene(history.absolute(), scenes, program)
        return
    commands = [command for command in read_commands() if options.only in command.line]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(record_scene, scene, commands, options.results.absolute(), program)
            for scene in load_scenes(scenes)
        ]
    for job in jobs:
        job.result()


if __name__ == "__main__":
    main()
