"""Problems: what of a pull request could not be read, collected while the rest is."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from memory_ci.errors import EngineError
from memory_ci.forge.rest import Listing
from memory_ci.records.forge import PullRequest

T = TypeVar("T")


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


def require(listing: Listing[T], found: tuple[PullRequest, ...]) -> tuple[PullRequest, ...]:
    """`found`, the last of them with the problem of their list, so that it is told where the list breaks off.

    Raises EngineError, as the list was refused, when there is a problem and nothing to tell it by.
    """
    if not listing.problem:
        return found
    if not found:
        hint = "Check the token and its rights, or try again later (docs/forge.md)."
        raise EngineError(listing.problem, slug=listing.slug, hint=hint)
    last = msgspec.structs.replace(found[-1], problems=(*found[-1].problems, listing.problem))
    return (*found[:-1], last)
