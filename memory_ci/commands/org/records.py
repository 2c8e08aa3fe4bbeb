"""The organisation: whose memory is shared with whom, and what the index of all repositories is asked and answers."""

from __future__ import annotations

from datetime import date

import msgspec

from memory_ci.records.entry import Domain, EntryType, Located, Phase

LONGEST = 10_000  # Characters of an entry that is shared: of an answer the organisation has a share, which holds fewer.


class OrgRepository(msgspec.Struct, frozen=True):
    """A repository as readers see it. `id` stays when it is renamed: the forge's number, else its address."""

    id: str
    name: str
    link: str
    audience: str


class OrgHead(msgspec.Struct, frozen=True):
    """What the index holds of a repository: its entries at one commit."""

    repository: OrgRepository
    head: str
    entries: int


class OrgFilters(msgspec.Struct, frozen=True):
    """Which entries may answer; what is empty does not limit. `without`: ids or links of repositories that may not,
    links in whatever case."""

    types: tuple[EntryType, ...] = ()
    domains: tuple[Domain, ...] = ()
    phases: tuple[Phase, ...] = ()
    today: date | None = None
    without: tuple[str, ...] = ()


class OrgMatch(msgspec.Struct, frozen=True):
    """An entry of another repository. `lexical` is BM25 with the word statistics of its audience, higher is better."""

    located: Located
    lexical: float
    repository: OrgRepository
    head: str


class OrgPublished(msgspec.Struct, frozen=True):
    """The file of one audience: its path, SHA-256 and size in bytes, and whether it is another than before."""

    audience: str
    path: str
    sha256: str
    size: int
    is_new: bool
