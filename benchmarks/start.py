"""What commands and hooks cost as whole processes, in processor time as a multiple of bare Python.

    python -m benchmarks start [CHECKOUT]

With another checkout each command is run from it, too, and the columns stand side by side. Bare
Python and the checkouts take turns, so that a busy machine is busy for all of them. All run in a
fresh environment that has what `pip install memory-ci` brings and no more: `import msgspec` costs
a third more where `typing_extensions` is installed, too.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.index import make_located
from benchmarks.peer_tools import OURS
from benchmarks.peers import install_tool, list_needles
from benchmarks.timing import bench_environment
from memory_ci.records.entry import Entry
from memory_ci.store.edits import format_entry

ROOT = Path(__file__).parents[1]
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
RUNS = 15
LIBRARIES = "import msgspec, sqlite3, subprocess, pathlib, hashlib"
"""What no command of ours can do without."""

MANY = (10_000, 100_000)
FILE_ENTRIES = 10_000
"""Entries of a memory file at most; the others are those of a team each."""

SESSION = "5f1c7a9e-0000-4000-8000-000000000001"
LONG_AGO = 1_700_000_000
"""A time of modification: of a file as young as its index git reads the content to know whether it changed."""

Prepare = Callable[[Path], object]


class Case(NamedTuple):
    """A command to measure: its project, arguments and input, and what precedes each run."""

    name: str
    project: str
    args: tuple[str, ...]
    prepare: Prepare = lambda _project: None
    stdin: str = ""
    is_long: bool = False


class Bench(NamedTuple):
    """The checkouts to measure, the interpreter that runs them, and where their projects are."""

    checkouts: Sequence[Path]
    python: str
    scratch: Path


def main(args: Sequence[str]) -> None:
    checkouts = [Path(args[0]).resolve(), ROOT] if args else [ROOT]
    heads = ["before", "after"] if args else ["now"]
    with tempfile.TemporaryDirectory() as scratch:
        home = install_tool(Path(scratch) / "environment", OURS.requirement)
        bench = Bench(checkouts, str(home / "bin" / "python"), Path(scratch))
        print(f"| command | {' | '.join(f'{head}, ms | x bare' for head in heads)} | |")
        print("|---|" + "---|" * (2 * len(heads) + 1))
        print(_measure_libraries(bench, len(heads)))
        for case in _list_cases():
            print(_measure(case, bench), flush=True)


def _measure_libraries(bench: Bench, columns: int) -> str:
    ratios = []
    for _ in range(RUNS):
        bare = _processor_time(bench, ["-c", "pass"], ROOT, bench.scratch)
        ratios.append(_processor_time(bench, ["-c", LIBRARIES], ROOT, bench.scratch) / bare)
    cells = f"| | {statistics.median(ratios):.1f} " * columns
    return f"| `{LIBRARIES}` {cells}| median of {RUNS} |"


def _measure(case: Case, bench: Bench) -> str:
    """Return a row of the table: medians of processor time, and of the ratios to bare Python."""
    projects = [_project(bench, case.project, number) for number in range(len(bench.checkouts))]
    times: list[list[float]] = [[] for _ in projects]
    ratios: list[list[float]] = [[] for _ in projects]
    runs = 2 if case.is_long else RUNS
    for run in range(runs + 1):
        bare = _processor_time(bench, ["-c", "pass"], ROOT, bench.scratch)
        for number, checkout in enumerate(bench.checkouts):
            case.prepare(projects[number])
            args = ["-P", "-m", "memory_ci", *case.args]
            spent = _processor_time(bench, args, checkout, projects[number], case.stdin)
            if run:  # the first one fills caches
                times[number].append(spent)
                ratios[number].append(spent / bare)
    cells = []
    for measured, compared in zip(times, ratios, strict=True):
        cells += [f"{statistics.median(measured) * 1000:.0f}", f"{statistics.median(compared):.1f}"]
    return f"| {case.name} | {' | '.join(cells)} | median of {runs} |"


def _processor_time(
    bench: Bench, args: Sequence[str], checkout: Path, cwd: Path, stdin: str = ""
) -> float:
    """Return the seconds of user and system time of a Python process and its children."""
    environment = {**bench_environment(cwd), "PYTHONPATH": str(checkout)}
    for name in ("CI", "GITHUB_ACTIONS"):
        environment.pop(name, None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [bench.python, *args],
        cwd=cwd,
        env=environment,
        input=stdin.encode(),
        capture_output=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _list_cases() -> Iterator[Case]:
    yield Case("--version", "small", ("--version",))
    yield Case("list", "small", ("list",))
    yield Case("check", "small", ("check",))
    yield Case("check --staged", "small", ("check", "--staged"))
    yield Case("add --dry-run", "small", ("add", "Hear the zebra", "--dry-run"))
    yield Case("add", "small", ("add", "Hear the zebra"), _remove_inbox)
    yield Case("retrieve, unchanged", "small", ("retrieve", "wait for the zebra"))
    yield from _list_hooks()
    yield from _list_large()


def _list_large() -> Iterator[Case]:
    """Yield the commands in larger projects."""
    about = _task()
    yield Case("retrieve, unchanged, 1,000 entries", "1000", ("retrieve", about))
    needle = list_needles([located.entry for located in make_located(1000)], whole=True)[0].text
    limits = ("--ids", "--limit", "10", "--max-chars", "100000")
    yield Case("retrieve 60 words, unchanged, 1,000 entries", "1000", ("retrieve", *limits, needle))
    yield Case("list, 1,000 entries", "1000", ("list",))
    yield Case("check, 1,000 entries", "1000", ("check",))
    yield Case("index, unchanged, 1,000 entries", "1000", ("index",))
    yield Case("index, whole, 1,000 entries", "1000", ("index",), _remove_index)
    yield Case("index after a change, 1,000 entries", "1000", ("index",), _add_entry)
    yield Case("retrieve after a change, 1,000 entries", "1000", ("retrieve", about), _add_entry)
    for count in MANY:
        size = f"{count:,} entries"
        yield Case(f"index, whole, {size}", str(count), ("index",), _remove_index, is_long=True)


def _list_hooks() -> Iterator[Case]:
    hook = ("hook", "agent")
    quiet = {"tool_name": "Read", "tool_input": {"file_path": "README.md"}}
    yield Case("agent hook, nothing to say", "small", hook, stdin=_event("PreToolUse", **quiet))
    tested = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": {}}
    yield Case("agent hook, a command ran", "small", hook, stdin=_event("PostToolUse", **tested))
    prompt = _event("UserPromptSubmit", prompt="Tell me of something else")
    yield Case("agent hook, a prompt", "small", hook, stdin=prompt)
    start = _event("SessionStart", source="startup")
    yield Case("agent hook, session start", "small", hook, stdin=start)
    yield Case("agent hook, stop", "small", hook, stdin=_event("Stop"))
    message = ("hook", "prepare-commit-msg", "message")
    yield Case("hook prepare-commit-msg", "small", message)
    yield Case("hook commit-msg", "small", ("hook", "commit-msg", "message"))
    yield Case("hook pre-commit", "small", ("hook", "pre-commit"))
    yield Case("hook pre-push", "small", ("hook", "pre-push"))


def _event(name: str, **fields: object) -> str:
    return json.dumps({"hook_event_name": name, "session_id": SESSION, **fields})


def _project(bench: Bench, name: str, number: int) -> Path:
    """Return a checkout's own copy of a committed project."""
    place = bench.scratch / f"{name}-{number}"
    if place.exists():
        return place
    count = 20 if name == "small" else int(name)
    entries = [located.entry for located in make_located(count)]
    for first in range(0, count, FILE_ENTRIES):
        memory = place / ("MEMORY.md" if first == 0 else f"part{first}/MEMORY.md")
        memory.parent.mkdir(parents=True)
        texts = map(format_entry, entries[first : first + FILE_ENTRIES])
        memory.write_text("\n".join(texts), encoding="utf-8")
        os.utime(memory, (LONG_AGO, LONG_AGO))
    (place / "README.md").write_text("A project.\n", encoding="utf-8")
    (place / "message").write_text("Wait for the zebra\n", encoding="utf-8")
    for args in (["init", "-q"], ["add", "."], [*IDENTITY, "commit", "-qm", "Memory"]):
        subprocess.run(["git", *args], cwd=place, check=True)
    return place


def _task() -> str:
    """Return a task in the words of an entry, as an agent's prompt holds them."""
    return " ".join(make_located(1)[0].entry.body.split()[:12])


def _remove_index(place: Path) -> None:
    shutil.rmtree(place / ".git" / "memory-ci", ignore_errors=True)


def _remove_inbox(place: Path) -> None:
    shutil.rmtree(place / ".memory" / "inbox", ignore_errors=True)


def _add_entry(place: Path) -> None:
    """Append an entry to the project's one file, as `record` does."""
    template = make_located(1)[0].entry
    with (place / "MEMORY.md").open("a", encoding="utf-8") as file:
        file.write("\n" + format_entry(_with_new_id(template)))


def _with_new_id(entry: Entry) -> Entry:
    values = {name: getattr(entry, name) for name in Entry.__struct_fields__}
    fresh = uuid.UUID(int=random.getrandbits(128), version=4)
    return Entry(**{**values, "id": str(fresh)})
