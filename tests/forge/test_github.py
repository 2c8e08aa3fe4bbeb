"""Tests of reading GitHub's REST API: the records of a pull request, and refused parts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_ci.errors import EngineError
from memory_ci.forge.github import MAX_CHECKED, GitHub
from memory_ci.records.history import Check, PullRequest
from tests.forge.make import (
    MERGE,
    SHAS,
    make_client,
    make_comment,
    make_pull,
    make_pull_commit,
    make_review,
    make_run,
    make_user,
)
from tests.servers import Answer, Handler, by_path, json_answer, serve

ROOT = "/repos/acme/shop"
PULL = f"{ROOT}/pulls/12"
EMPTY: Mapping[str, Answer | Handler] = {
    PULL: json_answer(make_pull()),
    f"{PULL}/reviews": json_answer([]),
    f"{PULL}/comments": json_answer([]),
    f"{ROOT}/issues/12/comments": json_answer([]),
    f"{PULL}/commits": json_answer([]),
    f"{ROOT}/collaborators/ann/permission": json_answer(
        {"permission": "write", "role_name": "maintain"}
    ),
    f"{ROOT}/collaborators/bob/permission": json_answer(
        {"permission": "admin", "role_name": "admin"}
    ),
    f"{ROOT}/collaborators/eve/permission": json_answer(
        {"permission": "read", "role_name": "read"}
    ),
}
FORBIDDEN = json_answer({"message": "Resource not accessible by integration"}, 403)


def read(tmp_path: Path, routes: Mapping[str, Answer | Handler]) -> tuple[PullRequest, list[str]]:
    """Read pull request 12 from a server with these routes; return it and the requested paths."""
    with serve(by_path({**EMPTY, **routes})) as server:
        request = GitHub(make_client(server.url, tmp_path), "acme/shop").find_pull_request(12)
    assert request is not None
    return request, server.paths()


def runs(*check_run: dict[str, Any]) -> Answer:
    return json_answer({"total_count": len(check_run), "check_runs": list(check_run)})


def test_a_merged_request_is_read_whole(tmp_path: Path) -> None:
    request, _ = read(tmp_path, {})
    assert request == PullRequest(
        number=12,
        title="Retry only with a key",
        body="A POST without a key was sent twice.",
        author="ann",
        permission="write",
        state="merged",
        created_at=datetime(2026, 9, 1, 10, tzinfo=UTC),
        branch="retry",
        labels=("bug",),
        merged_at=datetime(2026, 9, 2, 12, tzinfo=UTC),
        closed_at=datetime(2026, 9, 2, 12, tzinfo=UTC),
        merge_sha=MERGE,
    )


def test_a_missing_request_is_none(tmp_path: Path) -> None:
    with serve(by_path({})) as server:
        assert GitHub(make_client(server.url, tmp_path), "acme/shop").find_pull_request(12) is None


def test_a_request_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    for answer in (FORBIDDEN, json_answer({"number": "twelve"}), json_answer([])):
        with serve(by_path({PULL: answer})) as server, pytest.raises(EngineError) as caught:
            GitHub(make_client(server.url, tmp_path), "acme/shop").find_pull_request(12)
        assert caught.value.slug == "forge-failed"


def test_reviews_threads_and_comments_are_distinguished_and_sorted(tmp_path: Path) -> None:
    later_time = {"created_at": "2026-09-01T12:00:00Z"}
    mark = {
        "id": 5,
        "body": "/remember keys",
        "user": make_user("bob"),
        "author_association": "MEMBER",
        **later_time,
    }
    reply = make_comment(18, in_reply_to_id=17, user=make_user(), created_at="2026-09-01T11:30:00Z")
    routes = {
        f"{PULL}/reviews": json_answer(
            [make_review(), make_review(200, "PENDING", submitted_at=None)]
        ),
        f"{PULL}/comments": json_answer([reply, make_comment()]),
        f"{ROOT}/issues/12/comments": json_answer([mark]),
    }
    request, _ = read(tmp_path, routes)
    assert [
        (review.id, review.author, review.state, review.in_reply_to) for review in request.reviews
    ] == [
        ("r199", "bob", "changes_requested", ""),
        ("c17", "bob", "changes_requested", ""),
        ("c18", "ann", "commented", "c17"),
        ("i5", "bob", "commented", ""),
    ]
    assert (request.reviews[1].path, request.reviews[1].line) == ("src/client.py", 40)
    assert {review.is_resolved for review in request.reviews} == {None}


def test_the_permission_of_each_login_is_requested_once(tmp_path: Path) -> None:
    by_eve = make_review(200, user=make_user("eve"), author_association="COLLABORATOR")
    request, paths = read(
        tmp_path, {f"{PULL}/reviews": json_answer([make_review(), make_review(201), by_eve])}
    )
    assert [review.permission for review in request.reviews] == ["write", "write", "read"]
    assert sorted(path.split("/")[5] for path in paths if "collaborators" in path) == [
        "ann",
        "bob",
        "eve",
    ]


@pytest.mark.parametrize(
    ("association", "permission"),
    [
        ("OWNER", "write"),
        ("MEMBER", "unknown"),
        ("COLLABORATOR", "unknown"),
        ("CONTRIBUTOR", "read"),
        ("NONE", "read"),
    ],
)
def test_without_permissions_the_association_gives_only_little_trust(
    association: str, permission: str, tmp_path: Path
) -> None:
    routes = {
        PULL: json_answer(make_pull(author_association=association)),
        f"{ROOT}/collaborators/ann/permission": FORBIDDEN,
    }
    request, _ = read(tmp_path, routes)
    assert request.permission == permission
    assert "collaborators/ann/permission answered with status 403" in request.problems[0]


@pytest.mark.parametrize("user", [make_user("renovate[bot]", "Bot"), make_user("Copilot", "Bot")])
def test_a_bot_is_recognised_without_requesting_its_permission(
    user: dict[str, Any], tmp_path: Path
) -> None:
    request, paths = read(
        tmp_path, {PULL: json_answer(make_pull(user=user, author_association="NONE"))}
    )
    assert request.is_bot
    assert not [path for path in paths if "collaborators" in path]


def test_a_deleted_account_has_no_name_and_read_permission(tmp_path: Path) -> None:
    request, _ = read(
        tmp_path, {PULL: json_answer(make_pull(user=None, author_association="NONE"))}
    )
    assert (request.author, request.permission) == ("", "read")


@pytest.mark.parametrize("repo", [None, {"id": 2, "full_name": "eve/shop"}])
def test_a_branch_of_another_or_deleted_repository_is_a_fork(
    repo: dict[str, Any] | None, tmp_path: Path
) -> None:
    request, _ = read(
        tmp_path, {PULL: json_answer(make_pull(head={"ref": "x", "sha": SHAS[0], "repo": repo}))}
    )
    assert request.is_fork


def test_checks_are_read_for_each_commit_and_statuses_if_there_are_none(tmp_path: Path) -> None:
    status = {
        "context": "ci/build",
        "state": "success",
        "updated_at": "2026-09-01T12:00:00Z",
        "description": "ok",
    }
    commits = [make_pull_commit(SHAS[0]), make_pull_commit(SHAS[1], "2026-09-01T11:45:00Z")]
    routes = {
        f"{PULL}/commits": json_answer(commits),
        f"{ROOT}/commits/{SHAS[0]}/check-runs": runs(
            make_run(), make_run("lint", "skipped"), make_run("slow", None)
        ),
        f"{ROOT}/commits/{SHAS[1]}/check-runs": runs(),
        f"{ROOT}/commits/{SHAS[1]}/status": json_answer({"state": "success", "statuses": [status]}),
    }
    request, paths = read(tmp_path, routes)
    assert request.problems == ()
    assert request.commits == SHAS[:2]
    assert request.last_commit_at == datetime(2026, 9, 1, 11, 45, tzinfo=UTC)
    failed_at, passed_at = (
        datetime(2026, 9, 1, 9, 5, tzinfo=UTC),
        datetime(2026, 9, 1, 12, tzinfo=UTC),
    )
    assert request.checks == (
        Check(
            name="unit tests",
            sha=SHAS[0],
            is_success=False,
            at=failed_at,
            summary="2 failed: test_retry: sent twice",
        ),
        Check(name="ci/build", sha=SHAS[1], is_success=True, at=passed_at, summary="ok"),
    )
    assert f"{ROOT}/commits/{SHAS[0]}/status" not in paths


def test_forbidden_checks_are_a_problem_and_requested_once(tmp_path: Path) -> None:
    commits = json_answer([make_pull_commit(sha) for sha in SHAS])
    request, paths = read(
        tmp_path,
        {
            f"{PULL}/commits": commits,
            **{f"{ROOT}/commits/{sha}/check-runs": FORBIDDEN for sha in SHAS},
        },
    )
    assert request.title == "Retry only with a key"
    assert len(request.problems) == 1
    assert "check-runs answered with status 403" in request.problems[0]
    assert len([path for path in paths if path.endswith("check-runs")]) == 1


def test_checks_of_a_long_request_are_read_for_its_newest_commits(tmp_path: Path) -> None:
    shas = [f"{number:040x}" for number in range(MAX_CHECKED + 2)]
    routes = {f"{ROOT}/commits/{sha}/check-runs": runs(make_run()) for sha in shas}
    request, _ = read(
        tmp_path,
        {f"{PULL}/commits": json_answer([make_pull_commit(sha) for sha in shas]), **routes},
    )
    assert [check.sha for check in request.checks] == shas[2:]
    assert request.problems == ("the checks of the first 2 commits were not read",)


@pytest.mark.parametrize(
    "part", ["pulls/12/reviews", "pulls/12/comments", "issues/12/comments", "pulls/12/commits"]
)
def test_a_refused_part_is_a_problem_and_the_other_parts_are_read(
    part: str, tmp_path: Path
) -> None:
    request, _ = read(tmp_path, {f"{ROOT}/{part}": FORBIDDEN})
    assert request.number == 12
    assert [part in problem for problem in request.problems] == [True]


def test_a_rate_limit_in_the_middle_is_an_error_not_a_problem(tmp_path: Path) -> None:
    limited = json_answer({}, 403, retry_after="900")
    for part in (f"{PULL}/comments", f"{ROOT}/collaborators/ann/permission"):
        with pytest.raises(EngineError) as caught:
            read(tmp_path, {part: limited})
        assert caught.value.slug == "forge-rate-limited"


def test_the_merged_request_of_a_commit_is_found_by_its_sha(tmp_path: Path) -> None:
    answer = json_answer([make_pull(11, merged_at=None), make_pull(12)])
    with serve(by_path({f"{ROOT}/commits/{MERGE}/pulls": answer})) as server:
        forge = GitHub(make_client(server.url, tmp_path), "acme/shop")
        assert forge.find_number(MERGE) == 12
        assert forge.find_number("0" * 40) is None


SINCE = datetime(2026, 9, 1, tzinfo=UTC)


def test_closed_requests_since_a_time_are_listed_without_merged_ones(tmp_path: Path) -> None:
    old = make_pull(9, merged_at=None, updated_at="2026-08-01T00:00:00Z")
    pulls = json_answer([make_pull(11), make_pull(12, merged_at=None), old])
    with serve(by_path({f"{ROOT}/pulls": pulls})) as server:
        listing = GitHub(make_client(server.url, tmp_path), "acme/shop").list_closed(SINCE)
    assert [(request.number, request.state, request.permission) for request in listing.items] == [
        (12, "closed", "unknown")
    ]
    assert server.paths() == [f"{ROOT}/pulls"]


@pytest.mark.parametrize(("by", "commits"), [("ann", SHAS), ("eve", ())])
def test_the_comments_of_a_closed_request_are_read_except_for_strangers(
    by: str, commits: tuple[str, ...], tmp_path: Path
) -> None:
    routes = {
        f"{ROOT}/pulls": json_answer([make_pull(12, merged_at=None, user=make_user(by))]),
        f"{PULL}/reviews": json_answer([make_review()]),
        f"{PULL}/commits": json_answer([make_pull_commit(sha) for sha in SHAS]),
    }
    with serve(by_path({**EMPTY, **routes})) as server:
        forge = GitHub(make_client(server.url, tmp_path), "acme/shop")
        (request,) = forge.complete_closed(forge.list_closed(SINCE).items).items
    assert (request.commits, request.problems, [review.author for review in request.reviews]) == (
        commits,
        (),
        ["bob"],
    )
    assert not [path for path in server.paths() if "check-runs" in path or "status" in path]


def test_completing_requests_stops_at_half_the_budget_and_keeps_the_completed_ones(
    tmp_path: Path,
) -> None:
    pulls = json_answer([make_pull(number, merged_at=None) for number in (12, 13, 14)])
    with serve(by_path({**EMPTY, f"{ROOT}/pulls": pulls}, json_answer([]))) as server:
        forge = GitHub(make_client(server.url, tmp_path, requests=20), "acme/shop")
        listing = forge.complete_closed(forge.list_closed(SINCE).items)
        assert forge.find_pull_request(12)
    assert [request.number for request in listing.items] == [12, 13]
    assert listing.slug == "forge-budget-spent"


def test_an_incomplete_list_of_closed_requests_has_a_problem(tmp_path: Path) -> None:
    broken = json_answer(
        [make_pull(12, merged_at=None)], link='<https://elsewhere.example/2>; rel="next"'
    )
    with serve(by_path({**EMPTY, f"{ROOT}/pulls": broken})) as server:
        listing = GitHub(make_client(server.url, tmp_path), "acme/shop").list_closed(SINCE)
    assert [request.number for request in listing.items] == [12]
    assert "another host" in listing.problem
    with (
        serve(by_path({f"{ROOT}/pulls": FORBIDDEN})) as server,
        pytest.raises(EngineError, match="status 403"),
    ):
        GitHub(make_client(server.url, tmp_path / "other"), "acme/shop").list_closed(SINCE)
