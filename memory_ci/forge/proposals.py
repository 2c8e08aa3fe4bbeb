"""Proposals: the pull or merge request of a branch, opened, reviewed, brought up to date, merged or closed."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from memory_ci.errors import EngineError
from memory_ci.forge.github import Granted, IssueComment, PullReview
from memory_ci.forge.gitlab import DEVELOPER, GitLabMember, GitLabUser, Note
from memory_ci.forge.http import refusal_of
from memory_ci.forge.rest import Client, Listing, require

COMMAND = "/memory"
"""What the line of a comment begins with that asks for something."""


class Proposal(msgspec.Struct, frozen=True):
    """A request, where people see it, its text, and whether it was merged. `node` is its id in GraphQL, on GitHub."""

    number: int
    url: str
    body: str = ""
    is_merged: bool = False
    opened: datetime | None = None
    node: str = ""
    is_draft: bool = False


Review = Literal["", "reviewed", "changes requested", "approved"]
"""What people of the house said of a request: "" where none did. An approval counts most."""


class Proposals(Protocol):
    """The requests of a repository. All raise EngineError (forge-refused, `forge-…`)."""

    def find_review(self, proposal: Proposal) -> Review:
        """Whether people review a request, or approve of it as it is; what bots and strangers say is none."""
        ...

    def list_commands(self, proposal: Proposal, after: int) -> tuple[Comment, ...]:
        """What those who may write said on a request with `/memory`, by ids above `after`, oldest first."""
        ...

    def find(self, branch: str, base: str) -> Proposal | None:
        """The open request that brings `branch` into `base`, both of this repository."""
        ...

    def find_closed(self, branch: str, base: str) -> Proposal | None:
        """The newest of the requests that are not open."""
        ...

    def open(self, branch: str, base: str, title: str, body: str, *, is_draft: bool = False) -> Proposal:
        """A new request."""
        ...

    def label(self, proposal: Proposal, labels: Sequence[str]) -> None:
        """Add labels to a request."""
        ...

    def ask(self, proposal: Proposal, reviewers: Sequence[str]) -> None:
        """Ask people, on GitHub also teams (`owner/team`), to review a request."""
        ...

    def merge_when_ready(self, proposal: Proposal, method: str) -> None:
        """Let the forge merge a request as soon as its rules are met: by `merge`, `squash` or `rebase`."""
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
    created_at: datetime | None = None
    node_id: str = ""

    def to_proposal(self) -> Proposal:
        body, is_merged = self.body or "", bool(self.merged_at)
        return Proposal(self.number, self.html_url, body, is_merged, self.created_at, self.node_id)


AUTO_MERGE = (
    "mutation($input: EnablePullRequestAutoMergeInput!) { enablePullRequestAutoMerge(input: $input) "
    "{ clientMutationId } }"
)


class GitHubProposals:
    """Pull requests of `repository` (`owner/name`); `graphql` is the address of that API."""

    def __init__(self, client: Client, repository: str, graphql: str = "") -> None:
        self._client, self._owner, self._graphql = client, repository.partition("/")[0], graphql
        self._root = f"/repos/{quote(repository)}"
        self._path = f"{self._root}/pulls"

    def find(self, branch: str, base: str) -> Proposal | None:
        """As in Proposals."""
        return next((pull.to_proposal() for pull in self._list("open", branch, base)), None)

    def find_closed(self, branch: str, base: str) -> Proposal | None:
        """As in Proposals."""
        return next((pull.to_proposal() for pull in self._list("closed", branch, base)), None)

    def find_review(self, proposal: Proposal) -> Review:
        """As in Proposals: the last opinion of each counts, and one that was dismissed is none."""
        path = f"{self._path}/{proposal.number}/reviews?per_page=100"
        said: dict[str, str] = {}
        for one in self._client.find(path, tuple[PullReview, ...]) or ():
            if one.user is None or one.user.is_bot or one.author_association not in TRUSTED:
                continue
            if one.state in ("APPROVED", "CHANGES_REQUESTED"):
                said[one.user.login] = one.state
            elif one.state == "COMMENTED":
                said.setdefault(one.user.login, one.state)
        states: tuple[tuple[str, Review], ...] = (
            ("APPROVED", "approved"), ("CHANGES_REQUESTED", "changes requested"), ("COMMENTED", "reviewed")
        )  # fmt: skip
        return next((name for state, name in states if state in said.values()), "")

    def list_commands(self, proposal: Proposal, after: int) -> tuple[Comment, ...]:
        """As in Proposals: of those who may write to the repository, which members and collaborators need not."""
        listed = self._client.list_all(f"{self._root}/issues/{proposal.number}/comments", IssueComment)
        told = [
            (one, one.user.login)
            for one in sorted(listed.items, key=lambda one: one.id)
            if one.id > after and COMMAND in (one.body or "") and one.author_association in TRUSTED
            if one.user is not None and not one.user.is_bot
        ]
        granted = {name: self._client.find(self._granted(name), Granted) for name in {name for _, name in told}}
        house = {name for name, one in granted.items() if one and one.permission in ("admin", "write", "maintain")}
        return tuple(Comment(one.id, one.body or "") for one, name in told if name in house)

    def _granted(self, login: str) -> str:
        return f"{self._root}/collaborators/{quote(login, safe='')}/permission"

    def open(self, branch: str, base: str, title: str, body: str, *, is_draft: bool = False) -> Proposal:
        """As in Proposals; where the plan of the repository knows no drafts, it is none."""
        data = {"title": title, "body": body, "head": branch, "base": base, "maintainer_can_modify": True}
        try:
            asked = {**data, "draft": True} if is_draft else data
            return self._client.write("POST", self._path, asked, GitHubProposal).to_proposal()
        except EngineError as error:
            if not is_draft or "draft" not in error.message.lower():
                raise
        return self._client.write("POST", self._path, data, GitHubProposal).to_proposal()

    def label(self, proposal: Proposal, labels: Sequence[str]) -> None:
        """As in Proposals."""
        self._client.write("POST", f"{self._root}/issues/{proposal.number}/labels", {"labels": labels}, Any)

    def ask(self, proposal: Proposal, reviewers: Sequence[str]) -> None:
        """As in Proposals."""
        teams = [name.rpartition("/")[2] for name in reviewers if "/" in name]
        asked = {"reviewers": [name for name in reviewers if "/" not in name], "team_reviewers": teams}
        self._client.write("POST", f"{self._path}/{proposal.number}/requested_reviewers", asked, Any)

    def merge_when_ready(self, proposal: Proposal, method: str) -> None:
        """As in Proposals; with a merge queue the request enters it, and the queue has a method of its own."""
        given = {"input": {"pullRequestId": proposal.node, "mergeMethod": method.upper()}}
        reply = self._client.write("POST", self._graphql, {"query": AUTO_MERGE, "variables": given}, Response)
        if reply.errors:
            raise refusal_of(self._graphql, reply.errors[0].message)

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
    draft: bool = False
    created_at: datetime | None = None

    @property
    def is_ours(self) -> bool:
        """Whether its branch is of the project that it asks, and not of a fork."""
        return self.source_project_id is not None and self.source_project_id == self.target_project_id

    def to_proposal(self) -> Proposal:
        text, is_merged = self.description or "", self.state == "merged"
        return Proposal(self.iid, self.web_url, text, is_merged, self.created_at, is_draft=self.draft)


class GitLabReviewer(msgspec.Struct, frozen=True):
    """Who was asked for a review, and how far it is (docs.gitlab.com, "Merge requests API", reviewers)."""

    state: str = ""
    user: GitLabUser = GitLabUser()


class GitLabApprovals(msgspec.Struct, frozen=True):
    """Who approved (docs.gitlab.com, "Merge request approvals API")."""

    approved_by: tuple[GitLabReviewer, ...] = ()


Users = tuple[GitLabUser, ...]
DRAFT = "Draft: "
"""What the title of a merge request begins with that may not be merged yet."""


class GitLabProposals:
    """Merge requests of `project`, its number or its path."""

    def __init__(self, client: Client, project: str) -> None:
        self._client = client
        self._root = f"/projects/{quote(project, safe='')}"
        self._path = f"{self._root}/merge_requests"

    def find(self, branch: str, base: str) -> Proposal | None:
        """As in Proposals."""
        return next((request.to_proposal() for request in self._list("opened", branch, base)), None)

    def find_closed(self, branch: str, base: str) -> Proposal | None:
        """As in Proposals."""
        requests = self._list("all", branch, base)
        return next((one.to_proposal() for one in requests if one.state in ("closed", "merged")), None)

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

    def list_commands(self, proposal: Proposal, after: int) -> tuple[Comment, ...]:
        """As in Proposals: of those who may push to the project."""
        query = {"sort": "asc", "order_by": "created_at"}  # where a list is cut, the rest comes with the next run
        listed = self._client.list_all(f"{self._path}/{proposal.number}/notes", Note, query=query).items
        told = [one for one in sorted(listed, key=lambda one: one.id) if one.id > after and COMMAND in (one.body or "")]
        people = {one.author.id for one in told if one.author is not None and not one.author.is_bot}
        members = {one: self._client.find(f"{self._root}/members/all/{one}", GitLabMember) for one in people}
        house = {one for one, member in members.items() if member and member.access_level >= DEVELOPER}
        return tuple(Comment(one.id, one.body or "") for one in told if one.author and one.author.id in house)

    def open(self, branch: str, base: str, title: str, body: str, *, is_draft: bool = False) -> Proposal:
        """As in Proposals."""
        named = f"{DRAFT}{title}" if is_draft else title
        data = {"title": named, "description": body, "source_branch": branch, "target_branch": base}
        return self._client.write("POST", self._path, data, GitLabProposal).to_proposal()

    def update(self, proposal: Proposal, title: str, body: str) -> None:
        """As in Proposals; one that is a draft stays one."""
        named = f"{DRAFT}{title}" if proposal.is_draft else title
        self._put(proposal, {"title": named, "description": body})

    def label(self, proposal: Proposal, labels: Sequence[str]) -> None:
        """As in Proposals."""
        self._put(proposal, {"add_labels": ",".join(labels)})

    def ask(self, proposal: Proposal, reviewers: Sequence[str]) -> None:
        """As in Proposals."""
        found = {name: self._client.find(f"/users?{urlencode({'username': name})}", Users) for name in reviewers}
        if unknown := [name for name, users in found.items() if not users]:
            raise refusal_of(self._path, f"there is no user {unknown[0]}")
        self._put(proposal, {"reviewer_ids": [users[0].id for users in found.values() if users]})

    def merge_when_ready(self, proposal: Proposal, method: str) -> None:
        """As in Proposals; whether it is a merge commit or a rebase is a setting of the project."""
        asked = {"merge_when_pipeline_succeeds": True, "auto_merge": True, "squash": method == "squash"}
        self._client.write("PUT", f"{self._path}/{proposal.number}/merge", asked, GitLabProposal)

    def close(self, proposal: Proposal) -> None:
        """As in Proposals."""
        self._put(proposal, {"state_event": "close"})

    def _put(self, proposal: Proposal, data: Mapping[str, object]) -> None:
        self._client.write("PUT", f"{self._path}/{proposal.number}", data, GitLabProposal)

    def _list(self, state: str, branch: str, base: str) -> tuple[GitLabProposal, ...]:
        """Newest first, as the API gives them unless asked otherwise; a branch of a fork may have the same name."""
        query = urlencode({"state": state, "source_branch": branch, "target_branch": base})
        found = self._client.find(f"{self._path}?{query}", tuple[GitLabProposal, ...]) or ()
        return tuple(request for request in found if request.is_ours)


# -- Comments: what memory-ci says on a pull or merge request, one comment that it brings up to date

T = TypeVar("T")

TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Whose comments may be ours, where a person's token writes them (docs.github.com, `author_association`)."""


class Comment(msgspec.Struct, frozen=True):
    """A comment of ours."""

    id: int
    body: str


class Comments(Protocol):
    """The comments of a repository's requests. All raise EngineError (forge-refused, `forge-…`)."""

    def find(self, number: int, marker: str) -> Comment | None:
        """The first comment on a request that begins with `marker`, and that no stranger can have written."""
        ...

    def add(self, number: int, body: str) -> None:
        """A new comment."""
        ...

    def update(self, number: int, comment: Comment, body: str) -> None:
        """Give a comment another text."""
        ...


class CommentAuthor(msgspec.Struct, frozen=True):
    """Who wrote a comment: `type` on GitHub, `id` on GitLab."""

    id: int = 0
    type: str = ""


class GitHubComment(msgspec.Struct, frozen=True):
    """What GitHub says of a comment (docs.github.com, "REST API endpoints for issue comments")."""

    id: int
    body: str | None = None
    user: CommentAuthor | None = None
    author_association: str = ""

    @property
    def is_trusted(self) -> bool:
        """Whether an app of the repository or one of its people wrote it."""
        return (self.user is not None and self.user.type == "Bot") or self.author_association in TRUSTED


class GitHubComments:
    """Comments on the pull requests of `repository` (`owner/name`)."""

    def __init__(self, client: Client, repository: str) -> None:
        self._client, self._path = client, f"/repos/{quote(repository)}/issues"

    def find(self, number: int, marker: str) -> Comment | None:
        """As in Comments."""
        listed = _whole(self._client.list_all(f"{self._path}/{number}/comments", GitHubComment))
        own = (one for one in listed if one.is_trusted and (one.body or "").startswith(marker))
        return next((Comment(one.id, one.body or "") for one in own), None)

    def add(self, number: int, body: str) -> None:
        """As in Comments."""
        self._client.write("POST", f"{self._path}/{number}/comments", {"body": body}, GitHubComment)

    def update(self, number: int, comment: Comment, body: str) -> None:
        """As in Comments."""
        self._client.write("PATCH", f"{self._path}/comments/{comment.id}", {"body": body}, GitHubComment)


class GitLabNote(msgspec.Struct, frozen=True):
    """What GitLab says of a comment (docs.gitlab.com, "Notes API")."""

    id: int
    body: str = ""
    author: CommentAuthor | None = None


class GitLabComments:
    """Comments on the merge requests of `project`, its number or its path."""

    def __init__(self, client: Client, project: str) -> None:
        self._client, self._path = client, f"/projects/{quote(project, safe='')}/merge_requests"

    def find(self, number: int, marker: str) -> Comment | None:
        """As in Comments; who asks is known, and alone can have written it."""
        listed = _whole(self._client.list_all(f"{self._path}/{number}/notes", GitLabNote))
        marked = [one for one in listed if one.body.startswith(marker)]
        me = self._client.find("/user", CommentAuthor) if marked else None
        own = (one for one in marked if me is not None and one.author is not None and one.author.id == me.id)
        return next((Comment(one.id, one.body) for one in own), None)

    def add(self, number: int, body: str) -> None:
        """As in Comments."""
        self._client.write("POST", f"{self._path}/{number}/notes", {"body": body}, GitLabNote)

    def update(self, number: int, comment: Comment, body: str) -> None:
        """As in Comments."""
        self._client.write("PUT", f"{self._path}/{number}/notes/{comment.id}", {"body": body}, GitLabNote)


def _whole(listing: Listing[T]) -> tuple[T, ...]:
    """All items. Raises EngineError where some could not be read: ours may be among them, and it is to be one."""
    return require(listing._replace(items=()) if listing.problem else listing).items


# -- GitHub's GraphQL API: commits that GitHub makes, and its replies

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
