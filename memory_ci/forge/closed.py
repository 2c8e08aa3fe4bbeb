"""Closed requests: listed in one go, and completed one by one with no more than half of what a run may spend.

So a heap of them, which anyone can make, leaves enough to read what was merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from memory_ci.errors import EngineError
from memory_ci.forge.failures import LASTING
from memory_ci.forge.limits import Budget
from memory_ci.forge.rest import Listing, T
from memory_ci.records.forge import PullRequest


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
        hint = "Check the token and its rights, or try again later (docs/forge.md)."
        raise EngineError(listing.problem, slug=listing.slug, hint=hint)
    return listing


def complete_closed(
    with_reviews: Callable[[Problems], PullRequest], with_commits: Callable[[PullRequest, Problems], PullRequest]
) -> PullRequest:
    """What is asked of a request that brought nothing: what was said of it, and whether there was any work."""
    problems = Problems()
    request = with_reviews(problems)
    if request.permission != "read":
        request = with_commits(request, problems)
    return replace(request, problems=problems.texts)


def complete_each(
    requests: Iterable[PullRequest], complete: Callable[[int], PullRequest], budget: Budget
) -> Listing[PullRequest]:
    """What `complete` makes of each number, in order; where nothing more can be asked, what came before, and why."""
    done: list[PullRequest] = []
    try:
        with budget.half():
            for request in requests:
                done.append(complete(request.number))  # noqa: PERF401 - what was done before an error is kept
    except EngineError as error:
        if error.slug not in LASTING:
            raise
        return Listing(tuple(done), error.message, error.slug)
    return Listing(tuple(done))
