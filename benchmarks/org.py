"""Measure the index of an organisation: many generated repositories are synced, searched and changed.

    python -m benchmarks.org                              # 50 repositories of 200 entries
    python -m benchmarks.org --repositories 500           # 100,000 entries
    python -m benchmarks.org --postgres                   # on a PostgreSQL server that is started for it
    python -m benchmarks.org --three DIR                  # three repositories with memory and a list of them, synced
    python -m benchmarks.org --week 200 --kill 50         # a week of real repositories, and 50 syncs that are killed

All is seeded: the same words in the same entries anywhere. Times are of the CPU, in milliseconds.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, date, datetime
from itertools import accumulate
from pathlib import Path

from memory_ci.commands.org.engine import OrgEngine
from memory_ci.commands.org.index import open_engine
from memory_ci.commands.org.records import OrgFilters, OrgRepository
from memory_ci.commands.org.search import search_org
from memory_ci.commands.org.verification import verify_org
from memory_ci.records.entry import Entry, Located, ScopeOf
from tests.commands.org.organisation import GitHubListing, Organisation
from tests.make import make_entry
from tests.servers import serve

NOW = datetime(2026, 11, 23, tzinfo=UTC)
WORDS, VOCABULARY = 53, 30_000
"""Words of an entry, and different words of all: their frequencies fall as Zipf's law has it, and the
commonest is in a tenth of the entries, for stop words are asked of no index."""

AUDIENCES = ("public", "internal", *(f"group-{number}" for number in range(8)))
QUERIES = 200


class Writer:
    """A generator of entries with random words, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        syllables = [f"{a}{b}" for a in "bdfgklmnprstvz" for b in "aeiou"]
        self.vocabulary = ["".join(self.random.choices(syllables, k=3)) for _ in range(VOCABULARY)]
        self.weights = list(accumulate(1 / (rank + 100) for rank in range(VOCABULARY)))

    def words(self, count: int) -> list[str]:
        return self.random.choices(self.vocabulary, cum_weights=self.weights, k=count)

    def entry(self) -> Entry:
        """Return an entry with random words."""
        title = self.words(8)
        body = self.words(WORDS - 8)
        return Entry(
            id=f"{self.random.getrandbits(32):08x}-0000-4000-8000-{self.random.getrandbits(48):012x}",
            type="procedural",
            domain="task",
            importance=0.5,
            reinforcement_count=self.random.randrange(5),
            last_reinforced=date(2026, 1 + self.random.randrange(11), 1),
            status="active",
            title=" ".join(title).capitalize(),
            body=f"{' '.join(body)}.",
        )

    def entries(self, count: int) -> list[Located]:
        return [
            Located(self.entry(), "MEMORY.md", 8 * number + 1, ScopeOf("project"))
            for number in range(count)
        ]


def make_repository(number: int) -> OrgRepository:
    name = f"acme/r{number}"
    return OrgRepository(
        f"forge.example#{number}", name, f"https://forge.example/{name}", AUDIENCES[number % 10]
    )


def fill(
    engine: OrgEngine, writer: Writer, numbers: Sequence[int], entries: int, head: str
) -> None:
    for number in numbers:
        engine.sync(make_repository(number), head, writer.entries(entries))


SERVER: list[int] = []
"""Ids of the main processes of database servers, whose CPU time counts, too."""


def cpu() -> float:
    """Return the CPU seconds of this process, and of the processes that a server has now."""
    seconds = time.process_time()
    for server_pid in SERVER:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # The process has ended.
                # After the command in parentheses come the state and the id of the parent.
                parent_pid = (process / "stat").read_text().rpartition(")")[2].split()[1]
                if parent_pid == str(server_pid):
                    nanoseconds = int((process / "schedstat").read_text().split()[0])
                    seconds += nanoseconds / 1e9
    return seconds


def timed(work: Callable[[], object]) -> float:
    """Return the CPU time of some work in milliseconds."""
    start = cpu()
    work()
    return 1000 * (cpu() - start)


def percentiles(times: Sequence[float]) -> str:
    ordered = sorted(times)
    return f"p50 {ordered[len(ordered) // 2]:.1f}, p99 {ordered[int(len(ordered) * 0.99)]:.1f}"


def ask(engine: OrgEngine, writer: Writer, audiences: Sequence[str]) -> Iterator[float]:
    for _ in range(QUERIES):
        terms = writer.words(8)
        yield timed(
            lambda terms=terms: engine.search(terms, OrgFilters(today=NOW.date()), audiences, 100)  # type: ignore[misc]
        )


def measure(index: str, repositories: int, entries: int, seed: int) -> None:
    """Print the CPU times to sync, publish and search an index of generated repositories.

    Args:
        index: the address of the index: a directory, or a PostgreSQL database.
        repositories: the number of repositories.
        entries: the number of entries of each.
        seed: the seed of their words.
    """
    writer = Writer(seed)
    with closing(open_engine(index, is_writer=True)) as engine:
        total = timed(lambda: fill(engine, writer, range(repositories), entries, "1"))
        print(
            f"sync of {repositories} x {entries}: {total:,.0f} ms, {total / repositories:.1f} a repository"
        )
        print(f"publish: {timed(engine.publish):,.0f} ms")
        changed = range(0, repositories, max(1, repositories // 20))
        once = timed(lambda: fill(engine, writer, changed, entries, "2"))
        print(f"{len(changed)} rewritten: {once:,.0f} ms, {once / len(changed):.1f} each")
        print(f"publish: {timed(engine.publish):,.0f} ms")
    with closing(open_engine(index)) as engine:
        used_audiences = {head.repository.audience for head in engine.heads().values()}
        sizes = [engine.size(audience) for audience in used_audiences]
    print(f"size: {sum(sizes) / 1e6:.1f} MB in {len(sizes)} audiences")
    for audiences in (("public", "internal"), AUDIENCES):
        with closing(open_engine(index)) as engine:
            print(
                f"search of {len(audiences)} audiences: {percentiles(list(ask(engine, writer, audiences)))} ms"
            )
        search_times = [
            timed(
                lambda: search_org(
                    " ".join(writer.words(8)),
                    index,
                    tuple(audiences),  # noqa: B023 - called in this turn of the loop
                    top=10,
                    environ={},
                    today=NOW.date(),
                )
            )
            for _ in range(50)
        ]
        print(f"lane of {len(audiences)} audiences, ranked: {percentiles(search_times)} ms")
    task = " ".join(writer.words(8))
    command = [sys.executable, "-m", "memory_ci", "org", "search", task, "--index", index]
    print(f"fresh process: {percentiles(list(children(command, 10)))} ms")


def children(command: Sequence[str], times: int) -> Iterator[float]:
    """Yield the CPU time of each of several runs of a command, with the processes that it starts."""
    for _ in range(times):
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        yield 1000 * (
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )


def measure_server(place: Path, repositories: int, entries: int, seed: int) -> None:
    """Run `measure` on a PostgreSQL server that is started for it."""
    import psycopg

    from tests.postgresql import running_server

    place.chmod(0o755)
    with running_server(place, shared_buffers="512MB", autovacuum="on") as socket:
        SERVER.append(int((Path(socket) / "postmaster.pid").read_text().split()[0]))
        with psycopg.connect(
            f"postgresql://postgres@/postgres?host={socket}", autocommit=True
        ) as connection:
            connection.execute("CREATE DATABASE memory")
        measure(f"postgresql://postgres@/memory?host={socket}", repositories, entries, seed)


def replay_week(place: Path, count: int, seed: int) -> None:
    """Sync real repositories on each day of a week, and print what each sync did.

    A test double of GitHub lists them. 5 % change a day; one breaks, one is renamed, one is made private, and one is
    removed.
    """
    generator = random.Random(seed)  # noqa: S311 - no secret
    org = Organisation(place)
    github = GitHubListing(org)
    for number in range(count):
        org.add(f"r{number}", f"A note of r{number}", "Another note")
        github.put(number, f"r{number}", "internal" if number % 3 else "public", stamp="0")
    with serve(github) as server:
        org.environ |= {"GITHUB_API_URL": server.url, "GITHUB_TOKEN": "none"}
        for day in range(8):
            for number in generator.sample(range(10, count), count // 20 if day else 0):
                org.add(f"r{number}", f"A note of r{number} on day {day}")
                github.put(
                    number, f"r{number}", "internal" if number % 3 else "public", stamp=str(day)
                )
            done = change(org, github, day)
            before, start = os.times(), time.perf_counter()
            report = org.sync([], ["acme"])
            after, wall = os.times(), time.perf_counter() - start
            cpu = sum(after[:4]) - sum(before[:4])
            print(
                f"day {day}: {len(report.added)} added, {len(report.updated)} updated, {len(report.moved)} renamed, "
                f"{len(report.dropped)} dropped, {len(report.failed)} failed, {report.unchanged} unchanged; "
                f"{cpu:.2f} s CPU with git, {wall:.1f} s{done}"
            )
        assert "A note of r1" not in org.titles("public", "internal"), "made private"  # noqa: S101
        print(f"verify: {len(verify_org(str(org.index), org.environ)[0])} differences")


def change(org: Organisation, github: GitHubListing, day: int) -> str:
    """Make the change that happens once in the week on this day, and return its name."""
    if day == 2:
        org.repositories["r0"].commit("Break", {".memory-ci.yaml": "scopes: [\n"})
        github.put(0, "r0", stamp="broken")
        return "; r0 is broken"
    if day == 3:
        del github.listed["r2"]
        github.put(2, "renamed", "internal", place="r2", stamp="0")
        return "; r2 is renamed"
    if day == 4:
        github.put(1, "r1", "private", stamp="0")
        return "; r1 is made private"
    if day == 5:
        org.repositories["r0"].commit("Mend", {".memory-ci.yaml": ""})
        github.put(0, "r0", stamp="mended")
        del github.listed["r3"]
        return "; r0 is mended, r3 removed"
    return ""


THREE = {
    "pay": (
        "Retry a charge only with an idempotency key",
        "Two customers were charged twice: the gateway keeps a key a day.",
    ),
    "shop": (
        "Round prices once, at checkout",
        "Rounding in the cart made totals differ by a cent.",
    ),
    "infra": (
        "Rotate the deploy key before the freeze",
        "A key that expired in the freeze stopped all deploys.",
    ),
}


def bring_up_three(place: Path) -> None:
    """Create three local repositories with a memory each, a list of them, and their index."""
    org = Organisation(place)
    for number, (name, (title, body)) in enumerate(THREE.items(), 1):
        org.add(name, make_entry(number, title=title, body=body))
    org.write("pay", "shop public", "infra group-ops")
    command = ["memory-ci", "org", "sync", str(org.list), "--out", str(org.index)]
    print(f"$ {' '.join(command)}", flush=True)
    subprocess.run(command, check=True)


def kill_syncs(place: Path, times: int, seed: int) -> None:
    """Kill a sync at random moments, and check that readers never see a part of it.

    Each audience has the entries of one version, and the next sync completes.

    Args:
        place: the directory of the repositories and the index.
        times: how many syncs are killed.
        seed: the seed of the moments.
    """
    generator = random.Random(seed)  # noqa: S311 - no secret
    org = Organisation(place)
    names = [f"r{number}" for number in range(10)]

    def publish(version: int) -> None:
        for name in names:
            org.add(name, f"A note of {name} {version}", f"Another note of {name} {version}")

    publish(0)
    org.write(*(f"{name} {'public' if at % 2 else 'internal'}" for at, name in enumerate(names)))
    org.sync()
    command = [
        sys.executable,
        "-m",
        "memory_ci",
        "org",
        "sync",
        str(org.list),
        "--out",
        str(org.index),
    ]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    sync_seconds = time.perf_counter() - start
    killed_count = 0
    for version in range(1, times + 1):
        publish(version)
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(generator.uniform(0.2 * sync_seconds, 2.5 * sync_seconds))
        killed_count += process.poll() is None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for audience in ("public", "internal"):
            versions = [title.rsplit(" ", 1)[1] for title in org.titles(audience)]
            assert len(versions) == 10, versions  # noqa: S101
            assert len(set(versions)) == 1, versions  # noqa: S101
    org.sync()
    assert {title.rsplit(" ", 1)[1] for title in org.titles()} == {str(times)}  # noqa: S101
    print(
        f"killed {killed_count} of {times} syncs before their end: every audience whole at each, nothing lost"
    )
    print(f"verify: {len(verify_org(str(org.index), org.environ)[0])} differences")


def read(index: str, seed: int, number: int, count: int) -> list[tuple[float, float, int]]:
    """(milliseconds of CPU, milliseconds by the clock, hits) of each question of one reader, who opens the index anew
    after every 25, as jobs do."""
    writer, found = Writer(seed), []
    writer.random.seed(number)  # the same words, other questions
    for start in range(0, count, 25):
        with closing(open_engine(index)) as engine:
            for _ in range(min(25, count - start)):
                terms, began, busy = writer.words(8), time.perf_counter(), time.process_time()
                hits = len(engine.search(terms, OrgFilters(today=NOW.date()), AUDIENCES[:2], 100))
                took = 1000 * (time.process_time() - busy), 1000 * (time.perf_counter() - began)
                found.append((*took, hits))
    return found


def crowd(
    index: str, readers: int, queries: int, *, repositories: int, entries: int, seed: int
) -> None:
    """Let readers search while one writer rewrites repositories and publishes, and print the times.

    Args:
        index: the address of the index.
        readers: the number of readers.
        queries: the number of all searches together.
        repositories: the number of repositories.
        entries: the number of entries of each.
        seed: the seed of words.
    """
    writer = Writer(seed)
    written = 0
    with (
        ProcessPoolExecutor(readers) as pool,
        closing(open_engine(index, is_writer=True)) as engine,
    ):
        jobs = [
            pool.submit(read, index, seed, number, queries // readers) for number in range(readers)
        ]
        while not all(job.done() for job in jobs):
            fill(engine, writer, [writer.random.randrange(repositories)], entries, str(3 + written))
            engine.publish()
            written += 1
        answers = [one for job in jobs for one in job.result()]
    busy, took, hits = zip(*answers, strict=True)
    print(
        f"{readers} readers beside one writer ({written} repositories rewritten and published), {len(hits)} questions:"
    )
    print(
        f"  CPU: {percentiles(busy)} ms; by the clock: {percentiles(took)} ms; without an answer: {hits.count(0)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repositories", type=int, default=50)
    parser.add_argument("--entries", type=int, default=200)
    parser.add_argument(
        "--postgres", action="store_true", help="On a server; its CPU is counted, too."
    )
    parser.add_argument(
        "--readers",
        type=int,
        default=0,
        metavar="N",
        help="N ask 1,000 questions beside one writer.",
    )
    parser.add_argument(
        "--week", type=int, default=0, metavar="N", help="Replay a week of N real repositories."
    )
    parser.add_argument(
        "--three", type=Path, metavar="DIR", help="Bring up three repositories in a new directory."
    )
    parser.add_argument("--kill", type=int, default=0, metavar="N", help="Kill N syncs.")
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    if asked.three:
        return bring_up_three(asked.three.absolute())
    with tempfile.TemporaryDirectory() as place:
        if asked.week or asked.kill:
            if asked.week:
                replay_week(Path(place) / "week", asked.week, asked.seed)
            if asked.kill:
                kill_syncs(Path(place) / "kill", asked.kill, asked.seed)
        elif asked.postgres:
            measure_server(Path(place), asked.repositories, asked.entries, asked.seed)
        else:
            measure(f"{place}/index", asked.repositories, asked.entries, asked.seed)
            if asked.readers:
                crowd(
                    f"{place}/index",
                    asked.readers,
                    1_000,
                    repositories=asked.repositories,
                    entries=asked.entries,
                    seed=asked.seed,
                )


if __name__ == "__main__":
    main()
