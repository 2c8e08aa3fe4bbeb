"""Tests of the Python API, which scripts use without the command line."""

from __future__ import annotations

import ast
import doctest
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import memory_ci
from memory_ci import Memory, MemoryCIError, RecordOptions, RetrieveOptions
from memory_ci.commands.mcp import arguments, tools
from memory_ci.memory.apply import parse_plan
from tests.command_line import Run
from tests.project import NOW, Project

pytestmark = pytest.mark.in_project

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ["open", "retrieve", "record", "check"])
def test_the_examples_of_the_api_are_correct(name: str, project: Project) -> None:
    tests = doctest.DocTestFinder().find(getattr(Memory, name), name, globs={"Memory": Memory})
    runner = doctest.DocTestRunner()
    for test in tests:
        runner.run(test)
    assert runner.tries > 0
    assert runner.failures == 0


def test_a_plan_is_applied_and_its_entries_are_listed(project: Project) -> None:
    memory = Memory.open(project.path)
    plan = memory.record()
    applied = memory.apply(plan)
    assert len(applied.subjects) == 1
    planned = {change.entry.title for step in plan.steps for change in step.changes}
    assert {located.entry.title for located in Memory.open(project.path).entries()} == planned


def test_record_applies_its_plan_on_request(project: Project) -> None:
    Memory.open(project.path).record(dry_run=False)
    assert len(Memory.open(project.path).entries()) == 2


def test_a_past_commit_has_the_memory_of_its_time(project: Project) -> None:
    before = project.sha()
    Memory.open(project.path).record(dry_run=False)
    assert Memory.open(project.path, at=before).entries() == ()


def test_health_is_measured_for_a_commit(project: Project) -> None:
    Memory.open(project.path).record(dry_run=False)
    assert {metric.name for metric in Memory.open(project.path).health().metrics}


def test_a_wrong_path_is_an_error_with_a_slug(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(MemoryCIError) as error:
        Memory.open(tmp_path_factory.mktemp("empty"))
    assert error.value.slug == "not-a-repository"


def test_the_api_loads_no_click_and_prints_nothing(project: Project) -> None:
    script = (
        "import sys; from memory_ci import Memory; memory = Memory.open();"
        "memory.entries(); memory.retrieve('charge'); memory.check(); memory.record();"
        "assert 'click' not in sys.modules"
    )
    completed = subprocess.run(
        [sys.executable, "-c", script], cwd=project.path, capture_output=True, text=True, check=True
    )
    assert completed.stdout == ""


def test_the_script_of_the_page_runs(project: Project) -> None:
    Memory.open(project.path).record(dry_run=False)
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    script = page.partition("```python\n")[2].partition("```")[0]
    clones = (str(project.path), str(project.path / "nowhere"))
    completed = subprocess.run(
        [sys.executable, "-c", script, "charge a card", *clones],
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.splitlines()[-1].split() == ["2", str(project.path)]
    assert "nowhere" in completed.stderr


def test_the_list_has_the_most_prominent_entry_first_and_its_usage(project: Project) -> None:
    Memory.open(project.path).record(dry_run=False)
    listed = Memory.open(project.path).list()
    prominences = [item.prominence for item in listed.entries]
    assert len(prominences) == 2
    assert prominences == sorted(prominences, reverse=True)
    assert listed.findings == ()


def test_options_express_what_the_command_line_does(project: Project) -> None:
    Memory.open(project.path).record(dry_run=False)
    memory = Memory.open(project.path)
    corrective = memory.retrieve("charge a card", options=RetrieveOptions(types=("corrective",)))
    assert {hit.located.entry.type for hit in corrective.hits} == {"corrective"}
    assert memory.record(options=RecordOptions(since=project.sha())).steps == ()


def test_a_plan_is_previewed_and_nothing_is_committed(project: Project) -> None:
    before = project.sha()
    memory = Memory.open(project.path)
    assert len(memory.apply(memory.record(), dry_run=True).subjects) == 1
    assert project.sha() == before


# -- the front ends call `Memory`


class CutOff(MemoryCIError):
    """The error of a method of `Memory` that a test replaced."""


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("list", ["list"]),
        ("retrieve", ["retrieve", "charge a card"]),
        ("add", ["add", "Charge a card once"]),
        ("record", ["record"]),
        ("record", ["record", "--dry-run"]),
        ("record", ["record", "--plan", "-"]),
        ("apply", ["record", "--apply", "plan.json"]),
        ("apply", ["upkeep", "compact"]),
        ("check", ["check"]),
        ("check", ["check", "--range", "HEAD~1..HEAD"]),
        ("health", ["health"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_command_line_calls_memory(
    method: str, words: list[str], project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("plan.json", run("record", "--plan", "-").stdout)
    assert parse_plan(Path("plan.json").read_bytes()).steps
    cut_off(method, monkeypatch)
    result = run(*words)
    assert "cut off" in result.stderr
    assert result.exit_code == 1


def cut_off(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a method of `Memory` fail."""

    def fail(*_: Any, **__: Any) -> None:
        raise CutOff("the method is cut off", slug="cut-off")

    monkeypatch.setattr(Memory, method, fail)


@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("retrieve", lambda caller: tools.call_retrieve(caller, arguments.Retrieve(task="x"))),
        ("retrieve", lambda caller: tools.read_resource(caller, tools.INSTITUTIONAL_URI)),
        ("add", lambda caller: tools.call_add_learning(caller, arguments.AddLearning(title="x"))),
        ("health", lambda caller: tools.call_health(caller, arguments.NoArguments())),
    ],
    ids=["retrieve", "institutional", "add", "health"],
)
def test_a_tool_calls_memory(
    method: str, call: Any, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(method, monkeypatch)
    caller = tools.Caller(start=project.path, clock=lambda: NOW, environ={})
    with pytest.raises(CutOff):
        call(caller)


def test_the_hook_of_an_agent_calls_memory(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off("retrieve", monkeypatch)
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "Charge a card", "session_id": "s1"}
    stdin = json.dumps({**event, "cwd": str(project.path)})
    assert "cut off" in run("hook", "agent", stdin=stdin).stderr


def list_front_ends() -> list[Path]:
    """Return the modules that call `Memory` (docs/architecture.md)."""
    commands = Path(memory_ci.__file__).parent / "commands"
    paths = {path for name in ("command", "shortcut") for path in commands.glob(f"*/{name}.py")}
    paths |= {path for name in ("agents", "mcp") for path in (commands / name).glob("*.py")}
    return sorted(paths)


BEHIND_MEMORY = {
    "add_entry",
    "apply_plan",
    "check_memory",
    "list_by_prominence",
    "measure_health",
    "plan_record",
    "preview_plan",
    "retrieve",
}
"""The names of functions that methods of `Memory` call."""


@pytest.mark.parametrize("path", list_front_ends(), ids=lambda path: "/".join(path.parts[-2:]))
def test_a_front_end_imports_nothing_that_memory_offers(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    assert names & BEHIND_MEMORY == set()
