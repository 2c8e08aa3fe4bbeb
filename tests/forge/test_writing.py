"""Tests of writing to a forge: requests and commits are sent once, and refusals are distinguished from failures."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from memory_ci.errors import EngineError
from memory_ci.forge.proposals import (
    MAX_BYTES,
    GitHubCommitter,
    GitHubProposals,
    GitLabProposals,
    Proposal,
)
from memory_ci.forge.selection import choose_committer, choose_proposals
from memory_ci.records.config import ForgeConfig
from tests.forge.make import TOKEN, make_client
from tests.servers import Answer, Handler, by_path, json_answer, serve

PULL: dict[str, Any] = {"number": 7, "html_url": "https://github.com/acme/shop/pull/7"}
OWN: dict[str, Any] = {"source_project_id": 42, "target_project_id": 42}
FORKED: dict[str, Any] = {"source_project_id": 66, "target_project_id": 42}
REQUEST: dict[str, Any] = {
    "iid": 3,
    "web_url": "https://gitlab.com/acme/shop/-/merge_requests/3",
    **OWN,
}
HEAD = "1" * 40


def test_github_opens_updates_and_closes(tmp_path: Path) -> None:
    root = "/repos/acme/shop/pulls"
    routes: dict[str, Answer | Handler] = {
        root: lambda request: json_answer(
            [PULL] if request.method == "GET" else PULL, 200 if request.method == "GET" else 201
        ),
        f"{root}/7": json_answer(PULL),
    }
    with serve(by_path(routes)) as server:
        forge = GitHubProposals(make_client(server.url, tmp_path), "acme/shop")
        proposal = forge.find("memory-ci/update", "main")
        assert (
            forge.open("memory-ci/update", "main", "T", "B")
            == proposal
            == Proposal(7, PULL["html_url"])
        )
        forge.update(proposal, "T2", "B2")
        forge.close(proposal)
    search, opened, updated, closed = server.requests
    assert search.query == {"state": "open", "head": "acme:memory-ci/update", "base": "main"}
    assert (opened.method, opened.json["head"], opened.json["base"]) == (
        "POST",
        "memory-ci/update",
        "main",
    )
    assert (updated.method, updated.json) == ("PATCH", {"title": "T2", "body": "B2"})
    assert (closed.method, closed.json) == ("PATCH", {"state": "closed"})


def test_gitlab_opens_updates_and_closes(tmp_path: Path) -> None:
    root = "/projects/42/merge_requests"
    routes: dict[str, Answer | Handler] = {
        root: lambda request: json_answer([REQUEST] if request.method == "GET" else REQUEST),
        f"{root}/3": json_answer(REQUEST),
    }
    with serve(by_path(routes)) as server:
        forge = GitLabProposals(make_client(server.url, tmp_path), "42")
        proposal = forge.find("memory-ci/update", "main")
        assert (
            forge.open("memory-ci/update", "main", "T", "B")
            == proposal
            == Proposal(3, REQUEST["web_url"])
        )
        forge.update(proposal, "T2", "B2")
        forge.close(proposal)
    search, opened, updated, closed = server.requests
    assert search.query == {
        "state": "opened",
        "source_branch": "memory-ci/update",
        "target_branch": "main",
    }
    assert (opened.method, opened.json["source_branch"]) == ("POST", "memory-ci/update")
    assert (updated.method, updated.json) == ("PUT", {"title": "T2", "description": "B2"})
    assert closed.json == {"state_event": "close"}


@pytest.mark.parametrize(
    ("listed", "is_merged"),
    [([], None), ([{}], False), ([{"merged_at": "2026-11-21T12:00:00Z"}, {}], True)],
)
def test_github_names_the_newest_closed_request_and_whether_it_was_merged(
    tmp_path: Path, listed: list[dict[str, str]], is_merged: bool | None
) -> None:
    pulls = [
        {"number": 7 - age, "body": None, "merged_at": None, **pull}
        for age, pull in enumerate(listed)
    ]
    with serve(lambda _: json_answer(pulls)) as server:
        closed = GitHubProposals(make_client(server.url, tmp_path), "acme/shop").find_closed(
            "m", "main"
        )
    assert closed == (None if is_merged is None else Proposal(7, "", "", is_merged))
    assert server.requests[0].query == {"state": "closed", "head": "acme:m", "base": "main"}


@pytest.mark.parametrize(
    ("states", "number"),
    [
        ((), None),
        (("closed",), 7),
        (("merged", "closed"), 7),
        (("opened", "closed"), 6),
        (("closed", "merged"), 7),
    ],
)
def test_gitlab_names_the_newest_closed_request_and_whether_it_was_merged(
    tmp_path: Path, states: tuple[str, ...], number: int | None
) -> None:
    requests = [
        {**OWN, "iid": 7 - age, "state": state, "description": "held"}
        for age, state in enumerate(states)
    ]
    with serve(lambda _: json_answer(requests)) as server:
        closed = GitLabProposals(make_client(server.url, tmp_path), "42").find_closed("m", "main")
    is_merged = states[:1] == ("merged",)
    assert closed == (None if number is None else Proposal(number, "", "held", is_merged))
    assert server.requests[0].query["target_branch"] == "main"


@pytest.mark.parametrize("whose", [FORKED, {}])
def test_a_merge_request_of_a_fork_with_our_branch_name_is_ignored(
    tmp_path: Path, whose: dict[str, Any]
) -> None:
    keys = "memory-ci-keys: 0123456789ab"
    requests = [
        {"iid": 9, "state": "opened", **whose},
        {"iid": 8, "state": "closed", "description": keys, **whose},
    ]
    with serve(lambda _: json_answer([*requests, {**REQUEST, "state": "opened"}])) as server:
        forge = GitLabProposals(make_client(server.url, tmp_path), "42")
        assert forge.find("memory-ci/update", "main") == Proposal(3, REQUEST["web_url"])
        assert forge.find_closed("memory-ci/update", "main") is None


def test_github_sets_labels_and_reviewers_and_enables_auto_merge(tmp_path: Path) -> None:
    routes: dict[str, Answer | Handler] = {
        "/repos/acme/shop/pulls": json_answer({**PULL, "node_id": "PR_7"}, 201),
        "/repos/acme/shop/issues/7/labels": json_answer([]),
        "/repos/acme/shop/pulls/7/requested_reviewers": json_answer(PULL, 201),
        "/graphql": json_answer(
            {"data": {"enablePullRequestAutoMerge": {"clientMutationId": None}}}
        ),
    }
    with serve(by_path(routes)) as server:
        forge = GitHubProposals(
            make_client(server.url, tmp_path), "acme/shop", f"{server.url}/graphql"
        )
        opened = forge.open("m", "main", "T", "B")
        forge.label(opened, ["memory"])
        forge.request_reviews(opened, ["ann", "acme/platform"])
        forge.merge_when_ready(opened, "squash")
    _, labels, reviewers, merging = (request.json for request in server.requests)
    assert labels == {"labels": ["memory"]}
    assert reviewers == {"reviewers": ["ann"], "team_reviewers": ["platform"]}
    assert merging["variables"]["input"] == {"pullRequestId": "PR_7", "mergeMethod": "SQUASH"}


def test_gitlab_sets_labels_and_reviewers_and_keeps_a_draft(tmp_path: Path) -> None:
    root = "/projects/42/merge_requests"
    routes: dict[str, Answer | Handler] = {
        root: json_answer({**REQUEST, "draft": True}, 201),
        f"{root}/3": json_answer(REQUEST),
        f"{root}/3/merge": json_answer(REQUEST),
        "/users": lambda request: json_answer(
            [{"id": 5}] if request.query["username"] == "ann" else []
        ),
    }
    with serve(by_path(routes)) as server:
        forge = GitLabProposals(make_client(server.url, tmp_path), "42")
        opened = forge.open("m", "main", "T", "B")
        forge.update(opened, "T2", "B2")
        forge.label(opened, ["memory", "bot"])
        forge.request_reviews(opened, ["ann"])
        forge.merge_when_ready(opened, "squash")
        with pytest.raises(EngineError, match="there is no user nobody"):
            forge.request_reviews(opened, ["nobody"])
    written = [request.json for request in server.requests if request.method != "GET"]
    assert [fields.get("title") for fields in written[:2]] == ["T", "Draft: T2"]
    assert written[2:4] == [{"add_labels": "memory,bot"}, {"reviewer_ids": [5]}]
    assert written[4]["squash"] is written[4]["merge_when_pipeline_succeeds"] is True


def test_the_error_of_a_refusal_quotes_the_forge_and_names_the_setting(tmp_path: Path) -> None:
    words = "GitHub Actions is not permitted to create or approve pull requests."
    with (
        serve(
            lambda _: json_answer({"message": words, "errors": [{"message": TOKEN}]}, 403)
        ) as server,
        pytest.raises(EngineError) as caught,
    ):
        GitHubProposals(make_client(server.url, tmp_path), "acme/shop").open("a", "b", "T", "B")
    assert words in caught.value.message
    assert TOKEN not in caught.value.message
    assert "Allow GitHub Actions to create and approve pull requests" in (caught.value.hint or "")


def _review(state: str, login: str = "ann", who: str = "MEMBER", type: str = "User") -> object:
    """Return a review of a pull request, by default by a member of the team."""
    user = {"id": 7, "login": login, "type": type}
    return {"id": 1, "state": state, "user": user, "author_association": who}


@pytest.mark.parametrize(
    ("reviews", "expected"),
    [
        ([], ""),
        ([_review("APPROVED")], "approved"),
        ([_review("CHANGES_REQUESTED")], "changes requested"),
        ([_review("COMMENTED")], "reviewed"),
        ([_review("DISMISSED")], ""),
        ([_review("PENDING")], ""),
        ([_review("COMMENTED", "copilot", "NONE", "Bot")], ""),
        ([_review("APPROVED", "eve", "CONTRIBUTOR")], ""),
        (list(map(_review, ("CHANGES_REQUESTED", "APPROVED", "COMMENTED"))), "approved"),
        (list(map(_review, ("APPROVED", "CHANGES_REQUESTED"))), "changes requested"),
        ([_review("CHANGES_REQUESTED"), _review("APPROVED", "bob")], "approved"),
    ],
)
def test_github_reports_whether_a_request_is_under_review(
    tmp_path: Path, reviews: list[object], expected: str
) -> None:
    routes: dict[str, Answer | Handler] = {"/repos/acme/shop/pulls/7/reviews": json_answer(reviews)}
    with serve(by_path(routes)) as server:
        forge = GitHubProposals(make_client(server.url, tmp_path), "acme/shop")
        assert forge.find_review(Proposal(7, PULL["html_url"])) == expected


def _reviewer(state: str, username: str = "ann") -> dict[str, Any]:
    return {"state": state, "user": {"username": username}}


@pytest.mark.parametrize(
    ("approved", "reviewers", "review"),
    [
        ([], [], ""),
        ([], [_reviewer("unreviewed")], ""),
        ([], [_reviewer("reviewed")], "reviewed"),
        (
            [],
            [_reviewer("reviewed", "GitLabDuo"), _reviewer("reviewed", "project_42_bot_1a2b")],
            "",
        ),
        ([], [_reviewer("reviewed"), _reviewer("requested_changes", "bob")], "changes requested"),
        ([_reviewer("")], [_reviewer("requested_changes", "bob")], "approved"),
    ],
)
def test_gitlab_reports_whether_a_request_is_under_review(
    tmp_path: Path, approved: list[Any], reviewers: list[Any], review: str
) -> None:
    root = "/projects/42/merge_requests/3"
    routes: dict[str, Answer | Handler] = {
        f"{root}/approvals": json_answer({"approved_by": approved}),
        f"{root}/reviewers": json_answer(reviewers),
    }
    with serve(by_path(routes)) as server:
        assert (
            GitLabProposals(make_client(server.url, tmp_path), "42").find_review(Proposal(3, ""))
            == review
        )


@pytest.mark.parametrize(
    ("status", "slug"),
    [
        (403, "forge-refused"),
        (404, "forge-refused"),
        (422, "forge-refused"),
        (401, "forge-unauthorised"),
        (502, "forge-unreachable"),
    ],
)
def test_a_write_is_sent_once_whatever_the_answer(tmp_path: Path, status: int, slug: str) -> None:
    with (
        serve(lambda _: json_answer({"message": "No"}, status)) as server,
        pytest.raises(EngineError) as caught,
    ):
        GitHubProposals(make_client(server.url, tmp_path), "acme/shop").open("a", "b", "T", "B")
    assert caught.value.slug == slug
    assert len(server.requests) == 1
    assert TOKEN not in f"{caught.value!r}"


def committer(url: str, tmp_path: Path) -> GitHubCommitter:
    return GitHubCommitter(make_client(url, tmp_path), f"{url}/graphql", "acme/shop")


def test_a_commit_names_the_tip_it_expects_and_carries_its_files(tmp_path: Path) -> None:
    reply = {"data": {"createCommitOnBranch": {"commit": {"oid": "2" * 40}}}}
    with serve(lambda _: json_answer(reply)) as server:
        files = {"MEMORY.md": b"new\n", ".memory/inbox/x.md": None}
        created = committer(server.url, tmp_path).commit(
            "main", HEAD, files, "memory: fold\n\nBody\n"
        )
    assert created.oid == "2" * 40
    (request,) = server.requests
    assert request.json["variables"]["input"] == {
        "branch": {"repositoryNameWithOwner": "acme/shop", "branchName": "main"},
        "expectedHeadOid": HEAD,
        "message": {"headline": "memory: fold", "body": "Body"},
        "fileChanges": {
            "additions": [{"path": "MEMORY.md", "contents": base64.b64encode(b"new\n").decode()}],
            "deletions": [{"path": ".memory/inbox/x.md"}],
        },
    }


@pytest.mark.parametrize(
    ("problem", "is_stale"),
    [
        ({"type": "STALE_DATA", "message": "Pull and try again."}, True),
        ({"message": 'Expected branch to point to "1" but it did not.'}, True),
        ({"type": "FORBIDDEN", "message": "Resource not accessible by integration"}, False),
    ],
)
def test_an_error_is_a_lost_race_or_a_refusal(
    tmp_path: Path, problem: dict[str, str], is_stale: bool
) -> None:
    with serve(
        lambda _: json_answer({"data": {"createCommitOnBranch": None}, "errors": [problem]})
    ) as server:
        created = committer(server.url, tmp_path).commit(
            "main", HEAD, {"MEMORY.md": b"x"}, "memory: x\n"
        )
    assert (created.oid, created.is_stale, created.reason) == ("", is_stale, problem["message"])


def test_more_than_the_limit_is_not_sent(tmp_path: Path) -> None:
    with serve(lambda _: json_answer({})) as server:
        created = committer(server.url, tmp_path).commit(
            "main", HEAD, {"MEMORY.md": b"x" * (MAX_BYTES + 1)}, "m"
        )
    assert created.reason == "more than 256 KB in one commit"
    assert server.requests == []


def test_the_environment_selects_the_forge_for_writing(tmp_path: Path) -> None:
    on_github = {"GITHUB_TOKEN": TOKEN, "GITHUB_REPOSITORY": "acme/shop"}
    on_gitlab = {"GITLAB_TOKEN": TOKEN, "CI_PROJECT_ID": "42"}
    assert isinstance(choose_proposals(ForgeConfig(), on_github, tmp_path), GitHubProposals)
    assert isinstance(choose_proposals(ForgeConfig(), on_gitlab, tmp_path), GitLabProposals)
    assert choose_proposals(ForgeConfig("none"), on_github, tmp_path) is None
    assert choose_proposals(ForgeConfig(), {"GITHUB_TOKEN": TOKEN}, tmp_path) is None
    assert choose_committer(on_github, tmp_path) is not None
    assert choose_committer(on_gitlab, tmp_path) is None
