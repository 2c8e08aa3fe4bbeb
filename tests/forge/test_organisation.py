"""Tests of listing the repositories of an organisation page by page, with doubles of GitHub and GitLab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memory_ci.errors import EngineError
from memory_ci.forge.selection import open_forges
from tests.forge.make import TOKEN
from tests.servers import Answer, HttpRequest, by_path, json_answer, serve


def make_github(number: int, **fields: Any) -> dict[str, Any]:
    name = f"acme/r{number}"
    return {
        "id": number,
        "full_name": name,
        "html_url": f"https://github.com/{name}",
        "clone_url": f"https://github.com/{name}.git",
        "private": False,
        "visibility": "public",
        "pushed_at": "2026-09-01T10:00:00Z",
        "default_branch": "main",
        "archived": False,
        **fields,
    }


def make_gitlab(number: int, **fields: Any) -> dict[str, Any]:
    name = f"acme/sub/p{number}"
    return {
        "id": number,
        "path_with_namespace": name,
        "web_url": f"https://gitlab.com/{name}",
        "http_url_to_repo": f"https://gitlab.com/{name}.git",
        "visibility": "internal",
        **fields,
    }


def test_all_pages_of_an_organisation_are_read(tmp_path: Path) -> None:
    def repositories(request: HttpRequest) -> Answer:
        page = int(request.query.get("page", "1"))
        page_items = [
            make_github(number)
            for number in range(100 * page, 100 * page + (100 if page < 25 else 3))
        ]
        link = f'<{server.url}/orgs/acme/repos?page={page + 1}>; rel="next"' if page < 25 else ""
        return json_answer(page_items, link=link)

    with serve(by_path({"/orgs/acme/repos": repositories})) as server:
        github, _ = open_forges({"GITHUB_API_URL": server.url, "GITHUB_TOKEN": TOKEN}, tmp_path)
        listing = github.list_repositories("acme")
    assert (len(listing.items), listing.problem, len(server.requests)) == (2_403, "", 25)
    assert listing.items[0].id == "github.com#100"
    assert listing.items[0].stamp == "2026-09-01T10:00:00Z main"
    assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert server.requests[0].query == {"type": "all", "per_page": "100"}


@pytest.mark.parametrize(
    ("fields", "visibility"),
    [
        ({}, "public"),
        ({"visibility": "internal", "private": True}, "internal"),
        ({"visibility": "private", "private": True}, "private"),
        ({"visibility": None, "private": True}, "private"),
        ({"visibility": None}, "public"),
    ],
)
def test_the_visibility_of_a_github_repository_is_read(
    tmp_path: Path, fields: dict[str, Any], visibility: str
) -> None:
    with serve(by_path({"/repos/acme/r1": json_answer(make_github(1, **fields))})) as server:
        github, _ = open_forges({"GITHUB_API_URL": server.url}, tmp_path)
        repository = github.find_repository("acme/r1")
        assert github.find_repository("acme/none") is None
    assert repository is not None
    assert repository.visibility == visibility


def test_a_group_of_gitlab_is_listed_with_its_subgroups(tmp_path: Path) -> None:
    routes = {
        "/groups/acme%2Fsub/projects": json_answer(
            [make_gitlab(1), make_gitlab(2, visibility="private")]
        ),
        "/projects/acme%2Fsub%2Fp1": json_answer(make_gitlab(1)),
    }
    with serve(by_path(routes)) as server:
        environ = {
            "CI_API_V4_URL": server.url,
            "GITLAB_TOKEN": TOKEN,
            "CI_SERVER_URL": "https://git.example",
        }
        _, gitlab = open_forges(environ, tmp_path)
        listing = gitlab.list_repositories("acme/sub")
        repository = gitlab.find_repository("acme/sub/p1")
    assert [(repository.id, repository.visibility) for repository in listing.items] == [
        ("git.example#1", "internal"),
        ("git.example#2", "private"),
    ]
    assert repository == listing.items[0]
    assert server.requests[0].query["include_subgroups"] == "true"
    assert server.requests[0].headers["private-token"] == TOKEN


def test_an_incomplete_list_has_a_problem_and_a_refused_list_raises(tmp_path: Path) -> None:
    def broken(request: HttpRequest) -> Answer:
        if "page" in request.query:
            return json_answer({"message": "Not Found"}, 404)
        return json_answer(
            [make_github(1)], link=f'<{server.url}/orgs/acme/repos?page=2>; rel="next"'
        )

    with serve(by_path({"/orgs/acme/repos": broken})) as server:
        github, _ = open_forges({"GITHUB_API_URL": server.url}, tmp_path)
        listing = github.list_repositories("acme")
        with pytest.raises(EngineError) as caught:
            github.list_repositories("nobody")
    assert len(listing.items) == 1
    assert listing.problem
    assert caught.value.slug.startswith("forge-")
