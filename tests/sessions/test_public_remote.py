"""Tests of public remotes: captured sessions are not pushed where strangers can read, unless configured."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from memory_ci.gitrepo.sessionrefs import store
from memory_ci.sessions.active_session import push_sessions
from memory_ci.sessions.public_remote import Audience, find_audience
from tests.project import NOW, Project
from tests.servers import Answer, HttpRequest, serve

OPEN = b"001e# service=git-upload-pack\n0000" + b"0000"


def answer(status: int) -> Answer:
    kind = {"content-type": "application/x-git-upload-pack-advertisement"}
    if status == 401:
        return Answer(401, b"", {"www-authenticate": "Basic realm=git"})
    return Answer(status, OPEN if status == 200 else b"", kind)


@pytest.mark.parametrize(
    ("status", "readers"), [(200, "anybody"), (401, "members"), (404, "members"), (500, "unknown")]
)
def test_the_visibility_of_a_remote_is_requested_without_credentials(
    project: Project, status: int, readers: str
) -> None:
    project.git("config", "http.extraHeader", "Authorization: Basic c2VjcmV0")
    project.git("config", "credential.helper", "!echo username=me; echo password=pw; :")

    def handle(request: HttpRequest) -> Answer:
        assert "authorization" not in request.headers
        return answer(status)

    with serve(handle) as server:
        project.git("remote", "add", "origin", f"{server.url}/a/b.git")
        assert find_audience(project.workspace, "origin", {}, NOW) == Audience(
            readers,  # type: ignore[arg-type] # parametrised
            was_server_asked=True,
        )
        request_count = len(server.requests)
        assert find_audience(project.workspace, "origin", {}, NOW) == Audience(readers)  # type: ignore[arg-type] # parametrised
        assert len(server.requests) == request_count
        find_audience(project.workspace, "origin", {}, NOW + timedelta(days=2))
        assert len(server.requests) > request_count


def test_sessions_are_not_pushed_to_a_public_remote(project: Project) -> None:
    store(project.workspace.repo, "codex", "s1", {"digest.jsonl": b"{}\n"}, NOW)
    with serve(lambda request: answer(200)) as server:
        project.git("remote", "add", "origin", f"{server.url}/a/b.git")
        assert "1 session kept here: origin answers anybody" in push_sessions(
            project.workspace, "origin", {}, NOW
        )
        assert push_sessions(project.workspace, "origin", {}, NOW) == ""
        assert not [request for request in server.requests if "receive-pack" in request.target]


def test_a_local_directory_is_private_and_the_setting_false_pushes_nothing(
    project: Project, tmp_path: Path
) -> None:
    store(project.workspace.repo, "codex", "s1", {"digest.jsonl": b"{}\n"}, NOW)
    project.git("remote", "add", "origin", str(project.bare(tmp_path / "bare").path))
    project.commit("Configure", {".memory-ci.yaml": "sessions: {push: false}\n"})
    assert push_sessions(project.workspace, "origin", {}, NOW) == ""
    project.commit("Configure", {".memory-ci.yaml": "sessions: {}\n"})
    assert (
        push_sessions(project.workspace, "origin", {}, NOW)
        == "1 session sent to origin (refs/memory-ci/sessions/)"
    )


@pytest.mark.parametrize(("is_private", "readers"), [(True, "members"), (False, "anybody")])
def test_the_variables_of_a_job_state_the_visibility(
    project: Project, tmp_path: Path, is_private: bool, readers: str
) -> None:
    project.git("remote", "add", "origin", "https://github.invalid/acme/shop")
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"repository": {"private": is_private}}))
    environ = {"GITHUB_REPOSITORY": "acme/shop", "GITHUB_EVENT_PATH": str(event)}
    assert find_audience(project.workspace, "origin", environ, NOW).readers == readers
    variables = {
        "CI_PROJECT_PATH": "acme/shop",
        "CI_PROJECT_VISIBILITY": "private" if is_private else "public",
    }
    assert find_audience(project.workspace, "origin", variables, NOW).readers == readers
