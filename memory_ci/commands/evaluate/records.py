"""Records of labelled data, and of the figures of an evaluation."""

from __future__ import annotations

from datetime import date

import msgspec

from memory_ci.records.event import Actor, EventKind, Trust
from memory_ci.records.proportion import Share
from memory_ci.records.retrieval import Strength

GUARDED_MEASURES = {
    "nDCG@10": 1,
    "recall at served": 1,
    "precision at served": 1,
    "kept": 1,
    "unrelated answered": -1,
}
"""Measures that a change of memory may not worsen; 1 if a higher value is better, else -1."""

SIZE_MEASURES = {"entries served", "characters served"}
"""Measures that may grow by SIZE_TOLERANCE times the margin, as a share of their old value."""

SIZE_TOLERANCE = 10


class GoldenQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A golden query.

    Attributes:
        query: the task.
        relevant: ids of the entries that should be served; none if memory has no answer.
        negative: ids of entries that should not be served.
        kind: the kind of the query, for tables.
        name: the name of the query, for lists.
    """

    query: str
    relevant: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    kind: str = ""
    name: str = ""


class JudgedQuery(msgspec.Struct, frozen=True):
    """A query with its judgements.

    Attributes:
        grades: the relevance of entries, above zero, by id.
        negative: ids of entries that should not be served.
        today: the day that counts as today.
    """

    name: str
    text: str
    grades: dict[str, float]
    negative: tuple[str, ...]
    kind: str
    today: date


class QueryAnswer(msgspec.Struct, frozen=True):
    """A query and its answer.

    Attributes:
        ranking: ids of entries in their order, before floor and budget.
        factors: the factors of each score, in the same order.
        strength: how well the best match fits the query: `HIT`, or weaker.
        seconds: how long it took.
        served_ids: ids of the entries that are served.
        characters: the size of the text that is served.
    """

    query: JudgedQuery
    ranking: tuple[str, ...]
    factors: tuple[tuple[tuple[str, float], ...], ...]
    strength: Strength
    seconds: float
    served_ids: tuple[str, ...] = ()
    characters: int = 0


class Measure(msgspec.Struct, frozen=True):
    """A mean over queries with its 95 % interval."""

    name: str
    value: float
    low: float
    high: float


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """The quality of retrieval on one set of queries.

    Attributes:
        kind: the kind of the queries; "" for all together.
        queries: how many queries have a relevant entry; the measures are means over them.
        milliseconds: the median and the 95th percentile of the time of a query.
        unanswerable: how many queries have no relevant entry.
        false_hits: how many of these are called a HIT.
    """

    kind: str
    queries: int
    measures: tuple[Measure, ...]
    milliseconds: tuple[float, float]
    unanswerable: int = 0
    false_hits: int = 0


class WorsenedQuery(msgspec.Struct, frozen=True):
    """A query with a lower nDCG@10 than before."""

    name: str
    before: float
    now: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The quality of retrieval now and at a revision; `falls` has the worst query first."""

    rev: str
    margin: float
    before: Quality
    now: Quality
    falls: tuple[WorsenedQuery, ...]

    @property
    def worse(self) -> tuple[tuple[str, float, float], ...]:
        """The measures that worsened by more than the margin, as (name, before, now)."""
        values_now = {measure.name: measure.value for measure in self.now.measures}
        worse = []
        for measure in self.before.measures:
            if measure.name not in values_now:
                continue
            value_now = values_now[measure.name]
            if _measure_loss(measure.name, measure.value, value_now) > self.margin:
                worse.append((measure.name, measure.value, value_now))
        return tuple(worse)


def _measure_loss(name: str, before: float, now: float) -> float:
    """Return how much a measure worsened; 0 or less if it improved or may change freely."""
    if name in SIZE_MEASURES:
        return (now - before) / before / SIZE_TOLERANCE if before else 0.0
    return GUARDED_MEASURES.get(name, 0) * (before - now)


class GoldPiece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One piece of evidence of a window."""

    text: str
    kind: EventKind = "text"
    actor: Actor = "human"
    trust: Trust = "T1"
    paths: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


class GoldLearning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A learning that should be extracted, and the exact words that prove it."""

    says: str
    quote: str


class GoldLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether one labeller found a durable learning."""

    by: str
    is_durable: bool


class GoldWindow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One merged change as an engine would read it.

    Attributes:
        learnings: the learnings to extract; without any, the engine should abstain.
        existing: titles of entries that memory has.
        attack: the action of an engine that obeys an injection in the evidence.
    """

    id: str
    evidence: tuple[GoldPiece, ...]
    learnings: tuple[GoldLearning, ...] = ()
    labels: tuple[GoldLabel, ...] = ()
    existing: tuple[str, ...] = ()
    attack: str = ""
    about: str = ""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The results of an engine on gold windows.

    Attributes:
        engine: the name of the engine.
        windows: how many windows were run.
        negatives: how many windows have no learning.
        precision: the share of written candidates that match a gold learning.
        recall: the share of gold learnings that a written candidate matches.
        abstention: on how many of the negatives nothing was written.
        evidence_validity: the share of candidates that were not refused for their quotes.
        duplicates: how many written entries have the title of an existing one.
        dropped: how many learnings of replies could not be read.
        secrets_leaked: how many written candidates hold a credential.
        injections_obeyed: how many false positives came from windows with a prompt injection.
        failures: how many calls of the engine failed.
        failed_because: the first failure.
        tokens_per_window: the mean number of tokens of a call.
        agreement: Cohen's kappa of the labellers.
        labelled_twice: how many windows have two labels.
        misses: the gold learnings that were not extracted.
        false_positives: the written candidates that match no gold learning.
    """

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


class ReaderQuality(msgspec.Struct, frozen=True):
    """The learnings that one reader approves: of all replies, and of those that are written."""

    name: str
    replied: Share
    written: Share


class SetEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a model and the gate on a set of windows, as readers judge them.

    Attributes:
        abstained: the share of replies without a learning.
        not_written: how many learnings were not written, by reason.
        tokens_in: an estimate of the tokens sent for one window.
        tokens_out: an estimate of the tokens of one reply.
        agreement: of each two readers (name, name, Cohen's kappa, learnings that both judged).
    """

    windows: int
    learnings: int
    abstained: Share
    written: Share
    not_written: dict[str, int]
    tokens_in: float
    tokens_out: float
    readers: tuple[ReaderQuality, ...]
    agreement: tuple[tuple[str, str, float | None, int], ...]


class DrawnSet(msgspec.Struct, frozen=True):
    """A set of windows that was drawn.

    Attributes:
        windows: how many windows were drawn.
        total: from how many; `of` in JSON.
        answered: how many have a reply.
        sheets: the names of the sheets to fill in.
    """

    windows: int = 0
    total: int = msgspec.field(default=0, name="of")
    answered: int = 0
    sheets: tuple[str, ...] = ()
