"""The index of an organisation: entries of many repositories, kept apart by who may read them. Derived from git."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memory_ci.records.entry import Located
from memory_ci.records.org import OrgFilters, OrgHead, OrgMatch, OrgPublished, OrgRepository


class OrgEngine(Protocol):
    """Where the entries stand. What is written is seen by readers after `publish`, by the writer at once.

    Each audience has word statistics of its own, so that none tells of another's texts. Raises EngineError:
    org-damaged, org-missing; TimeoutError where a reader's deadline is over.
    """

    def sync(self, repository: OrgRepository, head: str, entries: Sequence[Located] | None) -> None:
        """Make the rows of a repository those at `head`, in one transaction, and only in its audience.

        `entries` None: the rows are what they were, the name, the link or the head may be another.
        """

    def drop(self, repository_id: str) -> None:
        """Forget a repository in every audience; one that is not known is none."""

    def search(self, terms: Sequence[str], filters: OrgFilters, audiences: Sequence[str], depth: int) -> list[OrgMatch]:
        """At most `depth` entries that hold one of `terms` (of `query.build_terms`), by score, then id; a repeated
        term counts more. An audience that is not there has none."""

    def count(self, terms: Sequence[str], audiences: Sequence[str]) -> tuple[int, dict[str, int]]:
        """How many entries the audiences have together, and how many of them hold each term."""

    def heads(self) -> dict[str, OrgHead]:
        """What is held of each repository, by its id."""

    def publish(self) -> list[OrgPublished]:
        """Let readers see what was written: each audience that changed, whole and at once."""

    def close(self) -> None:
        """End. What was synced stays, published or not."""
