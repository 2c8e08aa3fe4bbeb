"""Tests of the comment of a verifying job: once, on the request that changes cited code, and marked as done later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from memory_ci.commands.ci.comment import MARKER, NO_LONGER_CITED_COMMENT
from memory_ci.commands.ci.event import CiJob
from memory_ci.commands.ci.job import CiOptions, run_ci
from memory_ci.commands.ci.outputs import list_outputs
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import NOW, Project
from tests.remote import GitHubDouble, make_remote
from tests.servers import HttpRequest, Server, json_answer, serve

TITLE = "Ask @ada, see https://evil.example and <b>#12</b>"


@pytest.fixture
def request_of(project: Project) -> CiJob:
    """Make a branch from a base that has an entry which cites code of it."""
    project.commit("Write", {"src/shop.py": "def pay():\n    one()\n\n\ndef ship():\n    two()\n"})
    entry = make_entry(1, title=TITLE, cites=(f"src/shop.py:1-2@{project.sha()[:12]}",))
    base = project.commit("Remember", {"MEMORY.md": format_entry(entry)})
    project.branch("topic")
    return CiJob("verify", "a pull request", base=base, number=7)


@pytest.fixture
def double(project: Project, tmp_path: Path) -> GitHubDouble:
    return GitHubDouble(make_remote(project, tmp_path / "remote.git"), tmp_path / "scratch")


@pytest.fixture
def server(double: GitHubDouble) -> Iterator[Server]:
    with serve(double) as running:
        yield running


def edit(project: Project, text: str) -> str:
    return project.commit(
        "Edit", {"src/shop.py": f"def pay():\n    {text}\n\n\ndef ship():\n    two()\n"}
    )


def verify(
    project: Project, job: CiJob, double: GitHubDouble, server: Server, *, dry_run: bool = False
) -> str:
    options, environ = CiOptions(dry_run=dry_run), double.environ(server.url)
    run = run_ci(project.workspace, job, options, now=NOW, environ=environ)
    assert run.exit_code == 0
    return " ".join(run.remarks)


def test_a_request_that_edits_cited_code_has_one_comment_that_is_kept_up_to_date(
    project: Project, request_of: CiJob, double: GitHubDouble, server: Server
) -> None:
    first = edit(project, "other()")
    assert verify(project, request_of, double, server) == "commented on the request"
    (comment,) = double.comments
    assert comment["body"].startswith(
        f"{MARKER}\n## This change edits code that entries of memory cite\n"
    )
    assert (first[:7] in comment["body"], make_id(1)[:8] in comment["body"]) == (True, True)
    assert verify(project, request_of, double, server) == "", "it says that already"
    second = edit(project, "another()")
    assert verify(project, request_of, double, server) == "the comment on the request is up to date"
    (comment,) = double.comments
    assert (first[:7] in comment["body"], second[:7] in comment["body"]) == (False, True)
    edit(project, "one()")
    verify(project, request_of, double, server)
    assert [each_comment["body"] for each_comment in double.comments] == [NO_LONGER_CITED_COMMENT]
    assert [request.method for request in server.requests].count("POST") == 1


def test_text_of_an_entry_makes_no_link_mention_or_markup(
    project: Project, request_of: CiJob, double: GitHubDouble, server: Server
) -> None:
    edit(project, "other()")
    verify(project, request_of, double, server)
    (comment,) = double.comments
    assert not any(word in comment["body"] for word in ("@ada", "https://", "<b>", "#12"))


def test_a_request_that_touches_nothing_a_fork_and_a_dry_run_have_no_comment(
    project: Project, request_of: CiJob, double: GitHubDouble, server: Server
) -> None:
    assert verify(project, request_of, double, server) == ""
    edit(project, "other()")
    assert verify(project, replace(request_of, is_fork=True), double, server) == ""
    assert verify(project, request_of, double, server, dry_run=True) == ""
    assert verify(project, replace(request_of, number=None), double, server) == ""
    assert double.comments == []


def test_the_base_says_whether_there_is_a_comment(
    project: Project, request_of: CiJob, double: GitHubDouble, server: Server
) -> None:
    edit(project, "other()")
    project.commit("Quiet", {".memory-ci.yaml": "ci: {comment: false}\n"})
    assert verify(project, request_of, double, server) == "commented on the request"
    base = project.sha()
    edit(project, "another()")
    assert verify(project, replace(request_of, base=base), double, server) == ""


def test_a_token_that_may_not_comment_does_not_fail_the_job(
    project: Project, request_of: CiJob, double: GitHubDouble, server: Server
) -> None:
    edit(project, "other()")
    double.refusal = "Resource not accessible by integration"
    assert verify(project, request_of, double, server).startswith("no comment on the request: ")


def test_the_comment_of_a_stranger_is_not_taken_for_ours(
    project: Project, request_of: CiJob, double: GitHubDouble, server: Server
) -> None:
    stranger = {
        "id": 900,
        "body": f"{MARKER}\nAll is well",
        "author_association": "NONE",
        "user": {"type": "User"},
    }
    double.comments.append(dict(stranger))
    edit(project, "other()")
    verify(project, request_of, double, server)
    assert (double.comments[0], len(double.comments)) == (stranger, 2)


def test_on_gitlab_the_note_is_ours_by_who_asks(project: Project, request_of: CiJob) -> None:
    at = "2026-09-01T11:00:00Z"
    notes = [
        {"id": id_, "body": MARKER, "author": {"id": who}, "created_at": at}
        for id_, who in ((1, 5), (2, 9))
    ]
    edit(project, "other()")

    def answer(request: HttpRequest) -> object:
        if request.path == "/user":
            return json_answer({"id": 9})
        return json_answer(notes if request.method == "GET" else {"id": 2, **request.json})

    with serve(answer) as running:  # type: ignore[arg-type] # an Answer each time
        token = "glpat-" + "n0tArealT0ken"
        environ = {"GITLAB_TOKEN": token, "CI_PROJECT_ID": "3", "CI_API_V4_URL": running.url}
        run = run_ci(project.workspace, request_of, CiOptions(), now=NOW, environ=environ)
    assert run.remarks == ("the comment on the request is up to date",)
    (written,) = [request for request in running.requests if request.method != "GET"]
    assert (written.method, written.path) == ("PUT", "/projects/3/merge_requests/7/notes/2")


@pytest.mark.parametrize(
    ("files", "alone"),
    [
        ({"MEMORY.md": "# Memory\n"}, True),
        ({"MEMORY.md": "# Memory\n", "src/shop.py": "x\n"}, False),
        ({}, False),
    ],
)
def test_the_job_says_whether_a_change_touches_memory_alone(
    project: Project, request_of: CiJob, files: dict[str, str], alone: bool
) -> None:
    if files:
        project.commit("Change", dict(files))
    run = run_ci(project.workspace, request_of, CiOptions(dry_run=True), now=NOW, environ={})
    assert list_outputs(run)["memory-only"] == str(alone).lower()


def test_memory_hidden_by_a_merge_commit_does_not_count(
    project: Project, request_of: CiJob
) -> None:
    project.commit("Change", {"MEMORY.md": "# Memory\n"})
    project.git("checkout", "-q", "-b", "side", "HEAD~1")
    project.commit("Beside", {"institutional.md": "# Norms\n"})
    project.git("merge", "-q", "--no-commit", "--no-ff", "topic")
    project.write("src/shop.py", "evil\n")
    project.git("commit", "-q", "-m", "Merge", "src/shop.py", "-i")
    run = run_ci(project.workspace, request_of, CiOptions(dry_run=True), now=NOW, environ={})
    assert list_outputs(run)["memory-only"] == "false"
