"""Forges: pull requests, reviews, permissions and checks, over REST or from the event of the job alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from memory_ci.forge.rest import Listing
from memory_ci.records.forge import PullRequest


class Forge(Protocol):
    """Anything that knows pull requests. Its functions raise EngineError (`forge-…`) when it cannot be asked. A part of
    a pull request that could not be read is one of its `problems`, not an error."""

    def find_pull_request(self, number: int) -> PullRequest | None:
        """The pull request with this number, or None when there is none (or the token may not see it)."""

    def find_number(self, sha: str) -> int | None:
        """The number of the merged pull request that brought the commit `sha`, as a rebase merge does not say it."""

    def list_closed(self, since: datetime) -> Listing[PullRequest]:
        """Pull requests closed without a merge and changed at or after `since`, the last changed first. As the list
        shows them: without reviews and commits, and with the permission that the list alone proves."""

    def complete_closed(self, requests: Sequence[PullRequest]) -> Listing[PullRequest]:
        """Those of `list_closed` with their permission, their reviews and, of people of the house, their commits. In
        the same order. Where nothing more can be asked, or half of the budget is spent, that is the problem."""
