"""Tests of the way to publish: commits are pushed, made through the API, or proposed."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.project import Project
from tests.remote import UPDATE, GitHubDouble, Publisher, Remote
from tests.servers import json_answer

GH013 = "remote: error: GH013: Repository rule violations found for refs/heads/main."


def test_auto_opens_a_pull_request_where_the_branch_is_protected(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    remote.refuse("refs/heads/main", GH013)
    published = publish("auto")
    assert published.mode == "pr"
    assert "GH013" in published.reason
    assert len(forge.pulls) == 1


def test_auto_pushes_where_it_may(remote: Remote, forge: GitHubDouble, publish: Publisher) -> None:
    assert publish("auto").mode == "push"
    assert forge.pulls == []


def test_without_a_forge_the_branch_is_pushed_and_the_reason_names_the_next_step(
    project: Project, remote: Remote
) -> None:
    published = Publisher(project)("pr")
    assert UPDATE in remote.branches()
    assert "open its pull request by hand" in published.reason


def test_a_memory_branch_that_may_not_be_pushed_is_an_error(
    remote: Remote, publish: Publisher
) -> None:
    remote.refuse(f"refs/heads/{UPDATE}", GH013)
    with pytest.raises(RepositoryError) as caught:
        publish("pr")
    assert caught.value.slug == "push-refused"


def test_the_api_makes_the_commits_and_the_local_branch_follows(
    project: Project, remote: Remote, publish: Publisher
) -> None:
    project.put_fragment(make_entry(7, title="Waits in the inbox"))
    project.git("push", "-q", "origin", "main")
    published = publish("api")
    assert published.mode == "api"
    assert remote.git("log", "-1", "--format=%s", "main").splitlines() == [
        "memory: fold 1 entry from the inbox, extract 2 learnings from #128",
    ]
    assert remote.sha("main") == published.tip == project.sha("main")
    assert project.status() == ""
    assert ".memory/inbox" not in remote.git("ls-tree", "-r", "--name-only", "main")
    assert publish("api").subjects == ()


def test_a_branch_that_moves_between_two_commits_of_the_api_loses_nothing(
    project: Project, remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
    project.put_fragment(make_entry(7, title="Waits in the inbox"))
    retired = format_entry(
        make_entry(9, title="Long gone", status="retired")
    )  # compaction is a commit of its own
    project.commit("Retire", {"MEMORY.md": f"{project.show('HEAD', 'MEMORY.md')}\n{retired}"})
    project.git("push", "-q", "origin", "main")

    def push_other() -> None:
        other_project = remote.clone(tmp_path / "other")
        other_project.commit("More", {"other.txt": "x"})
        other_project.git("push", "-q", "origin", "main")

    forge.stale = [lambda: None, push_other]
    assert publish("api").tries == 2
    merged = remote.clone(tmp_path / "merged")
    assert "Waits in the inbox" in merged.titles()
    assert len(merged.entries()) == 3
    assert publish("api").subjects == ()


def test_the_api_turns_to_a_pull_request_when_it_is_refused(
    project: Project, forge: GitHubDouble, publish: Publisher
) -> None:
    forge.refusal = "Changes must be made through a pull request."
    published = publish("api")
    assert published.mode == "pr"
    assert "through a pull request" in published.reason
    assert len(forge.pulls) == 1


def test_the_api_turns_to_a_pull_request_when_the_token_has_not_the_right(
    forge: GitHubDouble, publish: Publisher
) -> None:
    forge.graphql_answer = json_answer({"message": "Resource not accessible by integration"}, 403)
    assert publish("api").mode == "pr"
    assert len(forge.pulls) == 1


def test_the_api_without_a_token_turns_to_a_pull_request(project: Project, remote: Remote) -> None:
    published = Publisher(project)("api")
    assert published.mode == "pr"
    assert UPDATE in remote.branches()
