"""Read pull requests with reviews and checks from GitHub's REST API, or from a job's event file.

The API has version 2022-11-28. The shapes have only the fields that are read; the payloads of
events have the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, get_args
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from memory_ci.files import read_regular
from memory_ci.forge.rest import Client, Listing, Problems, RequestReader, require_items
from memory_ci.records.history import Check, Permission, PullRequest, Review, ReviewState, Time
from memory_ci.regex import Regex
from memory_ci.text import shorten

T = TypeVar("T")
API = "https://api.github.com"
HEADERS = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}

STATES: dict[str, ReviewState] = {state: state for state in get_args(ReviewState)}
"""States of reviews. A review that is `pending` was not sent yet, and has none of them."""

SUMMARY_WIDTH = 400  # Characters of a check's own summary: after them comes its log.
PASSED = frozenset({"success"})
FAILED = frozenset({"failure", "timed_out", "startup_failure", "error"})
"""Outcomes of checks. Others (neutral, skipped, cancelled, stale, pending) are ignored."""

MAX_CHECKED = 30
"""The newest commits of one pull request whose checks are read: each costs a request."""

MAX_BYTES = 25_000_000
"""GitHub sends no larger payload (docs.github.com, "Webhook events and payloads")."""

QUEUE_BRANCH = Regex(r"refs/heads/gh-readonly-queue/.+/pr-([1-9][0-9]{0,8})-[0-9a-f]{40,64}")
"""The branch on which a merge queue tries a pull request."""

EVENT_PROBLEM = "only the event of this job was read: no other reviews, commits or checks"


REVIEW_PREFIX = "r"
ISSUE_COMMENT_PREFIX = "i"
THREAD_COMMENT_PREFIX = "c"
"""Beginnings of the ids of our records: a review and a comment may have the same number."""

# -- shapes of the API


class GitHubUser(msgspec.Struct, frozen=True):
    """A user; `null` in place of a user is an account that was deleted."""

    login: str = ""
    type: str = ""

    @property
    def is_bot(self) -> bool:
        """Whether an app or a bot has this account."""
        return self.type == "Bot" or self.login.endswith("[bot]")


class GitHubRepository(msgspec.Struct, frozen=True):
    """The repository of a branch."""

    full_name: str = ""


class Branch(msgspec.Struct, frozen=True):
    """A branch; `repo` is null where the fork was deleted."""

    ref: str = ""
    repo: GitHubRepository | None = None


class Label(msgspec.Struct, frozen=True):
    """A label of a pull request."""

    name: str = ""


class Pull(msgspec.Struct, frozen=True):
    """An item of GET /repos/…/pulls, in which lists have all of these fields, too."""

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
    """The common fields of reviews and comments."""

    id: int
    body: str | None = None
    user: GitHubUser | None = None
    author_association: str = ""


class PullReview(Remark, frozen=True, kw_only=True):
    """An item of GET …/pulls/N/reviews."""

    state: str
    submitted_at: Time | None = None


class IssueComment(Remark, frozen=True, kw_only=True):
    """An item of GET …/issues/N/comments, below the pull request."""

    created_at: Time


class PullComment(IssueComment, frozen=True, kw_only=True):
    """An item of GET …/pulls/N/comments, in a thread; `line` is null where the code has changed."""

    path: str = ""
    line: int | None = None
    original_line: int | None = None
    in_reply_to_id: int | None = None
    pull_request_review_id: int | None = None


class Signature(msgspec.Struct, frozen=True):
    """The committer of a commit."""

    date: Time | None = None


class GitCommit(msgspec.Struct, frozen=True):
    """The part of a commit that git knows."""

    committer: Signature | None = None


class PullCommit(msgspec.Struct, frozen=True):
    """An item of GET …/pulls/N/commits."""

    sha: str
    commit: GitCommit = GitCommit()


class Output(msgspec.Struct, frozen=True):
    """The output of a check run."""

    title: str | None = None
    summary: str | None = None


class CheckRun(msgspec.Struct, frozen=True):
    """An item of GET …/commits/SHA/check-runs."""

    name: str
    conclusion: str | None = None
    completed_at: Time | None = None
    output: Output = Output()


class Status(msgspec.Struct, frozen=True):
    """An item of GET …/commits/SHA/status: a check that is not by an app."""

    context: str
    state: str
    updated_at: Time | None = None
    description: str | None = None


class PermissionReply(msgspec.Struct, frozen=True):
    """The reply of GET …/collaborators/LOGIN/permission.

    It has write for the role maintain, and read for triage.
    """

    permission: str = ""

    @property
    def level(self) -> Permission:
        """The permission in our terms."""
        return "write" if self.permission in ("admin", "write", "maintain") else "read"


class MergeGroup(msgspec.Struct, frozen=True):
    """The merge queue's group of an event."""

    head_sha: str = ""
    head_ref: str = ""


class _Outcome(NamedTuple):
    """The common fields of check runs and statuses."""

    name: str
    conclusion: str | None
    at: datetime | None
    summary: str


# -- records from the shapes

PermissionOf = Callable[[GitHubUser, str], Permission]
"""Returns the permission of a user with a given association with the repository."""


def format_request(pull: Pull, permission_of: PermissionOf) -> PullRequest:
    """Convert a pull request of GitHub to our record, without reviews, commits and checks.

    Args:
        pull: the pull request.
        permission_of: returns the permission of its author.
    """
    user = pull.user or GitHubUser()
    is_merged = pull.merged_at is not None
    return PullRequest(
        number=pull.number,
        title=pull.title or "",
        body=pull.body or "",
        author=user.login,
        permission=permission_of(user, pull.author_association),
        state="merged" if is_merged else pull.state,
        created_at=pull.created_at,
        is_fork=pull.head.repo is None or pull.head.repo != pull.base.repo,
        is_bot=user.is_bot,
        branch=pull.head.ref,
        labels=tuple(label.name for label in pull.labels),
        merged_at=pull.merged_at,
        closed_at=pull.closed_at,
        merge_sha=(pull.merge_commit_sha or "") if is_merged else "",
    )


def format_sketch(pull: Pull) -> PullRequest:
    """Convert a pull request of a list or an event to our record, without reading permissions."""
    return format_request(pull, _get_proved_permission)


def list_reviews(
    reviews: Iterable[PullReview],
    thread_comments: Iterable[PullComment],
    issue_comments: Iterable[IssueComment],
    permission_of: PermissionOf,
) -> tuple[Review, ...]:
    """Convert the reviews and comments of a pull request to our records, in the order of time.

    The first comment of a thread gets the state of its review, because the comment describes the
    requested change. Only GraphQL reports whether a thread was resolved, so `is_resolved` is None.

    Args:
        reviews: reviews.
        thread_comments: comments on lines of the change.
        issue_comments: comments below the pull request.
        permission_of: returns the permission of an author.
    """
    records: list[Review] = []
    states: dict[int, ReviewState] = {}  # By id of the review.
    for review in reviews:
        state = STATES.get(review.state.lower())
        if state is None:
            continue
        states[review.id] = state
        if review.submitted_at:
            records.append(
                _convert_review(REVIEW_PREFIX, review, review.submitted_at, permission_of, state)
            )
    for thread_comment in thread_comments:
        records.append(_convert_thread_comment(thread_comment, permission_of, states))
    for comment in issue_comments:
        records.append(
            _convert_review(ISSUE_COMMENT_PREFIX, comment, comment.created_at, permission_of)
        )
    return tuple(sorted(records, key=lambda record: record.at))


def by_association(association: str) -> Permission:
    """Return the permission that follows from an author's association with the repository.

    An owner may write. Members and collaborators may have the right to write or not. Anybody else
    may read only.
    """
    if association == "OWNER":
        return "write"
    if association in ("MEMBER", "COLLABORATOR", ""):
        return "unknown"
    return "read"


def _get_proved_permission(_user: GitHubUser, association: str) -> Permission:
    return by_association(association)


def _convert_review(
    id_prefix: str,
    remark: Remark,
    at: datetime,
    permission_of: PermissionOf,
    state: ReviewState = "commented",
) -> Review:
    """Convert a review or comment to our record.

    Args:
        id_prefix: the beginning of the id of the record.
        remark: the review or comment.
        at: when it was sent.
        permission_of: returns the permission of its author.
        state: its state.
    """
    user = remark.user or GitHubUser()
    return Review(
        id=f"{id_prefix}{remark.id}",
        author=user.login,
        permission=permission_of(user, remark.author_association),
        state=state,
        body=remark.body or "",
        at=at,
        is_bot=user.is_bot,
    )


def _convert_thread_comment(
    comment: PullComment, permission_of: PermissionOf, states: dict[int, ReviewState]
) -> Review:
    """Convert a comment of a thread to our record.

    Args:
        comment: the comment.
        permission_of: returns the permission of its author.
        states: the state of each review by its id.
    """
    is_reply = comment.in_reply_to_id is not None
    review_state = states.get(comment.pull_request_review_id or 0)
    is_requested_change = not is_reply and review_state == "changes_requested"
    state: ReviewState = "changes_requested" if is_requested_change else "commented"
    review = _convert_review(
        THREAD_COMMENT_PREFIX, comment, comment.created_at, permission_of, state
    )
    return replace(
        review,
        path=comment.path,
        line=comment.line or comment.original_line,
        in_reply_to=f"c{comment.in_reply_to_id}" if is_reply else "",
    )


def _list_checks(outcomes: Iterable[_Outcome], sha: str) -> list[Check]:
    """Return the checks on the commit `sha` that passed or failed."""
    checks: list[Check] = []
    for outcome in outcomes:
        is_success = outcome.conclusion in PASSED
        if outcome.at and (is_success or outcome.conclusion in FAILED):
            summary = shorten(outcome.summary, SUMMARY_WIDTH)
            check = Check(
                name=outcome.name, sha=sha, is_success=is_success, at=outcome.at, summary=summary
            )
            checks.append(check)
    return checks


def _run_outcome(run: CheckRun) -> _Outcome:
    """Return the outcome of a check run, with title and summary in one text."""
    summary = ": ".join(text for text in (run.output.title, run.output.summary) if text)
    return _Outcome(run.name, run.conclusion, run.completed_at, summary)


def _status_outcome(status: Status) -> _Outcome:
    return _Outcome(status.context, status.state, status.updated_at, status.description or "")


# -- readers


class GitHub(RequestReader[Pull]):
    """Reader of the pull requests of a repository.

    Methods raise EngineError (`forge-…`) when GitHub cannot be reached. A part of a pull request
    that could not be read is one of its `problems`, not an error.
    """

    def __init__(self, client: Client, repository: str) -> None:
        """`repository` is `owner/name`."""
        super().__init__(client, f"/repos/{quote(repository)}")

    def find_pull_request(self, number: int) -> PullRequest | None:
        """Return a pull request, or None if it does not exist or the token may not read it."""
        pull = self._client.find(f"{self._root}/pulls/{number}", Pull)
        return self._complete(pull) if pull else None

    def find_number(self, sha: str) -> int | None:
        """Return the number of the merged pull request that a commit belongs to, or None.

        The message of a commit that was merged by rebase does not name it.
        """
        path = f"{self._root}/commits/{quote(sha)}/pulls"
        for pull in self._client.find(path, tuple[Pull, ...]) or ():
            if pull.merged_at:
                return pull.number
        return None

    def list_closed(self, since: datetime) -> Listing[PullRequest]:
        """Return pull requests closed without a merge and changed at or after `since`.

        The last changed comes first. They have what GitHub lists of them: no reviews and commits,
        and the permission that follows from the author's association. `complete_closed` reads the
        rest.
        """

        def is_past(pull: Pull) -> bool:
            return pull.updated_at is not None and pull.updated_at < since

        query = {"state": "closed", "sort": "updated", "direction": "desc"}
        listing = self._client.list_all(f"{self._root}/pulls", Pull, query=query, is_past=is_past)
        closed = [pull for pull in require_items(listing).items if pull.merged_at is None]
        self._closed |= {pull.number: pull for pull in closed}
        requests = tuple(format_sketch(pull) for pull in closed)
        return Listing(requests, listing.problem, listing.slug)

    def _with_reviews(self, payload: Pull, problems: Problems) -> PullRequest:
        """Read the reviews and comments of a pull request, and return its record with them."""
        pull_path = f"{self._root}/pulls/{payload.number}"
        issue_path = f"{self._root}/issues/{payload.number}"
        reviews = problems.take_items(self._client.list_all(f"{pull_path}/reviews", PullReview))
        thread_listing = self._client.list_all(f"{pull_path}/comments", PullComment)
        issue_listing = self._client.list_all(f"{issue_path}/comments", IssueComment)
        thread_comments = problems.take_items(thread_listing)
        issue_comments = problems.take_items(issue_listing)
        permission_of = partial(self._find_permission, problems)
        records = list_reviews(reviews, thread_comments, issue_comments, permission_of)
        return replace(format_request(payload, permission_of), reviews=records)

    def _with_commits(self, request: PullRequest, problems: Problems) -> PullRequest:
        """Read the commits of a pull request, and return its record with them."""
        path = f"{self._root}/pulls/{request.number}/commits"
        commits = problems.take_items(self._client.list_all(path, PullCommit))
        signature = commits[-1].commit.committer if commits else None
        return replace(
            request,
            commits=tuple(commit.sha for commit in commits),
            last_commit_at=signature.date if signature else None,
        )

    def _read_checks(self, request: PullRequest, problems: Problems) -> tuple[Check, ...]:
        """Read the check runs of the newest commits of a pull request, or else their statuses.

        After a refusal no more commits are read: it holds for all of them.
        """
        unread_count = len(request.commits) - MAX_CHECKED
        if unread_count > 0:
            problems.add(f"the checks of the first {unread_count} commits were not read")
        checks: list[Check] = []
        for sha in request.commits[-MAX_CHECKED:]:
            path = f"{self._root}/commits/{sha}"
            run_listing = self._client.list_all(f"{path}/check-runs", CheckRun, key="check_runs")
            runs = problems.take_items(run_listing)
            if runs:
                checks += _list_checks(map(_run_outcome, runs), sha)
                continue
            if run_listing.problem:
                break
            status_listing = self._client.list_all(f"{path}/status", Status, key="statuses")
            statuses = problems.take_items(status_listing)
            checks += _list_checks(map(_status_outcome, statuses), sha)
        return tuple(checks)

    def _find_permission(
        self, problems: Problems, user: GitHubUser, association: str
    ) -> Permission:
        """Return the permission of a user, which is read from GitHub once.

        The permission of a bot is not read. If it is not or cannot be read, the permission that
        follows from the association is returned.

        Args:
            problems: gets the problem if it cannot be read.
            user: the user.
            association: the user's association with the repository.
        """
        if user.is_bot or not user.login:
            return by_association(association)
        path = f"{self._root}/collaborators/{quote(user.login, safe='')}/permission"
        permission = self._find_permission_once(path, PermissionReply, problems, _get_permission)
        return permission or by_association(association)


def _get_permission(reply: PermissionReply | None) -> Permission | None:
    return reply.level if reply else None


class EventReader:
    """Reads the pull request of the job's event (`$GITHUB_EVENT_PATH`), if the event has one.

    Anyone who opens a pull request writes parts of its event. So malformed parts count as missing,
    and are no error.
    """

    def __init__(self, path: Path) -> None:
        """Read the file of the event."""
        event: object = None
        with suppress(OSError, ValueError, RecursionError):
            event = msgspec.json.decode(read_regular(path, MAX_BYTES))
        if not isinstance(event, dict):
            event = {}
        self._merge_group = _convert_part(event, "merge_group", MergeGroup) or MergeGroup()
        self._request: PullRequest | None = None
        pull = _convert_part(event, "pull_request", Pull)
        if pull is not None:
            # The event of a review or a comment has it; the state is in lower case there.
            review = _convert_part(event, "review", PullReview)
            comment = _convert_part(event, "comment", PullComment)
            reviews = [review] if review else []
            thread_comments = [comment] if comment else []
            records = list_reviews(reviews, thread_comments, [], _get_proved_permission)
            # An event never has all reviews, commits and checks.
            problems = (EVENT_PROBLEM,)
            self._request = replace(format_sketch(pull), reviews=records, problems=problems)

    def find_pull_request(self, number: int) -> PullRequest | None:
        """Return the pull request of the event, if it has this number."""
        if self._request is not None and self._request.number == number:
            return self._request
        return None

    def find_number(self, sha: str) -> int | None:
        """Return the number of the pull request that a commit belongs to, if the event says it.

        The event names a commit in two cases: it is of a merged pull request, and the commit is
        the merge; or it is of a merge group (an entry of a merge queue), and the commit is the tip
        of the group's branch, which has the number in its name.
        """
        if not sha:
            return None
        if self._request and self._request.merge_sha == sha:
            return self._request.number
        queue_branch = QUEUE_BRANCH.fullmatch(self._merge_group.head_ref)
        if queue_branch and self._merge_group.head_sha == sha:
            return int(queue_branch[1])
        return None

    def list_closed(self, since: datetime) -> Listing[PullRequest]:
        """Return the pull request of the event, if it was closed without a merge after `since`."""
        request = self._request
        if request is None or request.state != "closed":
            return Listing(())
        is_recent = request.closed_at is not None and request.closed_at >= since
        return Listing((request,) if is_recent else ())

    def complete_closed(self, requests: Sequence[PullRequest]) -> Listing[PullRequest]:
        """Return the requests: the event has no other parts of them."""
        return Listing(tuple(requests))


def _convert_part(event: dict[str, object], key: str, shape: type[T]) -> T | None:
    """Convert a part of an event to a type; None if it is missing or malformed."""
    try:
        return msgspec.convert(event.get(key), shape)
    except (ValueError, RecursionError):
        return None
