"""Tests of doctor's checks of CI workflows and of the forge."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.doctor.diagnosed_projects import one
from tests.project import Project
from tests.servers import Answer, json_answer, serve

# -- CI


ROOT = Path(__file__).parents[3]

USES = "jobs:\n  memory:\n    uses: {owner}/memory-ci/.github/workflows/memory.yml@{ref}\n"


@pytest.mark.parametrize(
    ("owner", "ref", "state", "words"),
    [
        ("acme", "v1", "ok", "runs memory-ci at v1"),
        ("acme", "a" * 40, "ok", "runs memory-ci"),
        ("OWNER", "v1", "fail", "placeholder OWNER"),
        ("acme", "main", "warn", "follows main, which moves"),
        ("acme", "v0.0.9", "warn", "uses memory-ci v0.0.9"),
    ],
)
def test_the_version_in_a_workflow_is_judged(
    healthy: Project, owner: str, ref: str, state: str, words: str
) -> None:
    healthy.write(".github/workflows/memory.yml", USES.format(owner=owner, ref=ref))
    probe = one(healthy, "ci")
    assert probe.state == state
    assert words in probe.message


@pytest.mark.parametrize(
    ("triggers", "state"),
    [
        ("  workflow_call:\n    inputs: {}\n", "skip"),
        ("  push:\n  workflow_call:\n", "fail"),
        ("  push:\n", "fail"),
    ],
)
def test_a_placeholder_is_no_fault_where_only_another_workflow_calls(
    healthy: Project, triggers: str, state: str
) -> None:
    healthy.write(
        ".github/workflows/memory.yml", f"on:\n{triggers}\n{USES.format(owner='OWNER', ref='v1')}"
    )
    probe = one(healthy, "ci")
    assert probe.state == state
    assert "OWNER" in probe.remedy


def test_nothing_is_broken_in_the_repository_of_memory_ci_itself(healthy: Project) -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        healthy.write(f".github/workflows/{path.name}", path.read_text("utf-8"))
    healthy.git("remote", "add", "origin", "git@github.com:acme/memory-ci.git")
    assert one(healthy, "ci").state == "skip"


def test_a_workflow_that_only_mentions_memory_ci_does_not_count(healthy: Project) -> None:
    healthy.git("remote", "add", "origin", "git@github.com:acme/shop.git")
    healthy.write(
        ".github/workflows/ci.yml",
        "# memory-ci ci\n" + USES.format(owner="#", ref="v1").replace("uses", "# uses"),
    )
    assert one(healthy, "ci").state == "warn"
    healthy.write(".gitlab-ci.yml", "memory:\n  script:\n    - memory-ci ci --provider gitlab\n")
    assert one(healthy, "ci").message == ".gitlab-ci.yml runs memory-ci"


@pytest.mark.parametrize(
    ("remote", "state"),
    [
        ("git@github.com:acme/shop.git", "warn"),
        ("https://ann:word@gitlab.example.com/acme/shop", "warn"),
        ("ssh://git@github.example.com:22/shop", "warn"),
        ("../github/shop.git", "skip"),
        ("/srv/gitlab/shop.git", "skip"),
        ("ann@git.example.com:gitlab/shop", "skip"),
        ("https://github@git.example.com/shop", "skip"),
    ],
)
def test_a_remote_of_an_unknown_forge_gets_the_advice_for_any_ci(
    project: Project, remote: str, state: str
) -> None:
    project.git("remote", "add", "origin", remote)
    probe = one(project, "ci")
    assert (probe.state, "memory-ci ci --provider none" in probe.remedy) == (state, state == "skip")


def test_where_a_workflow_runs_something_else_a_job_of_memory_ci_is_missing(
    project: Project,
) -> None:
    project.git("remote", "add", "origin", "ann@git.example.com:shop")
    project.write(".gitlab-ci.yml", "test:\n  script:\n    - make\n")
    assert one(project, "ci").state == "warn"


# -- the forge


GITHUB = {"GITHUB_REPOSITORY": "acme/shop", "GITHUB_TOKEN": "t0ken"}


def test_the_forge_is_asked_only_online(healthy: Project) -> None:
    with serve(lambda request: json_answer([])) as server:
        environ = GITHUB | {"GITHUB_API_URL": server.url}
        assert one(healthy, "forge", environ).state == "ok"
        assert server.requests == []
        assert one(healthy, "forge", environ, is_online=True).message.endswith("; it answers")
        assert len(server.requests) == 1


def test_a_token_that_the_forge_refuses_is_a_failure(healthy: Project) -> None:
    with serve(lambda request: Answer(401)) as server:
        probe = one(healthy, "forge", GITHUB | {"GITHUB_API_URL": server.url}, is_online=True)
    assert (probe.state, "[forge-unauthorised]" in probe.message) == ("fail", True)


def test_a_missing_token_is_reported_in_a_job_only(healthy: Project) -> None:
    assert one(healthy, "forge", {"CI": "true"}).state == "warn"
    assert one(healthy, "forge", {}).state == "skip"
