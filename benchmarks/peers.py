"""memory-ci beside other tools that keep an agent's memory in git: the same learnings, each in the tool's own format.

Every tool is installed at a pinned version into an environment of its own and asked through its own command line.
"""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from benchmarks.index import make_located
from benchmarks.peer_tools import OURS, PEERS, Peer, Placed
from benchmarks.timing import Row, bench_environment
from memory_ci.records.entry import Entry

SIZES = (1_000, 10_000)
RUNS = 7
PATIENCE = 20.0
"""Seconds of repeating one measurement: of a slow tool there are fewer runs, and fewer needles are asked."""
LONGEST = 300.0
"""Seconds after which a process is given up."""
NEEDLES = 50
REPLACED = 2
"""Words of a needle's query that its entry does not have."""
ADDED = 4 * RUNS
"""Entries beyond the corpus: one before each run that follows a change."""
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
THIS = str(Path(__file__).parents[1])


class Spent(NamedTuple):
    """Seconds of waiting and of processor time, both medians, and of how many runs."""

    wall: float
    cpu: float
    runs: int = 1


class Bench(NamedTuple):
    """A tool at work: the environment it is installed in, its repository, the baseline, and entries yet to add."""

    peer: Peer
    home: Path
    cwd: Path
    python: Spent
    new: Iterator[Entry]

    def command(self, args: Sequence[str]) -> list[str]:
        """The command line of the installed tool."""
        return [str(self.home / "bin" / self.peer.requirement.partition("==")[0]), *args]


class Needle(NamedTuple):
    """A query, and the entry that it was made of."""

    text: str
    entry: Entry


def bench_peers(root: Path) -> list[Row]:
    """Every tool that could be installed, at each size; the baseline is bare Python, wall time with wall time."""
    root.mkdir(parents=True)
    bare = install_tool(root / "bare", None)
    homes, rows = {}, []
    for peer in PEERS:
        try:
            homes[peer] = install_tool(root / peer.requirement, peer.requirement)
        except (subprocess.SubprocessError, OSError) as error:
            rows.append(
                Row(peer.name, 0, 0, f"skipped: it could not be installed: {_reason(error)}")
            )
    for size in SIZES:
        python = _repeat([[str(bare / "bin" / "python"), "-c", "pass"]], root, lambda: None)
        rows.append(_row(f"bare Python, before {size} entries", python, python, "baseline"))
        # Each measurement is made of one tool after the other, so that all have the same load.
        columns = [_bench(peer, home, root, size, python) for peer, home in homes.items()]
        rows += filter(None, chain.from_iterable(zip_longest(*columns)))
    return rows


def install_tool(home: Path, requirement: str | None) -> Path:
    """A virtual environment with one tool; memory-ci is installed from this repository, as a user has it."""
    run = partial(subprocess.run, check=True, capture_output=True, text=True, timeout=LONGEST)
    run([sys.executable, "-m", "venv", *(() if requirement else ("--without-pip",)), str(home)])
    if requirement:
        pip = [
            str(home / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--no-input",
            "--disable-pip-version-check",
        ]
        run([*pip, THIS if requirement == OURS.requirement else requirement])
    return home


def _bench(peer: Peer, home: Path, root: Path, size: int, python: Spent) -> Iterator[Row]:
    """The rows of one tool; a last one that says why there are no more, if it fails or takes too long."""
    entries = [one.entry for one in make_located(size + ADDED)]
    bench = Bench(peer, home, root / f"{peer.name} {size}", python, iter(entries[size:]))
    name = f"{peer.name}, {size} entries"
    try:
        _make_corpus(bench, entries[:size])
        yield from _bench_reading(bench, entries[:size], name)
        yield from _bench_change(bench, peer.place, f"one new entry: {name}")
        if peer.place_aside:
            yield from _bench_change(bench, peer.place_aside, f"one new entry in the inbox: {name}")
    except (subprocess.SubprocessError, OSError) as error:
        yield Row(name, 0, 0, f"stopped: {_reason(error)}")


def _bench_reading(bench: Bench, entries: Sequence[Entry], name: str) -> Iterator[Row]:
    """Building the whole index, asking it, and what it finds."""
    derived = bench.cwd / bench.peer.derived
    build = bench.command(bench.peer.build)
    spent = _repeat([build], bench.cwd, lambda: derived.unlink(missing_ok=True))
    yield _row(f"full build: {name}", spent, bench.python, f"{derived.stat().st_size / 1e6:.1f} MB")
    needles = list_needles(entries, whole=True)
    ask = bench.command((*bench.peer.ask, needles[0].text))
    yield _row(
        f"query, nothing changed: {name}", _repeat([ask], bench.cwd, lambda: None), bench.python
    )
    yield _recall(bench, needles, f"needle recall@10, whole entry: {name}")
    yield _recall(bench, list_needles(entries, whole=False), f"needle recall@10, title: {name}")


def _bench_change(bench: Bench, place: Callable[[Entry], Placed], what: str) -> Iterator[Row]:
    """What one more entry costs: the index's own command, and a query instead of it.

    The query is of the new entry's own words, so that it must be in the answer; the note says how often it was.
    """
    spent = _repeat(
        [bench.command(bench.peer.build)],
        bench.cwd,
        lambda: _append(bench.cwd, *place(next(bench.new))),
    )
    yield _row(f"build after {what}", spent, bench.python)
    refresh = [bench.command(bench.peer.refresh)] if bench.peer.refresh else []
    runs: list[Spent] = []
    served = 0
    while len(runs) < RUNS and sum(one.wall for one in runs) < PATIENCE:
        entry = next(bench.new)
        _append(bench.cwd, *place(entry))
        ask = bench.command((*bench.peer.ask, f"{entry.title} {entry.body}"))
        once, answer = _run_all([*refresh, ask], bench.cwd)
        runs.append(once)
        served += bench.peer.mark(entry) in answer
    note = f"served {served} of {len(runs)} times" + (
        f", `{' '.join(bench.peer.refresh)}` included" if refresh else ""
    )
    yield _row(f"first query after {what}", _median(runs), bench.python, note)


def _make_corpus(bench: Bench, entries: Sequence[Entry]) -> None:
    """A committed repository with these entries, in the tool's own format."""
    bench.cwd.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=bench.cwd, check=True)
    if bench.peer.init:
        _run(bench.command(bench.peer.init), bench.cwd)
    for entry in entries:
        _append(bench.cwd, *bench.peer.place(entry))
    for args in (["add", "."], ["commit", "-qm", "Memory"]):
        subprocess.run(["git", *IDENTITY, *args], cwd=bench.cwd, check=True)


def _append(cwd: Path, path: str, text: str) -> None:
    target = cwd / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a", encoding="utf-8") as file:
        file.write(text)


def list_needles(entries: Sequence[Entry], *, whole: bool) -> list[Needle]:
    """Queries of an entry's words (or its title's) in another order, REPLACED of them by words of other entries."""
    chance = random.Random(11)  # noqa: S311 - the same queries in every run
    return [
        _needle(chance, entry, entries, whole=whole) for entry in chance.sample(entries, NEEDLES)
    ]


def _needle(chance: random.Random, entry: Entry, others: Sequence[Entry], *, whole: bool) -> Needle:
    words = f"{entry.title} {entry.body}".split() if whole else entry.title.split()
    chance.shuffle(words)
    strange = [chance.choice(chance.choice(others).body.split()) for _ in range(REPLACED)]
    return Needle(" ".join([*words[REPLACED:], *strange]), entry)


def _recall(bench: Bench, needles: Sequence[Needle], what: str) -> Row:
    """In how many of the answers the needle was, as far as PATIENCE went."""
    found, start = [], time.perf_counter()
    for needle in needles:
        found.append(
            bench.peer.mark(needle.entry)
            in _run(bench.command((*bench.peer.ask, needle.text)), bench.cwd)[1]
        )
        if time.perf_counter() - start > PATIENCE:
            break
    return Row(what, 0, 0, f"{sum(found)} of {len(found)}")


def _repeat(commands: Sequence[Sequence[str]], cwd: Path, prepare: Callable[[], object]) -> Spent:
    """The median of RUNS, or of as many as PATIENCE allows; what `prepare` does before each is not measured."""
    spent: list[Spent] = []
    while len(spent) < RUNS and sum(one.wall for one in spent) < PATIENCE:
        prepare()
        spent.append(_run_all(commands, cwd)[0])
    return _median(spent)


def _median(spent: Sequence[Spent]) -> Spent:
    wall, cpu = (
        statistics.median(column) for column in ([s.wall for s in spent], [s.cpu for s in spent])
    )
    return Spent(wall, cpu, len(spent))


def _run_all(commands: Sequence[Sequence[str]], cwd: Path) -> tuple[Spent, str]:
    """What the commands took together, and what the last one printed."""
    done = [_run(command, cwd) for command in commands]
    return Spent(sum(spent.wall for spent, _ in done), sum(spent.cpu for spent, _ in done)), done[
        -1
    ][1]


def _run(command: Sequence[str], cwd: Path) -> tuple[Spent, str]:
    """One process, its children included. Raises SubprocessError when it fails or takes longer than LONGEST."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command,
        cwd=cwd,
        env=bench_environment(cwd),
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Spent(
        wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ), done.stdout


def _row(what: str, spent: Spent, python: Spent, note: str = "") -> Row:
    cpu = f"processor {spent.cpu * 1000:.0f} ms, {spent.cpu / python.cpu:.1f} x"
    runs = "" if spent.runs == RUNS else f"median of {spent.runs}"
    return Row(what, spent.wall, python.wall, "; ".join(filter(None, (cpu, note, runs))))


def _reason(error: Exception) -> str:
    """The last line of what a process said of its failure, or what was wrong with starting it."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no end within {error.timeout:.0f} s"
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else None
    return (said or str(error)).strip().splitlines()[-1]
