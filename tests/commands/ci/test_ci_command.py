"""Tests of `memory-ci ci` and `verify` on a runner: output, files for later steps, exit status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Run
from tests.integration.runner import read_outputs
from tests.project import Project
from tests.repos import RepoBuilder
from tests.servers import Answer, json_answer, serve

pytestmark = pytest.mark.in_project

REPOSITORY = {"full_name": "acme/shop", "default_branch": "main", "fork": False}
BROKEN = "---\nid: 1\ntype: oops\n---\n## Broken\n"


class Runner:
    """The variables and files that a GitHub runner gives to a step."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch) -> None:
        self.outputs_file, self.summary_file = place / "outputs", place / "summary.md"
        self._event, self._patch = place / "event.json", patch

    def start(self, name: str, ref: str = "refs/heads/main", **event: Any) -> None:
        self._event.write_text(json.dumps({"repository": REPOSITORY, **event}), encoding="utf-8")
        variables = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": name,
            "GITHUB_EVENT_PATH": str(self._event),
            "GITHUB_REF": ref,
            "GITHUB_OUTPUT": str(self.outputs_file),
            "GITHUB_STEP_SUMMARY": str(self.summary_file),
        }
        for key, value in variables.items():
            self._patch.setenv(key, value)

    @property
    def outputs(self) -> dict[str, str]:
        return read_outputs(self.outputs_file.read_text(encoding="utf-8"))


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(tmp_path, monkeypatch)


@pytest.fixture
def remote(project: Project, tmp_path: Path) -> RepoBuilder:
    """Add a bare repository as `origin` of the project, and return it."""
    bare = RepoBuilder(tmp_path / "remote.git", project.clock)
    project.git("clone", "-q", "--bare", ".", str(bare.path))
    project.git("remote", "add", "origin", str(bare.path))
    return bare


def make_request(project: Project) -> dict[str, Any]:
    side = {"sha": project.sha("main"), "repo": REPOSITORY}
    return {"base": side, "head": {"sha": project.sha(), "repo": {"full_name": "mallory/shop"}}}


def test_a_push_is_recorded_and_the_job_gets_outputs(
    project: Project, runner: Runner, run: Run
) -> None:
    before = project.sha()
    runner.start("push")
    result = run("ci")
    assert result.exit_code == 0, result.stderr
    assert project.subjects(before) == ["memory: extract 2 learnings from #128"]
    output = runner.outputs
    assert (output["job"], output["learned"], output["commits"], output["tip"]) == (
        "record",
        "2",
        "1",
        project.sha(),
    )
    assert output["index-key"].startswith("memory-ci-index-v")
    page = runner.summary_file.read_text(encoding="utf-8")
    assert "## Memory: 2 learnings" in page
    assert "key `memory-ci-index-v" in page
    token = result.stdout.splitlines()[0].removeprefix("::stop-commands::")
    assert result.stdout.splitlines()[-2] == f"::{token}::"


def test_running_again_changes_nothing(project: Project, runner: Runner, run: Run) -> None:
    runner.start("push")
    run("ci")
    tip = project.sha()
    assert run("ci").exit_code == 0
    assert project.sha() == tip


def test_recorded_commits_are_pushed_on_request(
    project: Project, remote: RepoBuilder, runner: Runner, run: Run
) -> None:
    runner.start("workflow_dispatch")
    result = run("ci", "--push", "push")
    assert result.exit_code == 0, result.stderr
    assert remote.git("log", "-1", "--format=%s", "main") == "memory: extract 2 learnings from #128"
    assert runner.outputs["tip"] == remote.sha("main")


def test_a_run_that_its_own_push_started_has_nothing_to_do(
    project: Project, remote: RepoBuilder, runner: Runner, run: Run
) -> None:
    runner.start("push")
    run("ci", "--push", "push")
    tip = remote.sha("main")
    result = run("ci", "--push", "push")
    assert result.exit_code == 0, result.stderr
    assert "nothing to do" in result.stdout
    assert remote.sha("main") == tip
    assert runner.outputs["commits"] == "0"


def test_a_pipeline_of_gitlab_records_and_obeys_no_workflow_command(
    project: Project, remote: RepoBuilder, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = {
        "CI_COMMIT_BRANCH": "main",
        "CI_DEFAULT_BRANCH": "main",
        "CI_PIPELINE_SOURCE": "schedule",
    }
    for name, value in {"GITLAB_CI": "true", **branch}.items():
        monkeypatch.setenv(name, value)
    project.git("checkout", "-q", "--detach")
    result = run("ci", "--push", "push")
    assert result.exit_code == 0, result.stderr
    assert "::" not in result.stdout
    assert remote.git("log", "-1", "--format=%s", "main") == "memory: extract 2 learnings from #128"


def test_one_job_extracts_and_another_applies(
    project: Project, remote: RepoBuilder, runner: Runner, run: Run, tmp_path: Path
) -> None:
    runner.start("schedule")
    plan, before = tmp_path / "plan.json", remote.sha("main")
    assert run("ci", "--extract", str(plan)).exit_code == 0
    assert (project.sha(), remote.sha("main")) == (before, before)
    assert runner.outputs["learned"] == "2"
    assert run("ci", "--apply", str(plan), "--push", "push").exit_code == 0
    assert remote.git("log", "-1", "--format=%s", "main") == "memory: extract 2 learnings from #128"


def test_a_plan_is_applied_where_others_pushed_other_work_meanwhile(
    project: Project, remote: RepoBuilder, runner: Runner, run: Run, tmp_path: Path
) -> None:
    runner.start("push")
    plan = tmp_path / "plan.json"
    run("ci", "--extract", str(plan))
    project.commit("Work", {"src/other.py": "x\n"})
    project.git("push", "-q", "origin", "main")
    result = run("ci", "--apply", str(plan), "--push", "push")
    assert result.exit_code == 0, result.stderr
    assert remote.git("log", "-2", "--format=%s", "main").splitlines() == [
        "memory: extract 2 learnings from #128", "Work"
    ]  # fmt: skip


def test_a_plan_that_fits_no_more_is_refused_as_a_whole(
    project: Project, remote: RepoBuilder, runner: Runner, run: Run, tmp_path: Path
) -> None:
    runner.start("push")
    plan = tmp_path / "plan.json"
    run("ci", "--extract", str(plan))
    project.commit("Settings", {".memory-ci.yaml": "episodes: {write: false}\n"})
    project.git("push", "-q", "origin", "main")
    result = run("ci", "--apply", str(plan), "--push", "push")
    assert (result.exit_code, "[ref-moved]" in result.stderr) == (4, True)
    assert "the next run takes the range again" in result.stderr
    assert remote.sha("main") == project.sha()


@pytest.mark.parametrize("mode", ["push", "pr", "none"])
def test_a_plan_whose_range_another_run_covered_is_nothing_to_do(
    project: Project, remote: RepoBuilder, runner: Runner, run: Run, tmp_path: Path, mode: str
) -> None:
    runner.start("push")
    plan = tmp_path / "plan.json"
    run("ci", "--extract", str(plan))
    run("ci", "--push", "push")
    tip = remote.sha("main")
    runner.start("schedule")
    result = run("ci", "--apply", str(plan), "--push", mode)
    assert (result.exit_code, "nothing to do" in result.stdout) == (0, True), result.stderr
    assert (remote.sha("main"), runner.outputs["commits"]) == (tip, "0")


def test_a_dry_run_lists_the_commits_that_it_would_make(
    project: Project, runner: Runner, run: Run
) -> None:
    before = project.sha()
    runner.start("push")
    result = run("ci", "--dry-run")
    assert "memory: extract 2 learnings from #128" in result.stdout
    assert project.sha() == before
    assert runner.outputs["tip"] == ""


def test_a_pull_request_of_a_fork_is_verified_and_annotated(
    project: Project, runner: Runner, run: Run
) -> None:
    project.branch("topic")
    project.commit("Break", {"MEMORY.md": BROKEN})
    runner.start("pull_request", "refs/pull/7/merge", pull_request=make_request(project))
    result = run("ci")
    assert result.exit_code == 1
    assert "::error file=MEMORY.md,line=1,title=fork-memory::" in result.stdout
    assert runner.outputs["job"] == "verify"
    assert int(runner.outputs["findings"]) >= 2
    assert "fork\\-memory" in runner.summary_file.read_text(encoding="utf-8")


def test_another_branch_is_left_alone(project: Project, runner: Runner, run: Run) -> None:
    before = project.git("for-each-ref")
    runner.start("push", "refs/heads/topic")
    result = run("ci")
    assert result.exit_code == 0
    assert "recorded on the default branch" in result.stderr
    assert project.git("for-each-ref") == before
    assert not runner.summary_file.exists()


def test_an_event_with_secrets_for_strangers_is_refused(
    project: Project, runner: Runner, run: Run
) -> None:
    before = project.git("for-each-ref")
    runner.start("pull_request_target", pull_request=make_request(project))
    result = run("ci")
    assert (result.exit_code, "[event-refused]" in result.stderr) == (2, True)
    assert project.git("for-each-ref") == before


def test_without_a_forge_the_default_branch_is_recorded_and_others_are_verified(
    project: Project, run: Run, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    assert run("ci", "--provider", "none", "--summary", str(page)).exit_code == 0
    assert "## Memory: 2 learnings" in page.read_text(encoding="utf-8")
    project.branch("topic")
    project.commit("Break", {"MEMORY.md": BROKEN})
    result = run("ci", "--provider", "none")
    assert result.exit_code == 1
    assert "MEMORY.md:1: " in result.stdout
    assert "::" not in result.stdout


def test_making_a_plan_and_performing_one_exclude_each_other(project: Project, run: Run) -> None:
    project.write("plan.json", "{}")
    assert run("ci", "--extract", "a.json", "--apply", "plan.json").exit_code == 2


def test_verify_prints_lines_annotations_or_json(project: Project, run: Run) -> None:
    project.branch("topic")
    project.commit("Break", {"MEMORY.md": BROKEN})
    lines = run("verify")
    assert lines.exit_code == 1
    assert lines.stdout.startswith("MEMORY.md:")
    assert "error" in lines.stderr
    assert "::error file=MEMORY.md" in run("verify", "--format", "github").stdout
    printed = json.loads(
        run("verify", "--base", "main", "--head", "topic", "--format", "json").stdout
    )
    assert printed["ok"] is False
    assert run("verify", "--head", "main").exit_code == 0


def test_record_writes_the_same_page_where_it_is_asked_to(project: Project, run: Run) -> None:
    assert run("record", "--summary", "page.md").exit_code == 0
    page = (project.path / "page.md").read_text(encoding="utf-8")
    assert page.startswith("## Memory: 2 learnings\n")
    assert "- memory\\: extract 2 learnings" in page


FORGE = {
    "a wrong token": (json_answer({"message": "Bad credentials"}, 401), 5),
    "a right that is missing": (
        json_answer({"message": "Resource not accessible by integration"}, 403),
        5,
    ),
    "a bad answer": (Answer(200, b"<html>Sign in</html>"), 5),
    "out of order": (Answer(503), 0),
}


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Answer]]:
    """Return a forge that gives the same answer to each request."""
    answers: list[Answer] = []
    monkeypatch.setattr("memory_ci.forge.rest.PAUSES", ())
    with serve(lambda request: answers[0]) as server:
        for name, value in {
            "REPOSITORY": "acme/shop",
            "TOKEN": "t" * 40,
            "API_URL": server.url,
        }.items():
            monkeypatch.setenv(f"GITHUB_{name}", value)
        yield answers


@pytest.mark.parametrize("case", FORGE)
def test_a_run_that_the_forge_stopped_says_so_and_ends_red_where_that_lasts(
    project: Project,
    runner: Runner,
    run: Run,
    forge: list[Answer],
    case: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer, status = FORGE[case]
    forge.append(answer)
    merged_at = project.clock.now
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(merged_at.timestamp()) + 600))
    runner.start("push")
    first = run("ci")
    assert first.exit_code == status, first.stderr
    assert "::warning title=memory stopped::" in first.stdout
    assert runner.summary_file.read_text(encoding="utf-8").startswith(
        "## Memory: the run stopped, nothing new\n"
    )
    project.merge_work("More", "more", 129)
    assert "::error title=memory stopped::" in run("ci").stdout, "two merges wait"


def test_work_that_waits_for_more_than_a_day_has_seen_more_than_one_run(
    project: Project, runner: Runner, run: Run, forge: list[Answer]
) -> None:
    forge.append(Answer(503))
    runner.start("schedule")
    assert "::error title=memory stopped::" in run("ci").stdout


def test_of_two_jobs_the_one_that_applies_the_plan_fails(
    project: Project, runner: Runner, run: Run, forge: list[Answer], tmp_path: Path
) -> None:
    forge.append(Answer(401))
    runner.start("push")
    extracted = run("ci", "--extract", str(tmp_path / "plan.json"))
    assert (extracted.exit_code, "title=memory stopped" in extracted.stdout) == (0, True)
    assert run("ci", "--apply", str(tmp_path / "plan.json")).exit_code == 5
