"""Entry: one kept learning, front matter and Markdown (docs/formats.md)."""

from __future__ import annotations

import re
from datetime import date
from typing import Literal

import msgspec

EntryType = Literal["declarative", "procedural", "directive", "corrective"]
Domain = Literal["task", "team"]
Status = Literal["active", "retired", "compacted"]
Priority = Literal["normal", "high", "pin", "permanent"]
Adoption = Literal["rejected"]
Phase = Literal["specification", "planning", "design", "implementation", "review", "maintenance"]
ScopeName = Literal["global", "institutional", "project", "session", "team"]

MAX_CHARS = 20_000  # Of title and body together: five pages. What is longer is a document, which an entry can name.
NO_FEEDBACK = (
    0.5  # The utility of an entry of which nothing was said yet: it leaves a score as it is.
)
SAYS_REJECTED = re.compile(r"\A\s*(?:tried and )?rejected\s*[:-]\s*", re.IGNORECASE)
"""What a rejected learning may begin with; it is written before its title."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One learning. Fields are those of the front matter, in canonical order, then the Markdown.

    `extra` holds the keys this version does not know, as (key, raw YAML after the colon): they survive.
    `aka` is search words that the text does not say, with blanks between them.
    `scope` is a target ("project", "team:src/api", "session:job-7"); only inbox fragments carry one.
    """

    id: str
    type: EntryType
    domain: Domain
    importance: float
    reinforcement_count: int
    last_reinforced: date
    status: Status
    created_at: date | None = None
    occurred_at: date | None = None
    phase: Phase | None = None
    session: str | None = None
    scope: str | None = None
    priority: Priority | None = None
    valid_until: date | None = None
    supersedes: tuple[str, ...] = ()
    source: str | None = None
    engine: str | None = None
    evidence: tuple[str, ...] = ()
    occurrences: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    aka: str | None = None
    relations: tuple[str, ...] = ()
    adoption: Adoption | None = None
    instead: str | None = None
    promoted_from: str | None = None
    promoted_at: date | None = None
    extra: tuple[tuple[str, str], ...] = ()
    title: str
    body: str = ""

    @property
    def text(self) -> str:
        """What is searched and compared: title and body."""
        return f"{self.title}\n{self.body}"

    @property
    def origin(self) -> str:
        """The session that it came from, else its request or commit, "" where nothing is known."""
        return self.session or (self.source or "").partition(" ")[0]

    @property
    def said_in(self) -> int:
        """In how many changes or sessions it was said; 0 or 1 where nothing tells of more."""
        return len({self.origin, *self.occurrences} - {""})


NEW_IMPORTANCE = 0.5  # Of a learning of which nobody says how much it matters.


def new_entry(
    id_: str, title: str, body: str, kind: tuple[EntryType, Domain, float], day: date
) -> Entry:
    """An active entry of a type, a domain and an importance that was learned on a day, and nothing else."""
    type_, domain, importance = kind
    return Entry(
        id=id_,
        type=type_,
        domain=domain,
        importance=importance,
        reinforcement_count=0,
        last_reinforced=day,
        status="active",
        created_at=day,
        title=title,
        body=body,
    )


def name_entry(entry: Entry) -> str:
    """Return the title of an entry; one that was tried and rejected says so, and says it once."""
    if entry.adoption != "rejected":
        return entry.title
    return f"Rejected: {SAYS_REJECTED.sub('', entry.title)}"


class ScopeOf(msgspec.Struct, frozen=True):
    """Where a memory file applies: the scope's name and what it is bound to. `where` is a directory for team ("" for
    the root's own), a job for session, "" otherwise."""

    name: ScopeName
    where: str = ""

    @property
    def target(self) -> str:
        """`project`, or `team:src/api`: the inverse of `store.layout.parse_target`."""
        return f"{self.name}:{self.where}" if self.where else self.name


PROJECT = ScopeOf("project")  # Where what names no scope goes.


class Located(msgspec.Struct, frozen=True):
    """An entry where it stands: repository path, 1-based line of its opening `---`, scope."""

    entry: Entry
    path: str
    line: int
    scope: ScopeOf
