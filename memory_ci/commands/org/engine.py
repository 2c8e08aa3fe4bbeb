"""The interface of the stores (SQLite, PostgreSQL) of an organisation's search index.

The index has the entries (notes for coding agents) of many repositories.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from memory_ci.commands.org.records import (
    OrgFilters,
    OrgHead,
    OrgMatch,
    OrgPublished,
    OrgRepository,
)
from memory_ci.errors import EngineError
from memory_ci.records.entry import Located

OPERATOR_DIRECTORY = "operator"
"""The operator's directory: all audiences before they are published, heads and failures."""


class OrgEngine(Protocol):
    """A store of entries of many repositories, separated by audience.

    The writer sees its changes at once, readers after `publish`. Each audience has its own word
    statistics, which reveal nothing of the texts of another.

    Its methods raise EngineError (org-damaged, org-missing), and TimeoutError after a reader's
    deadline.
    """

    _heads: dict[str, OrgHead] | None = None

    def sync(self, repository: OrgRepository, head: str, entries: Sequence[Located] | None) -> None:
        """Replace the entries of a repository in the index, in one transaction.

        The record of indexed commits, `heads`, is updated.

        Args:
            repository: the repository; its entries are removed from any audience but its own.
            head: the commit of the entries.
            entries: its entries; None if only the name, link or head of the repository changed.

        Raises:
            ValueError: the audience changed, and `entries` is None.
        """
        old_head = self.heads().get(repository.id)
        if old_head is not None and old_head.repository.audience != repository.audience:
            if entries is None:
                # The rows are in the database of the old audience, and are not copied.
                raise ValueError("rows that move to another audience are given anew")
            self.drop(repository.id)
        if entries is not None:
            entry_count = len(entries)
        else:
            entry_count = old_head.entries if old_head else 0
        new_head = OrgHead(repository, head, entry_count)
        self._write(new_head, entries)
        self.heads()[repository.id] = new_head

    def drop(self, repository_id: str) -> None:
        """Remove a repository from every audience, if it is there."""
        head = self.heads().get(repository_id)
        if head:
            self._remove(head.repository)
            del self.heads()[repository_id]

    def heads(self) -> dict[str, OrgHead]:
        """Return the head of each repository, by its id."""
        if self._heads is None:
            self._heads = {head.repository.id: head for head in self._read_heads()}
        return self._heads

    def entries(self, repository_id: str) -> list[Located]:
        """Return the entries of one repository, in order of paths and lines."""
        head = self.heads().get(repository_id)
        return self._read_entries(head.repository) if head else []

    def _write(self, head: OrgHead, entries: Sequence[Located] | None) -> None: ...

    def _remove(self, repository: OrgRepository) -> None: ...

    def _read_heads(self) -> Iterable[OrgHead]: ...

    def _read_entries(self, repository: OrgRepository) -> list[Located]: ...

    def search(
        self, terms: Sequence[str], filters: OrgFilters, audiences: Sequence[str], depth: int
    ) -> list[OrgMatch]:
        """Return the entries that hold a term, by score, then by id.

        Args:
            terms: terms of `query.build_terms`; a repeated one counts more.
            filters: the entries that may answer.
            audiences: the audiences to search; unknown ones have no entries.
            depth: how many to return at most.
        """

    def count(self, terms: Sequence[str], audiences: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Return how many entries the audiences have together, and how many hold each term."""

    def publish(self) -> list[OrgPublished]:
        """Let readers see the changes: each audience that changed, completely and at once."""

    def size(self, audience: str) -> int:
        """Return the bytes that readers of an audience read."""

    def state(self) -> bytes:
        """Return the operator's state; b"" without one, and for readers."""

    def save_state(self, data: bytes) -> None:
        """Save the operator's state.

        Raises:
            RepositoryError: write-failed.
        """

    def close(self) -> None:
        """Close the engine. Synced repositories are kept, published or not."""


class NeverSyncedError(EngineError):
    """A server has a database for the index, but no sync has made its tables (org-missing)."""
