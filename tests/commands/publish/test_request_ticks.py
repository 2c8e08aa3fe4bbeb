"""Tests of decisions by ticks and comments in a memory pull request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.store.document import parse_memory_file
from tests.commands.publish.requests_at_work import click, decline, edit_branch, squash, titles_on
from tests.project import Project
from tests.remote import (
    UPDATE,
    GitHubDouble,
    GitLabDouble,
    Publisher,
    Remote,
    SavedRequest,
    open_request,
)
from tests.servers import Server, serve


class Waiting(NamedTuple):
    """A request with two entries, by title: one that somebody removes, and one that stays."""

    forge: GitHubDouble
    publish: Publisher
    pull: dict[str, Any]
    gone: str
    kept: str


@pytest.fixture(scope="module", params=[GitHubDouble, GitLabDouble])
def saved_on_forge(
    project_template: Project,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> tuple[SavedRequest, type[GitHubDouble]]:
    """Return the state after a first run opened a request at a forge, and the double of the forge."""
    folder = tmp_path_factory.mktemp("opened")
    return open_request(project_template, folder, double=request.param), request.param


@pytest.fixture
def proposed(
    saved_on_forge: tuple[SavedRequest, type[GitHubDouble]],
    project: Project,
    remote: Remote,
    tmp_path: Path,
) -> Iterator[Waiting]:
    saved, double = saved_on_forge
    forge = double(remote, tmp_path / "forge")
    saved.restore(project, remote, forge)
    with serve(forge) as server:
        publish = Publisher(project, forge.environ(server.url))
        (pull,) = forge.pulls
        yield Waiting(forge, publish, pull, *sorted(titles_on(remote, UPDATE)))


def test_an_entry_that_is_unticked_is_taken_out_until_its_line_is_ticked(
    remote: Remote, proposed: Waiting
) -> None:
    forge, publish, pull, gone, kept = proposed
    click(pull, gone, " ")
    for _ in range(2):  # the second finds it in the file alone
        publish("pr")
        assert titles_on(remote, UPDATE) == {kept}
        assert gone[:40] in remote.show(UPDATE, REJECTED_FILE)
    assert "### Added: 1 entry" in pull["body"]
    click(pull, gone[:40], "x")
    for _ in range(2):
        publish("pr")
        assert titles_on(remote, UPDATE) == {gone, kept}
    assert REJECTED_FILE not in remote.git("ls-tree", "-r", "--name-only", UPDATE)
    assert len(forge.pulls) == 1


def test_a_comment_decides_like_a_click_once_and_only_from_members(
    remote: Remote, proposed: Waiting
) -> None:
    forge, publish, pull, gone, kept = proposed
    keys = {
        entry.title: entry.id
        for entry in parse_memory_file("", remote.show(UPDATE, "MEMORY.md").encode()).entries
    }
    forge.comment(f"/memory drop {keys[kept]}", is_stranger=True)
    if not isinstance(forge, GitLabDouble):  # a member who may not write
        forge.comment(f"/memory drop {keys[kept]}", login="reader")
    forge.comment(f"```\n/memory drop {keys[kept]}\n```\n<!--\n/memory drop {keys[kept]}\n-->")
    forge.comment(
        f"No.\r\n`/memory drop {keys[gone][:8]}`\r\n> /memory drop {keys[kept]}\n/memory forget it"
    )
    for is_new in (True, False):
        publish("pr")
        assert titles_on(remote, UPDATE) == {kept}
        assert ("`/memory forget it`" in pull["body"]) is is_new
    click(pull, gone[:40], "x")
    publish("pr")
    assert titles_on(remote, UPDATE) == {gone, kept}, (
        "a comment is obeyed once: the click came after it"
    )


@pytest.mark.usefixtures("opened")
def test_an_entry_that_a_maintainer_reworded_is_gone_when_it_is_unticked_too(
    remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
    gone, kept = sorted(titles_on(remote, UPDATE))
    click(forge.pulls[0], gone, " ")
    edit_branch(remote, tmp_path / "maintainer", {"MEMORY.md": (f"## {gone}", f"## Well, {gone}")})
    publish("pr")
    assert titles_on(remote, UPDATE) == {kept}
    assert len(remote.show(UPDATE, REJECTED_FILE).splitlines()) == 3, (
        "as it was proposed, and as it was reworded"
    )


@pytest.mark.usefixtures("opened")
@pytest.mark.parametrize("is_job_of_the_push", [True, False])
def test_an_entry_merged_although_unticked_is_removed_by_the_next_run(
    remote: Remote,
    forge: GitHubDouble,
    publish: Publisher,
    tmp_path: Path,
    is_job_of_the_push: bool,
) -> None:
    gone, kept = sorted(titles_on(remote, UPDATE))
    click(forge.pulls[0], gone, " ")
    squash(remote, tmp_path / "merged")
    forge.pulls[0] |= {"state": "closed", "merged_at": "2026-11-21T12:00:00Z"}
    publish.environ |= {"GITHUB_EVENT_NAME": "push"} if is_job_of_the_push else {}
    publish("pr")
    assert (len(forge.pulls), titles_on(remote, "main"), titles_on(remote, UPDATE)) == (
        2,
        {gone, kept},
        {kept},
    )
    assert gone[:40] in forge.pulls[1]["body"]
    decline(forge)
    assert "pull request 2 was closed" in publish("pr").reason or is_job_of_the_push
    assert titles_on(remote, "main") == {gone, kept}, "people said no to taking it out"


@pytest.mark.usefixtures("opened")
def test_the_forge_is_asked_once_for_the_request(publish: Publisher, server: Server) -> None:
    publish("pr")
    requests = [(request.method, request.path.rpartition("/")[2]) for request in server.requests]
    review = ("GET", "reviews")  # before the run is planned, and before its branch moves
    assert requests == [("GET", "pulls"), ("GET", "comments"), review, review, ("PATCH", "1")]
