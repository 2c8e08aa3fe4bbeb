"""Which forge a job may ask, and why that one: decided by the environment of the job and the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from memory_ci.forge import Forge, github, gitlab
from memory_ci.forge.github import Offline
from memory_ci.forge.http import Budget, Transport
from memory_ci.forge.proposals import (
    Comments,
    GitHubComments,
    GitHubCommitter,
    GitHubProposals,
    GitLabComments,
    GitLabProposals,
    Proposals,
)
from memory_ci.forge.rest import Client, ReplyCache
from memory_ci.records.config import ForgeConfig

GITHUB_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
GITLAB_TOKENS = ("GITLAB_TOKEN",)
"""GitLab gives a job's own token, CI_JOB_TOKEN, no merge requests, neither to read nor to open."""

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def choose_forge(
    config: ForgeConfig, environ: Mapping[str, str], cache_dir: Path, budget: Budget | None = None
) -> tuple[Forge | None, str]:
    """The forge to ask, and the reason, for the report. Addresses and tokens come from `environ` alone.

    Raises EngineError (forge-failed, forge-unauthorised) for an address that is not secure, or a token that is none.
    """
    if config.name == "none":
        return None, "the configuration says forge: none"
    spent, cache = budget or Budget(), ReplyCache(cache_dir)
    for name, choose in (("github", _github), ("gitlab", _gitlab)):
        if config.name in ("auto", name) and (found := choose(environ, spent, cache)):
            return found
    event = environ.get("GITHUB_EVENT_PATH")
    if event and config.name != "gitlab":
        return Offline(Path(event)), "no token: only the event of the job (GITHUB_EVENT_PATH)"
    return None, _missing(config, environ)


def choose_proposals(config: ForgeConfig, environ: Mapping[str, str], cache_dir: Path) -> Proposals | None:
    """The forge on which pull requests may be opened, or None. Raises as `choose_forge`."""
    budget, cache = Budget(), ReplyCache(cache_dir)
    if config.name in ("auto", "github") and (found := _github_client(environ, budget, cache)):
        return GitHubProposals(found[0], environ["GITHUB_REPOSITORY"], _graphql(environ))
    if config.name in ("auto", "gitlab") and (client := _gitlab_client(environ, budget, cache)):
        return GitLabProposals(client, environ["CI_PROJECT_ID"])
    return None


def choose_comments(config: ForgeConfig, environ: Mapping[str, str], cache_dir: Path) -> Comments | None:
    """The forge on which requests may be commented on, or None. Raises as `choose_forge`."""
    budget, cache = Budget(), ReplyCache(cache_dir)
    if config.name in ("auto", "github") and (found := _github_client(environ, budget, cache)):
        return GitHubComments(found[0], environ["GITHUB_REPOSITORY"])
    if config.name in ("auto", "gitlab") and (client := _gitlab_client(environ, budget, cache)):
        return GitLabComments(client, environ["CI_PROJECT_ID"])
    return None


def choose_committer(environ: Mapping[str, str], cache_dir: Path) -> GitHubCommitter | None:
    """The API that makes commits on a branch, which GitHub alone has; None without a token for it."""
    found = _github_client(environ, Budget(), ReplyCache(cache_dir))
    if found is None:
        return None
    return GitHubCommitter(found[0], _graphql(environ), environ["GITHUB_REPOSITORY"])


def _graphql(environ: Mapping[str, str]) -> str:
    base = (environ.get("GITHUB_API_URL") or github.API).rstrip("/")
    return environ.get("GITHUB_GRAPHQL_URL") or f"{base.removesuffix('/v3')}/graphql"


def _github(environ: Mapping[str, str], budget: Budget, cache: ReplyCache) -> tuple[Forge, str] | None:
    found = _github_client(environ, budget, cache)
    if found is None:
        return None
    client, name = found
    return github.GitHub(client, environ["GITHUB_REPOSITORY"]), f"GitHub: GITHUB_REPOSITORY and {name} are set"


def _github_client(environ: Mapping[str, str], budget: Budget, cache: ReplyCache) -> tuple[Client, str] | None:
    """A client for the API of the job's repository, and the variable with its token."""
    name = next((name for name in GITHUB_TOKENS if environ.get(name, "").strip()), None)
    if name is None or not REPOSITORY.fullmatch(environ.get("GITHUB_REPOSITORY", "")):
        return None
    secrets = {"authorization": f"Bearer {environ[name].strip()}"}
    base = environ.get("GITHUB_API_URL") or github.API
    return Client(Transport(base, headers=github.HEADERS, secrets=secrets, budget=budget), cache), name


def _gitlab(environ: Mapping[str, str], budget: Budget, cache: ReplyCache) -> tuple[Forge, str] | None:
    client = _gitlab_client(environ, budget, cache)
    if client is None:
        return None
    return gitlab.GitLab(client, environ["CI_PROJECT_ID"]), f"GitLab: CI_PROJECT_ID and {GITLAB_TOKENS[0]} are set"


def _gitlab_client(environ: Mapping[str, str], budget: Budget, cache: ReplyCache) -> Client | None:
    token = environ.get(GITLAB_TOKENS[0], "").strip()
    if not token or not environ.get("CI_PROJECT_ID", ""):
        return None
    secrets = {"private-token": token}
    base = environ.get("CI_API_V4_URL") or gitlab.API
    transport = Transport(base, headers={"accept": "application/json"}, secrets=secrets, budget=budget)
    return Client(transport, cache)


def _missing(config: ForgeConfig, environ: Mapping[str, str]) -> str:
    if config.name != "github" and environ.get("CI_PROJECT_ID"):
        return f"no token: {GITLAB_TOKENS[0]} with read_api"
    wanted = {
        "github": "GitHub needs GITHUB_REPOSITORY and GITHUB_TOKEN, or GITHUB_EVENT_PATH",
        "gitlab": "GitLab needs CI_PROJECT_ID and GITLAB_TOKEN",
    }
    return f"{wanted.get(config.name) or '; '.join(wanted.values())} (in the environment)"
