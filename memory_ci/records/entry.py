"""The entry of memory (one learning, with its front matter and Markdown) and its scope.

See docs/formats.md.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Literal

import msgspec

from memory_ci.records.check import ChangeCheck, CheckLevel
from memory_ci.regex import Regex

EntryType = Literal["declarative", "procedural", "directive", "corrective"]
Domain = Literal["task", "team"]
Status = Literal["active", "retired", "compacted"]
Priority = Literal["normal", "high", "pin", "permanent"]
Adoption = Literal["rejected"]
Phase = Literal["specification", "planning", "design", "implementation", "review", "maintenance"]
ScopeName = Literal["global", "institutional", "project", "session", "team"]

MAX_CHARS = 20_000
"""Characters of title and body together: five pages. Longer text belongs in a document that an
entry names."""

MOMENT = Regex(
    r"start|before:(?:commit|push|pull-request)|before:command \S.*|before:edit \S+"
    r"|after:failure \S.*"
)
"""The moments at which an entry may be shown to an agent (docs/learning.md)."""

NO_FEEDBACK = 0.5
"""The utility of an entry without feedback: it leaves a score unchanged."""

NEW_IMPORTANCE = 0.5
"""The importance of an entry if nobody says how much it matters."""

REJECTED_PREFIX = Regex(r"\A\s*(?:tried and )?rejected\s*[:-]\s*", re.IGNORECASE)
"""The beginning of a title that says that the learning was rejected; `name_entry` replaces it."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One learning that memory holds: a title and a body, with front matter.

    The fields are those of the front matter, in canonical order, then the Markdown.

    Attributes:
        id: a UUID.
        type: a fact or decision (declarative), how something is done (procedural), what must or
            must not be done (directive), or an error, its cause and prevention (corrective).
        importance: how much it matters, in [0, 1].
        reinforcement_count: how many merged changes used it.
        last_reinforced: the day on which a change last used it.
        created_at: the day on which it was learned.
        occurred_at: the day on which it happened.
        session: the session that it was learned in, `<agent>:<id>`.
        scope: where it applies (`project`, `team:src/api`, `session:job-7`); only entries of the
            inbox have one, for others their file decides.
        when: the moment at which agents are shown it, as `MOMENT`; None for where it fits a task.
        check: a condition on changes, which git tests (docs/checks.md).
        level: the effect of a violation of the check; None means `remind`.
        valid_until: the day on which it stopped to hold.
        supersedes: the ids of entries that it replaces.
        source: the pull request or commit that it was learned from.
        engine: the engine that found it.
        evidence: quotations that prove it.
        occurrences: other changes and sessions that say the same.
        cites: the places of code that it names.
        aka: search words that are not in the text, separated by blanks.
        adoption: `rejected` for an approach that was tried and given up; `instead` then names the
            approach that replaced it.
        promoted_from: where it was before it was moved to a wider scope.
        extra: keys that this version does not know, as (key, raw YAML after the colon); they are
            preserved.
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
    when: str | None = None
    check: ChangeCheck | None = None
    level: CheckLevel | None = None
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
        """Its title and body, by which it is searched and compared."""
        return f"{self.title}\n{self.body}"

    @property
    def origin(self) -> str:
        """Its session, else its pull request or commit, else ""."""
        return self.session or (self.source or "").partition(" ")[0]

    @property
    def mention_count(self) -> int:
        """The number of changes and sessions that say it; 0 if none is known."""
        return len({self.origin, *self.occurrences} - {""})


def create_entry(
    id_: str,
    title: str,
    body: str,
    day: date,
    *,
    type_: EntryType,
    domain: Domain,
    importance: float,
) -> Entry:
    """Return a new active entry, which was never reinforced.

    Args:
        id_: its id.
        title: its title.
        body: its Markdown.
        day: the day on which it was learned.
        type_: its type.
        domain: its domain.
        importance: its importance, in [0, 1].
    """
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
    """Return the title of an entry; `Rejected: ` is before it if the learning was rejected."""
    if entry.adoption != "rejected":
        return entry.title
    return f"Rejected: {REJECTED_PREFIX.sub('', entry.title)}"


class ScopeOf(msgspec.Struct, frozen=True):
    """The scope of a memory file: where its entries apply.

    Attributes:
        where: the directory of a team ("" for the root), the job of a session, or "".
    """

    name: ScopeName
    where: str = ""

    @property
    def target(self) -> str:
        """`project` or `team:src/api`: the inverse of `store.layout.parse_target`."""
        return f"{self.name}:{self.where}" if self.where else self.name


PROJECT = ScopeOf("project")
"""The scope of an entry that names none."""


class Located(msgspec.Struct, frozen=True):
    """An entry, and the place and the scope of its text.

    Attributes:
        path: the path of its file in the repository.
        line: the line of its opening `---`, from 1.
        scope: where it applies.
    """

    entry: Entry
    path: str
    line: int
    scope: ScopeOf
