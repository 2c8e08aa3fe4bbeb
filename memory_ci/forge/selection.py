"""Connect to GitHub or GitLab as environment and configuration say; list their repositories."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from memory_ci.forge import github, gitlab
from memory_ci.forge.http import Budget, Transport
from memory_ci.forge.proposals import GitHubCommitter, GitHubProposals, GitLabProposals, Proposals
from memory_ci.forge.rest import Client, Listing, require_items
from memory_ci.records.config import ForgeConfig
from memory_ci.regex import Regex
from memory_ci.text import plain_host

Forge = github.GitHub | gitlab.GitLab | github.EventReader
ForgeName = Literal["github", "gitlab"]
Visibility = Literal["public", "internal", "private"]

GITHUB_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
GITLAB_TOKENS = ("GITLAB_TOKEN",)
"""GitLab's own token of a job, CI_JOB_TOKEN, can neither read nor open merge requests."""

TOKENS: Mapping[ForgeName, tuple[str, ...]] = {"github": GITHUB_TOKENS, "gitlab": GITLAB_TOKENS}
REPOSITORY = Regex(r"[\w.-]+/[\w.-]+")

GITHUB_NEEDS = "GitHub needs GITHUB_REPOSITORY and GITHUB_TOKEN, or GITHUB_EVENT_PATH"
GITLAB_NEEDS = "GitLab needs CI_PROJECT_ID and GITLAB_TOKEN"

# Limits of one sync of an organisation: a page has a hundred repositories, and an unchanged one
# costs none of a token's hour.
MAX_REQUESTS = 4_000
MAX_SECONDS = 3_600.0
MAX_PAGES = 1_000


# -- the forge of a job


def choose_forge(
    config: ForgeConfig, environ: Mapping[str, str], cache_dir: Path, budget: Budget | None = None
) -> tuple[Forge | None, str]:
    """Return the forge to read pull requests from, or None, and the reason for the choice.

    Addresses and tokens come from `environ` alone, never from the configuration.

    Args:
        config: the configuration, which may name a forge.
        environ: the environment variables of the job.
        cache_dir: the directory for cached replies.
        budget: the budget of requests; a new one by default.

    Raises:
        EngineError: forge-failed for an address that is not secure, forge-unauthorised for a
            malformed token.
    """
    if config.name == "none":
        return None, "the configuration says forge: none"
    budget = budget or Budget()
    client = _connect_job(config, "github", environ, budget, cache_dir)
    if client:
        token_name, _ = _find_token(environ, GITHUB_TOKENS)
        reason = f"GitHub: GITHUB_REPOSITORY and {token_name} are set"
        return github.GitHub(client, environ["GITHUB_REPOSITORY"]), reason
    client = _connect_job(config, "gitlab", environ, budget, cache_dir)
    if client:
        reason = f"GitLab: CI_PROJECT_ID and {GITLAB_TOKENS[0]} are set"
        return gitlab.GitLab(client, environ["CI_PROJECT_ID"]), reason

    event = environ.get("GITHUB_EVENT_PATH")
    if event and config.name != "gitlab":
        reason = "no token: only the event of the job (GITHUB_EVENT_PATH)"
        return github.EventReader(Path(event)), reason
    if config.name != "github" and environ.get("CI_PROJECT_ID"):
        return None, f"no token: {GITLAB_TOKENS[0]} with read_api"
    return None, f"{_describe_needs(config)} (in the environment)"


def _describe_needs(config: ForgeConfig) -> str:
    if config.name == "github":
        return GITHUB_NEEDS
    if config.name == "gitlab":
        return GITLAB_NEEDS
    return f"{GITHUB_NEEDS}; {GITLAB_NEEDS}"


def choose_proposals(
    config: ForgeConfig, environ: Mapping[str, str], cache_dir: Path
) -> Proposals | None:
    """Return the forge on which pull requests may be opened and commented on, or None.

    Raises:
        EngineError: as `choose_forge`.
    """
    budget = Budget()
    client = _connect_job(config, "github", environ, budget, cache_dir)
    if client:
        return GitHubProposals(client, environ["GITHUB_REPOSITORY"], _graphql_address(environ))
    client = _connect_job(config, "gitlab", environ, budget, cache_dir)
    if client:
        return GitLabProposals(client, environ["CI_PROJECT_ID"])
    return None


def choose_committer(environ: Mapping[str, str], cache_dir: Path) -> GitHubCommitter | None:
    """Return the API that creates commits, which only GitHub has; None without a token for it.

    Raises:
        EngineError: as `choose_forge`.
    """
    client = _connect_job(ForgeConfig("github"), "github", environ, Budget(), cache_dir)
    if client is None:
        return None
    return GitHubCommitter(client, _graphql_address(environ), environ["GITHUB_REPOSITORY"])


def _connect_job(
    config: ForgeConfig,
    name: ForgeName,
    environ: Mapping[str, str],
    budget: Budget,
    cache_dir: Path,
) -> Client | None:
    """Return a client for the API of the forge `name`, for the repository of the job.

    None where the configuration names another forge, or the environment has no repository or no
    token for this one.

    Args:
        config: the configuration, which may name a forge.
        name: the forge to connect to.
        environ: the environment variables of the job.
        budget: the budget of requests.
        cache_dir: the directory for cached replies.
    """
    if config.name not in ("auto", name):
        return None
    if name == "github":
        has_repository = bool(REPOSITORY.fullmatch(environ.get("GITHUB_REPOSITORY", "")))
    else:
        has_repository = bool(environ.get("CI_PROJECT_ID"))
    _, token = _find_token(environ, TOKENS[name])
    if not has_repository or not token:
        return None
    return _connect(name, environ, budget, cache_dir)


def _connect(
    name: ForgeName, environ: Mapping[str, str], budget: Budget, cache_dir: Path
) -> Client:
    """Return a client for a forge at the address of the environment, with its token if any."""
    _, token = _find_token(environ, TOKENS[name])
    if name == "github":
        base = environ.get("GITHUB_API_URL") or github.API
        headers = github.HEADERS
        secrets = {"authorization": f"Bearer {token}"}
    else:
        base = environ.get("CI_API_V4_URL") or gitlab.API
        headers = {"accept": "application/json"}
        secrets = {"private-token": token}
    transport = Transport(base, headers=headers, secrets=secrets if token else {}, budget=budget)
    return Client(transport, cache_dir)


def _find_token(environ: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    """Return the first variable that holds a token, and the token; both "" if none does."""
    for name in names:
        token = environ.get(name, "").strip()
        if token:
            return name, token
    return "", ""


def _graphql_address(environ: Mapping[str, str]) -> str:
    """Return the address of GitHub's GraphQL API; on a server of one's own it is not below /v3."""
    base = (environ.get("GITHUB_API_URL") or github.API).rstrip("/")
    return environ.get("GITHUB_GRAPHQL_URL") or f"{base.removesuffix('/v3')}/graphql"


# -- the repositories of an organisation


class ForgeRepository(msgspec.Struct, frozen=True):
    """A repository of a forge; `stamp` changes with every push, "" where the forge has none."""

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
    """A forge whose repositories are listed.

    Attributes:
        name: its name.
        client: the client of its API.
        host: its host.
        has_token: whether the environment has a token for it.
    """

    name: ForgeName
    client: Client
    host: str
    has_token: bool

    def list_repositories(self, owner: str) -> Listing[ForgeRepository]:
        """Return the repositories of an organisation or group.

        Raises:
            EngineError: `forge-…`, where nothing of the list can be read.
        """
        if self.name == "github":
            path = f"/orgs/{quote(owner, safe='')}/repos"
            query = {"type": "all"}
            listing = self.client.list_all(path, _GitHubRepository, query=query, pages=MAX_PAGES)
            repositories = tuple(self._from_github(item) for item in require_items(listing).items)
            return Listing(repositories, listing.problem)
        path = f"/groups/{quote(owner, safe='')}/projects"
        query = {"include_subgroups": "true", "with_shared": "false", "order_by": "id"}
        projects = self.client.list_all(path, _GitLabProject, query=query, pages=MAX_PAGES)
        repositories = tuple(self._from_gitlab(item) for item in require_items(projects).items)
        return Listing(repositories, projects.problem)

    def find_repository(self, name: str) -> ForgeRepository | None:
        """Return the repository with a present or former name (`owner/name`).

        None if no repository has the name, or the token may not read it.
        """
        if self.name == "github":
            repository = self.client.find(f"/repos/{quote(name)}", _GitHubRepository)
            return self._from_github(repository) if repository else None
        project = self.client.find(f"/projects/{quote(name, safe='')}", _GitLabProject)
        return self._from_gitlab(project) if project else None

    def _from_github(self, repository: _GitHubRepository) -> ForgeRepository:
        """Convert a repository of GitHub's API to our record.

        Its `stamp` changes with every push, so that an unchanged repository is not read again.
        """
        default: Visibility = "private" if repository.private else "public"
        stamp = ""
        if repository.pushed_at:
            stamp = f"{repository.pushed_at} {repository.default_branch}"
        return ForgeRepository(
            id=f"{self.host}#{repository.id}",
            name=repository.full_name,
            link=repository.html_url,
            address=repository.clone_url,
            visibility=repository.visibility or default,
            stamp=stamp,
        )

    def _from_gitlab(self, project: _GitLabProject) -> ForgeRepository:
        """Convert a project of GitLab's API to our record."""
        return ForgeRepository(
            id=f"{self.host}#{project.id}",
            name=project.path_with_namespace,
            link=project.web_url,
            address=project.http_url_to_repo,
            visibility=project.visibility,
        )


def open_forges(environ: Mapping[str, str], cache_dir: Path) -> tuple[OrgForge, OrgForge]:
    """Return GitHub and GitLab at the addresses of the environment.

    Raises:
        EngineError: as `choose_forge`.
    """
    github_server = environ.get("GITHUB_SERVER_URL") or "https://github.com"
    gitlab_server = environ.get("CI_SERVER_URL") or "https://gitlab.com"
    return (
        _open_forge("github", github_server, environ, cache_dir),
        _open_forge("gitlab", gitlab_server, environ, cache_dir),
    )


def _open_forge(
    name: ForgeName, server: str, environ: Mapping[str, str], cache_dir: Path
) -> OrgForge:
    budget = Budget(requests=MAX_REQUESTS, seconds=MAX_SECONDS)
    client = _connect(name, environ, budget, cache_dir)
    _, token = _find_token(environ, TOKENS[name])
    return OrgForge(name, client, plain_host(urlsplit(server).netloc), bool(token))
