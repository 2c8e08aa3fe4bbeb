"""What is written to a forge: the request of a branch, comments on it, and commits that GitHub makes and signs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from memory_ci.errors import EngineError
from memory_ci.forge.github import Granted, IssueComment, PullReview, Remark
from memory_ci.forge.gitlab import DEVELOPER, GitLabMember, GitLabUser, Note
from memory_ci.forge.http import host_of, refused
from memory_ci.forge.rest import Client, T, require

COMMAND = "/memory"  # What the line of a comment begins with that asks for something.
DRAFT = "Draft: "  # What the title of a merge request begins with that may not be merged yet.
# Whose comments may be ours, where a person's token writes them (docs.github.com, `author_association`).
TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
# What people of the house said of a request: "" where none did. An approval counts most.
Review = Literal["", "reviewed", "changes requested", "approved"]


class Proposal(msgspec.Struct, frozen=True):
    """A request, where people see it, its text, and whether it was merged. `node` is its id in GraphQL, on GitHub."""

    number: int
    url: str
    body: str = ""
    is_merged: bool = False
    opened: datetime | None = None
    node: str = ""
    is_draft: bool = False


class Comment(msgspec.Struct, frozen=True):
    """A comment on a request."""

    id: int
    body: str


def _list_whole(client: Client, path: str, shape: type[T]) -> tuple[T, ...]:
    listing = client.list_all(path, shape)
    return require(listing._replace(items=()) if listing.problem else listing).items


class GraphQLError(msgspec.Struct, frozen=True):
    """One error of a GraphQL reply."""

    type: str = ""
    message: str = ""


class Response(msgspec.Struct, frozen=True):
    """A GraphQL reply, of status 200 also for errors; `data` is what each mutation gives, by its fields."""

    data: dict[str, dict[str, dict[str, str] | None] | None] | None = None
    errors: tuple[GraphQLError, ...] = ()


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
STATES: tuple[tuple[str, Review], ...] = (
    ("APPROVED", "approved"), ("CHANGES_REQUESTED", "changes requested"), ("COMMENTED", "reviewed")
)  # fmt: skip


class GitHubProposals:
    """Pull requests of `repository` (`owner/name`); `graphql` is the address of that API. All methods raise
    EngineError (forge-refused, `forge-…`)."""

    def __init__(self, client: Client, repository: str, graphql: str = "") -> None:
        self._client, self._owner, self._graphql = client, repository.partition("/")[0], graphql
        root = f"/repos/{quote(repository)}"
        self._path, self._issues, self._people = (
            f"{root}/pulls",
            f"{root}/issues",
            f"{root}/collaborators",
        )

    def find(self, branch: str, base: str) -> Proposal | None:
        """The open request that brings `branch` into `base`, both of this repository."""
        return next(self._list("open", branch, base), None)

    def find_closed(self, branch: str, base: str) -> Proposal | None:
        """The newest of the requests that are not open."""
        return next(self._list("closed", branch, base), None)

    def find_review(self, proposal: Proposal) -> Review:
        """Whether people review a request, or approve of it as it is; what bots and strangers say is none. The last
        opinion of each counts, and one that was dismissed is none."""
        path = f"{self._path}/{proposal.number}/reviews?per_page=100"
        said: dict[str, str] = {}
        for one in self._client.find(path, tuple[PullReview, ...]) or ():
            if one.user is None or one.user.is_bot or one.author_association not in TRUSTED:
                continue
            if one.state in ("APPROVED", "CHANGES_REQUESTED"):
                said[one.user.login] = one.state
            elif one.state == "COMMENTED":
                said.setdefault(one.user.login, one.state)
        return next((name for state, name in STATES if state in said.values()), "")

    def list_commands(self, proposal: Proposal, after: int) -> tuple[Comment, ...]:
        """What those who may write said on a request with `/memory`, by ids above `after`, oldest first. Of those who
        may write to the repository, which members and collaborators need not."""
        listed = self._client.list_all(f"{self._issues}/{proposal.number}/comments", IssueComment)
        told = [
            (one, one.user.login)
            for one in sorted(listed.items, key=lambda one: one.id)
            if one.id > after and COMMAND in (one.body or "") and one.author_association in TRUSTED
            if one.user is not None and not one.user.is_bot
        ]
        paths = {name: f"{self._people}/{quote(name, safe='')}/permission" for _, name in told}
        granted = {name: self._client.find(path, Granted) for name, path in paths.items()}
        return tuple(
            Comment(one.id, one.body or "")
            for one, name in told
            if (may := granted[name]) and may.level == "write"
        )

    def open(
        self, branch: str, base: str, title: str, body: str, *, is_draft: bool = False
    ) -> Proposal:
        """A new request. Where the plan of the repository knows no drafts, it is none."""
        data = {
            "title": title,
            "body": body,
            "head": branch,
            "base": base,
            "maintainer_can_modify": True,
        }
        try:
            asked = {**data, "draft": True} if is_draft else data
            return self._client.write("POST", self._path, asked, GitHubProposal).to_proposal()
        except EngineError as error:
            if not is_draft or "draft" not in error.message.lower():
                raise
        return self._client.write("POST", self._path, data, GitHubProposal).to_proposal()

    def label(self, proposal: Proposal, labels: Sequence[str]) -> None:
        """Add labels to a request."""
        self._client.write(
            "POST", f"{self._issues}/{proposal.number}/labels", {"labels": labels}, Any
        )

    def ask(self, proposal: Proposal, reviewers: Sequence[str]) -> None:
        """Ask people, on GitHub also teams (`owner/team`), to review a request."""
        teams = [name.rpartition("/")[2] for name in reviewers if "/" in name]
        asked = {
            "reviewers": [name for name in reviewers if "/" not in name],
            "team_reviewers": teams,
        }
        self._client.write(
            "POST", f"{self._path}/{proposal.number}/requested_reviewers", asked, Any
        )

    def merge_when_ready(self, proposal: Proposal, method: str) -> None:
        """Let the forge merge a request as soon as its rules are met: by `merge`, `squash` or `rebase`. With a merge
        queue the request enters it, and the queue has a method of its own."""
        given = {"input": {"pullRequestId": proposal.node, "mergeMethod": method.upper()}}
        reply = self._client.write(
            "POST", self._graphql, {"query": AUTO_MERGE, "variables": given}, Response
        )
        if reply.errors:
            raise refused(host_of(self._graphql), "", reply.errors[0].message)

    def update(self, proposal: Proposal, title: str, body: str) -> None:
        """Give an open request another title and text."""
        self._client.write(
            "PATCH",
            f"{self._path}/{proposal.number}",
            {"title": title, "body": body},
            GitHubProposal,
        )

    def close(self, proposal: Proposal) -> None:
        """Close a request without a merge."""
        self._client.write(
            "PATCH", f"{self._path}/{proposal.number}", {"state": "closed"}, GitHubProposal
        )

    def find_comment(self, number: int, marker: str) -> Comment | None:
        """The first comment on a request that begins with `marker`, and that no stranger can have written. Raises
        EngineError where some could not be read: ours may be among them, and it is to be one. Of an app of the
        repository, or of one of its people."""
        for one in _list_whole(self._client, f"{self._issues}/{number}/comments", Remark):
            is_app = one.user is not None and one.user.type == "Bot"
            if (is_app or one.author_association in TRUSTED) and (one.body or "").startswith(
                marker
            ):
                return Comment(one.id, one.body or "")
        return None

    def add_comment(self, number: int, body: str) -> None:
        """A new comment."""
        self._client.write("POST", f"{self._issues}/{number}/comments", {"body": body}, Any)

    def update_comment(self, number: int, comment: Comment, body: str) -> None:
        """Give a comment another text."""
        self._client.write("PATCH", f"{self._issues}/comments/{comment.id}", {"body": body}, Any)

    def _list(self, state: str, branch: str, base: str) -> Iterator[Proposal]:
        """Newest first, as the API gives them unless asked otherwise."""
        query = urlencode({"state": state, "head": f"{self._owner}:{branch}", "base": base})
        found = self._client.find(f"{self._path}?{query}", tuple[GitHubProposal, ...]) or ()
        return (pull.to_proposal() for pull in found)


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

    def to_proposal(self) -> Proposal:
        text, is_merged = self.description or "", self.state == "merged"
        return Proposal(
            self.iid, self.web_url, text, is_merged, self.created_at, is_draft=self.draft
        )


class GitLabReviewer(msgspec.Struct, frozen=True):
    """Who was asked for a review, and how far it is (docs.gitlab.com, "Merge requests API", reviewers)."""

    state: str = ""
    user: GitLabUser = GitLabUser()


class GitLabApprovals(msgspec.Struct, frozen=True):
    """Who approved (docs.gitlab.com, "Merge request approvals API")."""

    approved_by: tuple[GitLabReviewer, ...] = ()


Users = tuple[GitLabUser, ...]


class GitLabProposals:
    """Merge requests of `project`, its number or its path, as in GitHubProposals."""

    def __init__(self, client: Client, project: str) -> None:
        self._client = client
        self._root = f"/projects/{quote(project, safe='')}"
        self._path = f"{self._root}/merge_requests"

    def find(self, branch: str, base: str) -> Proposal | None:
        return next((request.to_proposal() for request in self._list("opened", branch, base)), None)

    def find_closed(self, branch: str, base: str) -> Proposal | None:
        requests = self._list("all", branch, base)
        return next(
            (one.to_proposal() for one in requests if one.state in ("closed", "merged")), None
        )

    def find_review(self, proposal: Proposal) -> Review:
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
        """As in GitHubProposals: of those who may push to the project."""
        query = {
            "sort": "asc",
            "order_by": "created_at",
        }  # where a list is cut, the rest comes with the next run
        listed = self._client.list_all(
            f"{self._path}/{proposal.number}/notes", Note, query=query
        ).items
        told = [
            one
            for one in sorted(listed, key=lambda one: one.id)
            if one.id > after and COMMAND in (one.body or "")
        ]
        people = {one.author.id for one in told if one.author is not None and not one.author.is_bot}
        members = {
            one: self._client.find(f"{self._root}/members/all/{one}", GitLabMember)
            for one in people
        }
        house = {
            one for one, member in members.items() if member and member.access_level >= DEVELOPER
        }
        return tuple(
            Comment(one.id, one.body or "") for one in told if one.author and one.author.id in house
        )

    def open(
        self, branch: str, base: str, title: str, body: str, *, is_draft: bool = False
    ) -> Proposal:
        named = f"{DRAFT}{title}" if is_draft else title
        data = {"title": named, "description": body, "source_branch": branch, "target_branch": base}
        return self._client.write("POST", self._path, data, GitLabProposal).to_proposal()

    def update(self, proposal: Proposal, title: str, body: str) -> None:
        """As in GitHubProposals; one that is a draft stays one."""
        self._put(
            proposal,
            {"title": f"{DRAFT}{title}" if proposal.is_draft else title, "description": body},
        )

    def label(self, proposal: Proposal, labels: Sequence[str]) -> None:
        self._put(proposal, {"add_labels": ",".join(labels)})

    def ask(self, proposal: Proposal, reviewers: Sequence[str]) -> None:
        found = {
            name: self._client.find(f"/users?{urlencode({'username': name})}", Users)
            for name in reviewers
        }
        if unknown := [name for name, users in found.items() if not users]:
            raise refused(host_of(self._path), "", f"there is no user {unknown[0]}")
        self._put(proposal, {"reviewer_ids": [users[0].id for users in found.values() if users]})

    def merge_when_ready(self, proposal: Proposal, method: str) -> None:
        """As in GitHubProposals; whether it is a merge commit or a rebase is a setting of the project."""
        asked = {
            "merge_when_pipeline_succeeds": True,
            "auto_merge": True,
            "squash": method == "squash",
        }
        self._client.write("PUT", f"{self._path}/{proposal.number}/merge", asked, GitLabProposal)

    def close(self, proposal: Proposal) -> None:
        self._put(proposal, {"state_event": "close"})

    def find_comment(self, number: int, marker: str) -> Comment | None:
        """As in GitHubProposals; who asks is known, and alone can have written it."""
        listed = _list_whole(self._client, f"{self._path}/{number}/notes", Note)
        marked = [one for one in listed if (one.body or "").startswith(marker)]
        me = self._client.find("/user", GitLabUser) if marked else None
        own = (
            one
            for one in marked
            if me is not None and one.author is not None and one.author.id == me.id
        )
        return next((Comment(one.id, one.body or "") for one in own), None)

    def add_comment(self, number: int, body: str) -> None:
        self._client.write("POST", f"{self._path}/{number}/notes", {"body": body}, Any)

    def update_comment(self, number: int, comment: Comment, body: str) -> None:
        self._client.write("PUT", f"{self._path}/{number}/notes/{comment.id}", {"body": body}, Any)

    def _put(self, proposal: Proposal, data: Mapping[str, object]) -> None:
        self._client.write("PUT", f"{self._path}/{proposal.number}", data, GitLabProposal)

    def _list(self, state: str, branch: str, base: str) -> Iterator[GitLabProposal]:
        """Newest first, as the API gives them unless asked otherwise; a branch of a fork may have the same name."""
        query = urlencode({"state": state, "source_branch": branch, "target_branch": base})
        found = self._client.find(f"{self._path}?{query}", tuple[GitLabProposal, ...]) or ()
        return (
            one
            for one in found
            if one.source_project_id and one.source_project_id == one.target_project_id
        )


Proposals = GitHubProposals | GitLabProposals
# Of the new contents of one commit: above that the request is slow, or refused, and a push does better.
MAX_BYTES = 256 * 1024
MUTATION = "mutation($input: CreateCommitOnBranchInput!) { createCommitOnBranch(input: $input) { commit { oid } } }"
# Type and message of the error when the branch is not at `expectedHeadOid`.
STALE, STALE_WORDS = "STALE_DATA", "expected branch to point to"


class Created(NamedTuple):
    """The id of the new commit; "" with `is_stale` when the branch had moved, or else with why it was refused."""

    oid: str
    is_stale: bool = False
    reason: str = ""


class GitHubCommitter:
    """Makes commits on the branches of `repository` (`owner/name`) through the GraphQL API at `address`. What GitHub
    makes itself is signed: `createCommitOnBranch` with `expectedHeadOid` (docs.github.com, "GraphQL mutations"). It
    knows files and their content, no modes: an executable memory file would lose its bit."""

    def __init__(self, client: Client, address: str, repository: str) -> None:
        self._client, self._address, self._repository = client, address, repository

    def commit(
        self, branch: str, expected: str, files: Mapping[str, bytes | None], message: str
    ) -> Created:
        """One commit on top of `expected`, with files to write (None: to delete). Raises EngineError (`forge-…`)."""
        written = {path: data for path, data in files.items() if data is not None}
        if sum(map(len, written.values())) > MAX_BYTES:
            return Created("", reason=f"more than {MAX_BYTES // 1024} KB in one commit")
        headline, _, body = message.partition("\n")
        additions = [
            {"path": path, "contents": b64encode(data).decode()} for path, data in written.items()
        ]
        deletions = [{"path": path} for path in files if path not in written]
        asked = {
            "branch": {"repositoryNameWithOwner": self._repository, "branchName": branch},
            "expectedHeadOid": expected,
            "message": {"headline": headline, "body": body.strip("\n")},
            "fileChanges": {"additions": additions, "deletions": deletions},
        }
        mutation = {"query": MUTATION, "variables": {"input": asked}}
        response = self._client.write("POST", self._address, mutation, Response)
        made = ((response.data or {}).get("createCommitOnBranch") or {}).get("commit")
        if made and "oid" in made and not response.errors:
            return Created(made["oid"])
        first = response.errors[0] if response.errors else GraphQLError()
        is_stale = first.type == STALE or STALE_WORDS in first.message.lower()
        return Created("", is_stale, first.message or "no reason was given")
