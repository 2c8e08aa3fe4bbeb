"""Which forge a job may ask, and why that one: decided by the environment of the job and the configuration.

Also the repositories of an organisation or group, with who may see each, as GitHub and GitLab list them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from memory_ci.forge import github, gitlab
from memory_ci.forge.http import Budget, Transport
from memory_ci.forge.proposals import GitHubCommitter, GitHubProposals, GitLabProposals, Proposals
from memory_ci.forge.rest import Client, Listing, require
from memory_ci.records.config import ForgeConfig
from memory_ci.text import plain_host

Forge = github.GitHub | gitlab.GitLab | github.Offline
GITHUB_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
# GitLab gives a job's own token, CI_JOB_TOKEN, no merge requests, neither to read nor to open.
GITLAB_TOKENS = ("GITLAB_TOKEN",)
TOKENS: dict[str, tuple[str, ...]] = {"github": GITHUB_TOKENS, "gitlab": GITLAB_TOKENS}
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def choose_forge(
    config: ForgeConfig, environ: Mapping[str, str], cache_dir: Path, budget: Budget | None = None
) -> tuple[Forge | None, str]:
    """The forge to ask, and the reason, for the report. Addresses and tokens come from `environ` alone. Raises
    EngineError (forge-failed, forge-unauthorised) for an address that is not secure, or a token that is none."""
    if config.name == "none":
        return None, "the configuration says forge: none"
    spent = budget or Budget()
    if client := _job_client(config, "github", environ, spent, cache_dir):
        why = f"GitHub: GITHUB_REPOSITORY and {_find_token(environ, GITHUB_TOKENS)[0]} are set"
        return github.GitHub(client, environ["GITHUB_REPOSITORY"]), why
    if client := _job_client(config, "gitlab", environ, spent, cache_dir):
        return gitlab.GitLab(
            client, environ["CI_PROJECT_ID"]
        ), f"GitLab: CI_PROJECT_ID and {GITLAB_TOKENS[0]} are set"
    event = environ.get("GITHUB_EVENT_PATH")
    if event and config.name != "gitlab":
        return github.Offline(
            Path(event)
        ), "no token: only the event of the job (GITHUB_EVENT_PATH)"
    if config.name != "github" and environ.get("CI_PROJECT_ID"):
        return None, f"no token: {GITLAB_TOKENS[0]} with read_api"
    wanted = {
        "github": "GitHub needs GITHUB_REPOSITORY and GITHUB_TOKEN, or GITHUB_EVENT_PATH",
        "gitlab": "GitLab needs CI_PROJECT_ID and GITLAB_TOKEN",
    }
    return None, f"{wanted.get(config.name) or '; '.join(wanted.values())} (in the environment)"


def choose_proposals(
    config: ForgeConfig, environ: Mapping[str, str], cache_dir: Path
) -> Proposals | None:
    """The forge on which pull requests may be opened and commented on, or None. Raises as `choose_forge`."""
    budget = Budget()
    if client := _job_client(config, "github", environ, budget, cache_dir):
        return GitHubProposals(client, environ["GITHUB_REPOSITORY"], _graphql(environ))
    if client := _job_client(config, "gitlab", environ, budget, cache_dir):
        return GitLabProposals(client, environ["CI_PROJECT_ID"])
    return None


def choose_committer(environ: Mapping[str, str], cache_dir: Path) -> GitHubCommitter | None:
    """The API that makes commits on a branch, which GitHub alone has; None without a token for it."""
    client = _job_client(ForgeConfig("github"), "github", environ, Budget(), cache_dir)
    return (
        GitHubCommitter(client, _graphql(environ), environ["GITHUB_REPOSITORY"]) if client else None
    )


def connect(
    name: str, environ: Mapping[str, str], budget: Budget, cache_dir: Path
) -> tuple[Client, bool]:
    """A client for GitHub or GitLab at the address of the environment, and whether it has a token."""
    _, token = _find_token(environ, TOKENS[name])
    if name == "github":
        base, headers = environ.get("GITHUB_API_URL") or github.API, github.HEADERS
        secrets = {"authorization": f"Bearer {token}"}
    else:
        base, headers = environ.get("CI_API_V4_URL") or gitlab.API, {"accept": "application/json"}
        secrets = {"private-token": token}
    transport = Transport(base, headers=headers, secrets=secrets if token else {}, budget=budget)
    return Client(transport, cache_dir), bool(token)


def _job_client(
    config: ForgeConfig, name: str, environ: Mapping[str, str], budget: Budget, cache_dir: Path
) -> Client | None:
    """A client for the API of the job's repository, if the configuration lets it be asked and the job has a token."""
    if name == "github":
        is_there = bool(REPOSITORY.fullmatch(environ.get("GITHUB_REPOSITORY", "")))
    else:
        is_there = bool(environ.get("CI_PROJECT_ID"))
    if (
        config.name not in ("auto", name)
        or not is_there
        or not _find_token(environ, TOKENS[name])[1]
    ):
        return None
    return connect(name, environ, budget, cache_dir)[0]


def _find_token(environ: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    """The first of the variables that holds a token, and that; two times "" if none does."""
    return next(
        ((name, token) for name in names if (token := environ.get(name, "").strip())), ("", "")
    )


def _graphql(environ: Mapping[str, str]) -> str:
    base = (environ.get("GITHUB_API_URL") or github.API).rstrip("/")
    return environ.get("GITHUB_GRAPHQL_URL") or f"{base.removesuffix('/v3')}/graphql"


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
            listing = require(
                self.client.list_all(
                    path, _GitHubRepository, query={"type": "all"}, pages=MAX_PAGES
                )
            )
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
        return ForgeRepository(
            f"{self.host}#{one.id}", one.full_name, one.html_url, one.clone_url, visibility, stamp
        )

    def _from_gitlab(self, one: _GitLabProject) -> ForgeRepository:
        id_ = f"{self.host}#{one.id}"
        return ForgeRepository(
            id_, one.path_with_namespace, one.web_url, one.http_url_to_repo, one.visibility
        )


def open_forges(environ: Mapping[str, str], cache_dir: Path) -> tuple[OrgForge, OrgForge]:
    """GitHub and GitLab at the addresses of the environment. Raises EngineError as `choose_forge`."""

    def open_forge(name: Literal["github", "gitlab"], server: str) -> OrgForge:
        client, has_token = connect(
            name, environ, Budget(requests=MAX_REQUESTS, seconds=MAX_SECONDS), cache_dir
        )
        return OrgForge(name, client, plain_host(urlsplit(server).netloc), has_token)

    return (
        open_forge("github", environ.get("GITHUB_SERVER_URL") or "https://github.com"),
        open_forge("gitlab", environ.get("CI_SERVER_URL") or "https://gitlab.com"),
    )
