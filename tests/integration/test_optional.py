"""Tests of deleting optional features: the other modules can be imported, and everyday commands run."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import memory_ci
from tests.project import Project

pytestmark = (
    pytest.mark.slow
)  # each imports all modules; tests/test_structure.py holds who imports whom

PACKAGE = Path(memory_ci.__file__).parent
FEATURES = ("org", "report", "evaluate", "export", "import_", "mcp", "forget")
FORMATS = (
    "opencode",
    "cursor",
    "openhands",
    "git_ai",
    "specstory",
    "aider",
)

IMPORT_ALL = """
import pkgutil, importlib, memory_ci
EXTRAS = {"anthropic", "jinja2", "mcp", "numpy", "psycopg", "psycopg_binary", "vl_convert", "anyio", "uvicorn"}
for module in pkgutil.walk_packages(memory_ci.__path__, "memory_ci."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in EXTRAS:
            raise
"""

RUN_EVERYDAY = """
from click.testing import CliRunner
from memory_ci.commands.root import main
for words in (
    ["--help"],
    ["record"],
    ["retrieve", "charge a card"],
    ["list"],
    ["check"],
    ["add", "Charge a card once"],
    ["health"],
    ["review"],
    ["sessions"],
    ["doctor"],
    ["hook", "agent"],
):
    result = CliRunner().invoke(main, words, input="{}", prog_name="memory-ci")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1), (words, result.output)
"""


def delete_feature(package: Path, feature: str) -> None:
    """Delete a feature's folder and its rows in the table of commands."""
    shutil.rmtree(package / "commands" / feature)
    delete_commands(package, f"{feature}.")


def delete_commands(package: Path, module: str) -> None:
    """Delete the rows of the table of commands whose module starts with a name."""
    table = package / "commands" / "table.py"
    text = table.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    commands = next(node.value for node in ast.parse(text).body if isinstance(node, ast.Assign))
    assert isinstance(commands, ast.Dict)
    rows = [
        (key, row)
        for key, row in zip(commands.keys, commands.values, strict=True)
        if f'"{module}' in source(row)
    ]
    assert rows, module
    for key, row in reversed(rows):
        assert key is not None
        del lines[key.lineno - 1 : row.end_lineno]
    table.write_text("".join(lines), "utf-8")


def source(node: ast.expr) -> str:
    """Return an expression as text with double quotes."""
    return ast.unparse(node).replace("'", '"')


def delete_format(package: Path, name: str) -> None:
    """Delete the reader of a transcript format and its row in the registry."""
    transcripts = package / "sources" / "transcripts"
    (transcripts / f"{name}.py").unlink()
    registry = transcripts / "registry.py"
    text = registry.read_text("utf-8")
    assert text.count(f'    "{name}",\n') == 1
    registry.write_text(text.replace(f'    "{name}",\n', ""), "utf-8")


def run_all(folder: Path, project: Project) -> None:
    """Import every module of the package in `folder`, then run the everyday commands in a project."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", IMPORT_ALL + RUN_EVERYDAY]
    subprocess.run(command, cwd=project.path, env=environment, check=True)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    copy = tmp_path / "copy" / "memory_ci"
    # With what Python compiled, else each process compiles all; not with files that it is writing.
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.pyc.*"))
    return copy


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_can_be_deleted(feature: str, package: Path, project: Project) -> None:
    delete_feature(package, feature)
    run_all(package.parent, project)


def test_the_commands_of_episodes_can_be_deleted(package: Path, project: Project) -> None:
    (package / "commands" / "episodes" / "command.py").unlink()
    delete_commands(package, "episodes.command")
    run_all(package.parent, project)


def test_all_rare_transcript_formats_can_be_deleted(package: Path, project: Project) -> None:
    for name in FORMATS:
        delete_format(package, name)
    run_all(package.parent, project)
