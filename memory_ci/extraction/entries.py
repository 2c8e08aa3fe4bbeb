"""The fields of entries that code derives: ids, scopes, importance, search words.

Equal candidates give equal entries. Importance starts at 0.5. The kind of the event and its
severity add to it, up to 1 at most. The figures are from Crewship's table, where an escalation or a
regression weighs more than routine; the events here are those of merged work.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.extraction.gate import check_text, check_words
from memory_ci.records.candidate import Candidate, Kind, Reach
from memory_ci.records.config import Quotes
from memory_ci.records.entry import NEW_IMPORTANCE, Entry, ScopeName
from memory_ci.records.event import Actor, EventKind, Evidence, Severity
from memory_ci.regex import Regex
from memory_ci.text import STOP_WORDS, identifier_parts, words

EARLIEST_DATE = date(2000, 1, 1)
"""The earliest date of an entry: a commit can claim any time, 1970 or the next century."""

OWN_EVIDENCE = ("accepted ", "revert:")
"""The beginnings of lines of evidence that quote nobody."""

MAX_AKA = 10  # Search words of an entry that its text does not say.
AKA = Regex(r"[^\W\d_][\w-]{3,29}")
WORK_WORDS = frozenset(
    """add added adds branch bug bugfix build change changed changes chore ci doc docs feat feature
    fix fixed fixes issue main master merge merged pull refactor release remove removed request
    revert support test tests update wip again allow allows also always avoid being better check
    checks clean correct does error errors even every failed fails first handle instead into last
    leave less let lets like made make makes more most move moved names never next none only other
    over place rename right same save says set show some take than then there too under using when
    where wrong""".split()
)
"""Words of the titles of any work, so that they do not distinguish entries."""


def entry_id(candidate: Candidate) -> str:
    """Return a UUID that equal candidates share.

    It is made of the origin of the first quote, the marker and the text, and has the layout of
    version 4 (RFC 9562, section 5.4).
    """
    origin = candidate.quotes[0].origin if candidate.quotes else ""
    seed = "\0".join((origin, candidate.marker, candidate.title, candidate.body))
    digest = hashlib.sha256(seed.encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def compute_content_key(title: str, body: str) -> str:
    """Return a hash of an entry's title and body, without regard to case and layout.

    Two entries with the same hash are one learning.
    """
    normal_texts = [" ".join(text.casefold().split()) for text in (title, body)]
    return hashlib.sha256("\0".join(normal_texts).encode()).hexdigest()[:32]


def list_texts(entry: Entry) -> tuple[str, ...]:
    """Return all free text of an entry, field by field, to be checked or masked."""
    unknown_fields = [f"{key}: {raw}" for key, raw in entry.extra]
    optional_fields = (
        entry.instead,
        entry.source,
        entry.session,
        entry.engine,
        entry.scope,
        entry.promoted_from,
        entry.aka,
    )
    texts = [entry.title, entry.body]
    texts += [field for field in optional_fields if field]
    texts += (*entry.evidence, *entry.occurrences, *entry.cites, *entry.relations)
    return (*texts, *unknown_fields)


def trim_evidence(entry: Entry, quotes: Quotes) -> Entry:
    """Return an entry whose evidence has only the quotations that the configuration allows.

    Lines that memory-ci itself wrote (`revert:`) stay. So do lines `accepted by <name>`, but `none`
    replaces the name by "a person".

    Args:
        entry: the entry.
        quotes: `full`, `link` for addresses alone, or `none`.
    """
    if quotes == "full" or not entry.evidence:
        return entry
    lines: list[str] = []
    for line in entry.evidence:
        address, _, _ = line.partition(" ")
        if quotes == "none" and line.startswith("accepted by "):
            lines.append("accepted by a person")
        elif line.startswith(OWN_EVIDENCE):
            lines.append(line)
        elif quotes == "link":
            lines.append(address)
    return replace(entry, evidence=tuple(dict.fromkeys(lines)))


def check_entry(entry: Entry) -> list[str]:
    """Return the reasons (slugs), in a fixed order, why an entry must not be added."""
    reasons = check_text(entry.title, entry.body)
    reasons += check_words("\n".join(list_texts(entry)))
    if entry.extra:
        reasons.append("unknown-fields")
    return list(dict.fromkeys(reasons))


def find_aka(title: str, body: str, work_title: str, model_words: str = "") -> str | None:
    """Return search words for an entry that its own text does not contain ("also known as").

    The words of a model come first. Those of the title of the work follow, if the entry has one of
    them. If it has none, the entry is about something else than the work, and they would mislead.

    >>> find_aka("Send a key with each charge", "", "fix: charge a card once (#128) payments")
    'card once payments'

    Args:
        title: the title of the entry.
        body: the body of the entry.
        work_title: the title of the work.
        model_words: the words that a model proposed.

    Returns:
        At most `MAX_AKA` words, separated by blanks; None if no word is left, or if `check_words`
        finds a reason not to write them to memory.
    """
    text = f"{title}\n{body}"
    entry_words = frozenset((*words(text), *identifier_parts(text)))
    aka_words = _list_aka_words(model_words, STOP_WORDS)
    work_words = _list_aka_words(work_title, STOP_WORDS | WORK_WORDS)
    is_about_work = not entry_words.isdisjoint(work_words)
    if is_about_work:
        aka_words += work_words
    new_words = dict.fromkeys(word for word in aka_words if word not in entry_words)
    aka = " ".join(list(new_words)[:MAX_AKA])
    refusal_reasons = check_words(aka)
    return aka if aka and not refusal_reasons else None


def _list_aka_words(text: str, excluded: Collection[str]) -> list[str]:
    return [word for word in words(text) if AKA.fullmatch(word) and word not in excluded]


def compute_candidate_key(candidate: Candidate) -> str:
    """Return the key by which a person answers a candidate; a check has one of its own."""
    if candidate.proposal is None:
        return compute_content_key(candidate.title, candidate.body)
    check = msgspec.json.encode(candidate.proposal.check).decode()
    return compute_content_key(candidate.title, f"{candidate.body}\0{check}")


def to_entry(
    candidate: Candidate, *, entry_id: str, today: date, merged_on: date, aka: str | None = None
) -> Entry:
    """Return a candidate as an entry of memory, with its quotes as evidence.

    Args:
        candidate: the candidate.
        entry_id: the id of the entry.
        today: the day on which it was learned.
        merged_on: the day of the merge, when it was last known to hold.
        aka: words by which it may be searched for.
    """
    importance = candidate.importance
    evidence = [f"{quote.origin} {' '.join(quote.text.split())}" for quote in candidate.quotes]
    if candidate.accepted:
        importance = max(importance, NEW_IMPORTANCE)
        evidence.append(f"accepted {candidate.accepted}")
    return Entry(
        id=entry_id,
        type=candidate.type,
        domain=candidate.domain,
        importance=importance,
        reinforcement_count=0,
        last_reinforced=merged_on,
        status="active",
        created_at=today,
        occurred_at=candidate.occurred_at,
        source=candidate.source or None,
        session=candidate.session,
        when=_find_when(candidate),
        check=candidate.proposal.check if candidate.proposal else None,
        relations=candidate.relations,
        engine=candidate.engine,
        evidence=tuple(evidence),
        cites=candidate.cites,
        aka=aka,
        adoption=candidate.adoption,
        instead=candidate.instead,
        title=candidate.title,
        body=candidate.body,
    )


def _find_when(candidate: Candidate) -> str | None:
    """Return the moment at which agents are served a repeated request or failure.

    None if the candidate is no repetition, or the moment is the start of a session, the default.
    """
    when = candidate.repetition.when if candidate.repetition else "start"
    return None if when == "start" else when


# -- extraction scopes

# Code derives the scope of a learning from its kind, its reach and the pieces that it quotes. A
# model names none, because a scope that does not fit would say nothing about the learning.

JOB_WIDTH = 64
"""Number of characters of a session's id that name its job: more than a UUID has."""

MAX_IMPORTANCE = 0.95
"""The highest importance of a new learning; the rubric ends at 0.9 (a request to remember)."""


class PieceSelector(NamedTuple):
    """Conditions on a piece of evidence.

    Attributes:
        kinds: the kinds of the piece.
        actors: its actors; any if empty.
        label: a label that it has; any if None.
        pattern: a regular expression that its text matches; any if empty.
    """

    kinds: tuple[EventKind, ...]
    actors: tuple[Actor, ...] = ()
    label: tuple[str, str] | None = None
    pattern: str = ""

    def selects(self, piece: Evidence) -> bool:
        """Return whether a piece meets all conditions."""
        if piece.kind not in self.kinds:
            return False
        if self.actors and piece.actor not in self.actors:
            return False
        if self.label is not None and self.label not in piece.labels:
            return False
        return not self.pattern or re.search(self.pattern, piece.text) is not None


MEMORY_SCOPES: dict[str, ScopeName] = {
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
"""The ten extraction scopes, and the scope of memory where each is written, as the seed says.

What is institutional there goes to the project: one sentence is not yet a norm.
"""

EXTRACTION_SCOPE_BY_KIND: dict[EventKind, str] = {
    "premortem": "prospective",
    "assumption": "in-flight",
    "intervention": "in-flight",
    "intent": "intent-alignment",
    "entry": "global",
}
"""The extraction scope of every learning that quotes a piece of such a kind."""

WORDS_OF_PERSON = PieceSelector(("text", "rejection"), ("human",))
STOPPED_WORK = PieceSelector(("text", "rejection", "interrupt", "tool_call"))


def derive_extraction_scope(kind: Kind, reach: Reach, quoted: Sequence[Evidence]) -> str:
    """Return the extraction scope of a learning: what it is from, as a key of `MEMORY_SCOPES`.

    The scope decides where in memory the learning is written. Quoted evidence of some kinds decides
    alone. A general learning (a preference, or one for everyone) is one of "observations" if only
    people's words in sessions are quoted. It is an "escalation" if the interrupts of people, or the
    calls that these stopped, are quoted as well.

    Args:
        kind: the kind of the learning.
        reach: for whom it holds: the project, a team, a session or everyone.
        quoted: the pieces of evidence that it quotes.
    """
    for evidence in quoted:
        if evidence.kind in EXTRACTION_SCOPE_BY_KIND:
            return EXTRACTION_SCOPE_BY_KIND[evidence.kind]
    if reach in ("team", "session"):
        return reach
    is_general = kind == "preference" or reach == "everyone"
    if quoted and is_general:
        if all(WORDS_OF_PERSON.selects(evidence) for evidence in quoted):
            return "observations"
        if all(STOPPED_WORK.selects(evidence) for evidence in quoted):
            return "escalation"
    return "corrective" if kind == "fix" else "project"


def list_reaches(pieces: Sequence[Evidence]) -> tuple[Reach, ...]:
    """Return the values of `reach` (for whom a learning holds) that a model may choose.

    A team is among them only if all changed files are in one directory, and a session only if the
    change was made in exactly one.
    """
    reaches: list[Reach] = ["project"]
    if find_common_directory(pieces):
        reaches.append("team")
    if _find_session_name(pieces):
        reaches.append("session")
    reaches.append("everyone")
    return tuple(reaches)


def find_memory_scope(extraction_scope: str, pieces: Iterable[Evidence]) -> str:
    """Return the scope of memory in which a learning is written, such as `team:src/api`.

    It is the project if the change has no such team or session.

    Args:
        extraction_scope: what the learning is from, as `derive_extraction_scope` returns it.
        pieces: the evidence of the change.
    """
    scope_name = MEMORY_SCOPES[extraction_scope]
    if scope_name == "team":
        detail = find_common_directory(pieces)
    elif scope_name == "session":
        detail = _find_session_name(pieces)
    else:
        return scope_name
    return f"{scope_name}:{detail}" if detail else "project"


def list_changed_files(pieces: Iterable[Evidence]) -> tuple[str, ...]:
    """Return the files that a change touched.

    The paths of a session are not among them: an agent may only have opened them.
    """
    files: dict[str, None] = {}
    for piece in pieces:
        if piece.kind in ("commit", "diff", "adr"):
            files |= dict.fromkeys(piece.paths)
    return tuple(files)


def find_common_directory(pieces: Iterable[Evidence]) -> str:
    """Return the deepest directory of all files that a change touched, "" for the root or none."""
    return find_deepest_directory(list_changed_files(pieces))


def find_deepest_directory(paths: Iterable[str]) -> str:
    """Return the deepest directory that contains all paths, "" for the root.

    >>> find_deepest_directory(["src/api/a.py", "src/api/v2/b.py"])
    'src/api'
    """
    directories = [path.split("/")[:-1] for path in paths]
    if not directories:
        return ""
    # A prefix of the first and the last in order is a prefix of all.
    first = min(directories)
    last = max(directories)
    common: list[str] = []
    for first_name, last_name in zip(first, last, strict=False):
        if first_name != last_name:
            break
        common.append(first_name)
    return "/".join(common)


def _find_session_name(pieces: Iterable[Evidence]) -> str:
    """Return the name of the task that an agent worked on, from the id of its session.

    Returns:
        The last part of the id, in [a-z0-9-]; "" unless the pieces are of exactly one session.
    """
    sessions = {piece.session for piece in pieces if piece.session}
    if len(sessions) != 1:
        return ""
    session = sessions.pop().lower().rstrip("/:\\")
    last_part = re.split(r"[/:\\]", session)[-1]
    name = re.sub(r"[^a-z0-9]+", "-", last_part).strip("-")
    return name[-JOB_WIDTH:].strip("-")


# -- importance

ROUTINE_IMPORTANCE = 0.5
"""The importance of an event that is not in the table."""

BY_SEVERITY: dict[Severity, float] = {"info": 0.0, "warn": 0.15, "error": 0.25}


class GraveEvent(NamedTuple):
    """A row of the table of events that weigh more than routine.

    Attributes:
        event: which pieces of evidence are such events.
        crewship_name: the name of a like event in Crewship's table.
        added: the importance that the kind of event adds to that of routine.
        severity: the severity, which adds to it as well.
    """

    event: PieceSelector
    crewship_name: str
    added: float
    severity: Severity

    @property
    def importance(self) -> float:
        """The importance of the event, 1 at most."""
        return round(min(1.0, ROUTINE_IMPORTANCE + self.added + BY_SEVERITY[self.severity]), 2)


REVERT_MESSAGE = r"(?i)\A(?:[a-z]+(?:\([^)\n]{0,80}\))?!?:\s*)?revert\b"
"""The message of a commit that reverts another one."""

GRAVE_EVENTS: tuple[GraveEvent, ...] = (
    GraveEvent(
        PieceSelector(("check",), label=("outcome", "failed-then-passed")),
        "eval.regression_detected",
        0.3,
        "error",
    ),
    GraveEvent(PieceSelector(("interrupt", "intervention")), "peer.escalation", 0.2, "warn"),
    GraveEvent(PieceSelector(("rejection",)), "approval.denied", 0.15, "warn"),
    GraveEvent(
        PieceSelector(("pr",), label=("outcome", "closed-unmerged")),
        "approval.denied",
        0.15,
        "warn",
    ),
    GraveEvent(
        PieceSelector(("commit",), pattern=REVERT_MESSAGE),
        "mission.status_change",
        0.05,
        "error",
    ),
    GraveEvent(
        PieceSelector(("review",), label=("state", "changes_requested")),
        "keeper.decision",
        0.1,
        "warn",
    ),
    GraveEvent(
        PieceSelector(("review",), label=("outcome", "requested-then-made")),
        "keeper.decision",
        0.1,
        "warn",
    ),
    GraveEvent(PieceSelector(("compaction",)), "summary.generated", 0.15, "info"),
)
"""The table; the first row counts that selects an event."""


def compute_base_importance(pieces: Iterable[Evidence]) -> float:
    """Return the importance of the gravest event among some pieces, 0.5 for routine."""
    return max((_weigh(piece) for piece in pieces), default=ROUTINE_IMPORTANCE)


def _weigh(piece: Evidence) -> float:
    for row in GRAVE_EVENTS:
        if row.event.selects(piece):
            return row.importance
    return ROUTINE_IMPORTANCE


def make_sample_entry(number: int, title: str) -> Entry:
    """Return an example of an entry; equal numbers give equal ids."""
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
