"""Read merge requests with discussions and jobs from GitLab's REST API (v4).

The shapes have only the fields that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Literal
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from memory_ci.forge.rest import Client, Listing, Problems, RequestReader, require_items
from memory_ci.records.history import Check, Permission, PullRequest, Review, ReviewState, Time
from memory_ci.regex import Regex

API = "https://gitlab.com/api/v4"
DEVELOPER = 30  # The lowest access level that may push (docs.gitlab.com, "Members API").
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""The earliest date in a query: a range from the root begins in year 1, which has no four digits.
"""

MAX_CHECKED = 20
"""The newest pipelines of one merge request whose jobs are read: each costs a request."""

BOT = Regex(r"(?:project|group)_\d+_bot(?:_\w+)?|.*\[bot\]|.*-bot|GitLabDuo")
"""Names that GitLab gives to the users of access tokens, and usual names of bots."""

DECISIONS: dict[str, ReviewState] = {
    "approved this merge request": "approved",
    "requested changes": "changes_requested",
    "unapproved this merge request": "dismissed",
}
"""System notes that are a review; others are about pushes and labels."""


# -- shapes of the API


class GitLabUser(msgspec.Struct, frozen=True):
    """A user."""

    id: int = 0
    username: str = ""

    @property
    def is_bot(self) -> bool:
        """Whether the name is one of a bot."""
        return bool(BOT.fullmatch(self.username))


class MergeRequest(msgspec.Struct, frozen=True):
    """An item of GET /projects/ID/merge_requests."""

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
    """The lines that a note is about."""

    new_path: str | None = None
    old_path: str | None = None
    new_line: int | None = None
    old_line: int | None = None


class Note(msgspec.Struct, frozen=True):
    """A comment, or a remark of GitLab itself (`system`)."""

    id: int
    created_at: Time
    body: str | None = None
    author: GitLabUser | None = None
    system: bool = False
    resolvable: bool = False
    resolved: bool | None = None
    position: Position | None = None


class Discussion(msgspec.Struct, frozen=True):
    """An item of GET …/merge_requests/N/discussions: a thread, or a single note."""

    notes: tuple[Note, ...] = ()


class MergeCommit(msgspec.Struct, frozen=True):
    """An item of GET …/merge_requests/N/commits, the newest first."""

    id: str
    committed_date: Time | None = None


class Pipeline(msgspec.Struct, frozen=True):
    """An item of GET …/merge_requests/N/pipelines."""

    id: int
    sha: str


class Job(msgspec.Struct, frozen=True):
    """An item of GET /projects/ID/pipelines/N/jobs; without jobs that were retried."""

    name: str
    status: str
    finished_at: Time | None = None
    failure_reason: str | None = None


class GitLabMember(msgspec.Struct, frozen=True):
    """The reply of GET /projects/ID/members/all/USER."""

    access_level: int = 0


# -- records from the shapes

PermissionOf = Callable[[GitLabUser], Permission]
"""Returns the permission of a user."""


def format_request(request: MergeRequest, permission_of: PermissionOf) -> PullRequest:
    """Convert a merge request of GitLab to our record, without reviews, commits and checks.

    Args:
        request: the merge request.
        permission_of: returns the permission of its author.
    """
    user = request.author or GitLabUser()
    source = request.source_project_id
    is_fork = source is None or source != request.target_project_id
    state: Literal["open", "merged", "closed"] = "closed"
    merge_sha = ""
    if request.state in ("opened", "locked"):
        state = "open"
    elif request.state == "merged":
        state = "merged"
        merge_sha = request.merge_commit_sha or request.squash_commit_sha or request.sha or ""
    return PullRequest(
        number=request.iid,
        title=request.title or "",
        body=request.description or "",
        author=user.username,
        permission=permission_of(user),
        state=state,
        created_at=request.created_at,
        is_fork=is_fork,
        is_bot=user.is_bot,
        branch=request.source_branch,
        labels=request.labels,
        merged_at=request.merged_at,
        closed_at=request.closed_at,
        merge_sha=merge_sha,
    )


def format_sketch(request: MergeRequest) -> PullRequest:
    """Convert a merge request of a list to our record, without reading permissions.

    Its author is taken for a reader where it comes from a fork; else their permission is unknown.
    """
    sketch = format_request(request, _unknown_permission)
    return replace(sketch, permission="read") if sketch.is_fork else sketch


def _unknown_permission(_user: GitLabUser) -> Permission:
    return "unknown"


def list_reviews(
    discussions: Iterable[Discussion], permission_of: PermissionOf
) -> tuple[Review, ...]:
    """Convert the notes of discussions to our records, in order of time.

    Of the notes that GitLab itself writes only those on reviews (DECISIONS) count.
    """
    reviews: list[Review] = []
    for discussion in discussions:
        notes = [note for note in discussion.notes if not note.system or note.body in DECISIONS]
        reviews += [_convert_note(note, discussion.notes[0], permission_of) for note in notes]
    return tuple(sorted(reviews, key=lambda review: review.at))


def _convert_note(note: Note, first: Note, permission_of: PermissionOf) -> Review:
    """Convert a note to our record of a review.

    Args:
        note: the note.
        first: the first note of its thread, which the others reply to.
        permission_of: returns the permission of its author.
    """
    user = note.author or GitLabUser()
    position = note.position or Position()
    body = note.body or ""
    return Review(
        id=f"n{note.id}",
        author=user.username,
        permission=permission_of(user),
        state=DECISIONS[body] if note.system else "commented",
        body="" if note.system else body,
        at=note.created_at,
        path=position.new_path or position.old_path or "",
        line=position.new_line or position.old_line,
        in_reply_to="" if note.id == first.id else f"n{first.id}",
        is_resolved=note.resolved if note.resolvable else None,
        is_bot=user.is_bot,
    )


def _list_checks(jobs: Iterable[Job], sha: str) -> list[Check]:
    """Return the jobs on the commit `sha` that passed or failed."""
    checks: list[Check] = []
    for job in jobs:
        if job.finished_at and job.status in ("success", "failed"):
            check = Check(
                name=job.name,
                sha=sha,
                is_success=job.status == "success",
                at=job.finished_at,
                summary=(job.failure_reason or "").replace("_", " "),
            )
            checks.append(check)
    return checks


# -- reader


class GitLab(RequestReader[MergeRequest]):
    """Reader of the merge requests of a project, with the methods of GitHub."""

    def __init__(self, client: Client, project: str) -> None:
        """`project` is its number or its path."""
        super().__init__(client, f"/projects/{quote(project, safe='')}")

    def find_pull_request(self, number: int) -> PullRequest | None:
        """Return a merge request, or None if it does not exist or the token may not read it."""
        request = self._client.find(f"{self._root}/merge_requests/{number}", MergeRequest)
        return self._complete(request) if request else None

    def find_number(self, sha: str) -> int | None:
        """Return the number of the merged merge request that a commit belongs to, or None."""
        path = f"{self._root}/repository/commits/{quote(sha)}/merge_requests"
        for request in self._client.find(path, tuple[MergeRequest, ...]) or ():
            if request.state == "merged":
                return request.iid
        return None

    def list_closed(self, since: datetime) -> Listing[PullRequest]:
        """Return merge requests closed without a merge and changed at or after `since`.

        They have what GitLab lists of them, without reviews and commits. `complete_closed` reads
        the rest.
        """
        after = max(since, EARLIEST).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        query = {"state": "closed", "updated_after": after, "order_by": "updated_at"}
        listing = self._client.list_all(f"{self._root}/merge_requests", MergeRequest, query=query)
        closed = require_items(listing).items
        self._closed |= {request.iid: request for request in closed}
        requests = tuple(format_sketch(request) for request in closed)
        return Listing(requests, listing.problem, listing.slug)

    def _with_reviews(self, payload: MergeRequest, problems: Problems) -> PullRequest:
        """Read the discussions of a merge request, and return its record with them."""
        path = f"{self._root}/merge_requests/{payload.iid}/discussions"
        discussions = problems.take_items(self._client.list_all(path, Discussion))
        permission_of = partial(self._find_permission, problems)
        reviews = list_reviews(discussions, permission_of)
        return replace(format_request(payload, permission_of), reviews=reviews)

    def _with_commits(self, request: PullRequest, problems: Problems) -> PullRequest:
        """Read the commits of a merge request, and return its record with them."""
        path = f"{self._root}/merge_requests/{request.number}/commits"
        commits = problems.take_items(self._client.list_all(path, MergeCommit))
        return replace(
            request,
            commits=tuple(commit.id for commit in reversed(commits)),
            last_commit_at=commits[0].committed_date if commits else None,
        )

    def _read_checks(self, request: PullRequest, problems: Problems) -> tuple[Check, ...]:
        """Read the jobs of the newest pipelines of a merge request, the oldest first.

        After a refusal no more pipelines are read: it holds for all of them.
        """
        path = f"{self._root}/merge_requests/{request.number}/pipelines"
        pipelines = problems.take_items(self._client.list_all(path, Pipeline))
        unread_count = len(pipelines) - MAX_CHECKED
        if unread_count > 0:
            problems.add(f"the jobs of the first {unread_count} pipelines were not read")
        checks: list[Check] = []
        for pipeline in reversed(pipelines[:MAX_CHECKED]):  # GitLab lists the newest first.
            listing = self._client.list_all(f"{self._root}/pipelines/{pipeline.id}/jobs", Job)
            jobs = problems.take_items(listing)
            checks += _list_checks(jobs, pipeline.sha)
            if listing.problem and not jobs:
                break
        return tuple(checks)

    def _find_permission(self, problems: Problems, user: GitLabUser) -> Permission:
        """Return the permission of a user, which is read once; one who is no member may read."""
        if user.is_bot or not user.id:
            return "unknown"
        path = f"{self._root}/members/all/{user.id}"
        return (
            self._find_permission_once(path, GitLabMember, problems, _get_permission) or "unknown"
        )


def _get_permission(member: GitLabMember | None) -> Permission:
    return "write" if member and member.access_level >= DEVELOPER else "read"
