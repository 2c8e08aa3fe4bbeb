"""Tests of hostile text at the terminal: control characters are printed as escapes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry, make_id
from tests.project import Project

pytestmark = pytest.mark.in_project

ESCAPE = "\x1b[2J"
SHOWN = r"\x1b[2J"


@pytest.fixture
def hostile(project: Project) -> Project:
    """Return a project with an entry whose body clears the screen, in a commit whose subject does so, too."""
    entry = make_entry(1, title="Mind the bell", body="One\ttwo\n\nthree\x7f")
    project.commit(f"Add {ESCAPE} it", {"MEMORY.md": "# Memory\n\n" + format_entry(entry)})
    return project


def test_show_prints_control_characters_as_escapes_and_keeps_lines_and_tabs(
    run: Run, hostile: Project
) -> None:
    result = run("show", make_id(1), "--at", "HEAD")
    assert "One\ttwo\n\nthree\\x7f\n" in result.stdout
    assert json.loads(run("show", make_id(1), "--at", "HEAD", "--json").stdout)["located"]["entry"][
        "body"
    ].endswith("\x7f")


def test_log_prints_a_subject_as_text(run: Run, hostile: Project) -> None:
    result = run("show", "--log", make_id(1))
    assert f"Add {SHOWN} it" in result.stdout
    assert ESCAPE not in result.stdout


def test_an_error_prints_names_as_text(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / f"no {ESCAPE} repository"
    place.mkdir()
    monkeypatch.chdir(place)
    failed = run("list")
    assert failed.exit_code == 4
    assert f"no {SHOWN} repository is not in a git repository [not-a-repository]" in failed.stderr


def test_add_names_a_known_place_as_text(run: Run, project: Project) -> None:
    turned = "src/\u202ecod"
    project.commit(
        "Strange", {f"{turned}/MEMORY.md": format_entry(make_entry(1, title="Retry only GET"))}
    )
    result = run("add", "Retry only GET", "--scope", f"team:{turned}")
    assert "src/\\u202ecod/MEMORY.md; nothing written." in result.stdout


def test_apply_and_record_print_subjects_as_text(run: Run, project: Project) -> None:
    project.git("checkout", "-q", "-b", "a\u202eb")
    assert (
        "on a\\u202eb:"
        in run(
            "record", "--apply", "-", "--dry-run", stdin=run("record", "--plan", "-").stdout
        ).stdout
    )
    assert "on a\\u202eb, now at" in run("record", "--branch", "a\u202eb").stdout


def test_standard_error_of_a_job_contains_no_runner_command(project: Project) -> None:
    for command in (
        "##[set-output name=job;]record",
        "x\n::set-env name=PATH::/tmp",
        "x\n \t::add-mask::x",
    ):
        completed = subprocess.run(
            [sys.executable, "-m", "memory_ci", "add", "x", "--scope", command],
            env=os.environ | {"GITHUB_ACTIONS": "true"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert completed.returncode == 2
        assert "is not a scope" in completed.stderr
        assert "##[" not in completed.stderr
        assert not any(line.lstrip().startswith("::") for line in completed.stderr.splitlines())


PRINTING = [["list"], ["show", make_id(1)], ["check"], ["record", "--yes"], ["doctor"], ["verify"]]
"""Commands that print for people; all are tried with the syntax of one runner."""


@pytest.mark.parametrize(
    ("runner", "hostile", "commands"),
    [
        ({"GITHUB_ACTIONS": "true"}, "##[set-output name=job;]x", PRINTING),
        ({"TF_BUILD": "True"}, "##vso[task.setvariable variable=PATH]x", PRINTING[:2]),
        (
            {"TEAMCITY_VERSION": "2026.1"},
            '##teamcity[setParameter name="PATH" value="x"]',
            PRINTING[:2],
        ),
    ],
    ids=["actions", "azure", "teamcity"],
)
def test_output_of_a_job_for_people_contains_no_runner_command(
    project: Project, runner: dict[str, str], hostile: str, commands: list[list[str]]
) -> None:
    entry = format_entry(
        make_entry(1, title="Retry only GET", body=f"{hostile}\n::set-env name=PATH::/tmp")
    )
    project.commit("Memory", {"MEMORY.md": entry, "memory-ci.yml": f"'{hostile}': 1\n"})
    for words in commands:
        completed = subprocess.run(
            [sys.executable, "-m", "memory_ci", *words],
            env=os.environ | runner, capture_output=True, text=True, check=False,
        )  # fmt: skip
        printed = completed.stdout + completed.stderr
        assert hostile.partition("[")[0] + "[" not in printed, words
        assert not any(line.lstrip().startswith("::set-env") for line in printed.splitlines()), (
            words
        )


def test_json_is_printed_without_control_characters(run: Run, project: Project) -> None:
    body = "One \x7f\x9b2J \u202eowt"
    project.commit("Mind", {"MEMORY.md": format_entry(make_entry(1, body=body))})
    printed = run("show", make_id(1), "--at", "HEAD", "--json").stdout
    assert set(printed).isdisjoint("\x7f\x9b\u202e")
    assert json.loads(printed)["located"]["entry"]["body"] == body


KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "--json"),
        ("list", "--format", "csv"),
        ("show", make_id(1)),
        ("show", make_id(1), "--json"),
        ("show", "--why", make_id(1)),
        ("show", "--log", make_id(1), "--json"),
        ("record", "--dry-run"),
        ("record", "--dry-run", "--json"),
        ("record",),
        ("recall", "--tasks", "pay the bill"),
        ("recall", "--tasks", "pay the bill", "--json"),
    ],
    ids=" ".join,
)
def test_no_command_prints_a_credential_that_somebody_committed(
    run: Run, project: Project, words: tuple[str, ...]
) -> None:
    entry = make_entry(1, title=f"Pay with {KEY}", body=f"The key is {KEY}.")
    project.commit(f"Pay the bill with {KEY}", {"MEMORY.md": "# Memory\n\n" + format_entry(entry)})
    project.commit(
        f"fix: pay the bill\n\nDecision: bills are paid with {KEY} rather than by hand",
        {"src/pay.py": "1\n"},
    )
    result = run(*words)
    assert KEY not in result.stdout + result.stderr
