"""Tests of eight concurrent writers: all end by themselves, nothing is lost, the repository is valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from memory_ci.store.edits import format_entry
from tests.agents_at_work import make_session
from tests.attacks.attack import BOUNDED, ERROR, LOST, Area, Case, start
from tests.attacks.scene import FIXED_TIME, SESSION_TIME
from tests.make import make_entry, make_id
from tests.project import DECIDED, Project, copy_project, make_project
from tests.repos import RepoBuilder

pytestmark = pytest.mark.slow

AREA = Area(
    "eight writers at once",
    "eight processes that note, record, capture, build, forget, install and publish in one repository, in eight "
    "work trees, or from eight clones to one remote",
    "new files per note; compare-and-swap of branches; one lock for a move; a publisher plans again on a new tip",
)
HOLDS = (LOST, ERROR, BOUNDED)
COUNT = 8
EXPECTED_ERRORS = ("ref-moved", "repository-busy", "local-changes", "nothing-published")


class Crowd:
    """Eight processes in one repository."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project = project
        self.folder = folder
        self.running: list[tuple[tuple[str, ...], Popen[str]]] = []

    def start(self, *words: str, cwd: Path | None = None) -> None:
        self.running.append((words, start(cwd or self.project.path, *words, env=FIXED_TIME)))

    def join(self) -> list[int]:
        """Wait until all have ended; each succeeded, or reports that another was first."""
        statuses = []
        for words, process in self.running:
            stdout, stderr = process.communicate()
            assert "Traceback" not in stdout + stderr, (words, stderr)
            is_expected_error = any(f"[{slug}]" in stderr for slug in EXPECTED_ERRORS)
            assert process.returncode in (0, 1) or is_expected_error, (
                words,
                process.returncode,
                stderr,
            )
            statuses.append(process.returncode)
        self.running = []
        return statuses

    def finish(self) -> set[str]:
        """Commit the notes, record them, and return the titles in memory."""
        self.project.git("add", "-A")
        self.project.git("commit", "-q", "--allow-empty", "-m", "Notes")
        self.start("record", "--yes")
        assert self.join() == [0]
        self.project.git("fsck", "--strict", "--no-dangling")
        assert self.project.status() == ""
        return self.project.titles()


def words_of(number: int) -> str:
    """Return a title that shares no word with the titles of other numbers."""
    return " ".join(f"{word}{number}" for word in ("Kestrel", "umbra", "harbour"))


def eight_notes(crowd: Crowd) -> None:
    for number in range(COUNT):
        crowd.start("add", words_of(number))
    assert crowd.join() == [0] * COUNT
    assert {words_of(number) for number in range(COUNT)} <= crowd.finish()


def eight_notes_with_one_title(crowd: Crowd) -> None:
    for _ in range(COUNT):
        crowd.start("add", words_of(1))
    crowd.join()
    assert words_of(1) in crowd.finish()
    assert crowd.project.show("HEAD", "MEMORY.md").count(f"## {words_of(1)}\n") == 1


def eight_records(crowd: Crowd) -> None:
    for _ in range(COUNT):
        crowd.start("record", "--yes")
    assert 0 in crowd.join()
    marked = [title for title in crowd.finish() if "src/client.py" in title]
    assert len(marked) == 1


def records_and_notes(crowd: Crowd) -> None:
    for number in range(COUNT // 2):
        crowd.start("record", "--yes")
        crowd.start("add", words_of(number))
    crowd.join()
    assert {words_of(number) for number in range(COUNT // 2)} <= crowd.finish()


def eight_captures(crowd: Crowd) -> None:
    for number in range(COUNT):
        session = f"5f3b2a10-0000-4000-8000-00000000010{number}"
        data = make_session(f"Say {words_of(number)}.", at=SESSION_TIME, session=session)
        path = crowd.folder / f"{number}.jsonl"
        path.write_bytes(data)
        crowd.start("sessions", "--capture", str(path))
    assert crowd.join() == [0] * COUNT
    refs = crowd.project.git("for-each-ref", "--format=%(refname)", "refs/memory-ci/sessions/")
    assert len(refs.splitlines()) == COUNT


def eight_captures_of_one_session(crowd: Crowd) -> None:
    data = make_session("Charge once.", "And lock first.", at=SESSION_TIME)
    path = crowd.folder / "one.jsonl"
    path.write_bytes(data)
    for _ in range(COUNT):
        crowd.start("sessions", "--capture", str(path))
    crowd.join()
    refs = crowd.project.git(
        "for-each-ref", "--format=%(refname)", "refs/memory-ci/sessions/"
    ).splitlines()
    assert len(refs) == 1
    digest = crowd.project.show(refs[0], "digest.jsonl")
    assert "Charge once." in digest
    assert "And lock first." in digest


def eight_indexes(crowd: Crowd) -> None:
    for _ in range(COUNT):
        crowd.start("index")
    assert crowd.join() == [0] * COUNT
    crowd.start("index", "--verify")
    assert crowd.join() == [0]


def eight_reasons(crowd: Crowd) -> None:
    entry = make_entry(1, title="Charge in one place")
    crowd.project.commit("Remember", {"MEMORY.md": format_entry(entry)})
    for number in range(COUNT):
        crowd.start("feedback", make_id(1), "confirmed", "--ref", f"pr:{200 + number}")
    assert crowd.join() == [0] * COUNT
    files = list((crowd.project.path / ".memory" / "episodes").rglob("*.md"))
    text = "".join(file.read_text() for file in files)
    assert [number for number in range(COUNT) if f"pr:{200 + number}" not in text] == []


def eight_episodes(crowd: Crowd) -> None:
    for number in range(COUNT):
        crowd.start("episode", f"Tried {words_of(number)}", "--outcome", "failure")
    assert crowd.join() == [0] * COUNT
    files = (crowd.project.path / ".memory" / "episodes").rglob("*.md")
    text = "".join(file.read_text() for file in files)
    assert [number for number in range(COUNT) if words_of(number) not in text] == []


def eight_assumptions(crowd: Crowd) -> None:
    for number in range(COUNT):
        crowd.start("checkpoint", f"Assume {words_of(number)}")
    assert crowd.join() == [0] * COUNT
    lines = (crowd.project.path / ".assumptions.jsonl").read_text().splitlines()
    text = "".join(json.dumps(json.loads(line)) for line in lines)
    assert [number for number in range(COUNT) if words_of(number) not in text] == []


def eight_forget(crowd: Crowd) -> None:
    entries = [make_entry(number, title=words_of(number)) for number in range(1, COUNT + 1)]
    crowd.project.commit("Remember", {"MEMORY.md": "\n".join(map(format_entry, entries))})
    for number in range(1, COUNT + 1):
        crowd.start("forget", f"Kestrel{number} umbra{number}", "--as", "words", "--yes")
    statuses = crowd.join()
    for number, status in enumerate(statuses, start=1):
        is_there = f"Kestrel{number} " in crowd.project.show("HEAD", "MEMORY.md")
        assert is_there == (status == 4), "the status says whether it was done"
    crowd.finish()


def upkeep_beside_notes(crowd: Crowd) -> None:
    body = (
        "a retry doubled the charge for the gateway had booked the first request before it answered"
    )
    duplicates = [make_entry(n, title="Retry with a key", body=body + " again" * n) for n in (1, 2)]
    crowd.project.commit("Near", {"MEMORY.md": "\n".join(map(format_entry, duplicates))})
    for number, verb in enumerate(("compact", "promote", "retire", "record")):
        crowd.start(verb)
        crowd.start("add", words_of(number))
    crowd.join()
    titles = crowd.finish()
    assert {words_of(number) for number in range(4)} <= titles
    assert "Retry with a key" in titles


def eight_installs(crowd: Crowd) -> None:
    for _ in range(COUNT):
        crowd.start("init", "--clone", "--agent", "claude-code")
    crowd.join()
    crowd.start("init", "--clone", "--agent", "claude-code")
    assert crowd.join() == [0]
    settings = json.loads((crowd.project.path / ".claude/settings.local.json").read_text())
    assert settings["hooks"]
    crowd.start("init", "--remove", "--clone")
    assert crowd.join() == [0]


def eight_work_trees(crowd: Crowd) -> None:
    places = []
    for number in range(COUNT):
        place = crowd.folder / f"tree-{number}"
        crowd.project.worktree(place, f"job-{number}")
        places.append(place)
    for number, place in enumerate(places):
        crowd.start("add", words_of(number), cwd=place)
    assert crowd.join() == [0] * COUNT
    for number, place in enumerate(places):
        tree = RepoBuilder(place, crowd.project.clock)
        tree.git("add", "-A")
        tree.commit(f"Note {number}")
    for number in range(COUNT):
        crowd.project.merge(f"job-{number}")
    assert {words_of(number) for number in range(COUNT)} <= crowd.finish()


def eight_publishers(crowd: Crowd) -> None:
    crowd.project.git(
        "clone", "-q", "--bare", str(crowd.project.path), str(crowd.folder / "remote.git")
    )
    clones = []
    for number in range(COUNT):
        place = crowd.folder / f"clone-{number}"
        crowd.project.git("clone", "-q", str(crowd.folder / "remote.git"), str(place))
        clones.append(place)
    for place in clones:
        crowd.start("record", "--push", "push", "--now", cwd=place)
    crowd.join()
    remote = Project(crowd.folder / "remote.git", crowd.project.clock)
    marked = [title for title in remote.titles() if "src/client.py" in title]
    assert len(marked) == 1
    remote.git("fsck", "--strict", "--no-dangling")


DONE: dict[str, Callable[[Crowd], None]] = {
    "eight notes": eight_notes,
    "eight notes with one title": eight_notes_with_one_title,
    "eight records": eight_records,
    "records and notes": records_and_notes,
    "eight captures": eight_captures,
    "eight captures of one session": eight_captures_of_one_session,
    "eight builds of the index": eight_indexes,
    "eight reasons for one entry": eight_reasons,
    "eight episodes": eight_episodes,
    "eight assumptions in one file": eight_assumptions,
    "eight are to be forgotten": eight_forget,
    "upkeep beside notes": upkeep_beside_notes,
    "eight installs": eight_installs,
    "eight work trees": eight_work_trees,
    "eight clones publish": eight_publishers,
}
CASES = {name: Case(name, name, HOLDS, act) for name, act in DONE.items()}
ALL_CASES = CASES


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("crowd") / "shop")
    project.merge_work(DECIDED.format(name="mail"), "mail", 129, "src/mail.py")
    return project


@pytest.mark.parametrize("case", CASES)
def test_eight_concurrent_writers_lose_nothing(
    case: str, template: Project, tmp_path: Path
) -> None:
    CASES[case].data(Crowd(copy_project(template, tmp_path / "shop"), tmp_path))
