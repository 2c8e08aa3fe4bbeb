"""GitLab: merge requests over REST, with what was said of them and which jobs they failed."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from memory_ci.errors import EngineError
from memory_ci.forge import gitlab_shapes as shapes
from memory_ci.forge.failures import LASTING
from memory_ci.forge.requests import Problems, RequestReader, require
from memory_ci.forge.rest import Client, Listing
from memory_ci.records.history import Check, Permission, PullRequest

API = "https://gitlab.com/api/v4"
DEVELOPER = 30  # The least access level that may push (docs.gitlab.com, "Members API").
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Of what is asked for: a range from the root begins in year 1, which is not written with four digits."""

MAX_CHECKED = 20  # Pipelines of one merge request, the newest, whose jobs are read: each costs a request.


class GitLabMember(msgspec.Struct, frozen=True):
    """What GET /projects/ID/members/all/USER says."""

    access_level: int = 0


class GitLab(RequestReader[shapes.MergeRequest]):
    """The merge requests of `project`, its number or its path."""

    def __init__(self, client: Client, project: str) -> None:
        super().__init__(client, f"/projects/{quote(project, safe='')}")
        self._permissions: dict[int, Permission] = {}

    def find_pull_request(self, number: int) -> PullRequest | None:
        """As in Forge."""
        request = self._client.find(f"{self._root}/merge_requests/{number}", shapes.MergeRequest)
        return self._complete(request) if request else None

    def find_number(self, sha: str) -> int | None:
        """As in Forge."""
        path = f"{self._root}/repository/commits/{quote(sha)}/merge_requests"
        found = self._client.find(path, tuple[shapes.MergeRequest, ...]) or ()
        return next((request.iid for request in found if request.state == "merged"), None)

    def list_closed(self, since: datetime) -> Listing[PullRequest]:
        """As in Forge."""
        after = max(since, EARLIEST).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        query = {"state": "closed", "updated_after": after, "order_by": "updated_at"}
        listing = require(self._client.list_all(f"{self._root}/merge_requests", shapes.MergeRequest, query=query))
        self._closed |= {request.iid: request for request in listing.items}
        found = tuple(shapes.sketch_request(request) for request in listing.items)
        return Listing(found, listing.problem, listing.slug)

    def _with_reviews(self, found: shapes.MergeRequest, problems: Problems) -> PullRequest:
        path = f"{self._root}/merge_requests/{found.iid}/discussions"
        discussions = problems.note(self._client.list_all(path, shapes.Discussion))

        def permission_of(user: shapes.GitLabUser) -> Permission:
            return self._permission(user, problems)

        said = shapes.list_reviews(discussions, permission_of)
        return replace(shapes.format_request(found, permission_of), reviews=said)

    def _with_commits(self, request: PullRequest, problems: Problems) -> PullRequest:
        path = f"{self._root}/merge_requests/{request.number}/commits"
        commits = problems.note(self._client.list_all(path, shapes.MergeCommit))
        return replace(
            request,
            commits=tuple(commit.id for commit in reversed(commits)),
            last_commit_at=commits[0].committed_date if commits else None,
        )

    def _checks(self, request: PullRequest, problems: Problems) -> tuple[Check, ...]:
        """The jobs of each pipeline, the oldest first. The first refusal is the last: it holds for all pipelines."""
        path = f"{self._root}/merge_requests/{request.number}/pipelines"
        pipelines = problems.note(self._client.list_all(path, shapes.Pipeline))
        if len(pipelines) > MAX_CHECKED:
            problems.add(f"the jobs of the first {len(pipelines) - MAX_CHECKED} pipelines were not read")
        found: list[Check] = []
        for pipeline in reversed(pipelines[:MAX_CHECKED]):
            jobs = self._client.list_all(f"{self._root}/pipelines/{pipeline.id}/jobs", shapes.Job)
            found += shapes.list_jobs(problems.note(jobs), pipeline.sha)
            if jobs.problem and not jobs.items:
                break
        return tuple(found)

    def _permission(self, user: shapes.GitLabUser, problems: Problems) -> Permission:
        """What the project grants to `user`, asked once; who is no member may read."""
        if user.is_bot or not user.id:
            return "unknown"
        if user.id not in self._permissions:
            self._permissions[user.id] = self._ask_permission(user.id, problems)
        return self._permissions[user.id]

    def _ask_permission(self, user: int, problems: Problems) -> Permission:
        try:
            member = self._client.find(f"{self._root}/members/all/{user}", GitLabMember)
        except EngineError as error:
            if error.slug in LASTING:
                raise
            problems.add(error.message)
            return "unknown"
        return "write" if member and member.access_level >= DEVELOPER else "read"
