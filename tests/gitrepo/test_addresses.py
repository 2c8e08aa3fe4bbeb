"""Tests of web addresses of the parts of a repository, by its host."""

from __future__ import annotations

import pytest

from memory_ci.commands.report.inputs import RepositoryLinks
from memory_ci.gitrepo.addresses import is_on_gitlab, link_to

SHA = "3f2ab91" + "0" * 33
GITHUB = "https://github.com/acme/gitlab-tools"
GITLAB = "https://gitlab.acme.dev/acme/github-tools"


@pytest.mark.parametrize(
    ("address", "request_path", "commit_path", "file_path"),
    [
        (GITHUB, "pull/5", "commit/", "blob/"),
        (GITLAB, "-/merge_requests/5", "-/commit/", "-/blob/"),
    ],
)
def test_the_address_of_a_part_depends_on_the_host(
    address: str, request_path: str, commit_path: str, file_path: str
) -> None:
    links = RepositoryLinks(address, SHA)
    assert links.link_origin("pr:5").url == f"{address}/{request_path}"
    assert link_to(address, 5, SHA) == f"{address}/{request_path}"
    assert links.link_commit(SHA).url == f"{address}/{commit_path}{SHA}"
    assert link_to(address, None, SHA).startswith(f"{address}/{commit_path}3f2ab91")
    assert links.file_url("a b.py") == f"{address}/{file_path}{SHA}/a%20b.py"


def test_a_repository_without_an_address_has_no_links() -> None:
    links = RepositoryLinks("", SHA)
    assert (links.link_origin("pr:5").url, links.link_commit(SHA).url) == ("", "")
    assert (links.file_url("a.py"), link_to("", 5, SHA), link_to(GITHUB, None, "")) == ("", "", "")


@pytest.mark.parametrize(
    ("remote", "is_gitlab"),
    [
        ("git@gitlab.com:acme/shop.git", True),
        ("ssh://git@GitLab.acme.dev:2222/acme/shop", True),
        ("https://gitlab:token@github.com/acme/shop", False),
        ("git@github.com:gitlab/shop.git", False),
        ("/srv/gitlab/shop.git", False),
    ],
)
def test_the_forge_is_recognised_by_the_host_of_a_remote(remote: str, is_gitlab: bool) -> None:
    assert is_on_gitlab(remote) is is_gitlab
