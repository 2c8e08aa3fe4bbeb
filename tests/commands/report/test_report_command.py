"""Tests of `memory-ci report` as a user calls it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memory_ci.extras import how_to_install
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import Project

pytestmark = pytest.mark.in_project


@pytest.mark.first_run
def test_the_page_is_one_file_and_says_how_large_it_is(
    project: Project, run: Run, tmp_path: Path
) -> None:
    result = run("report", "--output", str(tmp_path / "page.html"))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(
        f"Wrote {tmp_path / 'page.html'}: {len(project.entries())} entr"
    )
    assert (tmp_path / "page.html").exists()
    assert not list(tmp_path.glob("*.tmp"))


def test_a_terminal_shows_the_progress_of_long_steps(
    project: Project, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels: list[str] = []

    @contextmanager
    def note(label: str) -> Iterator[None]:
        labels.append(label)
        yield

    monkeypatch.setattr("memory_ci.commands.report.command.progress", note)
    assert run("report", "--output", str(tmp_path / "page.html")).exit_code == 0
    assert labels == ["Gathering the report", "Drawing the page"]


def test_json_needs_no_extra_and_a_page_says_how_to_install_it(
    project: Project, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert json.loads(run("report", "--json").stdout)["name"] == project.path.name
    result = run("report", "--output", str(tmp_path / "page.html"))
    assert result.exit_code == 2
    assert "the page needs the package vl_convert [missing-extra]" in result.stderr
    assert f"Install it: {how_to_install('report')}" in result.stderr
    assert not (tmp_path / "page.html").exists()


def test_a_report_needs_a_place(project: Project, run: Run) -> None:
    assert run("report").exit_code == 2


def test_json_holds_no_credential_either(project: Project, run: Run) -> None:
    key = "ghp_" + "a1B2c3D4e5" * 4
    entry = format_entry(make_entry(1, title="Ask the gateway", body=f"With {key}."))
    project.commit("Leak", {"MEMORY.md": entry})
    output = run("report", "--json").stdout
    assert "Ask the gateway" in output
    assert key[:36] not in output
