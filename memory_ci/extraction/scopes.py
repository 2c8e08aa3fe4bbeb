"""The ten extraction scopes: what each may read, what it asks for, where it writes, and what holds by default.

A scope reads what its selectors match. A change has something for it when every group of them matches some piece, and
when the change has the place that the scope writes to. The labels are those that the sources put on their events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

from memory_ci.records.entry import Domain, EntryType, ScopeName
from memory_ci.records.event import Actor, EventKind, Evidence

Moment = Literal["prospective", "in-flight", "corrective", "retrospective"]

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


Group = tuple[Selector, ...]


class ExtractionScope(NamedTuple):
    """One row: of each group of `reads` one piece must be there; then a model is asked for what `asks_for` says."""

    moment: Moment
    reads: tuple[Group, ...]
    asks_for: str
    writes_to: ScopeName
    type: EntryType
    domain: Domain
    importance: float


KINDS: tuple[EventKind, ...] = get_args(EventKind)
CHANGE: Group = (Selector(tuple(kind for kind in KINDS if kind != "entry")),)
OUTCOME: Group = (Selector(tuple(kind for kind in KINDS if kind not in ("entry", "premortem", "intent"))),)
HUMAN_TURNS = Selector(("text",), ("human",))
SESSION: Group = (Selector(("text", "rejection", "interrupt", "compaction", "tool_call", "tool_result")),)
MENDS = Selector(("commit",), words=r"(?im)^[\s*-]*(?:revert|(?:hot)?fix(?:e[sd])?|(?:\*\*|#+ )?root[ -]cause)\b")
"""Commits that revert or fix, a squash that lists one included, or that name the cause."""

CORRECTIONS: Group = (
    HUMAN_TURNS,
    Selector(("rejection", "interrupt", "intervention")),
    Selector(("review",), label=("state", "changes_requested")),
    Selector(("review",), label=("outcome", "requested-then-made")),
    Selector(("check",), label=("outcome", "failed-then-passed")),
    Selector(("pr",), label=("outcome", "closed-unmerged")),
    MENDS,
)

SCOPES: dict[str, ExtractionScope] = {
    "observations": ExtractionScope(
        "retrospective",
        ((HUMAN_TURNS,),),
        "what people said in a session that shows a lasting preference or value of the team",
        "institutional",
        "directive",
        "team",
        0.9,
    ),
    "escalation": ExtractionScope(
        "retrospective",
        ((HUMAN_TURNS, Selector(("rejection", "interrupt", "intervention", "tool_call"))),),
        "from turns, interruptions and denied operations: when to ask first, and when to act without asking",
        "institutional",
        "directive",
        "team",
        0.9,
    ),
    "intent-alignment": ExtractionScope(
        "retrospective",
        ((Selector(("pr", "intent")),), (Selector(("diff",)),)),
        "the intent (request or document) held against the diff: what was met, missed or done otherwise, and why",
        "project",
        "corrective",
        "task",
        0.5,
    ),
    "team": ExtractionScope(
        "retrospective",
        (CHANGE,),
        "norms and procedures of the one directory that this change lies in, which hold nowhere else",
        "team",
        "procedural",
        "team",
        0.5,
    ),
    "session": ExtractionScope(
        "retrospective",
        (SESSION,),
        "how the work of this one session was coordinated, where the rest of the same job needs it",
        "session",
        "procedural",
        "team",
        0.5,
    ),
    "project": ExtractionScope(
        "retrospective",
        (CHANGE,),
        "conventions, decisions with their reason, and patterns that will come up again in this repository",
        "project",
        "procedural",
        "task",
        0.5,
    ),
    "global": ExtractionScope(
        "retrospective",
        ((Selector(("entry",)),),),
        "norms among these entries that hold in any project whatever",
        "global",
        "procedural",
        "team",
        0.5,
    ),
    "prospective": ExtractionScope(
        "prospective",
        ((Selector(("premortem",)),), OUTCOME),
        "the pre-mortem held against what happened: risks that came true, that were missed, that were false alarms",
        "project",
        "declarative",
        "task",
        0.5,
    ),
    "in-flight": ExtractionScope(
        "in-flight",
        ((Selector(("assumption", "intervention")),),),
        "assumptions noted on the way held against the outcome: which failed, and what would have shown it",
        "project",
        "declarative",
        "task",
        0.5,
    ),
    "corrective": ExtractionScope(
        "corrective",
        (CORRECTIONS,),
        "what was corrected (by a turn, a rejection, a requested change, a revert, a check that failed first):"
        " the error, its cause, how to prevent it",
        "project",
        "corrective",
        "task",
        0.8,
    ),
}


def scopes_for(pieces: Sequence[Evidence]) -> tuple[str, ...]:
    """The scopes that have something to read in `pieces` and a place to write to, in the order of the table."""
    return tuple(
        name
        for name, row in SCOPES.items()
        if all(any(_takes(group, piece) for piece in pieces) for group in row.reads)
        and target_of(name, pieces).partition(":")[0] == row.writes_to
    )


def may_cite(scope: str, piece: Evidence) -> bool:
    """Whether `piece` is of what `scope` reads."""
    return any(_takes(group, piece) for group in SCOPES[scope].reads)


def target_of(scope: str, pieces: Iterable[Evidence]) -> str:
    """Where a learning of `scope` goes, as in Entry.scope; to the project where the change has no such place."""
    name = SCOPES[scope].writes_to
    if name not in ("team", "session"):
        return name
    where = common_directory(pieces) if name == "team" else _job(pieces)
    return f"{name}:{where}" if where else "project"


def _takes(group: Group, piece: Evidence) -> bool:
    return any(selector.takes(piece) for selector in group)


def common_directory(pieces: Iterable[Evidence]) -> str:
    """The deepest directory of all files that the change touched, "" for the root or when it touched none.

    What an agent opened on the way (the paths of its session) is not what was changed.
    """
    changed = (path for piece in pieces if piece.kind in ("commit", "diff", "adr") for path in piece.paths)
    folders = [path.split("/")[:-1] for path in dict.fromkeys(changed)]
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
