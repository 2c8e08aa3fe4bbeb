"""Records of the organisation's index: repositories, and queries with their matches."""

from __future__ import annotations

from datetime import date

import msgspec

from memory_ci.records.entry import Domain, EntryType, Located, Phase

MAX_SHARED_CHARS = 10_000
"""Characters of an entry that is shared; an answer's share for the organisation holds fewer."""


class OrgRepository(msgspec.Struct, frozen=True):
    """A repository as readers of the index see it.

    Attributes:
        id: the number of the forge, else the address; a renamed repository keeps it.
    """

    id: str
    name: str
    link: str
    audience: str


class OrgHead(msgspec.Struct, frozen=True):
    """The commit of a repository that the index holds, and the number of its entries."""

    repository: OrgRepository
    commit: str
    entries: int


class OrgFilters(msgspec.Struct, frozen=True):
    """The entries that may answer; an empty filter does not limit.

    Attributes:
        excluded_repositories: ids or links of repositories that may not answer; the case of links
            is ignored.
    """

    types: tuple[EntryType, ...] = ()
    domains: tuple[Domain, ...] = ()
    phases: tuple[Phase, ...] = ()
    today: date | None = None
    excluded_repositories: tuple[str, ...] = ()


class OrgMatch(msgspec.Struct, frozen=True):
    """An entry of a repository that a query finds.

    Attributes:
        lexical: BM25 with the word statistics of the entry's audience; higher is better.
        commit: the commit of the repository that the index holds.
    """

    located: Located
    lexical: float
    repository: OrgRepository
    commit: str


class OrgPublished(msgspec.Struct, frozen=True):
    """The published file of one audience.

    Attributes:
        size: its size in bytes.
        is_new: whether it differs from the one before.
    """

    audience: str
    path: str
    sha256: str
    size: int
    is_new: bool
