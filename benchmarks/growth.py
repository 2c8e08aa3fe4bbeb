"""What commands cost against the size of a repository: its entries, its history, its sessions.

    python -m benchmarks growth [--large] [entries|history|sessions ...]

Each size changes one of the three and leaves the others small. A cell is processor seconds, git's
included, and the peak memory of the largest process. `--large` adds 100,000 entries and commits.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from benchmarks.index import make_located
from benchmarks.timing import bench_environment
from memory_ci.store.edits import format_entry

ROOT = Path(__file__).parents[1]
START = datetime(2026, 1, 1, tzinfo=UTC)
MAIN = "refs/heads/main"
RUNS = 3
ENTRIES_PER_FILE = 10_000
SOURCE_FILES = 500
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
LARGE = 100_000

SIZES = {"entries": (100, 1_000, 10_000), "history": (1_000, 10_000), "sessions": (10, 1_000)}
"""What is varied, in entries, commits and sessions."""

SMALL = {"entries": 100, "history": 1_000, "sessions": 10}


class Command(NamedTuple):
    """A command to measure, and what precedes each run of it."""

    name: str
    args: tuple[str, ...]
    prepare: Callable[[Path], object] = lambda _place: None


class Cost(NamedTuple):
    """The processor seconds of a process and its children, and the memory of the largest, in MB."""

    seconds: float
    megabytes: float


def main(args: Sequence[str]) -> None:
    """Print a table for each of the axes that are named, or for all."""
    axes = [arg for arg in args if arg in SIZES] or list(SIZES)
    with tempfile.TemporaryDirectory() as scratch:
        for axis in axes:
            sizes = SIZES[axis]
            if "--large" in args and axis != "sessions":
                sizes = (*sizes, LARGE)
            _print_axis(axis, sizes, Path(scratch))


def _print_axis(axis: str, sizes: Sequence[int], scratch: Path) -> None:
    """Print the costs of each command at each size, and by how much the last two differ."""
    places = [make_repository(scratch / f"{axis}{size}", SMALL | {axis: size}) for size in sizes]
    growth = sizes[-1] // sizes[-2]
    heads = " | ".join(f"{size:,}" for size in sizes)
    print(f"\n| {axis} | {heads} | x, for {growth} x the {axis} |")
    print("|---|" + "---|" * (len(sizes) + 1))
    for command in list_commands():
        costs = [_measure(command, place) for place in places]
        cells = " | ".join(f"{cost.seconds:.2f} s, {cost.megabytes:.0f} MB" for cost in costs)
        ratio = costs[-1].seconds / costs[-2].seconds
        print(f"| {command.name} | {cells} | {ratio:.1f} |", flush=True)


def list_commands() -> list[Command]:
    """Return the commands to measure, in the order in which they leave the repository usable."""
    record = ("record", "--engine", "rules")
    task = " ".join(make_located(1)[0].entry.body.split()[:12])
    return [
        Command("retrieve", ("retrieve", task)),
        Command("record, nothing to do", record),
        Command("record, one change", record, merge_learning),
        Command("check", ("check",)),
        Command(
            "verify, one new entry", ("verify", "--base", "main", "--head", "topic"), add_topic
        ),
        Command("health", ("health",)),
        Command("report", ("report", "--json")),
    ]


def make_repository(place: Path, sizes: dict[str, int]) -> Path:
    """Return a new repository with these sizes, whose history was recorded up to its tip."""
    place.mkdir(parents=True)
    run_git(place, "init", "-q", "--initial-branch=main")
    stream = "".join([*_stream_history(sizes), *_stream_sessions(sizes)])
    run_git(place, "fast-import", "--quiet", text=stream)
    run_git(place, "reset", "-q", "--hard")
    # So that a first run has something to commit, and the next ones begin there.
    merge_learning(place)
    _run(place, ("record", "--engine", "rules"))
    return place


def _stream_history(sizes: dict[str, int]) -> Iterator[str]:
    """Yield merged branches of one commit each, then a commit with the memory."""
    yield _format_commit(MAIN, 1, "Start", _format_file("README.md", "A project.\n"))
    merges = sizes["history"] // 2
    for number in range(1, merges + 1):
        change = _format_file(f"src/part{number % SOURCE_FILES}.py", f"value = {number}\n")
        tip = 1 if number == 1 else 2 * number - 1
        message = f"fix: part {number}\n\nAs reviewed.\n"
        yield _format_commit("refs/heads/topic", 2 * number, message, f"from :{tip}\n{change}")
        merge = f"Merge pull request #{number} from ada/b{number}"
        parents = f"from :{tip}\nmerge :{2 * number}\n{change}"
        yield _format_commit(MAIN, 2 * number + 1, merge, parents)
    memory = [_format_file(".memory-ci.yaml", "{}\n")]
    texts = [format_entry(located.entry) for located in make_located(sizes["entries"])]
    for first in range(0, len(texts), ENTRIES_PER_FILE):
        path = "MEMORY.md" if first == 0 else f"part{first}/MEMORY.md"
        memory.append(_format_file(path, "\n".join(texts[first : first + ENTRIES_PER_FILE])))
    parent = f"from :{2 * merges + 1}\n"
    yield _format_commit(MAIN, 2 * merges + 2, "Add memory", parent + "".join(memory))
    yield f"reset refs/heads/topic\nfrom :{2 * merges + 2}\n\n"


def _stream_sessions(sizes: dict[str, int]) -> Iterator[str]:
    """Yield the digests of sessions that were captured on the branches of the history."""
    merges = sizes["history"] // 2
    for number in range(sizes["sessions"]):
        session = f"5f3b2a10-0000-4000-8000-{number:012d}"
        at = START + timedelta(minutes=1 + 2 * (number % merges))
        header = {
            "memory-ci-session": 1,
            "agent": "claude-code",
            "id": session,
            "format": "claude-code",
            "path": f"{session}.jsonl",
            "branch": f"b{1 + number % merges}",
            "started": at.isoformat(),
            "ended": at.isoformat(),
            "counts": {},
            "pull_requests": [],
            "left_out": 0,
        }
        said = [("human", f"Change part {number}, and tell me why it waits for the queue.")]
        said += [("agent", f"Part {number} waits because the worker holds its lock.")]
        events = [
            {"seq": seq, "at": at.isoformat(), "actor": actor, "kind": "text", "text": text}
            for seq, (actor, text) in enumerate(said)
        ]
        digest = "".join(json.dumps(line) + "\n" for line in (header, *events))
        ref = f"refs/memory-ci/sessions/claude-code/{session}"
        mark = 10 * LARGE + number
        when = at + timedelta(minutes=1)
        yield _format_commit(ref, mark, session, _format_file("digest.jsonl", digest), when)


def _format_commit(
    ref: str, mark: int, message: str, rest: str, when: datetime | None = None
) -> str:
    seconds = int((when or START + timedelta(minutes=mark)).timestamp())
    head = f"commit {ref}\nmark :{mark}\ncommitter Ada <ada@example.com> {seconds} +0000\n"
    return f"{head}data {len(message.encode())}\n{message}\n{rest}\n"


def _format_file(path: str, text: str) -> str:
    return f"M 644 inline {path}\ndata {len(text.encode())}\n{text}\n"


def merge_learning(place: Path) -> None:
    """Commit a change that says a learning; no two say the same."""
    number = int(run_git(place, "rev-list", "--count", "HEAD"))
    words = make_located(number % 50 + 1)[-1].entry.title
    (place / "src" / "part1.py").write_text(f"value = -{number}\n", encoding="utf-8")
    message = f"fix: part {number}\n\nLearning: Before {words}, take lock L{number}."
    run_git(place, *IDENTITY, "commit", "-qam", message)


def add_topic(place: Path) -> None:
    """Let the branch `topic` add one entry to the tip of main."""
    if run_git(place, "rev-list", "--count", "main..topic") != "0":
        return
    run_git(place, "checkout", "-q", "-B", "topic", "main")
    inbox = place / ".memory" / "inbox" / "new.md"
    inbox.parent.mkdir(parents=True, exist_ok=True)
    today = date.fromisoformat(run_git(place, "log", "-1", "--format=%cs"))
    entry = replace(make_located(LARGE // 100 + 1)[-1].entry, created_at=today)
    inbox.write_text(format_entry(entry), encoding="utf-8")
    run_git(place, "add", ".memory")
    run_git(place, *IDENTITY, "commit", "-qm", "Add a learning")
    run_git(place, "checkout", "-q", "main")


def run_git(place: Path, *args: str, text: str = "") -> str:
    done = subprocess.run(
        ["git", *args], cwd=place, input=text.encode(), check=True, stdout=subprocess.PIPE
    )
    return done.stdout.decode().strip()


def _measure(command: Command, place: Path) -> Cost:
    """Return the median cost of a command; the first run fills caches and is left out."""
    costs = []
    for run in range(RUNS + 1):
        command.prepare(place)
        cost = _run(place, command.args)
        if run:
            costs.append(cost)
    seconds = statistics.median(cost.seconds for cost in costs)
    return Cost(seconds, max(cost.megabytes for cost in costs))


def _run(place: Path, args: Sequence[str]) -> Cost:
    """Run a command of this tree; a status above 1 is a failure."""
    environment = {**bench_environment(place), "PYTHONPATH": str(ROOT)}
    for name in ("CI", "GITHUB_ACTIONS"):
        environment.pop(name, None)
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_NAME": "Ada", f"GIT_{who}_EMAIL": "ada@example.com"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "memory_ci", *args],
        cwd=place,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode > 1:
        sys.exit(f"memory-ci {' '.join(args)} ended with {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
