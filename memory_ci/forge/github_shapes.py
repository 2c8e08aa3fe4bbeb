"""What GitHub's REST API says of a pull request (version 2022-11-28), and the records that come of it (pure).

Only fields that are read stand here. The payloads of events have the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Literal

import msgspec

from memory_ci.records.history import Check, Permission, PullRequest, Review, ReviewState, Time
from memory_ci.text import shorten

SUMMARY_WIDTH = 400  # Characters of a check's own summary: the rest of it is its log.
STATES: dict[str, ReviewState] = {
    "approved": "approved",
    "changes_requested": "changes_requested",
    "commented": "commented",
    "dismissed": "dismissed",
}
"""A review that is `pending` was not sent yet."""

PASSED = frozenset({"success"})
FAILED = frozenset({"failure", "timed_out", "startup_failure", "error"})
"""What is neither (neutral, skipped, cancelled, stale, pending) says nothing about the commit."""


class GitHubUser(msgspec.Struct, frozen=True):
    """`null` in place of a user is an account that was deleted."""

    login: str = ""
    type: str = ""

    @property
    def is_bot(self) -> bool:
        return self.type == "Bot" or self.login.endswith("[bot]")


class GitHubRepository(msgspec.Struct, frozen=True):
    full_name: str = ""


class Branch(msgspec.Struct, frozen=True):
    """`repo` is null where the fork was deleted."""

    ref: str = ""
    sha: str = ""
    repo: GitHubRepository | None = None


class Label(msgspec.Struct, frozen=True):
    name: str = ""


class Pull(msgspec.Struct, frozen=True):
    """One of GET /repos/…/pulls; a list of them has all of these fields too."""

    number: int
    created_at: Time
    state: Literal["open", "closed"] = "open"
    updated_at: Time | None = None
    title: str | None = ""
    body: str | None = None
    user: GitHubUser | None = None
    author_association: str = ""
    labels: tuple[Label, ...] = ()
    merged_at: Time | None = None
    closed_at: Time | None = None
    merge_commit_sha: str | None = None
    head: Branch = Branch()
    base: Branch = Branch()


class PullReview(msgspec.Struct, frozen=True):
    """One of GET …/pulls/N/reviews."""

    id: int
    state: str
    body: str | None = None
    user: GitHubUser | None = None
    author_association: str = ""
    submitted_at: Time | None = None


class PullComment(msgspec.Struct, frozen=True):
    """One of GET …/pulls/N/comments, in a thread; `line` is null where the code has gone on since."""

    id: int
    created_at: Time
    body: str | None = None
    user: GitHubUser | None = None
    author_association: str = ""
    path: str = ""
    line: int | None = None
    original_line: int | None = None
    in_reply_to_id: int | None = None
    pull_request_review_id: int | None = None


class IssueComment(msgspec.Struct, frozen=True):
    """One of GET …/issues/N/comments, under the pull request."""

    id: int
    created_at: Time
    body: str | None = None
    user: GitHubUser | None = None
    author_association: str = ""


class Signature(msgspec.Struct, frozen=True):
    date: Time | None = None


class GitCommit(msgspec.Struct, frozen=True):
    committer: Signature | None = None


class PullCommit(msgspec.Struct, frozen=True):
    """One of GET …/pulls/N/commits."""

    sha: str
    commit: GitCommit = GitCommit()


class Output(msgspec.Struct, frozen=True):
    title: str | None = None
    summary: str | None = None


class CheckRun(msgspec.Struct, frozen=True):
    """One of GET …/commits/SHA/check-runs."""

    name: str
    conclusion: str | None = None
    completed_at: Time | None = None
    output: Output = Output()


class Status(msgspec.Struct, frozen=True):
    """One of GET …/commits/SHA/status: what a check is called that is no app."""

    context: str
    state: str
    updated_at: Time | None = None
    description: str | None = None


PermissionOf = Callable[[GitHubUser, str], Permission]
"""The permission of a user whose association with the repository is known."""


def format_request(pull: Pull, permission_of: PermissionOf) -> PullRequest:
    """The record of a pull request, without what other addresses say of it."""
    user = pull.user or GitHubUser()
    merged = pull.merged_at is not None
    return PullRequest(
        number=pull.number,
        title=pull.title or "",
        body=pull.body or "",
        author=user.login,
        permission=permission_of(user, pull.author_association),
        state="merged" if merged else pull.state,
        created_at=pull.created_at,
        is_fork=pull.head.repo is None or pull.head.repo != pull.base.repo,
        is_bot=user.is_bot,
        branch=pull.head.ref,
        labels=tuple(label.name for label in pull.labels),
        merged_at=pull.merged_at,
        closed_at=pull.closed_at,
        merge_sha=pull.merge_commit_sha or "" if merged else "",
    )


def sketch_request(pull: Pull) -> PullRequest:
    """The record as a list of requests, or an event, gives it: nobody was asked who may write."""
    return format_request(pull, lambda _, association: by_association(association))


def list_reviews(
    reviews: Iterable[PullReview],
    threads: Iterable[PullComment],
    comments: Iterable[IssueComment],
    permission_of: PermissionOf,
) -> tuple[Review, ...]:
    """Reviews, comments of threads and comments below, in the order of time.

    The first comment of a thread has the state of the review that it was sent with: there the requested change stands.
    Whether a thread was resolved only GraphQL tells, so `is_resolved` stays None.
    """
    sent = [review for review in reviews if review.state.lower() in STATES]
    states = {review.id: STATES[review.state.lower()] for review in sent}
    found = [
        *(_review(review, review.submitted_at, permission_of) for review in sent if review.submitted_at),
        *(_thread_comment(comment, permission_of, states) for comment in threads),
        *(_comment(comment, permission_of) for comment in comments),
    ]
    return tuple(sorted(found, key=lambda review: review.at))


def list_check_runs(runs: Iterable[CheckRun], sha: str) -> Iterator[Check]:
    """The runs on the commit `sha` that passed or failed."""
    for run in runs:
        if run.completed_at and run.conclusion in PASSED | FAILED:
            said = ": ".join(part for part in (run.output.title, run.output.summary) if part)
            yield Check(
                name=run.name,
                sha=sha,
                is_success=run.conclusion in PASSED,
                at=run.completed_at,
                summary=shorten(said, SUMMARY_WIDTH),
            )


def list_statuses(statuses: Iterable[Status], sha: str) -> Iterator[Check]:
    """The statuses of the commit `sha` that passed or failed."""
    for status in statuses:
        if status.updated_at and status.state in PASSED | FAILED:
            yield Check(
                name=status.context,
                sha=sha,
                is_success=status.state in PASSED,
                at=status.updated_at,
                summary=shorten(status.description or "", SUMMARY_WIDTH),
            )


def by_association(association: str) -> Permission:
    """What the association of an author says of the permission, as long as the forge says no more.

    An owner writes. Members and collaborators may have been given no more than reading; anybody else is no member.
    """
    if association == "OWNER":
        return "write"
    return "unknown" if association in ("MEMBER", "COLLABORATOR", "") else "read"


def _review(review: PullReview, at: datetime, permission_of: PermissionOf) -> Review:
    user = review.user or GitHubUser()
    return Review(
        id=f"r{review.id}",
        author=user.login,
        permission=permission_of(user, review.author_association),
        state=STATES[review.state.lower()],
        body=review.body or "",
        at=at,
        is_bot=user.is_bot,
    )


def _thread_comment(comment: PullComment, permission_of: PermissionOf, states: dict[int, ReviewState]) -> Review:
    user = comment.user or GitHubUser()
    is_reply = comment.in_reply_to_id is not None
    return Review(
        id=f"c{comment.id}",
        author=user.login,
        permission=permission_of(user, comment.author_association),
        state="commented" if is_reply else _requested(states.get(comment.pull_request_review_id or 0)),
        body=comment.body or "",
        at=comment.created_at,
        path=comment.path,
        line=comment.line or comment.original_line,
        in_reply_to=f"c{comment.in_reply_to_id}" if is_reply else "",
        is_bot=user.is_bot,
    )


def _requested(state: ReviewState | None) -> ReviewState:
    return "changes_requested" if state == "changes_requested" else "commented"


def _comment(comment: IssueComment, permission_of: PermissionOf) -> Review:
    user = comment.user or GitHubUser()
    return Review(
        id=f"i{comment.id}",
        author=user.login,
        permission=permission_of(user, comment.author_association),
        state="commented",
        body=comment.body or "",
        at=comment.created_at,
        is_bot=user.is_bot,
    )
