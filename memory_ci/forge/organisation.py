"""The repositories of an organisation or group, with who may see each, as GitHub and GitLab list them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from memory_ci.forge.http import Budget
from memory_ci.forge.rest import Client, Listing, require
from memory_ci.forge.selection import connect
from memory_ci.text import plain_host

# Of one sync: a hundred repositories a page; what did not change costs none of a token's hour.
MAX_REQUESTS, MAX_SECONDS, MAX_PAGES = 4_000, 3_600.0, 1_000
Visibility = Literal["public", "internal", "private"]


class ForgeRepository(msgspec.Struct, frozen=True):
    """A repository as its forge knows it; `stamp` changes with every push, "" where the forge does not say."""

    id: str
    name: str
    link: str
    address: str
    visibility: Visibility
    stamp: str = ""


class _GitHubRepository(msgspec.Struct, frozen=True):
    id: int
    full_name: str
    html_url: str
    clone_url: str
    private: bool
    visibility: Visibility | None = None
    pushed_at: str | None = None
    default_branch: str = ""


class _GitLabProject(msgspec.Struct, frozen=True):
    id: int
    path_with_namespace: str
    web_url: str
    http_url_to_repo: str
    visibility: Visibility = "private"


class OrgForge(NamedTuple):
    """What lists repositories: one forge, asked with the token of the environment if it has one."""

    name: Literal["github", "gitlab"]
    client: Client
    host: str
    has_token: bool

    def list_repositories(self, owner: str) -> Listing[ForgeRepository]:
        """Those of an organisation or group. Raises EngineError (`forge-…`) where nothing of the list can be read."""
        if self.name == "github":
            path = f"/orgs/{quote(owner, safe='')}/repos"
            listing = require(self.client.list_all(path, _GitHubRepository, query={"type": "all"}, pages=MAX_PAGES))
            return Listing(tuple(map(self._from_github, listing.items)), listing.problem)
        query = {"include_subgroups": "true", "with_shared": "false", "order_by": "id"}
        path = f"/groups/{quote(owner, safe='')}/projects"
        projects = require(self.client.list_all(path, _GitLabProject, query=query, pages=MAX_PAGES))
        return Listing(tuple(map(self._from_gitlab, projects.items)), projects.problem)

    def find_repository(self, name: str) -> ForgeRepository | None:
        """The repository of this name (`owner/name`), also by an older one; None where there is none for this token."""
        if self.name == "github":
            found = self.client.find(f"/repos/{quote(name)}", _GitHubRepository)
            return self._from_github(found) if found else None
        project = self.client.find(f"/projects/{quote(name, safe='')}", _GitLabProject)
        return self._from_gitlab(project) if project else None

    def _from_github(self, one: _GitHubRepository) -> ForgeRepository:
        visibility = one.visibility or ("private" if one.private else "public")
        stamp = f"{one.pushed_at} {one.default_branch}" if one.pushed_at else ""
        return ForgeRepository(f"{self.host}#{one.id}", one.full_name, one.html_url, one.clone_url, visibility, stamp)

    def _from_gitlab(self, one: _GitLabProject) -> ForgeRepository:
        id_ = f"{self.host}#{one.id}"
        return ForgeRepository(id_, one.path_with_namespace, one.web_url, one.http_url_to_repo, one.visibility)


def open_forges(environ: Mapping[str, str], cache_dir: Path) -> tuple[OrgForge, OrgForge]:
    """GitHub and GitLab at the addresses of the environment. Raises EngineError as `choose_forge`."""

    def open_forge(name: Literal["github", "gitlab"], server: str) -> OrgForge:
        client, has_token = connect(name, environ, Budget(requests=MAX_REQUESTS, seconds=MAX_SECONDS), cache_dir)
        return OrgForge(name, client, plain_host(urlsplit(server).netloc), has_token)

    return (
        open_forge("github", environ.get("GITHUB_SERVER_URL") or "https://github.com"),
        open_forge("gitlab", environ.get("CI_SERVER_URL") or "https://gitlab.com"),
    )
