"""Tests of the JSON line at the end of `ci`, and of the span that is sent to a collector."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from tests.command_line import Run
from tests.project import Project, copy_project
from tests.repos import RepoBuilder
from tests.servers import Answer, json_answer, serve

pytestmark = pytest.mark.in_project

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "run-line.schema.json").read_text("utf-8")
)


def read_line(result: Result) -> dict[str, Any]:
    """Return the JSON line of a run, which fits the schema."""
    (text,) = (line for line in result.stdout.splitlines() if line.startswith("{"))
    line: dict[str, Any] = json.loads(text)
    jsonschema.validate(line, SCHEMA)
    return line


def test_the_line_counts_learned_entries_and_no_waiting_ones(project: Project, run: Run) -> None:
    project.git("remote", "add", "origin", "https://ada:secret@git.example.com/acme/shop.git")
    line = read_line(run("ci", "--provider", "none"))
    assert (line["repository"], line["job"], line["state"], line["learned"]) == (
        "acme/shop",
        "record",
        "done",
        2,
    )
    assert (line["lag"], line["cost_usd"], line["request"]) == (
        {"changes": 0, "days": 0},
        0.0,
        None,
    )
    assert "secret" not in json.dumps(line)


def test_served_and_used_entries_of_work_are_counted(project: Project, run: Run) -> None:
    run("ci", "--provider", "none")
    first, second = (entry.id for entry in project.entries())
    told_text = f"Memory-Retrieved: {first}, {second}\nMemory-Used: {first}"
    project.merge_work(f"Use it\n\n{told_text}", "use", 129)
    assert read_line(run("ci", "--provider", "none"))["served"] == {
        "changes": 1,
        "served": 2,
        "used": 1,
    }


def test_findings_are_counted(project: Project, run: Run) -> None:
    project.branch("broken")
    project.commit("Break", {"MEMORY.md": "---\nid: [\n---\n## Broken\n"})
    result = run("ci", "--provider", "none")
    line = read_line(result)
    assert (result.exit_code, line["job"], line["state"]) == (1, "verify", "findings")
    assert line["findings"] >= 1


def test_a_run_that_a_model_stops_leaves_a_lag(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_CI_ENGINE_COMMAND", "false")
    line = read_line(run("ci", "--provider", "none", "--engine", "command"))
    assert line["state"] == "stopped"
    assert line["reason"].endswith("]")
    assert line["lag"]["changes"] == 1


def test_a_run_that_is_not_due_waits(project: Project, run: Run, tmp_path: Path) -> None:
    project.commit("Weekly", {".memory-ci.yaml": "publish: {mode: push, every: week}\n"})
    project.git("clone", "-q", "--bare", ".", str(tmp_path / "remote.git"))
    project.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    run("ci", "--provider", "none")
    project.merge_work(
        "More\n\nDecision: one clerk a drawer rather than two, because one counts.", "more", 130
    )
    project.git("push", "-q", "origin", "main", "--force")
    line = read_line(run("ci", "--provider", "none"))
    assert (line["state"], line["lag"]["changes"]) == ("waiting", 1)
    assert line["reason"].startswith("publish.every: week: next on ")


def test_an_error_ends_in_a_line_as_well(project: Project, run: Run) -> None:
    result = run("ci", "--provider", "none", "--push", "push")
    line = read_line(result)
    assert (result.exit_code, line["state"]) == (4, "failed")
    assert line["reason"] == "there is no remote 'origin' to publish to [no-remote]"


def test_no_line_of_a_job_is_a_command(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = run("ci", "--provider", "none", "--push", "push")
    assert "##[" not in result.stdout
    assert not any(line.startswith("::") for line in result.stdout.splitlines())


def break_configuration(repo: RepoBuilder) -> None:
    repo.commit("Break", {".memory-ci.yaml": "publish: {mode: nowhere}\n"})


def break_remote(repo: RepoBuilder) -> None:
    repo.git("remote", "set-url", "origin", "/nowhere.git")


def ask_a_model(repo: RepoBuilder) -> None:
    repo.commit("Ask", {".memory-ci.yaml": "engine: {name: command}\n"})
    repo.commit("Go on")


@pytest.mark.parametrize("harm", [break_configuration, break_remote, ask_a_model])
def test_the_lines_of_repositories_name_the_stopped_one(
    project: Project,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harm: Callable[[RepoBuilder], None],
) -> None:
    monkeypatch.setenv("MEMORY_CI_ENGINE_COMMAND", "false")
    stopped = []
    for number in range(2):
        repo = copy_project(project, tmp_path / f"repo-{number}")
        repo.git("clone", "-q", "--bare", ".", str(tmp_path / f"{number}.git"))
        repo.git("remote", "add", "origin", str(tmp_path / f"{number}.git"))
        if number == 1:
            harm(repo)
        monkeypatch.chdir(repo.path)
        line = read_line(
            run(
                "ci", "--provider", "none", "--push", "none" if harm is not break_remote else "push"
            )
        )
        stopped += [number] if line["state"] in ("stopped", "failed") else []
    assert stopped == [1]


def test_a_collector_is_sent_a_span(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    requests: list[ExportTraceServiceRequest] = []

    def answer(request: Any) -> Answer:
        requests.append(ExportTraceServiceRequest.FromString(request.body))
        return json_answer({})

    with serve(answer) as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        result = run("ci", "--provider", "none")
    assert result.exit_code == 0, result.stderr
    (span,) = requests[0].resource_spans[0].scope_spans[0].spans
    attributes = {attribute.key: attribute.value for attribute in span.attributes}
    assert (span.name, attributes["memory_ci.state"].string_value) == ("memory-ci ci", "done")
    assert attributes["memory_ci.learned"].int_value == 2
