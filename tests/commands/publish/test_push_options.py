"""Tests of push options, by which GitLab is asked for what its API is not used for."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.commands.publish.landing import list_gitlab_options
from tests.project import Project
from tests.remote import UPDATE, Publisher, Remote, make_remote
from tests.servers import json_answer, serve

JOB = {"GITLAB_CI": "true", "CI_PROJECT_ID": "42", "CI_JOB_TOKEN": "of-the-job"}


@pytest.fixture
def remote(project: Project, tmp_path: Path) -> Remote:
    return make_remote(project, tmp_path / "shop.git")


def read_options(noted: Path) -> list[str]:
    return noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []


def test_without_a_token_for_the_api_the_push_asks_for_the_merge_request(
    project: Project, remote: Remote
) -> None:
    noted = remote.note_options()
    published = Publisher(project, JOB)("pr")
    options = read_options(noted)
    assert {line.partition(" ")[0] for line in options} == {f"refs/heads/{UPDATE}"}
    assert [
        line.split()[1].partition("=")[0].removeprefix("merge_request.") for line in options
    ] == [
        "create",
        "target",
        "title",
        "description",
    ]
    assert options[1].endswith("merge_request.target=main")
    assert "with the push" in published.reason
    Publisher(project, JOB)("pr")
    assert read_options(noted) == options, "a second run pushes nothing and asks for nothing"


def test_with_a_token_for_the_api_nothing_is_asked_twice(project: Project, remote: Remote) -> None:
    noted = remote.note_options()
    with serve(
        lambda request: json_answer([] if request.method == "GET" else {"iid": 3, "web_url": "u"})
    ) as server:
        environ = {**JOB, "GITLAB_TOKEN": "of-the-project", "CI_API_V4_URL": server.url}
        assert Publisher(project, environ)("pr").url == "u"
    assert read_options(noted) == []


def test_a_push_to_the_default_branch_starts_no_pipeline(project: Project, remote: Remote) -> None:
    noted = remote.note_options()
    assert Publisher(project, JOB)("push").mode == "push"
    assert read_options(noted) == ["refs/heads/main ci.skip"]


def test_a_remote_that_takes_no_options_gets_the_push_without(
    project: Project, remote: Remote
) -> None:
    published = Publisher(project, JOB)("push")
    assert (published.tries, remote.sha("main")) == (1, published.tip)


def test_outside_of_gitlab_no_push_option_is_sent(project: Project, remote: Remote) -> None:
    noted = remote.note_options()
    assert "by hand" in Publisher(project)("pr").reason
    Publisher(project)("push")
    assert read_options(noted) == []


def test_an_option_is_one_line() -> None:
    assert [option for option in list_gitlab_options(JOB, "main") if not option.isprintable()] == []
