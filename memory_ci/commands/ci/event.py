"""Why a CI job runs, and so what it may do: read from the variables of the job and, on GitHub, from its event."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from memory_ci.errors import RepositoryError, UsageError
from memory_ci.files import read_regular
from memory_ci.gitrepo.repo import read_tips
from memory_ci.memory.workspace import Workspace
from memory_ci.records.names import HEADS, short_branch

CiProvider = Literal["github", "gitlab", "none"]
BRANCH_EVENTS = ("push", "schedule", "workflow_dispatch")
BRANCH_SOURCES = ("push", "schedule", "web", "api", "trigger", "pipeline", "parent_pipeline")
"""What starts a pipeline of a branch (docs.gitlab.com, CI_PIPELINE_SOURCE)."""

NUMBER = re.compile(r"[1-9][0-9]{0,17}")
MAX_EVENT_BYTES = (
    32 << 20
)  # GitHub drops events of more than 25 MB (docs.github.com, "Webhook events and payloads").


class CiJob(msgspec.Struct, frozen=True):
    """What to do, and why. `base` is what a change is to be merged into, `branch` where to record (a short name).

    `is_fork`: the change comes from a repository whose people may not write to this one. `number` is that of the
    request.
    """

    kind: Literal["verify", "record", "nothing"]
    reason: str
    base: str | None = None
    branch: str | None = None
    is_fork: bool = False
    number: int | None = None


class _Repo(msgspec.Struct, frozen=True):
    full_name: str = ""
    default_branch: str = ""
    fork: bool = False


class _Side(msgspec.Struct, frozen=True):
    sha: str = ""
    repo: _Repo | None = None


class _PullRequest(msgspec.Struct, frozen=True):
    number: int | None = None
    base: _Side = _Side()
    head: _Side = _Side()


class _MergeGroup(msgspec.Struct, frozen=True):
    base_sha: str = ""


class _Event(msgspec.Struct, frozen=True):
    """The part of a payload that decides here (docs.github.com, "Webhook events and payloads")."""

    repository: _Repo = _Repo()
    pull_request: _PullRequest | None = None
    merge_group: _MergeGroup | None = None


def find_provider(environ: Mapping[str, str]) -> CiProvider:
    """Whose job this is, by the variable that each sets in every job."""
    if "GITHUB_ACTIONS" in environ:
        return "github"
    return "gitlab" if "GITLAB_CI" in environ else "none"


def find_job(workspace: Workspace, provider: CiProvider, environ: Mapping[str, str]) -> CiJob:
    """What this job is to do. Raises UsageError: bad-event, event-refused."""
    if provider == "gitlab":
        return gitlab_job(environ)
    if provider == "github":
        try:
            event = read_regular(Path(environ.get("GITHUB_EVENT_PATH", "")), MAX_EVENT_BYTES)
        except OSError as error:
            hint = "GITHUB_EVENT_PATH names it in every job; outside of one: memory-ci ci --provider none."
            raise UsageError(
                f"the event cannot be read: {error.strerror}", slug="bad-event", hint=hint
            ) from error
        return github_job(environ, event)
    # Else by the branch that is checked out: the default one is recorded on, any other is a change to it.
    tips = read_tips(workspace.repo)
    if not tips.work:
        return CiJob("record", "the default branch is checked out")
    if not tips.default:
        message = (
            f"{tips.work!r} is checked out, and which branch is the default one cannot be told"
        )
        hint = "Name the base: memory-ci verify --base REV; or record on this branch: memory-ci record --branch NAME."
        raise RepositoryError(message, slug="no-default-branch", hint=hint)
    return CiJob("verify", f"the branch {tips.work}", base=tips.default)


def github_job(environ: Mapping[str, str], data: bytes) -> CiJob:
    """By the event of a workflow. Raises UsageError: bad-event, or event-refused for one that must not be served."""
    try:
        name, event = environ.get("GITHUB_EVENT_NAME", ""), msgspec.json.decode(data, type=_Event)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "It is GitHub's to write: see what GITHUB_EVENT_PATH holds."
        raise UsageError(
            f"the event is not one of GitHub: {error}", slug="bad-event", hint=hint
        ) from error
    if name == "pull_request" and event.pull_request:
        request = event.pull_request
        base, head = request.base.repo, request.head.repo
        # A head whose repository is gone was a fork: nothing is known of it.
        is_fork = base is None or head is None or base.full_name != head.full_name
        return CiJob(
            "verify",
            "a pull request",
            base=request.base.sha,
            is_fork=is_fork,
            number=request.number,
        )
    if name == "merge_group" and event.merge_group:
        return CiJob("verify", "a merge queue", base=event.merge_group.base_sha)
    if name not in BRANCH_EVENTS:
        raise _refusal(name)
    if event.repository.fork:
        return CiJob(
            "nothing", "this repository is a fork: memory is recorded where the work is merged"
        )
    ref = environ.get("GITHUB_REF", "")
    # A schedule runs on the default branch alone, and its event need not describe the repository.
    return _branch_job(
        name, ref, ref if name == "schedule" else HEADS + event.repository.default_branch
    )


def gitlab_job(environ: Mapping[str, str]) -> CiJob:
    """By the predefined variables of a pipeline. Raises UsageError (event-refused)."""
    source = environ.get("CI_PIPELINE_SOURCE", "")
    if source == "merge_request_event":
        project, home = (
            environ.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID"),
            environ.get("CI_MERGE_REQUEST_PROJECT_ID"),
        )
        base, iid = (
            environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA"),
            environ.get("CI_MERGE_REQUEST_IID", ""),
        )
        number = int(iid) if NUMBER.fullmatch(iid) else None
        return CiJob("verify", "a merge request", base=base, is_fork=project != home, number=number)
    if source not in BRANCH_SOURCES:
        raise _refusal(source)
    return _branch_job(
        source, environ.get("CI_COMMIT_BRANCH", ""), environ.get("CI_DEFAULT_BRANCH", "")
    )


def _branch_job(name: str, ref: str, default: str) -> CiJob:
    branch = short_branch(ref)
    if not branch or ref != default:
        return CiJob(
            "nothing",
            f"{name} of {branch or 'no branch'}: memory is recorded on the default branch",
        )
    return CiJob("record", name, branch=branch)


def _refusal(name: str) -> UsageError:
    """`pull_request_target` runs with secrets on the words of strangers; others say nothing of what was merged."""
    hint = "Run it on pull_request, merge_group, push, schedule or workflow_dispatch (`memory-ci help ci`)."
    message = f"memory-ci does not run on {name or 'an event without a name'}"
    return UsageError(message, slug="event-refused", hint=hint)
