"""memory-ci beside other tools that keep an agent's memory in git: the same learnings, each in the tool's own format.

Every tool is installed at a pinned version into an environment of its own and asked through its own command line. What
the formats and commands are is taken from each tool's README and `--help`.
"""

from __future__ import annotations

import json
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
from benchmarks.timing import Row, bench_environment
from memory_ci.records.entry import Entry
from memory_ci.store.edit import format_entry

SIZES = (1_000, 10_000)
RUNS = 7
PATIENCE = 60.0
"""Seconds of repeating one measurement, and of waiting for one process."""
INSTALL_PATIENCE = 300.0
NEEDLES = 50
REPLACED = 2
"""Words of a needle's query that its entry does not have."""
TITLE_WORDS = 8
ADDED = 2 * RUNS
"""Entries beyond the corpus: one before each run that follows a change."""
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
THIS = str(Path(__file__).parents[1])

Placed = tuple[str, str]
"""(the file an entry goes to, the text to append to it)."""


class Peer(NamedTuple):
    """A tool: what pip installs, where it keeps an entry, and its commands; the query is the last argument of `ask`.

    `refresh` is what must run before `ask` sees a change, where `ask` does not see to that itself. `mark` is how an
    entry shows in the answer. `index` is the derived file.
    """

    name: str
    requirement: str
    place: Callable[[Entry], Placed]
    index: str
    build: tuple[str, ...]
    ask: tuple[str, ...]
    init: tuple[str, ...] = ()
    refresh: tuple[str, ...] = ()
    mark: Callable[[Entry], str] = lambda entry: entry.id
    place_new: Callable[[Entry], Placed] | None = None

    def command(self, home: Path, args: Sequence[str]) -> list[str]:
        """The command line of the tool as installed in `home`."""
        return [str(home / "bin" / self.requirement.partition("==")[0]), *args]


class Spent(NamedTuple):
    """Seconds of waiting and of processor time, both medians, and of how many runs."""

    wall: float
    cpu: float
    runs: int = 1


class Needle(NamedTuple):
    """A query, and the entry that it was made of."""

    text: str
    entry: Entry


def place_ours(entry: Entry) -> Placed:
    """All entries in the project's one file, as `record` leaves them."""
    return "MEMORY.md", format_entry(entry) + "\n"


def place_in_inbox(entry: Entry) -> Placed:
    """A file for the entry, as `capture` and `remember` leave it."""
    return f".memory/inbox/{entry.id}.md", format_entry(entry)


def place_agentlore(entry: Entry) -> Placed:
    """A heading with its data in a comment, as `agentlore add --type convention` writes it."""
    data = f"id: {entry.id}\ntype: convention\nstatus: accepted\nauthor: Ada\ncreated: {entry.created_at}\n"
    stamps = "verified_at: \nanchor_hash: \nanchor_norm: \n"
    return ".memory/conventions.md", f"\n## {entry.title}\n<!-- agentlore\n{data}{stamps}-->\n\n{entry.body}\n"


def place_ctxmem(entry: Entry) -> Placed:
    """A line of JSON, as `ctxmem remember` writes it."""
    record = {
        "id": entry.id.replace("-", "")[:12],
        "ts": f"{entry.created_at}T00:00:00+00:00",
        "type": "note",
        "branch": "main",
        "commit": "none",
        "path": "",
        "file_hash": "",
        "title": entry.title,
        "content": entry.body,
        "tags": [],
        "supersedes": "",
    }
    return ".ctxmem/memory.jsonl", json.dumps(record) + "\n"


def place_oldhand(entry: Entry) -> Placed:
    """A file for each record, as `oldhand new` writes it; the text is in the summary, which it ranks highest."""
    when = f"{entry.created_at}T00:00:00+00:00"
    data = (
        f"schema_version: 1\nid: {entry.id}\ntype: lesson\nstatus: current\nimportance: normal\nscope: subsystem\n"
        "risk: low\ndurability: situational\nevidence: documented\ntopics:\n- work\n"
        f"created_at: {when}\nupdated_at: {when}\nexpires_at: null\nrelations: {{}}\n"
    )
    text = f"# {entry.title}\n\n## Summary\n\n{entry.body}\n\n## Knowledge\n\nSee above.\n"
    rest = "\n## Verification\n\nSeen.\n\n## References\n\n-\n"
    return f"memory/lessons/{entry.id}.md", f"---\n{data}---\n\n{text}{rest}"


OURS = Peer(
    "memory-ci",
    "memory-ci",
    place_ours,
    ".git/memory-ci/index.db",
    build=("index",),
    ask=("retrieve", "--ids", "--limit", "10", "--max-chars", "100000"),
)
PEERS = (
    OURS,
    OURS._replace(name="memory-ci, new entries in the inbox", place_new=place_in_inbox),
    Peer(
        "agentlore 0.9.1",
        "agentlore==0.9.1",
        place_agentlore,
        ".memory/index.db",
        build=("index",),
        ask=("recall", "--limit", "10", "--budget", "100000"),
        init=("init",),
    ),
    Peer(
        "ctxmem 2.2.0",
        "ctxmem==2.2.0",
        place_ctxmem,
        ".ctxmem/index.db",
        build=("sync",),
        ask=("recall", "--limit", "10"),
        init=("init",),
        refresh=("sync",),
        mark=lambda entry: entry.title,
    ),
    Peer(
        "oldhand 0.6.0b1",
        "oldhand==0.6.0b1",
        place_oldhand,
        ".oldhand/oldhand.db",
        build=("rebuild",),
        ask=("search", "--json", "--limit", "10"),
        init=("init", "."),
    ),
)


def bench_peers(root: Path) -> list[Row]:
    """Every tool that could be installed, at each size; the baseline is bare Python, wall time with wall time."""
    root.mkdir(parents=True)
    bare = _environment(root / "bare", None)
    homes, rows = {}, []
    for requirement in dict.fromkeys(peer.requirement for peer in PEERS):
        try:
            homes[requirement] = _environment(root / requirement, requirement)
        except (subprocess.SubprocessError, OSError) as error:
            rows.append(Row(requirement, 0, 0, f"skipped: it could not be installed: {_reason(error)}"))
    here = [peer for peer in PEERS if peer.requirement in homes]
    for size in SIZES:
        python = _repeat([[str(bare / "bin" / "python"), "-c", "pass"]], root, lambda: None)
        rows.append(_row(f"bare Python, before {size} entries", python, python, "baseline"))
        columns = [list(_bench(peer, homes[peer.requirement], root, size, python)) for peer in here]
        rows += filter(None, chain.from_iterable(zip_longest(*columns)))
    return rows


def _environment(home: Path, requirement: str | None) -> Path:
    """A virtual environment with one tool; memory-ci is installed from this repository, as a user has it."""
    run = partial(subprocess.run, check=True, capture_output=True, text=True, timeout=INSTALL_PATIENCE)
    run([sys.executable, "-m", "venv", *(() if requirement else ("--without-pip",)), str(home)])
    if requirement:
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check"]
        run([*pip, THIS if requirement == OURS.requirement else requirement])
    return home


def _bench(peer: Peer, home: Path, root: Path, size: int, python: Spent) -> Iterator[Row]:
    """The rows of one tool; a last one that says why there are no more, if it fails or takes too long."""
    entries = [one.entry for one in make_located(size + ADDED)]
    known, new = entries[:size], iter(entries[size:])
    cwd = root / f"{peer.name} {size}"
    name = f"{peer.name}, {size} entries"
    build, ask = peer.command(home, peer.build), peer.command(home, peer.ask)
    needles = _needles(known, whole=True)
    try:
        _make_corpus(peer, home, cwd, known)
        spent = _repeat([build], cwd, lambda: (cwd / peer.index).unlink(missing_ok=True))
        yield _row(f"full build: {name}", spent, python, f"{(cwd / peer.index).stat().st_size / 1e6:.1f} MB")
        yield _row(f"query, nothing changed: {name}", _repeat([[*ask, needles[0].text]], cwd, lambda: None), python)
        yield _row(f"build after one new entry: {name}", _repeat([build], cwd, lambda: _add(peer, cwd, new)), python)
        yield _first_query(peer, home, cwd, new, f"first query after one new entry: {name}", python)
        for what, asked in (("whole entry", needles), ("title", _needles(known, whole=False))):
            found = sum(_is_found(peer, ask, cwd, needle) for needle in asked)
            yield Row(f"needle recall@10, {what}: {name}", 0, 0, f"{found} of {len(asked)}")
    except (subprocess.SubprocessError, OSError) as error:
        yield Row(name, 0, 0, f"stopped: {_reason(error)}")


def _make_corpus(peer: Peer, home: Path, cwd: Path, entries: Sequence[Entry]) -> None:
    """A committed repository with these entries, in the tool's own format."""
    cwd.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=cwd, check=True)
    if peer.init:
        _run(peer.command(home, peer.init), cwd)
    for entry in entries:
        _append(cwd, *peer.place(entry))
    for args in (["add", "."], ["commit", "-qm", "Memory"]):
        subprocess.run(["git", *IDENTITY, *args], cwd=cwd, check=True)


def _add(peer: Peer, cwd: Path, new: Iterator[Entry]) -> Entry:
    entry = next(new)
    _append(cwd, *(peer.place_new or peer.place)(entry))
    return entry


def _append(cwd: Path, path: str, text: str) -> None:
    target = cwd / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a", encoding="utf-8") as file:
        file.write(text)


def _first_query(peer: Peer, home: Path, cwd: Path, new: Iterator[Entry], what: str, python: Spent) -> Row:
    """The new entry's own words are asked, so that it must be in the answer; the note says how often it was."""
    spent, served = [], 0
    while len(spent) < RUNS and sum(one.wall for one in spent) < PATIENCE:
        entry = _add(peer, cwd, new)
        refresh = [peer.command(home, peer.refresh)] if peer.refresh else []
        ask = peer.command(home, (*peer.ask, f"{entry.title} {entry.body}"))
        once, answer = _run_all([*refresh, ask], cwd)
        spent.append(once)
        served += peer.mark(entry) in answer
    note = f"new entry served {served} of {len(spent)} times"
    needed = f", `{' '.join(peer.refresh)}` included" if peer.refresh else ""
    return _row(what, _median(spent), python, note + needed)


def _needles(entries: Sequence[Entry], *, whole: bool) -> list[Needle]:
    """Queries of an entry's words (or its title's) in another order, REPLACED of them by words of other entries."""
    chance = random.Random(11)  # noqa: S311 - the same queries in every run
    return [_needle(chance, entry, entries, whole=whole) for entry in chance.sample(entries, NEEDLES)]


def _needle(chance: random.Random, entry: Entry, others: Sequence[Entry], *, whole: bool) -> Needle:
    words = f"{entry.title} {entry.body}".split() if whole else entry.title.split()
    chance.shuffle(words)
    strange = [chance.choice(chance.choice(others).body.split()) for _ in range(REPLACED)]
    return Needle(" ".join([*words[REPLACED:], *strange]), entry)


def _is_found(peer: Peer, ask: Sequence[str], cwd: Path, needle: Needle) -> bool:
    return peer.mark(needle.entry) in _run([*ask, needle.text], cwd)[1]


def _repeat(commands: Sequence[Sequence[str]], cwd: Path, prepare: Callable[[], object]) -> Spent:
    """The median of RUNS, or of as many as PATIENCE allows; what `prepare` does before each is not measured."""
    spent: list[Spent] = []
    while len(spent) < RUNS and sum(one.wall for one in spent) < PATIENCE:
        prepare()
        spent.append(_run_all(commands, cwd)[0])
    return _median(spent)


def _median(spent: Sequence[Spent]) -> Spent:
    wall, cpu = (statistics.median(column) for column in ([s.wall for s in spent], [s.cpu for s in spent]))
    return Spent(wall, cpu, len(spent))


def _run_all(commands: Sequence[Sequence[str]], cwd: Path) -> tuple[Spent, str]:
    """What the commands took together, and what the last one printed."""
    done = [_run(command, cwd) for command in commands]
    return Spent(sum(spent.wall for spent, _ in done), sum(spent.cpu for spent, _ in done)), done[-1][1]


def _run(command: Sequence[str], cwd: Path) -> tuple[Spent, str]:
    """One process, its children included. Raises SubprocessError when it fails or takes longer than PATIENCE."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, cwd=cwd, env=bench_environment(cwd), capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Spent(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), done.stdout


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
