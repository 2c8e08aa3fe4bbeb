"""Tests of SIGKILL at each write of each writing command, followed by a person's actions: nothing is lost, a rerun succeeds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.attacks.attack import (
    BOUNDED,
    ERROR,
    LOST,
    Area,
    Case,
    Launcher,
    assert_ended_clearly,
    list_commands,
)
from tests.attacks.scene import (
    AFTERMATHS,
    FIXED_TIME,
    WRITERS,
    Scene,
    State,
    copy_for,
    find_words,
    finish,
    make_scene,
    read_state,
    run,
)
from tests.project import Project

pytestmark = pytest.mark.slow

AREA = Area(
    "a kill, and what a person does next",
    "SIGKILL before each write of each writing command, then a plain rerun, `commit -am`, `add -A`, `checkout .`, "
    "`stash`, `switch`, `rebase` or `reset --hard`, then the command again",
    "files are replaced whole; the branch moves last, so that a killed run has committed nothing; a journal says what "
    "it has written, and the next command takes it back",
)

COMMITTING = frozenset(
    (
        "record",
        "apply",
        "ci",
        "compact",
        "promote",
        "retire",
        "candidates",
        "review",
        "forget",
        "forget words",
    )
)
"""Commands that move the branch."""

IN_FULL = ("record", "compact", "candidates", "forget words")
"""Commands for which each write is combined with each action afterwards; for other commands they take turns."""

COPIES = frozenset(("job-4/MEMORY.md", "job-5/MEMORY.md"))
"""The path of an entry that is promoted in `make_scene`."""

HOLDS = (LOST, ERROR, BOUNDED)
READ_ONLY = frozenset(
    word.replace(":", " ")
    for word in """doctor health help list mcp recall show verify check:--migrate health:--stage
    recall:--tasks show:--blame show:--graph show:--lines show:--log show:--why""".split()
)
ELSEWHERE = frozenset(
    (
        *("eval draw", "eval extraction", "eval init", "eval retrieval", "learn"),
        *("org plan", "org search", "org status", "org sync", "org verify"),
        *(
            "hook commit-msg",
            "hook merge",
            "hook pre-commit",
            "hook pre-push",
            "hook prepare-commit-msg",
        ),
    )
)
"""Commands that write to a given path, send data or need a model; other tests cover them."""


def list_cases() -> Iterator[Case]:
    """Yield the cases: each action after a kill for some commands, all in turn for the others."""
    for name in WRITERS:
        if name in IN_FULL:
            for after in AFTERMATHS:
                yield Case(
                    f"{name}, {after}",
                    f"`{name}` killed at each write, then {after}",
                    HOLDS,
                    (name, (after,)),
                )
        else:
            everything = tuple(AFTERMATHS)
            yield Case(
                name, f"`{name}` killed at each write, then each in turn", HOLDS, (name, everything)
            )


CASES = {case.name: case for case in list_cases()}
ALL_CASES = CASES


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Scene:
    return make_scene(tmp_path_factory.mktemp("scene"), launcher)


class End(NamedTuple):
    """The state of a repository in the end: in a fresh clone, and after a last commit of all files."""

    project: Project
    cloned: State
    committed: State


def go_through(
    scene: Scene, launcher: Launcher, name: str, after: str, place: Path, number: int = 0
) -> End:
    """Kill a command before write `number` (0: not at all), do what follows, and return the end state."""
    writer = WRITERS[name]
    project = copy_for(scene, writer, place)
    writer.prepare(project, launcher)
    first = run(launcher, project, scene, writer, fault="kill", number=number)
    assert first.status == -9 if number else first.status in (0, 1), first.printed
    AFTERMATHS[after](project)
    if number or name not in COMMITTING:
        rerun = run(launcher, project, scene, writer)
        assert_ended_clearly(rerun, "the same command again")
    return End(project, read_state(project), finish(project, launcher))


def count_writes(scene: Scene, launcher: Launcher, name: str, place: Path) -> list[str]:
    """Return the writes of an undisturbed run in order."""
    writer = WRITERS[name]
    project = copy_for(scene, writer, place / "counted")
    writer.prepare(project, launcher)
    log = place / "writes"
    run(launcher, project, scene, writer, fault="kill", log=log)
    return log.read_text().splitlines()


def assert_whole(project: Project, launcher: Launcher, context: str) -> None:
    """Assert that no file is half written, no object broken, and no journal or temporary file left."""
    checked = launcher.run(project.path, "check", "--json")
    assert "unreadable" not in checked.printed, context
    assert checked.status in (0, 1), (context, checked.printed)
    project.git("fsck", "--strict", "--no-dangling")
    assert not (project.path / ".git/memory-ci/journal").exists(), context
    temporary_files = [
        path for path in project.path.rglob(".*.????????") if re.search(r"\.\w{8}$", path.name)
    ]
    names = [
        str(path.relative_to(project.path)) for path in temporary_files if ".git" not in path.parts
    ]
    assert names == [], f"{context}: temporary files"


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_lost_and_a_rerun_finishes(
    case: str, scene: Scene, launcher: Launcher, tmp_path: Path
) -> None:
    name, aftermaths = CASES[case].data
    writes = count_writes(scene, launcher, name, tmp_path)
    assert writes, f"{name} writes nothing: the scene has to give it something to write"
    controls: dict[str, End] = {}
    for number, after in zip(range(1, len(writes) + 1), cycle(aftermaths), strict=False):
        if after not in controls:
            place = tmp_path / f"control-{len(controls)}"
            controls[after] = go_through(scene, launcher, name, after, place)
        context = f"killed before {writes[number - 1]}, then {after}"
        # Each in a folder of its own, that stays: a hook of git may still work in it in the background.
        end = go_through(scene, launcher, name, after, tmp_path / f"killed-{number}", number)
        if name in COMMITTING - {
            "apply"
        }:  # a plan is not for another tip: `record` makes a new one
            lost = controls[after].cloned.titles - end.cloned.titles
            assert lost == set(), f"{context}: these learnings are not in the last commit"
        compare(end.committed, controls[after].committed, context)
        assert_whole(end.project, launcher, context)
        if words := WRITERS[name].gone:
            assert find_words(end.project, words) == [], f"{context}: the words are still there"


def compare(state: State, control: State, context: str) -> None:
    """Assert that the state equals that after an undisturbed run."""
    lost = control.titles - state.titles
    assert lost == set(), f"{context}: a commit of all files takes these learnings out"
    differing = (state.paths ^ control.paths) - {"src/other.py"}  # git may have refused the rebase
    # A commit more has an episode more; copies of an entry that went up are retired by the next run.
    differing -= {
        path for path in state.paths if path in COPIES or path.startswith(".memory/episodes/")
    }
    assert differing == set(), f"{context}: these files are missing, or too many"
    missing = control.local - state.local
    assert missing == set(), f"{context}: these settings are missing"
    assert state.sessions == control.sessions, context


def test_every_command_is_a_writer_or_writes_nothing(
    scene: Scene, launcher: Launcher, tmp_path: Path
) -> None:
    """A new command that writes needs a row in `WRITERS`."""
    names = set(WRITERS)
    for writer in WRITERS.values():
        names |= {" ".join(writer.args[:count]) for count in (1, 2, 3)}
    for name, words in list_commands():
        if name in names | ELSEWHERE:
            continue
        assert name in READ_ONLY, f"{name}: give it a row in WRITERS"
        log = tmp_path / f"log-{name}"
        project = copy_for(scene, WRITERS["record"], tmp_path / f"shop-{name}")
        launcher.run(project.path, *name.split(), *words, env=FIXED_TIME, fault="kill", log=log)
        assert project.status() == "", name
