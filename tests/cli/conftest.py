"""The command line, run in a project as a user would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memory_ci.cli.main import main
from tests.flows.project import Project, copy_project, make_project

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def project_template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("template") / "shop")


@pytest.fixture
def project(project_template: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with one merged pull request; it is the current directory, and the day is 2026-11-21."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795262400")
    copy = copy_project(project_template, tmp_path / "shop")
    monkeypatch.chdir(copy.path)
    return copy


@pytest.fixture
def run() -> Run:
    """`run("check", "--json")` gives exit_code, stdout and stderr; a traceback fails the test."""

    def invoke(*args: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(main, args, input=stdin, prog_name="memory-ci")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke
