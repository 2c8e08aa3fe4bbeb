"""The API: what a script does with memory-ci, without its command line."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from memory_ci import Memory, MemoryCIError
from tests.project import Project

pytestmark = pytest.mark.in_project

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ["open", "retrieve", "record", "check"])
def test_the_examples_of_the_api_hold(name: str, project: Project) -> None:
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


def test_record_applies_its_plan_when_asked_to(project: Project) -> None:
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
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project.path, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


def test_the_script_of_the_page_runs(project: Project) -> None:
    Memory.open(project.path).record(dry_run=False)
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    script = page.partition("```python\n")[2].partition("```")[0]
    clones = (str(project.path), str(project.path / "nowhere"))
    done = subprocess.run(
        [sys.executable, "-c", script, "charge a card", *clones],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1].split() == ["2", str(project.path)]
    assert "nowhere" in done.stderr
