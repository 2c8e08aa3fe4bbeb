"""What a commit costs with hooks: with all native ones against none, with pre-commit and prek likewise, in one run.

    make bench ARGS=hooks

Needs a package index: pre-commit and prek each build an environment from this work tree. The variants take turns, so
that a busy machine is busy for all of them.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import make_entries
from benchmarks.timing import Row, bench_environment
from memory_ci.commands.setup.install import install
from memory_ci.memory.workspace import open_workspace
from memory_ci.sessions.served_ids import record_served

ROOT = Path(__file__).parent.parent
RUNS = 20
ENTRIES = 1_000
SETTLED = 0.3
"""Seconds after a commit in which a run in the background ends, so that the next one is not measured beside it."""

BURST, BURSTS = 60, 4

NOW = datetime(2026, 11, 22, tzinfo=UTC)
STAGES = "pre-commit, prepare-commit-msg, post-commit"
HOME = f"default_install_hook_types: [{STAGES}]\nrepos:\n"
IDLE = (
    f"{HOME}- repo: local\n  hooks:\n  - {{id: idle, name: idle, language: system, entry: 'true', always_run: true,"
    f" pass_filenames: false, stages: [{STAGES}]}}\n"
)
OURS = (
    HOME
    + "- repo: {source}\n  rev: v0.2.0\n  hooks: [{{id: memory-ci-check}}, {{id: memory-ci-trailers}}, {sync}]\n"
)
SYNC = "{id: memory-ci-sync}"


class Variant(NamedTuple):
    """A repository with hooks; whether each commit adds an entry, and whether its work was given one."""

    name: str
    place: Path
    baseline: str
    is_memory_new: bool = False
    is_given: bool = False


def bench_hooks(root: Path) -> list[Row]:
    """The median of commits with each set of hooks, against none and against the tool alone."""
    variants = list(_make_variants(root))
    times: dict[str, list[float]] = {variant.name: [] for variant in variants}
    for number in range(RUNS + 1):
        for variant in variants:
            seconds = _commit(variant, number)
            if number:  # the first one fills caches
                times[variant.name].append(seconds)
    medians = {name: statistics.median(measured) for name, measured in times.items()}
    rows = [
        Row(
            v.name,
            medians[v.name],
            medians[v.baseline],
            f"{_spread(times[v.name])}; baseline: {v.baseline}",
        )
        for v in variants
    ]
    return [*rows, *bench_burst(root / "burst")]


def bench_burst(root: Path) -> list[Row]:
    """A commit among many without a pause, each of which changes memory: what one leaves at work slows the next."""
    plain, native = _make_project(root / "none"), _make_project(root / "native")
    install(open_workspace(native), sys.executable)
    times: dict[Path, list[float]] = {plain: [], native: []}
    for number in range(BURSTS):
        for place, measured in times.items():
            measured.append(_commit_burst(place, number))
            time.sleep(SETTLED * 10)
    without, with_hooks = (statistics.median(measured) for measured in times.values())
    name = f"burst of {BURST} commits, memory changed"
    return [
        Row(f"{name}, no hooks", without, without, f"one of {BURST}; {_spread(times[plain])}"),
        Row(
            f"{name}, all native hooks",
            with_hooks,
            without,
            f"one of {BURST}; {_spread(times[native])}",
        ),
    ]


def _make_variants(root: Path) -> Sequence[Variant]:
    none = "git commit, no hooks"
    native, given = _make_project(root / "native"), _make_project(root / "given")
    for place in (native, given):
        install(open_workspace(place), sys.executable)
    variants = [
        Variant(none, _make_project(root / "none"), none),
        Variant("all native hooks", native, none),
        Variant("all native hooks, an entry was given", given, none, is_given=True),
        Variant("all native hooks, one was given before", given, none),
        Variant("all native hooks, memory changed", native, none, is_memory_new=True),
    ]
    source = _make_source(root / "source")
    for tool in ("pre-commit", "prek"):
        configs = {"idle": IDLE, "ours": OURS.format(source=source, sync=SYNC)}
        places = {name: _make_project(root / f"{tool}-{name}") for name in configs}
        for name, config in configs.items():
            _install_tool(tool, places[name], config)
        variants += [
            Variant(f"{tool}, hooks that do nothing", places["idle"], none),
            Variant(f"{tool}, ours", places["ours"], f"{tool}, hooks that do nothing"),
            Variant(
                f"{tool}, ours, memory changed",
                places["ours"],
                f"{tool}, hooks that do nothing",
                is_memory_new=True,
            ),
        ]
    return variants


def _make_project(place: Path) -> Path:
    place.mkdir(parents=True)
    (place / "MEMORY.md").write_text(make_entries(ENTRIES))
    _git(place, "init", "-q")
    _git(place, "add", ".")
    _git(place, "commit", "-q", "-m", "Start")
    return place


def _make_source(place: Path) -> Path:
    """This work tree, released."""
    _git(ROOT, "clone", "-q", str(ROOT), str(place))
    _git(place, "tag", "-f", "v0.2.0")
    return place


def _install_tool(tool: str, place: Path, config: str) -> None:
    (place / ".pre-commit-config.yaml").write_text(config)
    _git(place, "add", ".")
    _git(place, "commit", "-q", "-m", "Configure")
    program = str(Path(sys.executable).with_name(tool))
    command = [program, "install", "--install-hooks"]
    subprocess.run(
        command, cwd=place, env=_environment(place), check=True, stdout=subprocess.DEVNULL
    )


def _commit(variant: Variant, number: int) -> float:
    """Seconds of one commit."""
    place = variant.place
    path, text = (
        _make_note(number) if variant.is_memory_new else ("code.txt", f"{variant.name} {number}\n")
    )
    (place / path).parent.mkdir(parents=True, exist_ok=True)
    (place / path).write_text(text)
    _git(place, "add", path)
    if variant.is_given:
        record_served(open_workspace(place), ["0f6f1f0e-5f0a-4c55-9c0b-3f3a0c2f9d11"], NOW)
    start = time.perf_counter()
    _git(place, "commit", "-q", "-m", f"Commit {number}")
    seconds = time.perf_counter() - start
    time.sleep(SETTLED)
    return seconds


def _commit_burst(place: Path, number: int) -> float:
    """Seconds of one commit among many."""
    start = time.perf_counter()
    for index in range(BURST):
        path, text = _make_note(1 + number * BURST + index)
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
        _git(place, "add", path)
        _git(place, "commit", "-q", "-m", f"Commit {index}")
    return (time.perf_counter() - start) / BURST


def _make_note(number: int) -> tuple[str, str]:
    """An entry of its own in the inbox."""
    entry_id = str(uuid.UUID(int=number + 1, version=4))
    known = make_entries(1).partition("\n")[2]
    text = "\n".join(
        f"id: {entry_id}" if line.startswith("id: ") else line for line in known.split("\n")
    )
    return f".memory/inbox/{entry_id}.md", f"---\n{text}"


def _spread(times: Sequence[float]) -> str:
    low, _, high = statistics.quantiles(times, n=4)
    return f"half of them {low * 1000:.0f} to {high * 1000:.0f} ms"


def _git(place: Path, *args: str) -> None:
    identity = ("-c", "user.name=Bench", "-c", "user.email=bench@example.com")
    subprocess.run(
        ["git", *identity, *args],
        cwd=place,
        env=_environment(place),
        check=True,
        stderr=subprocess.DEVNULL,
    )


def _environment(place: Path) -> Mapping[str, str]:
    """Environments of the tools are kept beside the repositories, not in the home of whoever measures."""
    kept = {
        "PRE_COMMIT_HOME": str(place.parent / "pre-commit-home"),
        "PREK_HOME": str(place.parent / "prek-home"),
    }
    environment = {
        **bench_environment(place),
        **kept,
        "PYTHONPATH": str(ROOT),
        "HOME": str(place.parent),
    }
    environment.pop("CI", None)
    return environment
