"""Tests of a full or read-only disk, and of a stopped process: a clear error, no partial state, a rerun succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.attack import BOUNDED, ERROR, LOST, Area, Case, Launcher, assert_ended_clearly
from tests.attacks.scene import FIXED_TIME, WRITERS, Scene, copy_for, finish, make_scene, run
from tests.project import Project

pytestmark = pytest.mark.slow

AREA = Area(
    "a full disk, a read-only disk, a run that is stopped",
    "ENOSPC or EROFS from the first, the second, a middle and the last write of each writing command on; files of at "
    "most 0, 200 and 4,000 bytes, for git too; SIGSTOP at each write while a person notes and commits, then SIGCONT",
    "files are replaced whole; a branch moves by compare-and-swap; a journal is held by a lock",
)

HOLDS = (LOST, ERROR, BOUNDED)
DISKS = {"a full disk": "enospc", "a read-only disk": "erofs"}
LIMITS = (0, 200, 4000)
"""Limits of the size of a written file in bytes (RLIMIT_FSIZE): git is killed if it exceeds one."""

COMMITTING = ("record", "compact", "promote", "candidates", "forget")
STOPPED = ("record", "compact", "forget", "capture", "add", "fmt", "index", "install")


def list_disk_cases() -> Iterator[Case]:
    """Yield a case for each writing command and each fault of the disk."""
    for name in WRITERS:
        for disk, fault in DISKS.items():
            yield Case(
                f"{name}, {disk}",
                f"`{name}` with {disk} from four of its writes on",
                HOLDS,
                (name, fault),
            )


DISK_CASES = {case.name: case for case in list_disk_cases()}
LIMIT_CASES = {
    f"{name}, short files": Case(
        f"{name}, short files", f"`{name}` where files end at {LIMITS} bytes", HOLDS, name
    )
    for name in COMMITTING
}
STOP_CASES = {
    f"{name}, stopped": Case(f"{name}, stopped", f"`{name}` stopped at its writes", HOLDS, name)
    for name in STOPPED
}
ALL_CASES = {**DISK_CASES, **LIMIT_CASES, **STOP_CASES}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Scene:
    return make_scene(tmp_path_factory.mktemp("scene"), launcher)


@pytest.fixture(scope="module")
def sleeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """Yield a second launcher, because the first must work while a command of the second is stopped."""
    launcher = Launcher(tmp_path_factory.mktemp("sleeper"))
    yield launcher
    launcher.close()


def prepare(scene: Scene, launcher: Launcher, name: str, place: Path) -> Project:
    project = copy_for(scene, WRITERS[name], place)
    WRITERS[name].prepare(project, launcher)
    return project


def list_writes(scene: Scene, launcher: Launcher, name: str, place: Path, fault: str) -> list[str]:
    project = prepare(scene, launcher, name, place / "counted")
    log = place / "writes"
    run(launcher, project, scene, WRITERS[name], fault=fault, log=log)
    return log.read_text().splitlines() if log.exists() else []


def choose_writes(count: int) -> list[int]:
    """Return the first two of `count` writes, the middle one and the last: the fault lasts from that write on."""
    return sorted({number for number in (1, 2, count // 2, count) if 1 <= number <= count})


def list_temporaries(project: Project) -> list[str]:
    """Return the untracked files that the command should not have left."""
    names = project.git("ls-files", "--others", "--exclude-standard").splitlines()
    return [
        name for name in names if name.rpartition("/")[2].startswith(".") and name.count(".") > 2
    ]


def assert_sound(project: Project, launcher: Launcher, context: str) -> None:
    project.git("fsck", "--strict", "--no-dangling")
    assert list(project.path.rglob("*.lock")) in (
        [],
        [project.path / ".git/memory-ci/prewarm.lock"],
    ), context
    checked = launcher.run(project.path, "check", "--json")
    assert "unreadable" not in checked.printed, context


@pytest.mark.parametrize("case", DISK_CASES)
def test_a_full_or_read_only_disk_loses_nothing(
    case: str, scene: Scene, launcher: Launcher, tmp_path: Path
) -> None:
    name, fault = DISK_CASES[case].data
    writer = WRITERS[name]
    control = prepare(scene, launcher, name, tmp_path / "control")
    run(launcher, control, scene, writer)
    expected = finish(control, launcher)
    writes = list_writes(scene, launcher, name, tmp_path, fault)
    for number in choose_writes(len(writes)):
        context = f"{fault} from {writes[number - 1]} on"
        project = prepare(scene, launcher, name, tmp_path / f"shop-{number}")
        result = run(launcher, project, scene, writer, fault=fault, number=number)
        assert_ended_clearly(result, context)
        assert_sound(project, launcher, context)
        assert fault == "erofs" or list_temporaries(project) == [], context
        assert_ended_clearly(run(launcher, project, scene, writer), f"{context}, then again")
        state = finish(project, launcher)
        assert expected.titles - state.titles == set(), context
        assert expected.local - state.local == set(), context


@pytest.mark.parametrize("case", LIMIT_CASES)
def test_a_file_size_limit_for_git_loses_nothing(
    case: str, scene: Scene, launcher: Launcher, tmp_path: Path
) -> None:
    name = LIMIT_CASES[case].data
    writer = WRITERS[name]
    control = prepare(scene, launcher, name, tmp_path / "control")
    run(launcher, control, scene, writer)
    expected = finish(control, launcher)
    for limit in LIMITS:
        context = f"files end at {limit} bytes"
        project = prepare(scene, launcher, name, tmp_path / f"shop-{limit}")
        words = scene.words(writer.args)
        result = launcher.run(project.path, *words, env=FIXED_TIME, file_bytes=limit)
        assert "Traceback" not in result.printed, context
        for lock in project.path.rglob("*.lock"):
            lock.unlink()  # git's own: it was killed by the limit, and says itself to remove it
        assert_sound(project, launcher, context)
        assert_ended_clearly(run(launcher, project, scene, writer), f"{context}, then again")
        state = finish(project, launcher)
        assert expected.titles - state.titles == set(), context


@pytest.mark.parametrize("case", STOP_CASES)
def test_a_run_that_is_stopped_and_continued_loses_no_work_of_a_person(
    case: str, scene: Scene, launcher: Launcher, sleeper: Launcher, tmp_path: Path
) -> None:
    name = STOP_CASES[case].data
    writer = WRITERS[name]
    control = prepare(scene, launcher, name, tmp_path / "control")
    run(launcher, control, scene, writer)
    expected = finish(control, launcher)
    for number, write in enumerate(list_writes(scene, launcher, name, tmp_path, "stop"), start=1):
        context = f"stopped at {write}"
        project = prepare(scene, launcher, name, tmp_path / f"shop-{number}")

        def work(project: Project = project) -> None:
            noted = launcher.run(project.path, "add", "Noted meanwhile by a person", env=FIXED_TIME)
            assert_ended_clearly(noted)
            project.write("src/client.py", "mine\n")
            project.git("commit", "-qam", "Mine")

        words = scene.words(writer.args)
        result = sleeper.run(
            project.path,
            *words,
            stdin=writer.stdin,
            env=FIXED_TIME,
            fault="stop",
            number=number,
            meanwhile=work,
        )
        assert_ended_clearly(result, context)
        assert project.show("HEAD", "src/client.py") == "mine\n", context
        assert_ended_clearly(run(launcher, project, scene, writer), f"{context}, then again")
        state = finish(project, launcher)
        assert (expected.titles | {"Noted meanwhile by a person"}) - state.titles == set(), context
        assert expected.local - state.local == set(), context
        assert_sound(project, launcher, context)
