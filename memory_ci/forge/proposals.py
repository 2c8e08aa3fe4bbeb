"""Proposals: the pull or merge request of a branch, found, opened, brought up to date, closed."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import quote, urlencode

import msgspec

from memory_ci.forge.rest import Client


class Proposal(msgspec.Struct, frozen=True):
    """A request, where people see it, and its text."""

    number: int
    url: str
    body: str = ""


class Proposals(Protocol):
    """The requests of a repository. All raise EngineError (forge-refused, `forge-…`)."""

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
