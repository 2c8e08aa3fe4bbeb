"""Which forge a job may ask, and why that one: decided by the environment of the job and the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from memory_ci.forge import Forge, github, gitlab
from memory_ci.forge.budget import Budget
from memory_ci.forge.cache import ReplyCache
from memory_ci.forge.http import Transport
from memory_ci.forge.offline import Offline
from memory_ci.forge.rest import Client
from memory_ci.records.config import ForgeConfig

GITHUB_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
GITLAB_TOKENS = {"GITLAB_TOKEN": "private-token", "CI_JOB_TOKEN": "job-token"}
"""Variables, and the header in which GitLab wants each."""

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
    return None, _missing(config)


def _github(environ: Mapping[str, str], budget: Budget, cache: ReplyCache) -> tuple[Forge, str] | None:
    name = next((name for name in GITHUB_TOKENS if environ.get(name, "").strip()), None)
    repository = environ.get("GITHUB_REPOSITORY", "")
    if name is None or not REPOSITORY.fullmatch(repository):
        return None
    secrets = {"authorization": f"Bearer {environ[name].strip()}"}
    base = environ.get("GITHUB_API_URL") or github.API
    transport = Transport(base, headers=github.HEADERS, secrets=secrets, budget=budget)
    return github.GitHub(Client(transport, cache), repository), f"GitHub: GITHUB_REPOSITORY and {name} are set"


def _gitlab(environ: Mapping[str, str], budget: Budget, cache: ReplyCache) -> tuple[Forge, str] | None:
    name = next((name for name in GITLAB_TOKENS if environ.get(name, "").strip()), None)
    project = environ.get("CI_PROJECT_ID", "")
    if name is None or not project:
        return None
    secrets = {GITLAB_TOKENS[name]: environ[name].strip()}
    base = environ.get("CI_API_V4_URL") or gitlab.API
    transport = Transport(base, headers={"accept": "application/json"}, secrets=secrets, budget=budget)
    return gitlab.GitLab(Client(transport, cache), project), f"GitLab: CI_PROJECT_ID and {name} are set"


def _missing(config: ForgeConfig) -> str:
    wanted = {
        "github": "GITHUB_REPOSITORY with GITHUB_TOKEN, or GITHUB_EVENT_PATH",
        "gitlab": "CI_PROJECT_ID with GITLAB_TOKEN",
    }
    named = wanted.get(config.name) or " nor ".join(wanted.values())
    return f"the environment has not {named}"
