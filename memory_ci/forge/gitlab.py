"""GitLab: merge requests over REST (v4). Of the shapes only fields that are read stand here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Literal
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from memory_ci.forge.rest import Client, Listing, Problems, RequestReader, require
from memory_ci.records.history import Check, Permission, PullRequest, Review, ReviewState, Time

# Names that GitLab gives to the users of access tokens, and those that bots give themselves.
BOT = re.compile(r"(?:project|group)_\d+_bot(?:_\w+)?|.*\[bot\]|.*-bot|GitLabDuo")
# System notes that are a review. Others tell of pushes and labels.
DECISIONS: dict[str, ReviewState] = {
    "approved this merge request": "approved",
    "requested changes": "changes_requested",
    "unapproved this merge request": "dismissed",
}


class GitLabUser(msgspec.Struct, frozen=True):
    id: int = 0
    username: str = ""

    @property
    def is_bot(self) -> bool:
        return bool(BOT.fullmatch(self.username))


class MergeRequest(msgspec.Struct, frozen=True):
    """One of GET /projects/ID/merge_requests."""

    iid: int
    created_at: Time
    state: Literal["opened", "closed", "merged", "locked"] = "opened"
    title: str | None = ""
    description: str | None = None
    author: GitLabUser | None = None
    labels: tuple[str, ...] = ()
    source_branch: str = ""
    source_project_id: int | None = None
    target_project_id: int | None = None
    merged_at: Time | None = None
    closed_at: Time | None = None
    merge_commit_sha: str | None = None
    squash_commit_sha: str | None = None
    sha: str | None = None


class Position(msgspec.Struct, frozen=True):
    new_path: str | None = None
    old_path: str | None = None
    new_line: int | None = None
    old_line: int | None = None


class Note(msgspec.Struct, frozen=True):
    id: int
    created_at: Time
    body: str | None = None
    author: GitLabUser | None = None
    system: bool = False
    resolvable: bool = False
    resolved: bool | None = None
    position: Position | None = None


class Discussion(msgspec.Struct, frozen=True):
    """One of GET …/merge_requests/N/discussions: a thread, or a note on its own."""

    notes: tuple[Note, ...] = ()


class MergeCommit(msgspec.Struct, frozen=True):
    """One of GET …/merge_requests/N/commits, the newest first."""

    id: str
    committed_date: Time | None = None


class Pipeline(msgspec.Struct, frozen=True):
    """One of GET …/merge_requests/N/pipelines."""

    id: int
    sha: str


class Job(msgspec.Struct, frozen=True):
    """One of GET /projects/ID/pipelines/N/jobs; without those that were tried again."""

    name: str
    status: str
    finished_at: Time | None = None
    failure_reason: str | None = None


PermissionOf = Callable[[GitLabUser], Permission]


def format_request(request: MergeRequest, permission_of: PermissionOf) -> PullRequest:
    """The record of a merge request, without what other addresses say of it."""
    user = request.author or GitLabUser()
    is_merged = request.state == "merged"
    return PullRequest(
        number=request.iid,
        title=request.title or "",
        body=request.description or "",
        author=user.username,
        permission=permission_of(user),
        state="open"
        if request.state in ("opened", "locked")
        else "merged"
        if is_merged
        else "closed",
        created_at=request.created_at,
        is_fork=request.source_project_id is None
        or request.source_project_id != request.target_project_id,
        is_bot=user.is_bot,
        branch=request.source_branch,
        labels=request.labels,
        merged_at=request.merged_at,
        closed_at=request.closed_at,
        merge_sha=(request.merge_commit_sha or request.squash_commit_sha or request.sha or "")
        if is_merged
        else "",
    )


def sketch_request(request: MergeRequest) -> PullRequest:
    """The record as a list of requests gives it: who comes from a fork has proven no right to write."""
    sketch = format_request(request, lambda _: "unknown")
    return replace(sketch, permission="read" if sketch.is_fork else "unknown")


def list_reviews(
    discussions: Iterable[Discussion], permission_of: PermissionOf
) -> tuple[Review, ...]:
    """Every note that a person or a bot wrote, and the decisions that GitLab notes itself, in the order of time."""
    found = [
        _review(note, discussion.notes[0], permission_of)
        for discussion in discussions
        for note in discussion.notes
        if not note.system or note.body in DECISIONS
    ]
    return tuple(sorted(found, key=lambda review: review.at))


def _review(note: Note, first: Note, permission_of: PermissionOf) -> Review:
    user, position = note.author or GitLabUser(), note.position or Position()
    return Review(
        id=f"n{note.id}",
        author=user.username,
        permission=permission_of(user),
        state=DECISIONS[note.body or ""] if note.system else "commented",
        body="" if note.system else note.body or "",
        at=note.created_at,
        path=position.new_path or position.old_path or "",
        line=position.new_line or position.old_line,
        in_reply_to="" if note.id == first.id else f"n{first.id}",
        is_resolved=note.resolved if note.resolvable else None,
        is_bot=user.is_bot,
    )


API = "https://gitlab.com/api/v4"
DEVELOPER = 30  # The least access level that may push (docs.gitlab.com, "Members API").
# Of what is asked for: a range from the root begins in year 1, which is not written with four digits.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
MAX_CHECKED = (
    20  # Pipelines of one merge request, the newest, whose jobs are read: each costs a request.
)


class GitLabMember(msgspec.Struct, frozen=True):
    """What GET /projects/ID/members/all/USER says."""

    access_level: int = 0


class GitLab(RequestReader[MergeRequest]):
    """The merge requests of `project`, its number or its path, as in GitHub."""

    def __init__(self, client: Client, project: str) -> None:
        super().__init__(client, f"/projects/{quote(project, safe='')}")

    def find_pull_request(self, number: int) -> PullRequest | None:
        request = self._client.find(f"{self._root}/merge_requests/{number}", MergeRequest)
        return self._complete(request) if request else None

    def find_number(self, sha: str) -> int | None:
        path = f"{self._root}/repository/commits/{quote(sha)}/merge_requests"
        found = self._client.find(path, tuple[MergeRequest, ...]) or ()
        return next((request.iid for request in found if request.state == "merged"), None)

    def list_closed(self, since: datetime) -> Listing[PullRequest]:
        after = max(since, EARLIEST).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        query = {"state": "closed", "updated_after": after, "order_by": "updated_at"}
        listing = require(
            self._client.list_all(f"{self._root}/merge_requests", MergeRequest, query=query)
        )
        self._closed |= {request.iid: request for request in listing.items}
        found = tuple(sketch_request(request) for request in listing.items)
        return Listing(found, listing.problem, listing.slug)

    def _with_reviews(self, found: MergeRequest, problems: Problems) -> PullRequest:
        path = f"{self._root}/merge_requests/{found.iid}/discussions"
        discussions = problems.note(self._client.list_all(path, Discussion))
        permission_of = partial(self._permission, problems)
        said = list_reviews(discussions, permission_of)
        return replace(format_request(found, permission_of), reviews=said)

    def _with_commits(self, request: PullRequest, problems: Problems) -> PullRequest:
        path = f"{self._root}/merge_requests/{request.number}/commits"
        commits = problems.note(self._client.list_all(path, MergeCommit))
        return replace(
            request,
            commits=tuple(commit.id for commit in reversed(commits)),
            last_commit_at=commits[0].committed_date if commits else None,
        )

    def _checks(self, request: PullRequest, problems: Problems) -> tuple[Check, ...]:
        """The jobs of each pipeline, the oldest first. The first refusal is the last: it holds for all pipelines."""
        path = f"{self._root}/merge_requests/{request.number}/pipelines"
        pipelines = problems.note(self._client.list_all(path, Pipeline))
        if len(pipelines) > MAX_CHECKED:
            problems.add(
                f"the jobs of the first {len(pipelines) - MAX_CHECKED} pipelines were not read"
            )
        found: list[Check] = []
        for pipeline in reversed(pipelines[:MAX_CHECKED]):
            jobs = self._client.list_all(f"{self._root}/pipelines/{pipeline.id}/jobs", Job)
            found += [
                Check(
                    name=job.name,
                    sha=pipeline.sha,
                    is_success=job.status == "success",
                    at=job.finished_at,
                    summary=(job.failure_reason or "").replace("_", " "),
                )
                for job in problems.note(jobs)
                if job.finished_at and job.status in ("success", "failed")
            ]
            if jobs.problem and not jobs.items:
                break
        return tuple(found)

    def _permission(self, problems: Problems, user: GitLabUser) -> Permission:
        """What the project grants to `user`, asked once; who is no member may read."""
        if user.is_bot or not user.id:
            return "unknown"

        def level(member: GitLabMember | None) -> Permission:
            return "write" if member and member.access_level >= DEVELOPER else "read"

        path = f"{self._root}/members/all/{user.id}"
        return self._ask_once(path, GitLabMember, problems, level) or "unknown"
