"""Requests with all that was said of them, read alike from every forge.

Closed ones are listed in one go, and completed one by one with no more than half of what a run may spend: so a heap of
them, which anyone can make, leaves enough to read what was merged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec.structs import replace

from memory_ci.errors import EngineError
from memory_ci.forge.failures import LASTING
from memory_ci.forge.rest import Client, Listing, T
from memory_ci.records.history import Check, PullRequest

Found = TypeVar("Found")


class Problems:
    """The problems of one pull request, each once, in the order of their finding."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._texts)

    def add(self, text: str) -> None:
        """Note a problem in words."""
        self._texts[text] = None

    def note(self, listing: Listing[T]) -> tuple[T, ...]:
        """The items of `listing`; its problem is noted."""
        if listing.problem:
            self.add(listing.problem)
        return listing.items


def require(listing: Listing[T]) -> Listing[T]:
    """The listing. Raises EngineError, as the list was refused, when there is a problem and nothing else."""
    if listing.problem and not listing.items:
        hint = "Check the token and its rights, or try again later (`memory-ci help forge`)."
        raise EngineError(listing.problem, slug=listing.slug, hint=hint)
    return listing


class RequestReader(ABC, Generic[Found]):
    """What is read of requests alike from every forge, under `root`. `Found` is a request as the forge tells of it."""

    def __init__(self, client: Client, root: str) -> None:
        self._client, self._root = client, root
        self._closed: dict[int, Found] = {}

    def complete_closed(self, requests: Sequence[PullRequest]) -> Listing[PullRequest]:
        """As in Forge: in order; where nothing more can be asked, what came before, and why."""
        done: list[PullRequest] = []
        try:
            with self._client.budget.half():
                for request in requests:
                    done.append(self._complete_closed(request.number))  # noqa: PERF401 - kept before an error
        except EngineError as error:
            if error.slug not in LASTING:
                raise
            return Listing(tuple(done), error.message, error.slug)
        return Listing(tuple(done))

    def _complete_closed(self, number: int) -> PullRequest:
        """What is asked of a request that brought nothing: what was said of it, and whether there was any work."""
        problems = Problems()
        request = self._with_reviews(self._closed[number], problems)
        if request.permission != "read":
            request = self._with_commits(request, problems)
        return replace(request, problems=problems.texts)

    def _complete(self, found: Found) -> PullRequest:
        """The record with all parts; each costs one request or more."""
        problems = Problems()
        request = self._with_commits(self._with_reviews(found, problems), problems)
        checks = self._checks(request, problems)
        return replace(request, checks=checks, problems=problems.texts)

    @abstractmethod
    def _with_reviews(self, found: Found, problems: Problems) -> PullRequest: ...

    @abstractmethod
    def _with_commits(self, request: PullRequest, problems: Problems) -> PullRequest: ...

    @abstractmethod
    def _checks(self, request: PullRequest, problems: Problems) -> tuple[Check, ...]: ...
