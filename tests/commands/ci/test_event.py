"""Tests of CI events: why a job runs, and which actions it may take."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from memory_ci.commands.ci.event import (
    MAX_EVENT_BYTES,
    CiJob,
    CiProvider,
    find_job,
    find_provider,
    github_job,
    gitlab_job,
)
from memory_ci.errors import RepositoryError, UsageError
from tests.project import Project

HERE = {"full_name": "acme/shop", "default_branch": "main", "fork": False}
FORK = {"full_name": "mallory/shop", "default_branch": "main", "fork": True}


def on_github(name: str, ref: str = "refs/heads/main", **event: Any) -> CiJob:
    payload = {"repository": HERE, **event}
    return github_job({"GITHUB_EVENT_NAME": name, "GITHUB_REF": ref}, json.dumps(payload).encode())


def make_request(head: Mapping[str, Any] | None = HERE) -> dict[str, Any]:
    return {"base": {"sha": "b" * 40, "repo": HERE}, "head": {"sha": "c" * 40, "repo": head}}


def test_a_pull_request_is_verified_against_its_base() -> None:
    job = on_github("pull_request", "refs/pull/7/merge", pull_request=make_request())
    assert (job.kind, job.base, job.is_fork) == ("verify", "b" * 40, False)


def test_the_title_of_a_request_is_known_for_checks_of_messages() -> None:
    job = on_github("pull_request", pull_request={**make_request(), "title": "feat: retry"})
    assert job.title == "feat: retry"
    variables = {"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_TITLE": "fix: it"}
    assert gitlab_job(variables).title == "fix: it"


@pytest.mark.parametrize(
    "head", [FORK, None], ids=["another repository", "a repository that is gone"]
)
def test_a_pull_request_from_elsewhere_is_a_forks(head: Mapping[str, Any] | None) -> None:
    assert on_github("pull_request", pull_request=make_request(head)).is_fork


def test_a_merge_group_is_verified_against_its_base() -> None:
    job = on_github(
        "merge_group", "refs/heads/gh-readonly-queue/main/pr-7", merge_group={"base_sha": "d" * 40}
    )
    assert (job.kind, job.base) == ("verify", "d" * 40)


def test_a_schedule_is_of_the_default_branch_though_its_event_does_not_say_so() -> None:
    variables = {"GITHUB_EVENT_NAME": "schedule", "GITHUB_REF": "refs/heads/trunk"}
    assert github_job(variables, b'{"schedule": "17 3 * * 1"}') == CiJob(
        "record", "schedule", branch="trunk"
    )


@pytest.mark.parametrize("name", ["push", "workflow_dispatch"])
def test_the_default_branch_is_recorded_and_no_other(name: str) -> None:
    assert on_github(name).kind == "record"
    assert on_github(name).branch == "main"
    assert on_github(name, "refs/heads/topic").kind == "nothing"
    assert on_github(name, "refs/tags/main").kind == "nothing"
    assert on_github(name, "").kind == "nothing"


def test_a_repository_that_is_a_fork_records_nothing() -> None:
    job = on_github("push", repository=FORK)
    assert job.kind == "nothing"
    assert "fork" in job.reason


@pytest.mark.parametrize(
    "name", ["pull_request_target", "workflow_run", "issue_comment", "pull_request", ""]
)
def test_an_event_that_must_not_be_served_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        on_github(name)
    assert raised.value.slug == "event-refused"


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"repository": 3}', b"\xff"])
def test_an_invalid_event_is_named(data: bytes) -> None:
    with pytest.raises(UsageError) as raised:
        github_job({"GITHUB_EVENT_NAME": "push"}, data)
    assert raised.value.slug == "bad-event"


def test_an_event_that_cannot_be_read_is_named(project: Project, tmp_path: Path) -> None:
    for path in ("", str(tmp_path / "gone.json")):
        with pytest.raises(UsageError) as raised:
            find_job(
                project.workspace,
                "github",
                {"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": path},
            )
        assert raised.value.slug == "bad-event"


def test_neither_a_pipe_nor_a_file_without_end_holds_a_job_up(
    project: Project, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "endless").open("wb") as stream:
        stream.truncate(MAX_EVENT_BYTES + 1)
    for name, reason in {"pipe": "is not a regular file", "endless": "over the limit"}.items():
        variables = {"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": str(tmp_path / name)}
        with pytest.raises(UsageError, match=reason) as raised:
            find_job(project.workspace, "github", variables)
        assert raised.value.slug == "bad-event"


def test_a_merge_request_of_gitlab_is_verified() -> None:
    variables = {
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": "b" * 40,
        "CI_MERGE_REQUEST_PROJECT_ID": "7",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "7",
    }
    assert gitlab_job(variables) == CiJob("verify", "a merge request", base="b" * 40)
    assert gitlab_job(variables | {"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "8"}).is_fork


def test_the_default_branch_of_gitlab_is_recorded_and_no_other() -> None:
    variables = {
        "CI_PIPELINE_SOURCE": "push",
        "CI_COMMIT_BRANCH": "main",
        "CI_DEFAULT_BRANCH": "main",
    }
    assert gitlab_job(variables).kind == "record"
    assert gitlab_job(variables | {"CI_COMMIT_BRANCH": "topic"}).kind == "nothing"
    with pytest.raises(UsageError):
        gitlab_job(variables | {"CI_PIPELINE_SOURCE": "external_pull_request_event"})


def test_without_a_forge_the_branch_that_is_checked_out_decides(project: Project) -> None:
    assert find_job(project.workspace, "none", {}).kind == "record"
    project.branch("topic")
    job = find_job(project.workspace, "none", {})
    assert (job.kind, job.base) == ("verify", "refs/heads/main")
    project.git("branch", "-m", "main", "trunk")
    with pytest.raises(RepositoryError) as raised:
        find_job(project.workspace, "none", {})
    assert raised.value.slug == "no-default-branch"


@pytest.mark.parametrize(
    ("variables", "provider"),
    [
        ({"GITHUB_ACTIONS": "true"}, "github"),
        ({"GITLAB_CI": "true"}, "gitlab"),
        ({"CI": "true"}, "none"),
    ],
)
def test_whose_job_it_is_is_found_by_the_variable_of_each(
    variables: Mapping[str, str], provider: CiProvider
) -> None:
    assert find_provider(variables) == provider
