"""memory-ci record --backfill, as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.command_line import Run
from tests.commands.record.batching import Batching, serve_batches
from tests.project import Project

pytestmark = pytest.mark.in_project

pytest.importorskip("anthropic")


@pytest.fixture
def batching(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Batching]:
    with serve_batches(project) as found:
        for name, value in found.environ.items():
            monkeypatch.setenv(name, value)
        yield found


def test_a_backfill_submits_then_waits_then_records(
    project: Project, batching: Batching, run: Run
) -> None:
    would = run("record", "--backfill", "--dry-run").stdout
    assert would.startswith("Would submit 4 requests (batches: 1), about ")
    first = run("record", "--backfill")
    assert (first.exit_code, first.stdout) == (
        0,
        would.replace("Would submit", "Submitted").rstrip("\n")
        + " Run again to collect the answers.\n",
    )
    later = run("record", "--backfill")
    assert (
        later.stdout
        == "Submitted 4 requests (batches: 1, ended: 0). Run again to collect the answers.\n"
    )
    assert (
        json.loads(run("record", "--backfill", "--json").stdout)["backfill"]["status"]
        == "processing"
    )
    batching.end()
    last = run("record", "--backfill")
    assert last.exit_code == 0
    assert "Committed on main" in last.stdout
    assert "Lock the till" in project.titles()
    assert not batching.path.exists()


def test_waiting_shows_progress_on_stderr(
    batching: Batching, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "memory_ci.commands.record.command.time.sleep", lambda seconds: batching.end()
    )
    done = run("record", "--backfill", "--wait")
    assert done.stderr == "Batches: 1, ended: 0\n"
    assert "Committed on main" in done.stdout


def test_a_dry_run_over_answers_that_are_there_commits_nothing(
    project: Project, batching: Batching, run: Run
) -> None:
    run("record", "--backfill")
    batching.end()
    before = project.sha()
    assert "Wait for the ledger" in run("record", "--backfill", "--dry-run").stdout
    assert (project.sha(), batching.path.exists()) == (before, True)


def test_a_backfill_without_a_model_says_what_to_do(project: Project, run: Run) -> None:
    refused = run("record", "--backfill")
    assert refused.exit_code == 2
    assert "[no-batches]" in refused.stderr
    assert "Set ANTHROPIC_API_KEY" in refused.stderr


def test_waiting_is_for_a_backfill(project: Project, run: Run) -> None:
    assert run("record", "--wait").exit_code == 2
