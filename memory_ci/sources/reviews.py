"""Reviews: what was said of a pull request, what was asked for and then done, which checks failed and then passed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from msgspec.structs import replace

from memory_ci.records.event import Event, Origin
from memory_ci.records.history import Check, Permission, PullRequest, Review

# A label of the pull request that does what the trailer `Memory: keep` does.
MARK = re.compile(r"\s*memory\s*:\s*(keep|skip)\s*", re.IGNORECASE)


def review_events(request: PullRequest) -> tuple[Event, ...]:
    """The request itself, then each review and comment with words, then each check that was mended; by time.

    Labels: `label` (one of the forge), `permission` (what its author may do here), `state` (of the request or the
    review), `reply-to` (the id of what a comment answers), `line`, `resolved`, and `outcome`, which is
    `closed-unmerged`, `requested-then-made` or `failed-then-passed`.
    """
    said = sorted(
        (review for review in request.reviews if review.body.strip()), key=lambda review: review.at
    )
    events = [
        _request_event(request),
        *(_review_event(request, review) for review in said),
        *(_check_event(request, failed, passed) for failed, passed in mended_checks(request)),
    ]
    return tuple(replace(event, seq=seq) for seq, event in enumerate(events))


def mended_checks(request: PullRequest) -> Iterator[tuple[Check, Check]]:
    """Of each check the last failure and the first pass after it, on a later commit of the request. A pass on the same
    commit mends nothing: the check was only run again."""
    place = {sha: number for number, sha in enumerate(request.commits)}
    by_name: dict[str, list[Check]] = {}
    for check in sorted(request.checks, key=lambda check: (place.get(check.sha, -1), check.at)):
        if check.sha in place:
            by_name.setdefault(check.name, []).append(check)
    for checks in by_name.values():  # in the order of commits; of two on one commit the later holds
        last = list({check.sha: check for check in checks}.values())
        yield from [
            (one, after) for one, after in pairwise(last) if after.is_success > one.is_success
        ][-1:]


def _request_event(request: PullRequest) -> Event:
    marks = [(MARK.fullmatch(name), name) for name in request.labels]
    labels = [("Memory", mark[1].lower()) if mark else ("label", name) for mark, name in marks]
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


def _review_event(request: PullRequest, review: Review) -> Event:
    address = f"{request.number}#{review.id}"
    labels = {
        "permission": review.permission,
        "state": review.state,
        "reply-to": review.in_reply_to,
        "line": review.line,
        "resolved": None if review.is_resolved is None else "yes" if review.is_resolved else "no",
        "outcome": "requested-then-made" if _was_made(request, review) else None,
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


def _was_made(request: PullRequest, review: Review) -> bool:
    """A requested change, commits after it, and then the merge or an approval by who had asked for it."""
    last = request.last_commit_at
    if review.state != "changes_requested" or last is None or last <= review.at:
        return False
    is_merged = request.merged_at is not None and request.merged_at >= last
    return is_merged or any(
        other.state == "approved" and other.author == review.author and other.at >= last
        for other in request.reviews
    )


def _check_event(request: PullRequest, failed: Check, passed: Check) -> Event:
    """Nobody wrote this: the summary is a machine's, and may hold what the branch made it print."""
    summary = f": {failed.summary}" if failed.summary else "."
    name = re.sub(r"[^a-z0-9]+", "-", failed.name.lower()).strip("-")
    return Event(
        seq=0,
        at=passed.at,
        actor="system",
        kind="check",
        text=f"Check {failed.name!r} failed on {failed.sha[:7]} and passed on {passed.sha[:7]}{summary}",
        origin=Origin("pr", f"{request.number}#check-{name}"),
        ok=False,
        severity="error",
        labels=(("outcome", "failed-then-passed"), ("check", failed.name)),
        uid=f"pr:{request.number}#check:{failed.name}",
        is_outside=is_outside(request, request.permission),
    )


def is_outside(request: PullRequest, permission: Permission) -> bool:
    """Whether words of somebody with this permission are those of a stranger. Where the forge does not say who may
    write, the people of a branch of the repository itself are taken for its own, those around a fork are not."""
    return permission == "read" or (request.is_fork and permission != "write")
