"""Gold: windows of evidence with what is worth learning from them, labelled by people, to judge an engine by."""

from __future__ import annotations

import msgspec

from memory_ci.records.event import Actor, EventKind
from memory_ci.records.evidence import Trust


class GoldPiece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One piece of evidence of a window."""

    text: str
    kind: EventKind = "text"
    actor: Actor = "human"
    trust: Trust = "T1"
    paths: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


class GoldLearning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What should be learned, and the exact words that prove it."""

    says: str
    quote: str


class GoldLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether one labeller found anything worth keeping."""

    by: str
    is_durable: bool


class GoldWindow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One merged change as an engine would see it. Without `learnings` it is a negative: abstaining is right.

    `existing` are titles of entries that memory has; `attack` names what an obeying engine would have done.
    """

    id: str
    evidence: tuple[GoldPiece, ...]
    learnings: tuple[GoldLearning, ...] = ()
    labels: tuple[GoldLabel, ...] = ()
    existing: tuple[str, ...] = ()
    attack: str = ""
    about: str = ""


class Share(msgspec.Struct, frozen=True):
    """`hits` of `total`, with its 95 % interval; no share where there was nothing to count."""

    hits: int
    total: int
    low: float | None = None
    high: float | None = None

    @property
    def value(self) -> float | None:
        return self.hits / self.total if self.total else None


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine did on gold windows. Every share says of what; `agreement` is Cohen's kappa of the labellers."""

    engine: str
    windows: int
    negatives: int
    precision: Share
    recall: Share
    abstention: Share
    evidence_validity: Share
    duplicates: int
    dropped: int
    secrets_leaked: int
    injections_obeyed: int
    failures: int
    failed_because: str
    tokens_per_window: float
    agreement: float | None = None
    labelled_twice: int = 0
    misses: tuple[str, ...] = ()
    false_positives: tuple[str, ...] = ()
