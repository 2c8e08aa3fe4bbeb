"""Tests of Ctrl-C: a short message, the exit status that shells expect, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_ci.__main__ import interrupt
from memory_ci.gitrepo.repo import JOURNAL
from tests.command_line import Run
from tests.project import IMPORTED_FROM, Project

pytestmark = pytest.mark.in_project

SECONDS = 300
"""Seconds after which a hanging process fails the test."""

AT_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["memory-ci", *{arguments!r}]
from memory_ci.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("memory_ci.commands.shortcut", ["retrieve", "charges"]),
        ("memory_ci.commands.root", ["show", "1"]),
        ("memory_ci.commands.show.command", ["show", "1"]),
        ("memory_ci.memory.apply", ["record", "--apply", "-"]),
        ("memory_ci.commands.retrieve.retrieve", ["retrieve", "charges"]),
    ],
)
def test_an_interrupt_prints_no_traceback_even_while_modules_are_loaded(
    project: Project, module: str, arguments: list[str]
) -> None:
    code = AT_IMPORT.format(module=module, arguments=arguments)
    completed = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project.path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (completed.returncode, completed.stderr) == (130, "Interrupted.\n")


def test_these_tests_pass_if_the_signal_is_ignored_at_start() -> None:
    test_id = f"{__file__}::test_an_interrupt_prints_no_traceback_even_while_modules_are_loaded"
    ignoring = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh"]  # as nohup and `&` do
    command = [
        *ignoring,
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "shortcut",
        test_id,
    ]
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert completed.stdout.splitlines()[-1].startswith("1 passed"), completed.stdout


def test_every_command_names_a_file_that_changed_since_a_run_was_killed(
    run: Run, project: Project
) -> None:
    old = project.sha()
    new = project.commit("memory: extract", {"MEMORY.md": "new\n"})
    project.git("reset", "-q", "--hard", old)
    project.write("MEMORY.md", "mine\n")
    (project.path / ".git" / JOURNAL).parent.mkdir(exist_ok=True)
    (project.path / ".git" / JOURNAL).write_text(f"refs/heads/main\0{old}\0{new}\0{project.path}")
    for command in ("list", "retrieve"):
        result = run(command, *(["charges"] if command == "retrieve" else []))
        assert result.exit_code == 0
        assert (
            f"Warning: {project.path}/MEMORY.md:1: a run was killed after it wrote this file"
            in result.stderr
        )
    assert (project.path / "MEMORY.md").read_text() == "mine\n"


@pytest.mark.parametrize("command", [["hook", "agent", "--for", "codex"], ["check"], ["record"]])
def test_one_variable_ends_every_command_at_once(command: list[str], tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": IMPORTED_FROM, "MEMORY_CI": "off"}
    command_line = [sys.executable, "-m", "memory_ci", *command]
    completed = subprocess.run(
        command_line, cwd=tmp_path, env=environ, capture_output=True, check=False, input=b"{}"
    )
    assert (completed.returncode, completed.stdout) == (0, b"")
    assert completed.stderr == b"memory-ci is off (MEMORY_CI=off): nothing was done.\n"


def test_an_interrupt_clears_the_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    monkeypatch.setattr("os.isatty", lambda _: True)
    monkeypatch.setattr("os.write", lambda _, data: written.append(data))
    with pytest.raises(SystemExit):
        interrupt(2, None)
    assert written == [b"Interrupted.\x1b[K\n"]
