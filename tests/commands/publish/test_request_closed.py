"""Tests of memory pull requests that a person or a run closed."""

from __future__ import annotations

import pytest

from memory_ci.commands.publish.answered_text import parse_keys
from memory_ci.errors import EngineError
from memory_ci.records.plan import Published
from tests.commands.publish.requests_at_work import decline, do_more_work
from tests.remote import UPDATE, GitHubDouble, Publisher, Remote
from tests.servers import Answer, HttpRequest, json_answer, serve


@pytest.mark.usefixtures("opened")
@pytest.mark.parametrize("is_branch_kept", [True, False])
def test_a_pull_request_that_a_person_closed_is_not_opened_again(
    remote: Remote, forge: GitHubDouble, publish: Publisher, is_branch_kept: bool
) -> None:
    decline(forge)
    if not is_branch_kept:
        remote.git("branch", "-q", "-D", UPDATE)
    before = remote.git("for-each-ref")
    published = publish("pr")
    assert "pull request 1 was closed without a merge" in published.reason
    assert (len(forge.pulls), remote.git("for-each-ref")) == (1, before)


@pytest.mark.usefixtures("opened")
def test_a_new_request_with_new_entries_mentions_the_closed_request(
    forge: GitHubDouble, publish: Publisher
) -> None:
    decline(forge)
    do_more_work(publish)
    assert publish("pr").url == forge.pulls[-1]["html_url"]
    first, second = forge.pulls
    assert (first["state"], second["state"]) == ("closed", "open")
    assert (
        "[pull request 1](https://github.com/acme/shop/pull/1) was closed without a merge"
        in second["body"]
    )
    assert "### Closed before, in pull request 1\n\n- `" in second["body"]
    assert second["body"].count("dashboard") == 1
    decline(forge)
    assert "pull request 2 was closed" in publish("pr").reason


@pytest.mark.usefixtures("opened")
def test_a_reopened_request_is_updated(forge: GitHubDouble, publish: Publisher) -> None:
    decline(forge)
    publish("pr")
    forge.pulls[0]["state"] = "open"
    do_more_work(publish)
    publish("pr")
    assert "dashboard" in forge.pulls[0]["body"]
    assert len(forge.pulls) == 1


def test_a_request_that_was_merged_or_closed_by_us_does_not_count_as_declined(
    remote: Remote, forge: GitHubDouble, publish: Publisher, opened: Published
) -> None:
    base = remote.sha("main")
    remote.git("update-ref", "refs/heads/main", opened.tip)
    assert publish("pr").reason == "nothing to propose"
    assert forge.pulls[0]["state"] == "closed"
    remote.git("update-ref", "refs/heads/main", base)
    publish("pr")
    assert forge.pulls[1]["state"] == "open"
    forge.pulls[1] |= {"state": "closed", "merged_at": "2026-11-21T12:00:00Z"}
    publish("pr")
    assert forge.pulls[2]["state"] == "open"


def test_a_request_is_closed_with_a_comment_before_its_branch_is_deleted(
    remote: Remote, forge: GitHubDouble, publish: Publisher, opened: Published
) -> None:
    remote.git("update-ref", "refs/heads/main", opened.tip)
    written: list[set[str]] = []

    def answer(request: HttpRequest) -> Answer:
        written.extend([remote.branches()] if request.method == "PATCH" else [])
        is_down = request.method == "PATCH" and len(written) == 1
        return json_answer({"message": "Server Error"}, 502) if is_down else forge(request)

    with serve(answer) as flaky:
        again = Publisher(publish.project, forge.environ(flaky.url))
        with pytest.raises(EngineError):
            again("pr")
        assert again("pr").url == forge.pulls[0]["html_url"]
    assert all(UPDATE in branches for branches in written)
    assert len(written) == 3
    assert UPDATE not in remote.branches()
    assert (forge.pulls[0]["state"], parse_keys(forge.pulls[0]["body"])) == ("closed", frozenset())
