"""Tests of reading GitLab's REST API (v4): the records of a merge request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_ci.errors import EngineError
from memory_ci.forge.gitlab import GitLab
from memory_ci.records.history import Check, PullRequest
from tests.forge.make import MERGE, SHAS, make_client
from tests.servers import Answer, Handler, by_path, json_answer, serve

ROOT = "/projects/42"
REQUEST = f"{ROOT}/merge_requests/7"
ANN = {"id": 1, "username": "ann", "name": "Ann", "state": "active"}
BOB = {"id": 2, "username": "bob", "name": "Bob", "state": "active"}


def make_request(**fields: Any) -> dict[str, Any]:
    return {
        "id": 9007,
        "iid": 7,
        "project_id": 42,
        "title": "Retry only with a key",
        "description": "A POST was sent twice.",
        "state": "merged",
        "created_at": "2026-09-01T10:00:00.000Z",
        "merged_at": "2026-09-02T12:00:00.000Z",
        "closed_at": None,
        "author": ANN,
        "labels": ["bug"],
        "source_branch": "retry",
        "source_project_id": 42,
        "target_project_id": 42,
        "sha": SHAS[1],
        "merge_commit_sha": MERGE,
        "squash_commit_sha": None,
        **fields,
    }


def make_note(number: int, body: str, **fields: Any) -> dict[str, Any]:
    at = f"2026-09-01T11:{number:02}:00.000Z"
    return {
        "id": number,
        "type": None,
        "body": body,
        "author": BOB,
        "created_at": at,
        "system": False,
        **fields,
    }


EMPTY: Mapping[str, Answer | Handler] = {
    REQUEST: json_answer(make_request()),
    f"{REQUEST}/discussions": json_answer([]),
    f"{REQUEST}/commits": json_answer([]),
    f"{REQUEST}/pipelines": json_answer([]),
    f"{ROOT}/members/all/1": json_answer({**ANN, "access_level": 30}),
    f"{ROOT}/members/all/2": json_answer({**BOB, "access_level": 20}),
}


def read(tmp_path: Path, routes: Mapping[str, Answer | Handler]) -> tuple[PullRequest, list[str]]:
    """Read merge request 7 from a server with these routes; return it and the requested paths."""
    with serve(by_path({**EMPTY, **routes})) as server:
        request = GitLab(make_client(server.url, tmp_path), "42").find_pull_request(7)
    assert request is not None
    return request, server.paths()


def test_a_merge_request_is_read_whole(tmp_path: Path) -> None:
    request, _ = read(tmp_path, {})
    assert request == PullRequest(
        number=7,
        title="Retry only with a key",
        body="A POST was sent twice.",
        author="ann",
        permission="write",
        state="merged",
        created_at=datetime(2026, 9, 1, 10, tzinfo=UTC),
        branch="retry",
        labels=("bug",),
        merged_at=datetime(2026, 9, 2, 12, tzinfo=UTC),
        merge_sha=MERGE,
    )


def test_threads_and_decisions_are_read_and_other_system_notes_are_not(tmp_path: Path) -> None:
    where = {
        "new_path": "src/client.py",
        "old_path": "src/client.py",
        "new_line": 40,
        "old_line": None,
    }
    thread = [
        make_note(1, "This loses the key.", resolvable=True, resolved=True, position=where),
        make_note(2, "Done.", resolvable=True, resolved=True, author=ANN, position=where),
    ]
    system = [
        make_note(3, "requested changes", system=True),
        make_note(4, "added 1 commit", system=True),
    ]
    last = make_note(5, "approved this merge request", system=True)
    discussions = [
        {"id": "a", "notes": thread},
        *({"id": "b", "notes": [note]} for note in [*system, last]),
    ]
    request, paths = read(tmp_path, {f"{REQUEST}/discussions": json_answer(discussions)})
    assert [
        (review.id, review.state, review.in_reply_to, review.is_resolved)
        for review in request.reviews
    ] == [
        ("n1", "commented", "", True),
        ("n2", "commented", "n1", True),
        ("n3", "changes_requested", "", None),
        ("n5", "approved", "", None),
    ]
    assert (request.reviews[0].path, request.reviews[0].line) == ("src/client.py", 40)
    assert [review.permission for review in request.reviews] == ["read", "write", "read", "read"]
    assert len([path for path in paths if "members" in path]) == 2


@pytest.mark.parametrize(
    ("answer", "permission"),
    [
        (json_answer({**ANN, "access_level": 40}), "write"),
        (json_answer({**ANN, "access_level": 10}), "read"),
        (json_answer({"message": "404 Not found"}, 404), "read"),
        (json_answer({"message": "403 Forbidden"}, 403), "unknown"),
        (json_answer({"message": "401 Unauthorized"}, 401), "unknown"),
    ],
)
def test_developers_and_higher_roles_may_write(
    answer: Answer, permission: str, tmp_path: Path
) -> None:
    request, _ = read(tmp_path, {f"{ROOT}/members/all/1": answer})
    assert request.permission == permission
    assert bool(request.problems) == (permission == "unknown")


def test_the_user_of_an_access_token_is_a_bot(tmp_path: Path) -> None:
    bot = {"id": 9, "username": "project_42_bot_3f", "name": "renovate"}
    request, _ = read(tmp_path, {REQUEST: json_answer(make_request(author=bot))})
    assert request.is_bot


def test_a_request_of_another_project_is_a_fork(tmp_path: Path) -> None:
    request, _ = read(
        tmp_path, {REQUEST: json_answer(make_request(source_project_id=99, state="closed"))}
    )
    assert (request.is_fork, request.state, request.merge_sha) == (True, "closed", "")


def test_commits_are_oldest_first_and_jobs_are_their_checks(tmp_path: Path) -> None:
    commits = [
        {"id": SHAS[1], "committed_date": "2026-09-01T11:45:00.000+00:00"},
        {"id": SHAS[0], "committed_date": "2026-09-01T09:00:00.000+00:00"},
    ]
    end_time = {"finished_at": "2026-09-01T12:00:00.000Z"}
    failed = {"name": "test", "status": "failed", "failure_reason": "script_failure", **end_time}
    routes = {
        f"{REQUEST}/commits": json_answer(commits),
        f"{REQUEST}/pipelines": json_answer(
            [{"id": 11, "sha": SHAS[1]}, {"id": 10, "sha": SHAS[0]}]
        ),
        f"{ROOT}/pipelines/10/jobs": json_answer(
            [failed, {"name": "deploy", "status": "manual", "finished_at": None}]
        ),
        f"{ROOT}/pipelines/11/jobs": json_answer(
            [{"name": "test", "status": "success", **end_time}]
        ),
    }
    request, _ = read(tmp_path, routes)
    noon = datetime(2026, 9, 1, 12, tzinfo=UTC)
    assert request.commits == SHAS[:2]
    assert request.last_commit_at == datetime(2026, 9, 1, 11, 45, tzinfo=UTC)
    assert request.checks == (
        Check(name="test", sha=SHAS[0], is_success=False, at=noon, summary="script failure"),
        Check(name="test", sha=SHAS[1], is_success=True, at=noon),
    )


def test_a_part_that_a_job_token_cannot_read_is_a_problem(tmp_path: Path) -> None:
    request, _ = read(
        tmp_path, {f"{REQUEST}/discussions": json_answer({"message": "401 Unauthorized"}, 401)}
    )
    assert request.problems == ("127.0.0.1 does not accept the token",)


def test_a_request_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with (
        serve(by_path({REQUEST: json_answer({}, 403)})) as server,
        pytest.raises(EngineError, match="status 403"),
    ):
        GitLab(make_client(server.url, tmp_path), "42").find_pull_request(7)


def test_the_merged_request_of_a_commit_is_found_by_its_sha(tmp_path: Path) -> None:
    answer = json_answer([make_request(iid=6, state="closed"), make_request()])
    with serve(by_path({f"{ROOT}/repository/commits/{MERGE}/merge_requests": answer})) as server:
        assert GitLab(make_client(server.url, tmp_path), "42").find_number(MERGE) == 7


def test_closed_requests_are_listed_since_a_time(tmp_path: Path) -> None:
    routes = {
        **EMPTY,
        f"{ROOT}/merge_requests": json_answer([make_request(state="closed", merged_at=None)]),
    }
    with serve(by_path(routes)) as server:
        listing = GitLab(make_client(server.url, tmp_path), "42").list_closed(
            datetime(2026, 9, 1, tzinfo=UTC)
        )
    assert [(request.number, request.state, request.permission) for request in listing.items] == [
        (7, "closed", "unknown")
    ]
    assert server.requests[0].query["updated_after"] == "2026-09-01T00:00:00Z"


@pytest.mark.parametrize(("author", "commits"), [(ANN, SHAS[:1]), (BOB, ())])
def test_the_comments_of_a_closed_request_are_read_except_for_strangers(
    author: dict[str, Any], commits: tuple[str, ...], tmp_path: Path
) -> None:
    routes = {
        f"{ROOT}/merge_requests": json_answer(
            [make_request(state="closed", merged_at=None, author=author)]
        ),
        f"{REQUEST}/discussions": json_answer([{"notes": [make_note(1, "No.")]}]),
        f"{REQUEST}/commits": json_answer(
            [{"id": SHAS[0], "committed_date": "2026-09-01T11:00:00Z"}]
        ),
    }
    with serve(by_path({**EMPTY, **routes})) as server:
        forge = GitLab(make_client(server.url, tmp_path), "42")
        (request,) = forge.complete_closed(
            forge.list_closed(datetime(2026, 9, 1, tzinfo=UTC)).items
        ).items
    assert (request.commits, request.problems, [review.body for review in request.reviews]) == (
        commits,
        (),
        ["No."],
    )
    assert not [path for path in server.paths() if "pipelines" in path]


def test_the_earliest_time_is_valid_in_a_query(tmp_path: Path) -> None:
    with serve(by_path({f"{ROOT}/merge_requests": json_answer([])})) as server:
        GitLab(make_client(server.url, tmp_path), "42").list_closed(
            datetime.min.replace(tzinfo=UTC)
        )
    assert server.requests[0].query["updated_after"] == "2000-01-01T00:00:00Z"


def test_the_author_of_a_fork_has_read_permission_in_a_list(tmp_path: Path) -> None:
    fork = make_request(state="closed", merged_at=None, source_project_id=43)
    with serve(by_path({f"{ROOT}/merge_requests": json_answer([fork])})) as server:
        listing = GitLab(make_client(server.url, tmp_path), "42").list_closed(
            datetime(2026, 9, 1, tzinfo=UTC)
        )
    assert listing.items[0].permission == "read"


def test_the_path_of_a_project_is_escaped_in_the_address(tmp_path: Path) -> None:
    with serve(by_path({})) as server:
        assert GitLab(make_client(server.url, tmp_path), "acme/shop").find_pull_request(7) is None
    assert server.paths() == ["/projects/acme%2Fshop/merge_requests/7"]
