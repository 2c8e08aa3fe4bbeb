"""Entries from candidates: the same for the same candidate; the importance that its event gives where nobody says.

Importance starts at 0.5, with something for the kind of event and something for its severity, added up to 1 at most:
Crewship's table, in which an escalation or a regression weighs more than routine. Ours has the events of merged work.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import date
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.extraction.gate import check_text, check_words
from memory_ci.records.candidate import Candidate, Kind, Quote, Reach
from memory_ci.records.config import Quotes
from memory_ci.records.entry import NEW_IMPORTANCE, Entry, ScopeName
from memory_ci.records.event import Actor, EventKind, Evidence, Severity
from memory_ci.text import STOP_WORDS, identifier_parts, words

OWN_WORDS = ("accepted ", "revert:")  # How lines of evidence begin that quote nobody.
MAX_AKA = 10
AKA = re.compile(r"[^\W\d_][\w-]{3,29}")
# What work is called whatever it is about.
WORK_WORDS = frozenset(
    """add added adds branch bug bugfix build change changed changes chore ci doc docs feat feature fix fixed fixes
    issue main master merge merged pull refactor release remove removed request revert support test tests update
    wip again allow allows also always avoid being better check checks clean correct does error errors even every
    failed fails first handle instead into last leave less let lets like made make makes more most move moved names
    never next none only other over place rename right same save says set show some take than then there too under
    using when where wrong""".split()
)


def entry_id(candidate: Candidate) -> str:
    """A UUID (version 4 layout, RFC 9562 section 5.4) made of where the words stand, their marker and what they say."""
    quote = candidate.quotes[0] if candidate.quotes else Quote("", "")
    seed = "\0".join((quote.origin, candidate.marker, candidate.title, candidate.body))
    return str(uuid.UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16], version=4))


def content_key(title: str, body: str) -> str:
    """A hash of what an entry says, in any case and layout: two that agree in it are one learning."""
    said = "\0".join(" ".join(text.casefold().split()) for text in (title, body))
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def list_texts(entry: Entry) -> tuple[str, ...]:
    """All free text of an entry, piece by piece: what the gate looks at, joined."""
    unknown = (f"{key}: {raw}" for key, raw in entry.extra)
    lines = (*entry.evidence, *entry.occurrences, *entry.cites, *entry.relations, *unknown)
    fields = (
        entry.instead,
        entry.source,
        entry.session,
        entry.engine,
        entry.scope,
        entry.promoted_from,
        entry.aka,
    )
    return (entry.title, entry.body, *filter(None, fields), *lines)


def trim_evidence(entry: Entry, quotes: Quotes) -> Entry:
    """The entry with as much of people's words as the configuration keeps. What a run says itself (`revert:`) stays;
    that a person accepted it stays, with `none` without the name."""
    if quotes == "full" or not entry.evidence:
        return entry
    lines = []
    for line in entry.evidence:
        if line.startswith(OWN_WORDS):
            lines.append(
                "accepted by a person"
                if quotes == "none" and line.startswith("accepted by ")
                else line
            )
        elif quotes == "link":
            lines.append(line.partition(" ")[0])
    return replace(entry, evidence=tuple(dict.fromkeys(lines)))


def check_entry(entry: Entry) -> list[str]:
    """Every reason, in a fixed order, why `entry` must not be added."""
    reasons = check_text(entry.title, entry.body) + check_words("\n".join(list_texts(entry)))
    return list(dict.fromkeys(reasons + (["unknown-fields"] if entry.extra else [])))


def find_aka(title: str, body: str, called: str, said: str = "") -> str | None:
    """At most MAX_AKA words that an entry does not say and who asks may use: what a model `said`, then of what the work
    was `called`, if that has a word in common with the entry: else the work taught something beside what it was about.

    >>> find_aka("Send a key with each charge", "", "fix: charge a card once (#128) payments")
    'card once payments'
    """
    own = frozenset((*words(f"{title}\n{body}"), *identifier_parts(f"{title}\n{body}")))
    asked = [
        word
        for word in words(called)
        if AKA.fullmatch(word) and word not in STOP_WORDS | WORK_WORDS
    ]
    told = [word for word in words(said) if AKA.fullmatch(word) and word not in STOP_WORDS]
    named = [] if own.isdisjoint(asked) else asked
    found = " ".join(
        list(dict.fromkeys(word for word in (*told, *named) if word not in own))[:MAX_AKA]
    )
    return found if found and not check_words(found) else None


def to_entry(
    candidate: Candidate, *, entry_id: str, today: date, merged_on: date, aka: str | None = None
) -> Entry:
    """The entry to write: learned `today`, last seen to hold when it was merged, with the words that prove it."""
    return Entry(
        id=entry_id,
        type=candidate.type,
        domain=candidate.domain,
        importance=max(candidate.importance, NEW_IMPORTANCE)
        if candidate.accepted
        else candidate.importance,
        reinforcement_count=0,
        last_reinforced=merged_on,
        status="active",
        created_at=today,
        occurred_at=candidate.occurred_at,
        source=candidate.source or None,
        session=candidate.session,
        relations=candidate.relations,
        engine=candidate.engine,
        evidence=(
            *(f"{quote.origin} {' '.join(quote.text.split())}" for quote in candidate.quotes),
            *((f"accepted {candidate.accepted}",) if candidate.accepted else ()),
        ),
        cites=candidate.cites,
        aka=aka,
        adoption=candidate.adoption,
        instead=candidate.instead,
        title=candidate.title,
        body=candidate.body,
    )


# -- The ten extraction scopes: code derives that of a learning from its kind, its reach and the pieces that it quotes.
# A model names no scope: one that does not fit would be no fault of what was learned.

JOB_WIDTH = 64  # Characters of a session's id that name its job: more than a UUID has.
MAX_IMPORTANCE = 0.95  # The most that a learning may claim for itself; the rubric ends at 0.9 (told to remember).


class Selector(NamedTuple):
    """Pieces of these kinds; an empty field takes any. `words` is sought in the text, the label among the labels."""

    kinds: tuple[EventKind, ...]
    actors: tuple[Actor, ...] = ()
    label: tuple[str, str] | None = None
    words: str = ""

    def takes(self, piece: Evidence) -> bool:
        """Whether `piece` is one of those selected."""
        return (
            piece.kind in self.kinds
            and (not self.actors or piece.actor in self.actors)
            and (self.label is None or self.label in piece.labels)
            and (not self.words or re.search(self.words, piece.text) is not None)
        )


# Where each writes to by the letter of the seed. What is institutional there goes to the project, unless the
# configuration says `extraction.norms: seed`: one sentence is nobody's norm.
SCOPES: dict[str, ScopeName] = {
    "observations": "institutional",
    "escalation": "institutional",
    "intent-alignment": "project",
    "team": "team",
    "session": "session",
    "project": "project",
    "global": "global",
    "prospective": "project",
    "in-flight": "project",
    "corrective": "project",
}
# What is learned from such a piece is of this scope, whatever else is quoted.
BY_PIECE: dict[EventKind, str] = {
    "premortem": "prospective",
    "assumption": "in-flight",
    "intervention": "in-flight",
    "intent": "intent-alignment",
    "entry": "global",
}
SAID = Selector(("text", "rejection"), ("human",))
STOPPED = Selector(("text", "rejection", "interrupt", "tool_call"))


def derive_scope(kind: Kind, reach: Reach, quoted: Sequence[Evidence]) -> str:
    """The extraction scope of a learning that quotes these pieces."""
    by_piece = next((BY_PIECE[piece.kind] for piece in quoted if piece.kind in BY_PIECE), None)
    if by_piece:
        return by_piece
    if reach in ("team", "session"):
        return reach
    if quoted and (kind == "preference" or reach == "everyone"):
        if all(map(SAID.takes, quoted)):
            return "observations"
        if all(map(STOPPED.takes, quoted)):
            return "escalation"
    return "corrective" if kind == "fix" else "project"


def list_reaches(pieces: Sequence[Evidence]) -> tuple[Reach, ...]:
    """How far a learning of these pieces may reach: no change has a place that a model could make up."""
    team: tuple[Reach, ...] = ("team",) if common_directory(pieces) else ()
    session: tuple[Reach, ...] = ("session",) if _job(pieces) else ()
    return ("project", *team, *session, "everyone")


def target_of(scope: str, pieces: Iterable[Evidence]) -> str:
    """Where a learning of `scope` goes, as in Entry.scope; to the project where the change has no such place."""
    name = SCOPES[scope]
    if name not in ("team", "session"):
        return name
    where = common_directory(pieces) if name == "team" else _job(pieces)
    return f"{name}:{where}" if where else "project"


def list_changed(pieces: Iterable[Evidence]) -> tuple[str, ...]:
    """The files that the change touched: what an agent opened on the way (the paths of its session) is not changed."""
    changed = (
        path for piece in pieces if piece.kind in ("commit", "diff", "adr") for path in piece.paths
    )
    return tuple(dict.fromkeys(changed))


def common_directory(pieces: Iterable[Evidence]) -> str:
    """The deepest directory of all files that the change touched, "" for the root or when it touched none."""
    return deepest_directory(list_changed(pieces))


def deepest_directory(paths: Iterable[str]) -> str:
    """The deepest directory that all of `paths` lie in, "" for the root."""
    folders = [path.split("/")[:-1] for path in paths]
    if not folders:
        return ""
    first, last = min(folders), max(folders)  # what the two ends of the alphabet share, all share
    differ = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return "/".join(first[: next(differ, min(len(first), len(last)))])


def _job(pieces: Iterable[Evidence]) -> str:
    """The job of the one session of `pieces`: the last part of its id, in [a-z0-9-]; "" unless it is one session."""
    sessions = {piece.session for piece in pieces if piece.session}
    if len(sessions) != 1:
        return ""
    last = re.split(r"[/:\\]", sessions.pop().lower().rstrip("/:\\"))[-1]
    return re.sub(r"[^a-z0-9]+", "-", last).strip("-")[-JOB_WIDTH:].strip("-")


# -- Importance: what the gravest of its events gives a learning.

ROUTINE = 0.5  # What an event counts that is of no kind below.
BY_SEVERITY: dict[Severity, float] = {"info": 0.0, "warn": 0.15, "error": 0.25}


class Grave(NamedTuple):
    """A kind of event: what Crewship calls it, what that adds to routine, and how severe it is here."""

    event: Selector
    its_name: str
    adds: float
    severity: Severity

    @property
    def importance(self) -> float:
        return round(min(1.0, ROUTINE + self.adds + BY_SEVERITY[self.severity]), 2)


# A commit whose subject says that it takes another one back.
REVERT = r"(?i)\A(?:[a-z]+(?:\([^)\n]{0,80}\))?!?:\s*)?revert\b"
# An event is of the first kind that fits.
TABLE: tuple[Grave, ...] = (
    Grave(
        Selector(("check",), label=("outcome", "failed-then-passed")),
        "eval.regression_detected",
        0.3,
        "error",
    ),
    Grave(Selector(("interrupt", "intervention")), "peer.escalation", 0.2, "warn"),
    Grave(Selector(("rejection",)), "approval.denied", 0.15, "warn"),
    Grave(Selector(("pr",), label=("outcome", "closed-unmerged")), "approval.denied", 0.15, "warn"),
    Grave(Selector(("commit",), words=REVERT), "mission.status_change", 0.05, "error"),
    Grave(
        Selector(("review",), label=("state", "changes_requested")), "keeper.decision", 0.1, "warn"
    ),
    Grave(
        Selector(("review",), label=("outcome", "requested-then-made")),
        "keeper.decision",
        0.1,
        "warn",
    ),
    Grave(Selector(("compaction",)), "summary.generated", 0.15, "info"),
)


def base_importance(pieces: Iterable[Evidence]) -> float:
    """What the gravest of the events counts from which a learning comes; 0.5 for routine."""
    weights = (
        next((row.importance for row in TABLE if row.event.takes(piece)), ROUTINE)
        for piece in pieces
    )
    return max(weights, default=ROUTINE)


EARLIEST = date(
    2000, 1, 1
)  # Of what an entry is dated by: a commit can claim any time, 1970 or the next century.


def sample_entry(number: int, title: str) -> Entry:
    """An entry that says `title`; equal numbers have equal ids."""
    return Entry(
        id=f"{number:08x}-0000-4000-8000-000000000000",
        type="procedural",
        domain="task",
        importance=0.5,
        reinforcement_count=0,
        last_reinforced=date(2026, 1, 1),
        status="active",
        title=title,
    )
