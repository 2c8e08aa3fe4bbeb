"""The task of a CI job, by the event that started it: variables, and the payload of GitHub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from memory_ci.errors import RepositoryError, UsageError
from memory_ci.files import read_regular
from memory_ci.gitrepo.repo import read_tips
from memory_ci.memory.workspace import Workspace
from memory_ci.records.names import HEADS, short_branch
from memory_ci.regex import Regex

CiProvider = Literal["github", "gitlab", "none"]
BRANCH_EVENTS = ("push", "schedule", "workflow_dispatch")
BRANCH_SOURCES = ("push", "schedule", "web", "api", "trigger", "pipeline", "parent_pipeline")
"""The sources of a pipeline of a branch (docs.gitlab.com, CI_PIPELINE_SOURCE)."""

NUMBER = Regex(r"[1-9][0-9]{0,17}")

MAX_EVENT_BYTES = 32 << 20
"""GitHub drops events of more than 25 MB (docs.github.com, "Webhook events and payloads")."""


class CiJob(msgspec.Struct, frozen=True):
    """The task of a job, and the reason for it.

    Attributes:
        kind: verify a change, record merged work, or do nothing.
        reason: the event, in words.
        base: the revision that a change is to be merged into.
        branch: the branch to record on, as a short name.
        is_fork: whether the change comes from a repository whose members may not write to this one.
        number: the number of the request.
        title: its title.
    """

    kind: Literal["verify", "record", "nothing"]
    reason: str
    base: str | None = None
    branch: str | None = None
    is_fork: bool = False
    number: int | None = None
    title: str = ""


class _Repo(msgspec.Struct, frozen=True):
    full_name: str = ""
    default_branch: str = ""
    fork: bool = False


class _Side(msgspec.Struct, frozen=True):
    sha: str = ""
    repo: _Repo | None = None


class _PullRequest(msgspec.Struct, frozen=True):
    number: int | None = None
    title: str = ""
    base: _Side = _Side()
    head: _Side = _Side()


class _MergeGroup(msgspec.Struct, frozen=True):
    base_sha: str = ""


class _Event(msgspec.Struct, frozen=True):
    """The fields of a payload that are read (docs.github.com, "Webhook events and payloads")."""

    repository: _Repo = _Repo()
    pull_request: _PullRequest | None = None
    merge_group: _MergeGroup | None = None


def find_provider(environ: Mapping[str, str]) -> CiProvider:
    """Return the provider of this job, by the variable that it sets in every job."""
    if "GITHUB_ACTIONS" in environ:
        return "github"
    return "gitlab" if "GITLAB_CI" in environ else "none"


def find_job(workspace: Workspace, provider: CiProvider, environ: Mapping[str, str]) -> CiJob:
    """Return the task of this job: to verify a change, or to record merged work.

    Without a provider the checked-out branch decides: the default branch is recorded on, any other
    is a change to it.

    Raises:
        UsageError: bad-event, event-refused.
        RepositoryError: no-default-branch.
    """
    if provider == "gitlab":
        return gitlab_job(environ)
    if provider == "github":
        return github_job(environ, _read_event(environ))
    tips = read_tips(workspace.repo)
    if not tips.work_branch:
        return CiJob("record", "the default branch is checked out")
    if not tips.default:
        raise RepositoryError(
            f"{tips.work_branch!r} is checked out, and the default branch is unknown",
            slug="no-default-branch",
            hint="Name the base: memory-ci verify --base REV; "
            "or record on this branch: memory-ci record --branch NAME.",
        )
    return CiJob("verify", f"the branch {tips.work_branch}", base=tips.default)


def _read_event(environ: Mapping[str, str]) -> bytes:
    """Return the payload of the event of a workflow, which GitHub writes to a file.

    Raises:
        UsageError: bad-event.
    """
    try:
        return read_regular(Path(environ.get("GITHUB_EVENT_PATH", "")), MAX_EVENT_BYTES)
    except OSError as error:
        raise UsageError(
            f"the event cannot be read: {error.strerror}",
            slug="bad-event",
            hint="GITHUB_EVENT_PATH names it in every job; "
            "outside of one: memory-ci ci --provider none.",
        ) from error


def github_job(environ: Mapping[str, str], data: bytes) -> CiJob:
    """Return the task of a job in GitHub Actions.

    A pull request and a merge queue are verified. A push or schedule records merged changes.

    Args:
        environ: the variables of the job.
        data: the payload of the event, as JSON.

    Raises:
        UsageError: `bad-event`; `event-refused` for any other event: strangers can trigger some of
            them in a job that has secrets.
    """
    name = environ.get("GITHUB_EVENT_NAME", "")
    try:
        event = msgspec.json.decode(data, type=_Event)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "It is GitHub's to write: see what GITHUB_EVENT_PATH holds."
        raise UsageError(
            f"the event is not one of GitHub: {error}", slug="bad-event", hint=hint
        ) from error
    if name == "pull_request" and event.pull_request:
        return _make_verify_job(event.pull_request)
    if name == "merge_group" and event.merge_group:
        return CiJob("verify", "a merge queue", base=event.merge_group.base_sha)
    if name not in BRANCH_EVENTS:
        raise _make_refusal(name)
    if event.repository.fork:
        reason = "this repository is a fork: memory is recorded where the work is merged"
        return CiJob("nothing", reason)
    ref = environ.get("GITHUB_REF", "")
    default_ref = HEADS + event.repository.default_branch
    if name == "schedule":
        # GitHub runs schedules on the default branch alone, and the event may not name that branch.
        default_ref = ref
    return _make_branch_job(name, ref, default_ref)


def _make_verify_job(request: _PullRequest) -> CiJob:
    """Return the task to verify a pull request on GitHub."""
    base = request.base.repo
    head = request.head.repo
    # A head whose repository is gone may have been a fork.
    is_fork = base is None or head is None or base.full_name != head.full_name
    return CiJob(
        "verify",
        "a pull request",
        base=request.base.sha,
        is_fork=is_fork,
        number=request.number,
        title=request.title,
    )


def gitlab_job(environ: Mapping[str, str]) -> CiJob:
    """Return the task of a job in a pipeline of GitLab, by its predefined variables.

    Raises:
        UsageError: event-refused.
    """
    source = environ.get("CI_PIPELINE_SOURCE", "")
    if source == "merge_request_event":
        source_project = environ.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID")
        number = environ.get("CI_MERGE_REQUEST_IID", "")
        return CiJob(
            "verify",
            "a merge request",
            base=environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA"),
            is_fork=source_project != environ.get("CI_MERGE_REQUEST_PROJECT_ID"),
            number=int(number) if NUMBER.fullmatch(number) else None,
            title=environ.get("CI_MERGE_REQUEST_TITLE", ""),
        )
    if source not in BRANCH_SOURCES:
        raise _make_refusal(source)
    branch = environ.get("CI_COMMIT_BRANCH", "")
    return _make_branch_job(source, branch, environ.get("CI_DEFAULT_BRANCH", ""))


def _make_branch_job(event: str, ref: str, default: str) -> CiJob:
    """Return the task of a job on a branch: to record on the default branch, nothing on others.

    Args:
        event: the name of the event, for the reason.
        ref: the branch.
        default: the default branch, as a full or a short name like `ref`.
    """
    branch = short_branch(ref)
    if not branch or ref != default:
        reason = f"{event} of {branch or 'no branch'}: memory is recorded on the default branch"
        return CiJob("nothing", reason)
    return CiJob("record", event, branch=branch)


def _make_refusal(event: str) -> UsageError:
    """Return the error (event-refused) for an event on which memory-ci does not run.

    `pull_request_target` runs with secrets on code of outsiders; other events do not name merged
    changes.
    """
    return UsageError(
        f"memory-ci does not run on {event or 'an event without a name'}",
        slug="event-refused",
        hint="Run it on pull_request, merge_group, push, schedule or workflow_dispatch "
        "(`memory-ci help ci`).",
    )
