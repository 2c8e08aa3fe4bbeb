"""Proposals: the pull or merge request of a branch, found, opened, brought up to date, closed."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import quote, urlencode

import msgspec

from memory_ci.forge.rest import Client


class Proposal(msgspec.Struct, frozen=True):
    """An open request and where people see it."""

    number: int
    url: str


class Proposals(Protocol):
    """The open requests of a repository. All raise EngineError (forge-refused, `forge-…`)."""

    def find(self, branch: str, base: str) -> Proposal | None:
        """The open request that brings `branch` into `base`, both of this repository."""
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


class Pull(msgspec.Struct, frozen=True):
    """What GitHub says of a pull request (docs.github.com, "REST API endpoints for pull requests")."""

    number: int
    html_url: str = ""


class GitHubProposals:
    """Pull requests of `repository` (`owner/name`)."""

    def __init__(self, client: Client, repository: str) -> None:
        self._client, self._owner = client, repository.partition("/")[0]
        self._path = f"/repos/{quote(repository)}/pulls"

    def find(self, branch: str, base: str) -> Proposal | None:
        """As in Proposals."""
        query = urlencode({"state": "open", "head": f"{self._owner}:{branch}", "base": base})
        found = self._client.find(f"{self._path}?{query}", tuple[Pull, ...]) or ()
        return next((Proposal(pull.number, pull.html_url) for pull in found), None)

    def open(self, branch: str, base: str, title: str, body: str) -> Proposal:
        """As in Proposals."""
        data = {"title": title, "body": body, "head": branch, "base": base, "maintainer_can_modify": True}
        pull = self._client.write("POST", self._path, data, Pull)
        return Proposal(pull.number, pull.html_url)

    def update(self, proposal: Proposal, title: str, body: str) -> None:
        """As in Proposals."""
        self._client.write("PATCH", f"{self._path}/{proposal.number}", {"title": title, "body": body}, Pull)

    def close(self, proposal: Proposal) -> None:
        """As in Proposals."""
        self._client.write("PATCH", f"{self._path}/{proposal.number}", {"state": "closed"}, Pull)


class MergeRequest(msgspec.Struct, frozen=True):
    """What GitLab says of a merge request (docs.gitlab.com, "Merge requests API")."""

    iid: int
    web_url: str = ""


class GitLabProposals:
    """Merge requests of `project`, its number or its path."""

    def __init__(self, client: Client, project: str) -> None:
        self._client = client
        self._path = f"/projects/{quote(project, safe='')}/merge_requests"

    def find(self, branch: str, base: str) -> Proposal | None:
        """As in Proposals."""
        query = urlencode({"state": "opened", "source_branch": branch, "target_branch": base})
        found = self._client.find(f"{self._path}?{query}", tuple[MergeRequest, ...]) or ()
        return next((Proposal(request.iid, request.web_url) for request in found), None)

    def open(self, branch: str, base: str, title: str, body: str) -> Proposal:
        """As in Proposals."""
        data = {"title": title, "description": body, "source_branch": branch, "target_branch": base}
        request = self._client.write("POST", self._path, data, MergeRequest)
        return Proposal(request.iid, request.web_url)

    def update(self, proposal: Proposal, title: str, body: str) -> None:
        """As in Proposals."""
        self._client.write(
            "PUT", f"{self._path}/{proposal.number}", {"title": title, "description": body}, MergeRequest
        )

    def close(self, proposal: Proposal) -> None:
        """As in Proposals."""
        self._client.write("PUT", f"{self._path}/{proposal.number}", {"state_event": "close"}, MergeRequest)
