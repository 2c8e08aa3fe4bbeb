"""Proposals: the pull or merge request of a branch, opened, brought up to date, closed; commits by GitHub.

A commit made by GitHub itself is signed: `createCommitOnBranch` with `expectedHeadOid` (docs.github.com, "GraphQL
mutations"). It knows files and their content, no modes: an executable memory file would lose its bit.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol
from urllib.parse import quote, urlencode

import msgspec

from memory_ci.forge.comments import TRUSTED
from memory_ci.forge.rest import Client


class Proposal(msgspec.Struct, frozen=True):
    """A request, where people see it, and its text."""

    number: int
    url: str
    body: str = ""


Review = Literal["", "reviewed", "changes requested", "approved"]
"""What people of the house said of a request: "" where none did. An approval counts most."""


class Proposals(Protocol):
    """The requests of a repository. All raise EngineError (forge-refused, `forge-…`)."""

    def find_review(self, proposal: Proposal) -> Review:
        """Whether people review a request, or approve of it as it is; what bots and strangers say is none."""
        ...

    def find(self, branch: str, base: str) -> Proposal | None:
        """The open request that brings `branch` into `base`, both of this repository."""
        ...

    def find_declined(self, branch: str, base: str) -> Proposal | None:
        """The newest of the requests that are not open, if it was closed without a merge."""
        ...

    def open(self, branch: str, base: str, title: str, body: str) -> Proposal:
        """A new request."""
        ...

    def update(self, proposal: Proposal, title: str, body: str) -> None:
        """Give an open request another title and text."""
        ...

    def close(self, proposal: Proposal) -> None:
        """Close a request without a merge."""
        ...


class GitHubProposal(msgspec.Struct, frozen=True):
    """What GitHub says of a pull request (docs.github.com, "REST API endpoints for pull requests")."""

    number: int
    html_url: str = ""
    body: str | None = None
    merged_at: str | None = None

    def to_proposal(self) -> Proposal:
        return Proposal(self.number, self.html_url, self.body or "")


class GitHubReviewer(msgspec.Struct, frozen=True):
    """Who reviews: on GitHub `type` tells people from apps."""

    login: str = ""
    type: str = ""


class GitHubReview(msgspec.Struct, frozen=True):
    """A review of a pull request (docs.github.com, "REST API endpoints for pull request reviews")."""

    state: str = ""
    user: GitHubReviewer | None = None
    author_association: str = ""


class GitHubProposals:
    """Pull requests of `repository` (`owner/name`)."""

    def __init__(self, client: Client, repository: str) -> None:
        self._client, self._owner = client, repository.partition("/")[0]
        self._path = f"/repos/{quote(repository)}/pulls"

    def find(self, branch: str, base: str) -> Proposal | None:
        """As in Proposals."""
        return next((pull.to_proposal() for pull in self._list("open", branch, base)), None)

    def find_declined(self, branch: str, base: str) -> Proposal | None:
        """As in Proposals."""
        newest = next(iter(self._list("closed", branch, base)), None)
        return None if newest is None or newest.merged_at else newest.to_proposal()

    def find_review(self, proposal: Proposal) -> Review:
        """As in Proposals: the last opinion of each counts, and one that was dismissed is none."""
        path = f"{self._path}/{proposal.number}/reviews?per_page=100"
        said: dict[str, str] = {}
        for one in self._client.find(path, tuple[GitHubReview, ...]) or ():
            if one.user is None or one.user.type == "Bot" or one.author_association not in TRUSTED:
                continue
            if one.state in ("APPROVED", "CHANGES_REQUESTED"):
                said[one.user.login] = one.state
            elif one.state == "COMMENTED":
                said.setdefault(one.user.login, one.state)
        states: tuple[tuple[str, Review], ...] = (
            ("APPROVED", "approved"), ("CHANGES_REQUESTED", "changes requested"), ("COMMENTED", "reviewed")
        )  # fmt: skip
        return next((name for state, name in states if state in said.values()), "")

    def open(self, branch: str, base: str, title: str, body: str) -> Proposal:
        """As in Proposals."""
        data = {"title": title, "body": body, "head": branch, "base": base, "maintainer_can_modify": True}
        return self._client.write("POST", self._path, data, GitHubProposal).to_proposal()

    def update(self, proposal: Proposal, title: str, body: str) -> None:
        """As in Proposals."""
        self._client.write("PATCH", f"{self._path}/{proposal.number}", {"title": title, "body": body}, GitHubProposal)

    def close(self, proposal: Proposal) -> None:
        """As in Proposals."""
        self._client.write("PATCH", f"{self._path}/{proposal.number}", {"state": "closed"}, GitHubProposal)

    def _list(self, state: str, branch: str, base: str) -> tuple[GitHubProposal, ...]:
        """Newest first, as the API gives them unless asked otherwise."""
        query = urlencode({"state": state, "head": f"{self._owner}:{branch}", "base": base})
        return self._client.find(f"{self._path}?{query}", tuple[GitHubProposal, ...]) or ()


class GitLabProposal(msgspec.Struct, frozen=True):
    """What GitLab says of a merge request (docs.gitlab.com, "Merge requests API")."""

    iid: int
    web_url: str = ""
    description: str | None = None
    state: str = ""
    source_project_id: int | None = None
    target_project_id: int | None = None

    @property
    def is_ours(self) -> bool:
        """Whether its branch is of the project that it asks, and not of a fork."""
        return self.source_project_id is not None and self.source_project_id == self.target_project_id

    def to_proposal(self) -> Proposal:
        return Proposal(self.iid, self.web_url, self.description or "")


class GitLabUser(msgspec.Struct, frozen=True):
    """A user of GitLab; bots have names of their own."""

    username: str = ""

    @property
    def is_bot(self) -> bool:
        return self.username == "GitLabDuo" or "_bot_" in self.username


class GitLabReviewer(msgspec.Struct, frozen=True):
    """Who was asked for a review, and how far it is (docs.gitlab.com, "Merge requests API", reviewers)."""

    state: str = ""
    user: GitLabUser = GitLabUser()


class GitLabApprovals(msgspec.Struct, frozen=True):
    """Who approved (docs.gitlab.com, "Merge request approvals API")."""

    approved_by: tuple[GitLabReviewer, ...] = ()


class GitLabProposals:
    """Merge requests of `project`, its number or its path."""

    def __init__(self, client: Client, project: str) -> None:
        self._client = client
        self._path = f"/projects/{quote(project, safe='')}/merge_requests"

    def find(self, branch: str, base: str) -> Proposal | None:
        """As in Proposals."""
        return next((request.to_proposal() for request in self._list("opened", branch, base)), None)

    def find_declined(self, branch: str, base: str) -> Proposal | None:
        """As in Proposals."""
        newest = next((one for one in self._list("all", branch, base) if one.state != "opened"), None)
        return newest.to_proposal() if newest is not None and newest.state == "closed" else None

    def find_review(self, proposal: Proposal) -> Review:
        """As in Proposals."""
        path = f"{self._path}/{proposal.number}"
        approvals = self._client.find(f"{path}/approvals", GitLabApprovals)
        if approvals and not all(one.user.is_bot for one in approvals.approved_by):
            return "approved"
        reviewers = self._client.find(f"{path}/reviewers", tuple[GitLabReviewer, ...]) or ()
        states = {one.state for one in reviewers if not one.user.is_bot}
        if "requested_changes" in states:
            return "changes requested"
        return "reviewed" if states & {"reviewed", "approved", "review_started"} else ""

    def open(self, branch: str, base: str, title: str, body: str) -> Proposal:
        """As in Proposals."""
        data = {"title": title, "description": body, "source_branch": branch, "target_branch": base}
        return self._client.write("POST", self._path, data, GitLabProposal).to_proposal()

    def update(self, proposal: Proposal, title: str, body: str) -> None:
        """As in Proposals."""
        self._client.write(
            "PUT", f"{self._path}/{proposal.number}", {"title": title, "description": body}, GitLabProposal
        )

    def close(self, proposal: Proposal) -> None:
        """As in Proposals."""
        self._client.write("PUT", f"{self._path}/{proposal.number}", {"state_event": "close"}, GitLabProposal)

    def _list(self, state: str, branch: str, base: str) -> tuple[GitLabProposal, ...]:
        """Newest first, as the API gives them unless asked otherwise; a branch of a fork may have the same name."""
        query = urlencode({"state": state, "source_branch": branch, "target_branch": base})
        found = self._client.find(f"{self._path}?{query}", tuple[GitLabProposal, ...]) or ()
        return tuple(request for request in found if request.is_ours)


MAX_BYTES = 256 * 1024
"""Of the new contents of one commit: above that the request is slow, or refused, and a push does better."""

MUTATION = "mutation($input: CreateCommitOnBranchInput!) { createCommitOnBranch(input: $input) { commit { oid } } }"
STALE = "STALE_DATA"
STALE_WORDS = "expected branch to point to"
"""Type and message of the error when the branch is not at `expectedHeadOid`."""


class Created(NamedTuple):
    """The id of the new commit; "" with `is_stale` when the branch had moved, or else with why it was refused."""

    oid: str
    is_stale: bool = False
    reason: str = ""


class GraphQLError(msgspec.Struct, frozen=True):
    """One error of a GraphQL reply."""

    type: str = ""
    message: str = ""


class Oid(msgspec.Struct, frozen=True):
    """A commit of a reply."""

    oid: str


class Payload(msgspec.Struct, frozen=True):
    """What the mutation gives."""

    commit: Oid | None = None


class Data(msgspec.Struct, frozen=True, rename="camel"):
    """The `data` of a reply."""

    create_commit_on_branch: Payload | None = None


class Response(msgspec.Struct, frozen=True):
    """A GraphQL reply: status 200 also for errors."""

    data: Data | None = None
    errors: tuple[GraphQLError, ...] = ()


class GitHubCommitter:
    """Makes commits on the branches of `repository` (`owner/name`) through the GraphQL API at `address`."""

    def __init__(self, client: Client, address: str, repository: str) -> None:
        self._client, self._address, self._repository = client, address, repository

    def commit(self, branch: str, expected: str, files: Mapping[str, bytes | None], message: str) -> Created:
        """One commit on top of `expected`, with files to write (None: to delete). Raises EngineError (`forge-…`)."""
        if sum(len(data) for data in files.values() if data) > MAX_BYTES:
            return Created("", reason=f"more than {MAX_BYTES // 1024} KB in one commit")
        headline, _, body = message.partition("\n")
        changes = {
            "additions": [
                {"path": path, "contents": b64encode(data).decode()} for path, data in files.items() if data is not None
            ],
            "deletions": [{"path": path} for path, data in files.items() if data is None],
        }
        asked = {
            "branch": {"repositoryNameWithOwner": self._repository, "branchName": branch},
            "expectedHeadOid": expected,
            "message": {"headline": headline, "body": body.strip("\n")},
            "fileChanges": changes,
        }
        return _read(
            self._client.write("POST", self._address, {"query": MUTATION, "variables": {"input": asked}}, Response)
        )


def _read(response: Response) -> Created:
    payload = response.data.create_commit_on_branch if response.data else None
    if payload and payload.commit and not response.errors:
        return Created(payload.commit.oid)
    first = response.errors[0] if response.errors else GraphQLError()
    is_stale = first.type == STALE or STALE_WORDS in first.message.lower()
    return Created("", is_stale, first.message or "no reason was given")
