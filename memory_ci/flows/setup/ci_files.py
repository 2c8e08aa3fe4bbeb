"""What `init` writes for pre-commit and for CI: our hooks, a workflow of GitHub, an include of GitLab.

All name one release of memory-ci: where it is kept, from the package's metadata, and its tag, `v` and the version.
"""

from __future__ import annotations

import re

import msgspec

from memory_ci import __version__
from memory_ci.errors import UsageError
from memory_ci.flows.setup.blocks import add_items, add_keys, list_keys
from memory_ci.flows.setup.manual import list_urls
from memory_ci.store.yamltext import format_flow_scalar

SOURCE = re.compile(r"(?:(https://[\w.:-]+)/)?([\w.-]+(?:/[\w.-]+)+)@(v\d+(?:\.\d+)*|[0-9a-f]{40})")
REPOSITORY = re.compile(r"Repository, *(https://[^/]+)/(\S+?)(?:\.git)?/?")
TAG = f"v{__version__}"
TYPES = ("pre-commit", "pre-merge-commit", "prepare-commit-msg", "pre-push")
BY_HAND = re.compile(
    r"memory-ci-(?:check|fix|notes|trailers|push|sync)|\S*/memory-ci(?:/\S*)?@\S+|.*\bmemory-ci ci\b.*"
)
"""A text in a file of pre-commit or of CI that calls memory-ci already."""


class Release(msgspec.Struct, frozen=True):
    """A release of memory-ci: the forge, the repository there, and the tag or commit."""

    host: str
    path: str
    rev: str

    @property
    def url(self) -> str:
        return f"{self.host}/{self.path}"


def read_source(text: str) -> Release:
    """What `--ci-source` names. Raises UsageError (bad-ci-source)."""
    if found := SOURCE.fullmatch(text):
        return Release(found[1] or "https://github.com", found[2], found[3])
    hint = f"Write OWNER/REPO@{TAG}, or https://HOST/OWNER/REPO@ and a tag or a full commit: a branch would move."
    raise UsageError(f"{text!r} names no release of memory-ci", slug="bad-ci-source", hint=hint)


def find_release() -> Release | None:
    """The release that is installed, None where its metadata names no repository (the Project-URL Repository)."""
    found = next((match for url in list_urls() if (match := REPOSITORY.fullmatch(url))), None)
    return Release(found[1], found[2], TAG) if found else None


def need_release(source: str | None, *, is_tag: bool) -> Release:
    """The release that is named (`is_tag`: not by a commit), else the one that is installed.

    Raises UsageError: bad-ci-source, no-ci-source.
    """
    release = read_source(source) if source else find_release()
    if release is None:
        message = "where memory-ci is kept is not known: this package names no repository in its metadata yet"
        hint = f"Say which release hooks and CI are to run: --ci-source OWNER/REPO@{TAG}"
        raise UsageError(message, slug="no-ci-source", hint=hint)
    if is_tag and not release.rev.startswith("v"):
        message = f"GitLab's component installs a tag of memory-ci, and {release.rev[:10]} is a commit"
        raise UsageError(message, slug="bad-ci-source", hint=f"Name a tag: {release.path}@{TAG}")
    return release


# -- pre-commit


def pre_commit_item(release: Release) -> str:
    """Our hooks, as an item of `repos`."""
    return f"""\
- repo: {release.url}
  rev: {release.rev}
  hooks:
  - id: memory-ci-check # memory files in order? As they are staged
  - id: memory-ci-notes # stages what agents marked as worth remembering
  - id: memory-ci-trailers # notes in a commit which memory its work was given
  - id: memory-ci-push # sends captured sessions along
"""


def whole_pre_commit(release: Release) -> str:
    """The file where there is none."""
    return f"{_types()}repos:\n{pre_commit_item(release)}"


def add_pre_commit(text: str, release: Release) -> str:
    """The file with our hooks, and the types of hooks they need where it names none. Raises YamlTextError."""
    keys, item = list_keys(text), pre_commit_item(release)
    more = "" if "default_install_hook_types" in keys else _types()
    if more and "default_stages" not in keys and "repos" in keys:
        more += "default_stages: [pre-commit, manual] # hooks that name no stage run when they ran before\n"
    if "repos" not in keys:
        return add_keys(text, f"{more}repos:\n{item}")
    text = add_items(text, "repos", item)
    return add_keys(text, more) if more else text


def list_missing_types(text: str) -> list[str]:
    """The types of hooks that ours need and that the file's own list leaves out. Raises YamlTextError."""
    own = list_keys(text).get("default_install_hook_types", TYPES)
    return [name for name in TYPES if name not in own]


def _types() -> str:
    return f"default_install_hook_types: [{', '.join(TYPES)}]\n"


# -- GitHub and GitLab


def github_workflow(release: Release, branch: str) -> str:
    """The workflow that calls ours."""
    return f"""\
# What was merged becomes committed memory; what a pull request does to memory is verified.
# {release.url}/blob/{release.rev}/docs/ci.md explains it.
name: memory

on:
  pull_request: # verify
  merge_group: # verify
  push: # record what was merged
    branches: [{format_flow_scalar(branch)}]
  schedule:
    - cron: "17 3 * * 1" # once a week: makes up for runs that were cancelled or dropped
  workflow_dispatch:

permissions: {{}} # none but for what the job below names

jobs:
  memory:
    # The most that its jobs may have. Each takes less: the one that reads with a model's key can write nothing.
    permissions:
      contents: write # to commit memory; only the job that applies the plan has it
      pull-requests: write # to open the memory pull request, and to comment where a change touches cited code
      checks: read # checks that failed tell what went wrong in merged work
    uses: {release.path}/.github/workflows/memory.yml@{release.rev}
    with:
      # To the branch, or as a pull request where the branch is protected.
      push: auto
"""


def gitlab_item(release: Release, stage: str = "test") -> str:
    """Our component, as an item of `include`."""
    inputs = f"      stage: {format_flow_scalar(stage)}\n" if stage != "test" else ""
    return f"""\
  - component: $CI_SERVER_FQDN/{release.path}/memory@{release.rev}
    inputs:
      source: {release.url}
      release: {release.rev}
      # To the branch, or as a merge request where the branch is protected.
      push: auto
{inputs}"""


def whole_gitlab(release: Release) -> str:
    """The file where there is none, or where it includes nothing."""
    return f"include:\n{gitlab_item(release)}"


def add_gitlab(text: str, release: Release) -> str:
    """The file with our component, in a stage that it has. Raises YamlTextError."""
    keys = list_keys(text)
    stages = keys.get("stages", ("test",))
    item = gitlab_item(release, "test" if "test" in stages or not stages else stages[-1])
    if "include" not in keys:
        return add_keys(text, f"include:\n{item}")
    return add_items(text, "include", re.sub("(?m)^  ", "", item))
