"""Offline: what the event that started the job (`$GITHUB_EVENT_PATH`) knows of one pull request, and nothing else.

The event holds the words of strangers: no shape of it is an error, only less is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from memory_ci.files import read_regular
from memory_ci.forge import github_shapes as shapes
from memory_ci.forge.rest import Listing
from memory_ci.records.history import Permission, PullRequest, Review

T = TypeVar("T")

MAX_BYTES = 25_000_000  # GitHub sends no greater payload (docs.github.com, "Webhook events and payloads").
QUEUED = re.compile(r"refs/heads/gh-readonly-queue/.+/pr-([1-9][0-9]{0,8})-[0-9a-f]{40,64}")
"""The branch on which a merge queue tries a pull request."""

PROBLEM = "only the event of this job was read: no other reviews, commits or checks"


class MergeGroup(msgspec.Struct, frozen=True):
    head_sha: str = ""
    head_ref: str = ""


class Offline:
    """The pull request of one event; the file is read at once. What is no such event knows of none."""

    def __init__(self, path: Path) -> None:
        event = _load(path)
        pull = _part(event, "pull_request", shapes.Pull)
        self._request = _format(event, pull) if pull else None
        self._group = _part(event, "merge_group", MergeGroup) or MergeGroup()

    def find_pull_request(self, number: int) -> PullRequest | None:
        """As in Forge, when it is the one of the event."""
        return self._request if self._request and self._request.number == number else None

    def find_number(self, sha: str) -> int | None:
        """As in Forge; a merge queue names the number in its branch."""
        if not sha:
            return None
        if self._request and self._request.merge_sha == sha:
            return self._request.number
        match = QUEUED.fullmatch(self._group.head_ref)
        return int(match[1]) if match and self._group.head_sha == sha else None

    def list_closed(self, since: datetime) -> Listing[PullRequest]:
        """As in Forge: the one of the event, when it was closed without a merge."""
        request = self._request
        if request and request.state == "closed" and request.closed_at and request.closed_at >= since:
            return Listing((request,))
        return Listing(())

    def complete_closed(self, requests: Sequence[PullRequest]) -> Listing[PullRequest]:
        """As in Forge: nothing more is known."""
        return Listing(tuple(requests))


def _load(path: Path) -> dict[str, object]:
    try:
        event = msgspec.json.decode(read_regular(path, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def _part(event: dict[str, object], key: str, shape: type[T]) -> T | None:
    try:
        return msgspec.convert(event.get(key), shape)
    except (ValueError, RecursionError):
        return None


def _format(event: dict[str, object], pull: shapes.Pull) -> PullRequest:
    return replace(shapes.sketch_request(pull), reviews=_reviews(event), problems=(PROBLEM,))


def _reviews(event: dict[str, object]) -> tuple[Review, ...]:
    """The review or the comment that the event is about. Events write the state of a review in lower case."""
    review = _part(event, "review", shapes.PullReview)
    comment = _part(event, "comment", shapes.PullComment)
    return shapes.list_reviews([review] if review else [], [comment] if comment else [], [], _permission)


def _permission(_: shapes.GitHubUser, association: str) -> Permission:
    return shapes.by_association(association)
