"""The ten extraction scopes: code derives that of a learning from its kind, its reach and the pieces that it quotes.

A model names no scope: one that does not fit would be no fault of what was learned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memory_ci.records.candidate import Kind, Reach
from memory_ci.records.entry import ScopeName
from memory_ci.records.event import Actor, EventKind, Evidence

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
    changed = (path for piece in pieces if piece.kind in ("commit", "diff", "adr") for path in piece.paths)
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
