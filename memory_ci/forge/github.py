"""GitHub: pull requests over REST, with what was said of them and which checks they failed."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from memory_ci.errors import EngineError
from memory_ci.forge import github_shapes as shapes
from memory_ci.forge.failures import LASTING
from memory_ci.forge.requests import Problems, RequestReader, require
from memory_ci.forge.rest import Client, Listing
from memory_ci.records.history import Check, Permission, PullRequest

API = "https://api.github.com"
HEADERS = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}

MAX_CHECKED = 30  # Commits of one pull request, the newest, whose checks are read: each costs a request.


class Granted(msgspec.Struct, frozen=True):
    """What GET …/collaborators/LOGIN/permission says; maintain is told as write, triage as read."""

    permission: str = ""


class GitHub(RequestReader[shapes.Pull]):
    """The pull requests of `repository` (`owner/name`)."""

    def __init__(self, client: Client, repository: str) -> None:
        super().__init__(client, f"/repos/{quote(repository)}")
        self._permissions: dict[str, Permission | None] = {}

    def find_pull_request(self, number: int) -> PullRequest | None:
        """As in Forge."""
        pull = self._client.find(f"{self._root}/pulls/{number}", shapes.Pull)
        return self._complete(pull) if pull else None

    def find_number(self, sha: str) -> int | None:
        """As in Forge."""
        pulls = self._client.find(f"{self._root}/commits/{quote(sha)}/pulls", tuple[shapes.Pull, ...]) or ()
        return next((pull.number for pull in pulls if pull.merged_at), None)

    def list_closed(self, since: datetime) -> Listing[PullRequest]:
        """As in Forge."""
        query = {"state": "closed", "sort": "updated", "direction": "desc"}
        listing = self._client.list_all(
            f"{self._root}/pulls",
            shapes.Pull,
            query=query,
            is_past=lambda pull: pull.updated_at is not None and pull.updated_at < since,
        )
        closed = [pull for pull in require(listing).items if pull.merged_at is None]
        self._closed |= {pull.number: pull for pull in closed}
        return Listing(tuple(map(shapes.sketch_request, closed)), listing.problem, listing.slug)

    def _with_reviews(self, pull: shapes.Pull, problems: Problems) -> PullRequest:
        pulls, issues = f"{self._root}/pulls/{pull.number}", f"{self._root}/issues/{pull.number}"
        reviews = problems.note(self._client.list_all(f"{pulls}/reviews", shapes.PullReview))
        threads = problems.note(self._client.list_all(f"{pulls}/comments", shapes.PullComment))
        comments = problems.note(self._client.list_all(f"{issues}/comments", shapes.IssueComment))

        def permission_of(user: shapes.GitHubUser, association: str) -> Permission:
            return self._permission(user, association, problems)

        said = shapes.list_reviews(reviews, threads, comments, permission_of)
        return replace(shapes.format_request(pull, permission_of), reviews=said)

    def _with_commits(self, request: PullRequest, problems: Problems) -> PullRequest:
        path = f"{self._root}/pulls/{request.number}/commits"
        commits = problems.note(self._client.list_all(path, shapes.PullCommit))
        signature = commits[-1].commit.committer if commits else None
        return replace(
            request,
            commits=tuple(commit.sha for commit in commits),
            last_commit_at=signature.date if signature else None,
        )

    def _checks(self, request: PullRequest, problems: Problems) -> tuple[Check, ...]:
        """Check runs of each commit, or else its statuses. The first refusal is the last: it holds for all commits."""
        shas = request.commits
        if len(shas) > MAX_CHECKED:
            problems.add(f"the checks of the first {len(shas) - MAX_CHECKED} commits were not read")
        found: list[Check] = []
        for sha in shas[-MAX_CHECKED:]:
            commit = f"{self._root}/commits/{sha}"
            runs = self._client.list_all(f"{commit}/check-runs", shapes.CheckRun, key="check_runs")
            found += shapes.list_check_runs(problems.note(runs), sha)
            if runs.problem and not runs.items:
                break
            if not runs.items:
                statuses = self._client.list_all(f"{commit}/status", shapes.Status, key="statuses")
                found += shapes.list_statuses(problems.note(statuses), sha)
        return tuple(found)

    def _permission(self, user: shapes.GitHubUser, association: str, problems: Problems) -> Permission:
        """What the repository grants to `user`, asked once; where it does not say, what the association proves."""
        if user.is_bot or not user.login:
            return shapes.by_association(association)
        if user.login not in self._permissions:
            self._permissions[user.login] = self._ask_permission(user.login, problems)
        return self._permissions[user.login] or shapes.by_association(association)

    def _ask_permission(self, login: str, problems: Problems) -> Permission | None:
        try:
            granted = self._client.find(f"{self._root}/collaborators/{quote(login, safe='')}/permission", Granted)
        except EngineError as error:
            if error.slug in LASTING:
                raise
            problems.add(error.message)
            return None
        if granted is None:
            return None
        return "write" if granted.permission in ("admin", "write", "maintain") else "read"
