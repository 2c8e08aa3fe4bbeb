"""The index of an organisation: entries of many repositories, kept apart by who may read them."""

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


class OrgEngine(Protocol):
    """Where the entries stand. What is written is seen by readers after `publish`, by the writer at once. Each audience
    has word statistics of its own, so that none tells of another's texts. Raises EngineError: org-damaged, org-missing;
    TimeoutError where a reader's deadline is over."""

    _heads: dict[str, OrgHead] | None = None

    def sync(self, repository: OrgRepository, head: str, entries: Sequence[Located] | None) -> None:
        """Make the rows of a repository those at `head`, in one transaction, and only in its audience. `entries` None:
        the rows are what they were, the name, the link or the head may be another."""
        known = self.heads().get(repository.id)
        if known is not None and known.repository.audience != repository.audience:
            if entries is None:
                raise ValueError("rows that move to another audience are given anew")
            self.drop(repository.id)
        held = OrgHead(
            repository, head, len(entries) if entries is not None else known.entries if known else 0
        )
        self._write(held, entries)
        self.heads()[repository.id] = held

    def drop(self, repository_id: str) -> None:
        """Forget a repository in every audience; one that is not known is none."""
        if known := self.heads().get(repository_id):
            self._remove(known.repository)
            del self.heads()[repository_id]

    def heads(self) -> dict[str, OrgHead]:
        """What is held of each repository, by its id."""
        if self._heads is None:
            self._heads = {head.repository.id: head for head in self._read_heads()}
        return self._heads

    def entries(self, repository_id: str) -> list[Located]:
        """All that is held of one repository, in order of paths and lines."""
        known = self.heads().get(repository_id)
        return self._read_entries(known.repository) if known else []

    def _write(self, held: OrgHead, entries: Sequence[Located] | None) -> None: ...

    def _remove(self, repository: OrgRepository) -> None: ...

    def _read_heads(self) -> Iterable[OrgHead]: ...

    def _read_entries(self, repository: OrgRepository) -> list[Located]: ...

    def search(
        self, terms: Sequence[str], filters: OrgFilters, audiences: Sequence[str], depth: int
    ) -> list[OrgMatch]:
        """At most `depth` entries that hold one of `terms` (of `query.build_terms`), by score, then id; a repeated
        term counts more. An audience that is not there has none."""

    def count(self, terms: Sequence[str], audiences: Sequence[str]) -> tuple[int, dict[str, int]]:
        """How many entries the audiences have together, and how many of them hold each term."""

    def publish(self) -> list[OrgPublished]:
        """Let readers see what was written: each audience that changed, whole and at once."""

    def size(self, audience: str) -> int:
        """Bytes of what readers of an audience read."""

    def state(self) -> bytes:
        """What the operator kept beside the entries; b"" where there is nothing. Readers have none."""

    def keep_state(self, data: bytes) -> None:
        """Keep it, instead of what was there. Raises RepositoryError (write-failed)."""

    def close(self) -> None:
        """End. What was synced stays, published or not."""


class NeverSyncedError(EngineError):
    """A server has a database for the index, and no sync has made its tables (org-missing)."""


# The directory of what only the operator reads: all audiences before they are published, heads and failures.
WORK = "operator"
