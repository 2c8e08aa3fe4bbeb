"""Open, update and comment on pull requests (GitHub) and merge requests (GitLab) by an API."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from memory_ci.forge.github import IssueComment, PermissionReply, PullReview, Remark
from memory_ci.forge.gitlab import DEVELOPER, GitLabMember, GitLabUser, Note
from memory_ci.forge.http import forge_refused, host_of
from memory_ci.forge.rest import Client, T, require_items

COMMAND = "/memory"  # The beginning of a command in a comment.
DRAFT = "Draft: "  # The beginning of the title of a draft merge request.
TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Associations of people whose comments may be ours, where a person's token writes them.

See docs.github.com, `author_association`.
"""

ReviewOutcome = Literal["", "reviewed", "changes requested", "approved"]
"""The review of a request by members; "" without one. An approval counts most."""

GITHUB_OUTCOMES: Mapping[str, ReviewOutcome] = {
    "APPROVED": "approved",
    "CHANGES_REQUESTED": "changes requested",
    "COMMENTED": "reviewed",
}
"""The outcome by the state of a review, the most important first."""

AUTO_MERGE = (
    "mutation($input: EnablePullRequestAutoMergeInput!) "
    "{ enablePullRequestAutoMerge(input: $input) { clientMutationId } }"
)
CREATE_COMMIT = (
    "mutation($input: CreateCommitOnBranchInput!) { createCommitOnBranch(input: $input) "
    "{ commit { oid } } }"
)
MAX_BYTES = 256 * 1024
"""Of the new contents of one commit: a larger request is slow, or refused, and a push is better."""

STALE = "STALE_DATA"  # The type of the error when the branch is not at `expectedHeadOid`.
STALE_WORDS = "expected branch to point to"  # In its message.


class Proposal(msgspec.Struct, frozen=True):
    """A request of a branch.

    Attributes:
        number: its number.
        url: its web page.
        body: its text.
        is_merged: whether it was merged.
        opened: when it was opened.
        node: its id in GraphQL, on GitHub.
        is_draft: whether it is a draft.
    """

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
    """Read a list, and raise an error unless it could be read completely.

    Raises:
        EngineError: `forge-…`.
    """
    listing = client.list_all(path, shape)
    if listing.problem:
        listing = listing._replace(items=())  # `require_items` accepts a part of a list.
    return require_items(listing).items


# -- GitHub


class GraphQLError(msgspec.Struct, frozen=True):
    """An error of a GraphQL reply."""

    type: str = ""
    message: str = ""


class Response(msgspec.Struct, frozen=True):
    """A GraphQL reply, with status 200 also for errors; `data` has the fields of each mutation."""

    data: dict[str, dict[str, dict[str, str] | None] | None] | None = None
    errors: tuple[GraphQLError, ...] = ()


class GitHubProposal(msgspec.Struct, frozen=True):
    """A pull request (docs.github.com, "REST API endpoints for pull requests")."""

    number: int
    html_url: str = ""
    body: str | None = None
    merged_at: str | None = None
    created_at: datetime | None = None
    node_id: str = ""

    def to_proposal(self) -> Proposal:
        """Return the record of the request."""
        return Proposal(
            number=self.number,
            url=self.html_url,
            body=self.body or "",
            is_merged=bool(self.merged_at),
            opened=self.created_at,
            node=self.node_id,
        )


class GitHubProposals:
    """The pull requests of a repository.

    All methods raise EngineError (forge-refused, `forge-…`).
    """

    def __init__(self, client: Client, repository: str, graphql: str = "") -> None:
        """Prepare requests to the API.

        Args:
            client: the client.
            repository: `owner/name`.
            graphql: the address of the GraphQL API.
        """
        self._client = client
        self._owner = repository.partition("/")[0]
        self._graphql = graphql
        root = f"/repos/{quote(repository)}"
        self._pulls = f"{root}/pulls"
        self._issues = f"{root}/issues"
        self._collaborators = f"{root}/collaborators"

    def find(self, branch: str, base: str) -> Proposal | None:
        """Return the open request of `branch` into `base`, both of this repository."""
        return next(self._iter_proposals("open", branch, base), None)

    def find_closed(self, branch: str, base: str) -> Proposal | None:
        """Return the newest request of `branch` into `base` that is not open."""
        return next(self._iter_proposals("closed", branch, base), None)

    def find_review(self, proposal: Proposal) -> ReviewOutcome:
        """Return the outcome of the members' reviews of a request: an approval counts most.

        Anyone may review a pull request, so only reviews of members and collaborators count, not
        those of bots. Of each person the last opinion counts, unless it was dismissed.
        """
        path = f"{self._pulls}/{proposal.number}/reviews?per_page=100"
        states: dict[str, str] = {}  # By login of the reviewer.
        for review in self._client.find(path, tuple[PullReview, ...]) or ():
            user = review.user
            if user is None or user.is_bot or review.author_association not in TRUSTED:
                continue
            if review.state in ("APPROVED", "CHANGES_REQUESTED"):
                states[user.login] = review.state
            elif review.state == "COMMENTED":
                states.setdefault(user.login, review.state)
        for state, outcome in GITHUB_OUTCOMES.items():
            if state in states.values():
                return outcome
        return ""

    def list_commands(self, proposal: Proposal, after: int) -> tuple[Comment, ...]:
        """Return the comments on a pull request that have a command, oldest first.

        Anyone may comment, so only comments of people who may write to the repository count. Not
        all members and collaborators may.

        Args:
            proposal: the pull request.
            after: only comments with a higher id are returned.
        """
        path = f"{self._issues}/{proposal.number}/comments"
        listing = self._client.list_all(path, IssueComment)
        comments: list[tuple[str, Comment]] = []  # With the login of the author.
        for comment in sorted(listing.items, key=lambda comment: comment.id):
            body = comment.body or ""
            user = comment.user
            if comment.id <= after or COMMAND not in body:
                continue
            if comment.author_association not in TRUSTED or user is None or user.is_bot:
                continue
            comments.append((user.login, Comment(comment.id, body)))

        logins = dict.fromkeys(login for login, _ in comments)
        writers = {login for login in logins if self._may_write(login)}
        return tuple(comment for login, comment in comments if login in writers)

    def _may_write(self, login: str) -> bool:
        path = f"{self._collaborators}/{quote(login, safe='')}/permission"
        reply = self._client.find(path, PermissionReply)
        return reply is not None and reply.level == "write"

    def open(self, branch: str, base: str, title: str, body: str) -> Proposal:
        """Open a request."""
        data = {
            "title": title,
            "body": body,
            "head": branch,
            "base": base,
            "maintainer_can_modify": True,
        }
        return self._client.write("POST", self._pulls, data, GitHubProposal).to_proposal()

    def label(self, proposal: Proposal, labels: Sequence[str]) -> None:
        """Add labels to a request."""
        path = f"{self._issues}/{proposal.number}/labels"
        self._client.write("POST", path, {"labels": labels}, Any)

    def request_reviews(self, proposal: Proposal, reviewers: Sequence[str]) -> None:
        """Request a review of people, on GitHub also of teams (`owner/team`)."""
        people = [name for name in reviewers if "/" not in name]
        teams = [name.rpartition("/")[2] for name in reviewers if "/" in name]
        data = {"reviewers": people, "team_reviewers": teams}
        path = f"{self._pulls}/{proposal.number}/requested_reviewers"
        self._client.write("POST", path, data, Any)

    def merge_when_ready(self, proposal: Proposal, method: str) -> None:
        """Let the forge merge a request as soon as its rules are met.

        With a merge queue the request enters it, and the queue has a method of its own.

        Args:
            proposal: the request.
            method: `merge`, `squash` or `rebase`.
        """
        variables = {"input": {"pullRequestId": proposal.node, "mergeMethod": method.upper()}}
        data = {"query": AUTO_MERGE, "variables": variables}
        response = self._client.write("POST", self._graphql, data, Response)
        if response.errors:
            raise forge_refused(host_of(self._graphql), "", response.errors[0].message)

    def update(self, proposal: Proposal, title: str, body: str) -> None:
        """Replace title and text of an open request."""
        self._patch_request(proposal, {"title": title, "body": body})

    def close(self, proposal: Proposal) -> None:
        """Close a request without a merge."""
        self._patch_request(proposal, {"state": "closed"})

    def _patch_request(self, proposal: Proposal, data: Mapping[str, object]) -> None:
        self._client.write("PATCH", f"{self._pulls}/{proposal.number}", data, GitHubProposal)

    def find_comment(self, number: int, marker: str) -> Comment | None:
        """Return the first comment on a request that begins with `marker`.

        Anyone may comment, so only comments of an app or of a member of the repository count.

        Raises:
            EngineError: also where some comments could not be read. Ours may be among them, and
                there must not be a second.
        """
        for comment in _list_whole(self._client, f"{self._issues}/{number}/comments", Remark):
            body = comment.body or ""
            is_app = comment.user is not None and comment.user.type == "Bot"
            is_trusted = is_app or comment.author_association in TRUSTED
            if is_trusted and body.startswith(marker):
                return Comment(comment.id, body)
        return None

    def add_comment(self, number: int, body: str) -> None:
        """Add a comment to a request."""
        self._client.write("POST", f"{self._issues}/{number}/comments", {"body": body}, Any)

    def update_comment(
        self,
        number: int,  # noqa: ARG002 - GitLab needs it
        comment: Comment,
        body: str,
    ) -> None:
        """Replace the text of a comment."""
        self._client.write("PATCH", f"{self._issues}/comments/{comment.id}", {"body": body}, Any)

    def _iter_proposals(self, state: str, branch: str, base: str) -> Iterator[Proposal]:
        """Yield the requests of a state, the newest first, which is the default of the API."""
        query = urlencode({"state": state, "head": f"{self._owner}:{branch}", "base": base})
        pulls = self._client.find(f"{self._pulls}?{query}", tuple[GitHubProposal, ...]) or ()
        return (pull.to_proposal() for pull in pulls)


# -- GitLab


class GitLabProposal(msgspec.Struct, frozen=True):
    """A merge request (docs.gitlab.com, "Merge requests API")."""

    iid: int
    web_url: str = ""
    description: str | None = None
    state: str = ""
    source_project_id: int | None = None
    target_project_id: int | None = None
    draft: bool = False
    created_at: datetime | None = None

    def to_proposal(self) -> Proposal:
        """Return the record of the request."""
        return Proposal(
            number=self.iid,
            url=self.web_url,
            body=self.description or "",
            is_merged=self.state == "merged",
            opened=self.created_at,
            is_draft=self.draft,
        )


class GitLabReviewer(msgspec.Struct, frozen=True):
    """A reviewer and their state (docs.gitlab.com, "Merge requests API", reviewers)."""

    state: str = ""
    user: GitLabUser = GitLabUser()


class GitLabApprovals(msgspec.Struct, frozen=True):
    """The approvals of a request (docs.gitlab.com, "Merge request approvals API")."""

    approved_by: tuple[GitLabReviewer, ...] = ()


Users = tuple[GitLabUser, ...]


class GitLabProposals:
    """The merge requests of a project, with the methods of GitHubProposals."""

    def __init__(self, client: Client, project: str) -> None:
        """`project` is its number or its path."""
        self._client = client
        self._root = f"/projects/{quote(project, safe='')}"
        self._path = f"{self._root}/merge_requests"

    def find(self, branch: str, base: str) -> Proposal | None:
        """Return the open request of `branch` into `base`, both of this project."""
        for request in self._iter_merge_requests("opened", branch, base):
            return request.to_proposal()
        return None

    def find_closed(self, branch: str, base: str) -> Proposal | None:
        """Return the newest request of `branch` into `base` that is not open."""
        for request in self._iter_merge_requests("all", branch, base):
            if request.state in ("closed", "merged"):
                return request.to_proposal()
        return None

    def find_review(self, proposal: Proposal) -> ReviewOutcome:
        """Return the outcome of people's reviews of a merge request; bots do not count.

        An approval counts most, then a request for changes. The state `approved` of a reviewer
        counts as a review only: the list of approvals decides whether the request is approved.
        """
        path = f"{self._path}/{proposal.number}"
        approvals = self._client.find(f"{path}/approvals", GitLabApprovals)
        if approvals and any(not approval.user.is_bot for approval in approvals.approved_by):
            return "approved"
        reviewers = self._client.find(f"{path}/reviewers", tuple[GitLabReviewer, ...]) or ()
        states = {reviewer.state for reviewer in reviewers if not reviewer.user.is_bot}
        if "requested_changes" in states:
            return "changes requested"
        is_reviewed = not states.isdisjoint(("reviewed", "approved", "review_started"))
        return "reviewed" if is_reviewed else ""

    def list_commands(self, proposal: Proposal, after: int) -> tuple[Comment, ...]:
        """Return the comments on a merge request that have a command, oldest first.

        GitLab calls a comment a note. Only comments of people who may push to the project count.

        Args:
            proposal: the merge request.
            after: only comments with a higher id are returned.
        """
        # Oldest first: if the list is cut off, the next run reads the rest.
        query = {"sort": "asc", "order_by": "created_at"}
        path = f"{self._path}/{proposal.number}/notes"
        notes = self._client.list_all(path, Note, query=query).items
        comments: list[tuple[int, Comment]] = []  # With the id of the author.
        for note in sorted(notes, key=lambda note: note.id):
            body = note.body or ""
            if note.id <= after or COMMAND not in body:
                continue
            if note.author is not None and not note.author.is_bot:
                comments.append((note.author.id, Comment(note.id, body)))

        author_ids = {author_id for author_id, _ in comments}
        writer_ids = {author_id for author_id in author_ids if self._may_push(author_id)}
        return tuple(comment for author_id, comment in comments if author_id in writer_ids)

    def _may_push(self, user_id: int) -> bool:
        member = self._client.find(f"{self._root}/members/all/{user_id}", GitLabMember)
        return member is not None and member.access_level >= DEVELOPER

    def open(self, branch: str, base: str, title: str, body: str) -> Proposal:
        """Open a request."""
        data = {
            "title": title,
            "description": body,
            "source_branch": branch,
            "target_branch": base,
        }
        return self._client.write("POST", self._path, data, GitLabProposal).to_proposal()

    def update(self, proposal: Proposal, title: str, body: str) -> None:
        """Replace title and text of an open request; a draft stays one."""
        new_title = f"{DRAFT}{title}" if proposal.is_draft else title
        self._put_request(proposal, {"title": new_title, "description": body})

    def label(self, proposal: Proposal, labels: Sequence[str]) -> None:
        """Add labels to a request."""
        self._put_request(proposal, {"add_labels": ",".join(labels)})

    def request_reviews(self, proposal: Proposal, reviewers: Sequence[str]) -> None:
        """Request a review of a merge request from people.

        Raises:
            EngineError: forge-refused, if there is no user of one of the names; none is asked then.
        """
        user_ids: list[int] = []
        unknown_names: list[str] = []
        for name in dict.fromkeys(reviewers):
            query = urlencode({"username": name})
            users = self._client.find(f"/users?{query}", Users)
            if users:
                user_ids.append(users[0].id)
            else:
                unknown_names.append(name)
        if unknown_names:
            raise forge_refused("the forge", "", f"there is no user {unknown_names[0]}")
        self._put_request(proposal, {"reviewer_ids": user_ids})

    def merge_when_ready(self, proposal: Proposal, method: str) -> None:
        """Let the forge merge a request as soon as its rules are met.

        Whether that makes a merge commit or a rebase is a setting of the project.

        Args:
            proposal: the request.
            method: `squash`, or another.
        """
        data = {
            "merge_when_pipeline_succeeds": True,
            "auto_merge": True,
            "squash": method == "squash",
        }
        self._client.write("PUT", f"{self._path}/{proposal.number}/merge", data, GitLabProposal)

    def close(self, proposal: Proposal) -> None:
        """Close a request without a merge."""
        self._put_request(proposal, {"state_event": "close"})

    def find_comment(self, number: int, marker: str) -> Comment | None:
        """Return the first comment on a merge request (GitLab's note) that begins with `marker`.

        Anyone may comment, so only comments of the token's own user count.

        Raises:
            EngineError: also if some comments could not be read.
        """
        notes = _list_whole(self._client, f"{self._path}/{number}/notes", Note)
        marked = [note for note in notes if (note.body or "").startswith(marker)]
        user = self._client.find("/user", GitLabUser) if marked else None
        if user is None:
            return None
        for note in marked:
            if note.author is not None and note.author.id == user.id:
                return Comment(note.id, note.body or "")
        return None

    def add_comment(self, number: int, body: str) -> None:
        """Add a comment to a request."""
        self._client.write("POST", f"{self._path}/{number}/notes", {"body": body}, Any)

    def update_comment(self, number: int, comment: Comment, body: str) -> None:
        """Replace the text of a comment."""
        path = f"{self._path}/{number}/notes/{comment.id}"
        self._client.write("PUT", path, {"body": body}, Any)

    def _put_request(self, proposal: Proposal, data: Mapping[str, object]) -> None:
        self._client.write("PUT", f"{self._path}/{proposal.number}", data, GitLabProposal)

    def _iter_merge_requests(self, state: str, branch: str, base: str) -> Iterator[GitLabProposal]:
        """Yield the merge requests of a state, the newest first, which is the default of the API.

        Those of forks, whose branches may have the same name, are left out.
        """
        query = urlencode({"state": state, "source_branch": branch, "target_branch": base})
        requests = self._client.find(f"{self._path}?{query}", tuple[GitLabProposal, ...]) or ()
        for request in requests:
            project = request.source_project_id
            if project and project == request.target_project_id:
                yield request


Proposals = GitHubProposals | GitLabProposals


# -- commits by the API


class Created(NamedTuple):
    """The result of creating a commit.

    Attributes:
        oid: the id of the new commit; "" if it was refused.
        is_stale: whether the branch had moved.
        reason: why it was refused otherwise.
    """

    oid: str
    is_stale: bool = False
    reason: str = ""


class GitHubCommitter:
    """Creates commits on branches of a repository, which GitHub signs.

    The GraphQL mutation is `createCommitOnBranch` with `expectedHeadOid` (docs.github.com, "GraphQL
    mutations"). It has files and their content, no modes: an executable memory file would lose its
    bit.
    """

    def __init__(self, client: Client, address: str, repository: str) -> None:
        """Prepare requests to the API.

        Args:
            client: the client.
            address: the address of the GraphQL API.
            repository: `owner/name`.
        """
        self._client = client
        self._address = address
        self._repository = repository

    def commit(
        self, branch: str, expected: str, files: Mapping[str, bytes | None], message: str
    ) -> Created:
        """Create one commit on top of the commit `expected`, and move the branch there.

        Args:
            branch: the short name of the branch.
            expected: the commit that the branch must be at.
            files: the files to write (None: to delete) by path.
            message: the whole message.

        Raises:
            EngineError: `forge-…`.
        """
        contents = {path: data for path, data in files.items() if data is not None}
        size = sum(len(data) for data in contents.values())
        if size > MAX_BYTES:
            return Created("", reason=f"more than {MAX_BYTES // 1024} KB in one commit")

        headline, _, body = message.partition("\n")
        additions: list[dict[str, str]] = []
        for path, data in contents.items():
            additions.append({"path": path, "contents": b64encode(data).decode()})
        deletions = [{"path": path} for path in files if path not in contents]
        commit_input = {
            "branch": {"repositoryNameWithOwner": self._repository, "branchName": branch},
            "expectedHeadOid": expected,
            "message": {"headline": headline, "body": body.strip("\n")},
            "fileChanges": {"additions": additions, "deletions": deletions},
        }
        request = {"query": CREATE_COMMIT, "variables": {"input": commit_input}}
        return _parse_created(self._client.write("POST", self._address, request, Response))


def _parse_created(response: Response) -> Created:
    """Return the new commit of a reply of `createCommitOnBranch`, or why it was refused."""
    if not response.errors:
        payload = (response.data or {}).get("createCommitOnBranch") or {}
        commit = payload.get("commit")
        if commit and "oid" in commit:
            return Created(commit["oid"])
    error = response.errors[0] if response.errors else GraphQLError()
    is_stale = error.type == STALE or STALE_WORDS in error.message.lower()
    return Created("", is_stale, error.message or "no reason was given")
