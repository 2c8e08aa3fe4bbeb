"""GitHub: pull requests over REST (version 2022-11-28) or from the event of the job alone.

Of the shapes only fields that are read stand here; the payloads of events have the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar, get_args
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from memory_ci.files import read_regular
from memory_ci.forge.rest import Client, Listing, Problems, RequestReader, require
from memory_ci.records.history import Check, Permission, PullRequest, Review, ReviewState, Time
from memory_ci.text import shorten

SUMMARY_WIDTH = 400  # Characters of a check's own summary: the rest of it is its log.
# A review that is `pending` was not sent yet.
STATES: dict[str, ReviewState] = {state: state for state in get_args(ReviewState)}
PASSED = frozenset({"success"})
# What is neither (neutral, skipped, cancelled, stale, pending) says nothing about the commit.
FAILED = frozenset({"failure", "timed_out", "startup_failure", "error"})


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


class Remark(msgspec.Struct, frozen=True):
    """What reviews and comments have alike."""

    id: int
    body: str | None = None
    user: GitHubUser | None = None
    author_association: str = ""


class PullReview(Remark, frozen=True, kw_only=True):
    """One of GET …/pulls/N/reviews."""

    state: str
    submitted_at: Time | None = None


class IssueComment(Remark, frozen=True, kw_only=True):
    """One of GET …/issues/N/comments, under the pull request."""

    created_at: Time


class PullComment(IssueComment, frozen=True, kw_only=True):
    """One of GET …/pulls/N/comments, in a thread; `line` is null where the code has gone on since."""

    path: str = ""
    line: int | None = None
    original_line: int | None = None
    in_reply_to_id: int | None = None
    pull_request_review_id: int | None = None


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


# The permission of a user whose association with the repository is known.
PermissionOf = Callable[[GitHubUser, str], Permission]


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
    """Reviews, comments of threads and comments below, in the order of time. The first comment of a thread has the
    state of the review that it was sent with: there the requested change stands. Whether a thread was resolved only
    GraphQL tells, so `is_resolved` stays None."""
    sent = [review for review in reviews if review.state.lower() in STATES]
    states = {review.id: STATES[review.state.lower()] for review in sent}
    found = [
        *(
            _review("r", one, one.submitted_at, permission_of, states[one.id])
            for one in sent
            if one.submitted_at
        ),
        *(_thread_comment(comment, permission_of, states) for comment in threads),
        *(_review("i", comment, comment.created_at, permission_of) for comment in comments),
    ]
    return tuple(sorted(found, key=lambda review: review.at))


def _list_checks(
    found: Iterable[tuple[str, str | None, datetime | None, str]], sha: str
) -> Iterator[Check]:
    """Of (name, outcome, when, words) on the commit `sha`, what passed or failed."""
    for name, outcome, at, said in found:
        if at and outcome in PASSED | FAILED:
            summary = shorten(said, SUMMARY_WIDTH)
            yield Check(name=name, sha=sha, is_success=outcome in PASSED, at=at, summary=summary)


def by_association(association: str) -> Permission:
    """What the association of an author says of the permission, as long as the forge says no more. An owner writes.
    Members and collaborators may have been given no more than reading; anybody else is no member."""
    if association == "OWNER":
        return "write"
    return "unknown" if association in ("MEMBER", "COLLABORATOR", "") else "read"


def _review(
    letter: str,
    remark: Remark,
    at: datetime,
    permission_of: PermissionOf,
    state: ReviewState = "commented",
) -> Review:
    user = remark.user or GitHubUser()
    return Review(
        id=f"{letter}{remark.id}",
        author=user.login,
        permission=permission_of(user, remark.author_association),
        state=state,
        body=remark.body or "",
        at=at,
        is_bot=user.is_bot,
    )


def _thread_comment(
    comment: PullComment, permission_of: PermissionOf, states: dict[int, ReviewState]
) -> Review:
    is_reply = comment.in_reply_to_id is not None
    is_request = (
        not is_reply and states.get(comment.pull_request_review_id or 0) == "changes_requested"
    )
    state: ReviewState = "changes_requested" if is_request else "commented"
    return replace(
        _review("c", comment, comment.created_at, permission_of, state),
        path=comment.path,
        line=comment.line or comment.original_line,
        in_reply_to=f"c{comment.in_reply_to_id}" if is_reply else "",
    )


API = "https://api.github.com"
HEADERS = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}
MAX_CHECKED = (
    30  # Commits of one pull request, the newest, whose checks are read: each costs a request.
)


class Granted(msgspec.Struct, frozen=True):
    """What GET …/collaborators/LOGIN/permission says; maintain is told as write, triage as read."""

    permission: str = ""

    @property
    def level(self) -> Permission:
        return "write" if self.permission in ("admin", "write", "maintain") else "read"


class GitHub(RequestReader[Pull]):
    """The pull requests of `repository` (`owner/name`). Its functions raise EngineError (`forge-…`) when it cannot be
    asked; a part of a pull request that could not be read is one of its `problems`, not an error."""

    def __init__(self, client: Client, repository: str) -> None:
        super().__init__(client, f"/repos/{quote(repository)}")

    def find_pull_request(self, number: int) -> PullRequest | None:
        """The pull request with this number, or None when there is none (or the token may not see it)."""
        pull = self._client.find(f"{self._root}/pulls/{number}", Pull)
        return self._complete(pull) if pull else None

    def find_number(self, sha: str) -> int | None:
        """The number of the merged pull request that brought the commit `sha`, as a rebase merge does not say it."""
        pulls = (
            self._client.find(f"{self._root}/commits/{quote(sha)}/pulls", tuple[Pull, ...]) or ()
        )
        return next((pull.number for pull in pulls if pull.merged_at), None)

    def list_closed(self, since: datetime) -> Listing[PullRequest]:
        """Pull requests closed without a merge and changed at or after `since`, the last changed first. As the list
        shows them: without reviews and commits, and with the permission that the list alone proves."""
        query = {"state": "closed", "sort": "updated", "direction": "desc"}

        def is_past(pull: Pull) -> bool:
            return pull.updated_at is not None and pull.updated_at < since

        listing = self._client.list_all(f"{self._root}/pulls", Pull, query=query, is_past=is_past)
        closed = [pull for pull in require(listing).items if pull.merged_at is None]
        self._closed |= {pull.number: pull for pull in closed}
        return Listing(tuple(map(sketch_request, closed)), listing.problem, listing.slug)

    def _with_reviews(self, pull: Pull, problems: Problems) -> PullRequest:
        pulls, issues = f"{self._root}/pulls/{pull.number}", f"{self._root}/issues/{pull.number}"
        reviews = problems.note(self._client.list_all(f"{pulls}/reviews", PullReview))
        threads = problems.note(self._client.list_all(f"{pulls}/comments", PullComment))
        comments = problems.note(self._client.list_all(f"{issues}/comments", IssueComment))
        permission_of = partial(self._permission, problems)
        said = list_reviews(reviews, threads, comments, permission_of)
        return replace(format_request(pull, permission_of), reviews=said)

    def _with_commits(self, request: PullRequest, problems: Problems) -> PullRequest:
        path = f"{self._root}/pulls/{request.number}/commits"
        commits = problems.note(self._client.list_all(path, PullCommit))
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
            runs = self._client.list_all(f"{commit}/check-runs", CheckRun, key="check_runs")
            told = []
            for run in problems.note(runs):
                said = ": ".join(filter(None, (run.output.title, run.output.summary)))
                told.append((run.name, run.conclusion, run.completed_at, said))
            found += _list_checks(told, sha)
            if runs.problem and not runs.items:
                break
            if not runs.items:
                statuses = self._client.list_all(f"{commit}/status", Status, key="statuses")
                noted = problems.note(statuses)
                found += _list_checks(
                    ((s.context, s.state, s.updated_at, s.description or "") for s in noted), sha
                )
        return tuple(found)

    def _permission(self, problems: Problems, user: GitHubUser, association: str) -> Permission:
        """What the repository grants to `user`, asked once; where it does not say, what the association proves."""
        if user.is_bot or not user.login:
            return by_association(association)
        path = f"{self._root}/collaborators/{quote(user.login, safe='')}/permission"
        level = self._ask_once(
            path, Granted, problems, lambda granted: granted.level if granted else None
        )
        return level or by_association(association)


T = TypeVar("T")
MAX_BYTES = (
    25_000_000  # GitHub sends no greater payload (docs.github.com, "Webhook events and payloads").
)
# The branch on which a merge queue tries a pull request.
QUEUED = re.compile(r"refs/heads/gh-readonly-queue/.+/pr-([1-9][0-9]{0,8})-[0-9a-f]{40,64}")
PROBLEM = "only the event of this job was read: no other reviews, commits or checks"


class MergeGroup(msgspec.Struct, frozen=True):
    head_sha: str = ""
    head_ref: str = ""


class Offline:
    """The pull request of one event (`$GITHUB_EVENT_PATH`), whose file is read at once; else none is known. The event
    holds the words of strangers: no shape of it is an error, only less is known."""

    def __init__(self, path: Path) -> None:
        event: object = None
        with suppress(OSError, ValueError, RecursionError):
            event = msgspec.json.decode(read_regular(path, MAX_BYTES))
        if not isinstance(event, dict):
            event = {}
        self._group = _part(event, "merge_group", MergeGroup) or MergeGroup()
        self._request: PullRequest | None = None
        if pull := _part(event, "pull_request", Pull):
            # The review or the comment that the event is about; events write the state of a review in lower case.
            review, comment = (
                _part(event, "review", PullReview),
                _part(event, "comment", PullComment),
            )
            said = list_reviews(
                [review] if review else [],
                [comment] if comment else [],
                [],
                lambda _, told: by_association(told),
            )
            self._request = replace(sketch_request(pull), reviews=said, problems=(PROBLEM,))

    def find_pull_request(self, number: int) -> PullRequest | None:
        """As in GitHub, when it is the one of the event."""
        return self._request if self._request and self._request.number == number else None

    def find_number(self, sha: str) -> int | None:
        """As in GitHub; a merge queue names the number in its branch."""
        if not sha:
            return None
        if self._request and self._request.merge_sha == sha:
            return self._request.number
        match = QUEUED.fullmatch(self._group.head_ref)
        return int(match[1]) if match and self._group.head_sha == sha else None

    def list_closed(self, since: datetime) -> Listing[PullRequest]:
        """As in GitHub: the one of the event, when it was closed without a merge."""
        request = self._request
        if (
            request
            and request.state == "closed"
            and request.closed_at
            and request.closed_at >= since
        ):
            return Listing((request,))
        return Listing(())

    def complete_closed(self, requests: Sequence[PullRequest]) -> Listing[PullRequest]:
        """As in GitHub: nothing more is known."""
        return Listing(tuple(requests))


def _part(event: dict[str, object], key: str, shape: type[T]) -> T | None:
    try:
        return msgspec.convert(event.get(key), shape)
    except (ValueError, RecursionError):
        return None
