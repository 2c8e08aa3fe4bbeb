"""Events of a pull request: its reviews and comments, and checks that failed and then passed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from msgspec.structs import replace

from memory_ci.records.event import Event, Origin
from memory_ci.records.history import Check, Permission, PullRequest, Review
from memory_ci.regex import Regex

INSTRUCTION_LABEL = Regex(r"\s*memory\s*:\s*(keep|skip)\s*", re.IGNORECASE)
"""A label of the pull request with the effect of the trailer `Memory: keep`."""


def review_events(request: PullRequest) -> tuple[Event, ...]:
    """Return the events of a pull request: itself, its reviews and comments, its fixed checks.

    Reviews and comments without words are left out, the others come in the order of time. A fixed
    check is one that failed and then passed on a later commit.

    Labels: `label` (one of the forge), `permission` (of its author at the forge), `state` (of the
    request or the review), `reply-to` (the id of the comment that it answers), `line`, `resolved`,
    and `outcome`, which is `closed-unmerged`, `requested-then-made` or `failed-then-passed`.
    """
    reviews = [review for review in request.reviews if review.body.strip()]
    reviews.sort(key=lambda review: review.at)
    events = [
        _make_request_event(request),
        *(_make_review_event(request, review) for review in reviews),
        *(
            _make_check_event(request, failed, passed)
            for failed, passed in iter_fixed_checks(request)
        ),
    ]
    return tuple(replace(event, seq=seq) for seq, event in enumerate(events))


def iter_fixed_checks(request: PullRequest) -> Iterator[tuple[Check, Check]]:
    """Yield the last failure of each CI check, and the first pass after it, on a later commit.

    A pass on the same commit does not count: the check was only run again.
    """
    commit_numbers = {sha: number for number, sha in enumerate(request.commits)}
    checks = [check for check in request.checks if check.sha in commit_numbers]
    checks.sort(key=lambda check: (commit_numbers[check.sha], check.at))
    by_name: dict[str, list[Check]] = {}
    for check in checks:
        by_name.setdefault(check.name, []).append(check)

    for checks_of_name in by_name.values():
        # In the order of commits; of two checks of one commit the later counts.
        last_of_commits = {check.sha: check for check in checks_of_name}.values()
        fixed = None
        for check, next_check in pairwise(last_of_commits):
            if next_check.is_success and not check.is_success:
                fixed = (check, next_check)
        if fixed:
            yield fixed


def _make_request_event(request: PullRequest) -> Event:
    """Return the event of a pull request itself: title, description and labels."""
    labels: list[tuple[str, str]] = []
    for name in request.labels:
        instruction = INSTRUCTION_LABEL.fullmatch(name)
        labels.append(("Memory", instruction[1].lower()) if instruction else ("label", name))
    labels += [("permission", request.permission), ("state", request.state)]
    if request.state == "closed":
        labels.append(("outcome", "closed-unmerged"))
    return Event(
        seq=0,
        at=request.created_at,
        actor="bot" if request.is_bot else "human",
        kind="pr",
        text=f"{request.title}\n\n{request.body}".strip(),
        origin=Origin("pr", str(request.number)),
        author=request.author,
        labels=tuple(labels),
        uid=f"pr:{request.number}",
        is_outside=is_outside(request, request.permission),
    )


def _make_review_event(request: PullRequest, review: Review) -> Event:
    """Return the event of a review or comment, with the labels that `review_events` lists."""
    address = f"{request.number}#{review.id}"
    resolved = None
    if review.is_resolved is not None:
        resolved = "yes" if review.is_resolved else "no"
    labels = {
        "permission": review.permission,
        "state": review.state,
        "reply-to": review.in_reply_to,
        "line": review.line,
        "resolved": resolved,
        "outcome": "requested-then-made" if _was_request_fulfilled(request, review) else None,
    }
    return Event(
        seq=0,
        at=review.at,
        actor="bot" if review.is_bot else "human",
        kind="review",
        text=review.body,
        origin=Origin("review", address),
        author=review.author,
        paths=(review.path,) if review.path else (),
        labels=tuple((key, str(value)) for key, value in labels.items() if value not in (None, "")),
        uid=f"review:{address}",
        is_outside=is_outside(request, review.permission),
    )


def _was_request_fulfilled(request: PullRequest, review: Review) -> bool:
    """Return whether a requested change was followed by commits, and these were accepted.

    They are accepted by the merge, or by an approval of the reviewer who requested the change.
    """
    last_commit_at = request.last_commit_at
    if review.state != "changes_requested" or last_commit_at is None:
        return False
    if last_commit_at <= review.at:
        return False
    if request.merged_at is not None and request.merged_at >= last_commit_at:
        return True
    for later in request.reviews:
        is_approval = later.state == "approved" and later.author == review.author
        if is_approval and later.at >= last_commit_at:
            return True
    return False


def _make_check_event(request: PullRequest, failed: Check, passed: Check) -> Event:
    """Return the event of a CI check that failed and then passed.

    A program wrote its summary, which may hold text that the code of the branch printed.
    """
    summary = f": {failed.summary}" if failed.summary else "."
    commits = f"failed on {failed.sha[:7]} and passed on {passed.sha[:7]}"
    slug = re.sub(r"[^a-z0-9]+", "-", failed.name.lower()).strip("-")
    return Event(
        seq=0,
        at=passed.at,
        actor="system",
        kind="check",
        text=f"Check {failed.name!r} {commits}{summary}",
        origin=Origin("pr", f"{request.number}#check-{slug}"),
        ok=False,
        severity="error",
        labels=(("outcome", "failed-then-passed"), ("check", failed.name)),
        uid=f"pr:{request.number}#check:{failed.name}",
        is_outside=is_outside(request, request.permission),
    )


def is_outside(request: PullRequest, permission: Permission) -> bool:
    """Return whether somebody who wrote in a pull request may not write to the repository.

    If the forge does not say so, it is assumed of all people in a pull request from a fork.
    """
    return permission == "read" or (request.is_fork and permission != "write")
