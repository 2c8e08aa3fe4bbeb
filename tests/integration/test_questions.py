"""Tests of the git processes of whole commands: none is repeated, and their number is limited."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from memory_ci.memory.index import prepare_queries
from memory_ci.records.check import AbsentCheck, WithCheck
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import DECIDED, Project, copy_project
from tests.sessions.repeated_sessions import DRAFT, keep_asking

pytestmark = pytest.mark.in_project


class Question(NamedTuple):
    """A git process: its arguments, its directory, its index file, and its input."""

    args: tuple[str, ...]
    cwd: str
    index_file: str
    input: bytes


class Questions:
    """The git processes that are started from now on."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.streams: dict[int, int] = {}

    def start(
        self, started: subprocess.Popen[bytes], args: list[str], options: dict[str, Any]
    ) -> None:
        index = (options.get("env") or {}).get("GIT_INDEX_FILE", "")
        self.streams[id(started.stdin)] = len(self.questions)
        self.questions.append(Question(tuple(map(str, args)), str(options.get("cwd")), index, b""))

    def give(self, stdin: object, data: bytes | None) -> None:
        number = self.streams[id(stdin)]
        self.questions[number] = self.questions[number]._replace(input=data or b"")

    def count(self) -> int:
        return sum(question.args[0] == "git" for question in self.questions)

    def twice(self, where: Path) -> list[Question]:
        """Return the processes that ran more than once for the repository at `where`."""
        counted = Counter(question for question in self.questions if question.cwd == str(where))
        return [question for question, count in counted.items() if count > 1]


class OverheardPipe:
    """The standard input of a process, which records the written data."""

    def __init__(self, pipe: IO[bytes], questions: Questions) -> None:
        self._pipe = pipe
        self._questions = questions

    def __enter__(self) -> OverheardPipe:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipe, name)

    def write(self, data: bytes) -> int:
        self._questions.give(self, data)
        return self._pipe.write(data)


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Questions:
    """Record the git processes that are started from now on."""
    recorded, start, talk = Questions(), subprocess.Popen.__init__, subprocess.Popen.communicate

    def started(
        self: subprocess.Popen[bytes], args: list[str], *extra_arguments: Any, **options: Any
    ) -> None:
        start(self, args, *extra_arguments, **options)
        if self.stdin and "--batch-command" not in args:  # that one is asked many times
            self.stdin = OverheardPipe(self.stdin, recorded)  # type: ignore[assignment]
        recorded.start(self, args, options)

    def talked(
        self: subprocess.Popen[bytes], input: bytes | None = None, timeout: float | None = None
    ) -> Any:
        recorded.give(self.stdin, input)
        return talk(self, input, timeout)

    monkeypatch.setattr(subprocess.Popen, "__init__", started)
    monkeypatch.setattr(subprocess.Popen, "communicate", talked)
    return recorded


@pytest.fixture(scope="module")
def toy_template(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Make a small history: code, entries that cite it, and the records of a run."""
    project = copy_project(project_template, tmp_path_factory.mktemp("toy") / "shop")
    cite = f"src/client.py@{project.sha()[:12]}"
    entries = [
        make_entry(1, title="Charge a card once", cites=(cite,)),
        make_entry(2, title="Dates are in UTC"),
    ]
    project.commit("Learn", {"MEMORY.md": "\n".join(map(format_entry, entries))})
    project.record()
    project.git("repack", "-adq")
    return project


@pytest.fixture
def toy(toy_template: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a small history: code, a merged decision, entries that cite code, and the records of a run."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795262400")
    copy = copy_project(toy_template, tmp_path / "shop")
    monkeypatch.chdir(copy.path)
    return copy


@pytest.mark.parametrize(
    ("command", "most"),
    [
        ("verify", 5),
        ("verify --base HEAD~2", 6),
        ("record --dry-run", 8),
        ("doctor", 25),
        ("health", 12),
        ("check", 3),
        ("check --staged", 3),
        ("retrieve card", 12),
        ("list", 4),
    ],
)
def test_a_command_runs_no_git_process_twice(
    toy: Project, run: Run, questions: Questions, command: str, most: int
) -> None:
    run(*command.split())
    assert questions.twice(toy.path) == []
    assert 0 < questions.count() <= most


@pytest.mark.parametrize(
    ("command", "has_session", "most"),
    [
        ("record --engine rules --dry-run", False, 8),
        ("record --engine rules --dry-run", True, 10),
        ("record --engine rules", False, 22),
        ("record --engine rules", True, 24),
    ],
)
def test_a_run_over_merges_reads_history_few_times(
    toy: Project,
    run: Run,
    tmp_path: Path,
    questions: Questions,
    command: str,
    has_session: bool,
    most: int,
) -> None:
    for number in range(3):
        toy.merge_work(DECIDED.format(name=f"mail{number}"), f"mail{number}", 130 + number)
    if has_session:
        keep_asking(toy, tmp_path, *DRAFT[:3])
    questions.questions.clear()
    assert run(*command.split()).exit_code == 0
    assert questions.twice(toy.path) == []
    assert 0 < questions.count() <= most


DIRECTORIES = 60


@pytest.fixture
def monorepo(toy: Project, run: Run) -> Project:
    """Return the small history with many directories that have code and memory, and an index."""
    files = {}
    for number in range(DIRECTORIES):
        entry = make_entry(100 + number, title=f"Part {number} keeps its own cache")
        files[f"parts/p{number:02}/MEMORY.md"] = format_entry(entry)
        files[f"parts/p{number:02}/main.py"] = f"part = {number}\n"
    toy.commit("Many parts", files)
    assert run("record", "--engine", "rules").exit_code == 0
    prepare_queries(toy.workspace, None)
    return toy


@pytest.mark.parametrize(
    ("command", "processes", "blobs"),
    [
        ("retrieve cache", 3, 2),  # the one that changed, and the configuration
        ("verify --base HEAD~1", 5, DIRECTORIES + 15),  # each file of memory once
        ("record --dry-run", 8, DIRECTORIES + 15),
    ],
)
def test_many_directories_are_read_once_and_unchanged_ones_not_at_all(
    monorepo: Project, run: Run, questions: Questions, command: str, processes: int, blobs: int
) -> None:
    memory = monorepo.show("HEAD", "parts/p07/MEMORY.md").replace(
        "its own cache", "a cache of its own"
    )
    monorepo.commit("Reword", {"parts/p07/MEMORY.md": memory})
    questions.questions.clear()
    assert run(*command.split()).exit_code == 0
    read = [
        line
        for question in questions.questions
        if "--batch" in question.args
        for line in question.input.splitlines()
    ]
    assert questions.count() <= processes
    assert len(read) <= blobs


def test_learnings_of_a_directory_with_its_own_memory_are_written_there(
    monorepo: Project, run: Run
) -> None:
    because = "Decision: caches are per part rather than shared, because parts are deployed alone."
    monorepo.commit(f"Cache\n\n{because}", {"parts/p07/deep/cache.py": "cache = 1\n"})
    monorepo.commit(
        "Span\n\nDecision: p07 asks p08 rather than the ledger, because that one is slow.",
        {"parts/p07/a": "", "parts/p08/b": ""},
    )
    assert run("record", "--engine", "rules").exit_code == 0
    assert "caches are per part" in monorepo.show("HEAD", "parts/p07/MEMORY.md").lower()
    assert "p07 asks p08" in monorepo.show("HEAD", "MEMORY.md")


@pytest.fixture
def ruled(toy: Project) -> Project:
    """Return the small history with a check of files and a check of text, and a branch that violates both."""
    checks = (WithCheck(("src/**",), ("CHANGELOG.md",)), AbsentCheck(("src/**",), "print"))
    entries = [make_entry(number, check=check) for number, check in enumerate(checks, start=7)]
    toy.commit("Rules", {"team/MEMORY.md": "\n".join(map(format_entry, entries))})
    toy.branch("topic")
    toy.commit("Work", {"src/a.py": "print(1)\n"})
    return toy


@pytest.mark.parametrize(
    ("command", "most"),
    [
        ("verify", 11),
        ("check --backtest", 8),
        ("check --backtest 00000007", 7),
        ("hook commit-msg .git/COMMIT_EDITMSG", 12),
    ],
)
def test_checks_of_a_change_run_no_git_process_twice(
    ruled: Project, run: Run, questions: Questions, command: str, most: int
) -> None:
    ruled.write("src/b.py", "print(2)\n")
    ruled.write(".git/COMMIT_EDITMSG", "Work\n")
    ruled.git("add", "src/b.py")
    before = questions.count()
    run(*command.split())
    assert questions.twice(ruled.path) == []
    assert 0 < questions.count() - before <= most
