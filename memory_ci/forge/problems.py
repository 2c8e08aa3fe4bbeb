"""Problems: what of a pull request could not be read, collected while the rest is."""

from __future__ import annotations

from typing import TypeVar

from memory_ci.forge.rest import Listing

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
