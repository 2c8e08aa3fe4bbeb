"""Which of the tasks that were merged are like the one at hand (docs/similar.md)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from memory_ci.records.retrieval import SimilarTask, Task
from memory_ci.retrieval.query import idf, told
from memory_ci.text import STOP_WORDS, content_words, identifier_parts, jaccard, words

LEAST = 0.25  # The cosine below which two prompts have nothing to do with each other (measured: docs/similar.md).
FEW = 30  # Prompts that there are taken to be at least: with fewer, what one of them says would count as common.
MAX_SHARE = 0.6  # What a single term may bring of a cosine: one word in common, however rare, makes no similar task.
SAME = 0.98  # The cosine from which on a prompt is the very task that is asked about.
TOP = 2
DIVERSITY = 0.3
OUTCOMES = {"success": 1.2, "partial": 1.0, "neutral": 1.0, "failure": 0.8}
MAX_CHARS = 20_000  # How much of a prompt is read once code and quotations are out; people write less.


class Scored(Protocol):
    """What has a score."""

    @property
    def score(self) -> float: ...


S = TypeVar("S", bound=Scored)


class TaskQuery(msgspec.Struct, frozen=True):
    """The task at hand: the words it is put in, and what it is known by, so that it does not find itself."""

    prompt: str
    sha: str = ""
    number: int | None = None
    branch: str = ""


class Prompts(msgspec.Struct, frozen=True):
    """The prompts of `total` tasks by their terms: for each the (place of the task, weight) of those that have it.

    The weights of a task make a vector of length 1, so that a cosine is a sum of products. A term's list stays encoded
    until it is asked for: a question has ten of the ten thousand.
    """

    total: int
    postings: dict[str, msgspec.Raw]

    def find(self, term: str) -> list[tuple[int, float]]:
        """The tasks whose prompts hold `term`."""
        found = self.postings.get(term)
        return [] if found is None else msgspec.msgpack.decode(found, type=list[tuple[int, float]])


def count_terms(prompt: str) -> dict[str, int]:
    """How often each term occurs in the prose of a prompt; code, quotations, logs and stop words do not count."""
    text = told(prompt)[:MAX_CHARS]
    found = (*words(text), *(part for part in identifier_parts(text) if len(part) > 1))
    return dict(Counter(term for term in found if term not in STOP_WORDS))


def build_prompts(counts: Sequence[Mapping[str, int]]) -> Prompts:
    """The vectors of prompts: (1 + log tf) x idf, with idf from these prompts, or from `FEW` where they are fewer."""
    df = Counter(term for terms in counts for term in terms)
    postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for place, terms in enumerate(counts):
        for term, weight in _unit(terms, df, len(counts)).items():
            postings[term].append((place, weight))
    encode = msgspec.msgpack.encode
    return Prompts(len(counts), {term: msgspec.Raw(encode(found)) for term, found in postings.items()})


def find_similar(asked: TaskQuery, tasks: Sequence[Task], prompts: Prompts, top: int = TOP) -> tuple[SimilarTask, ...]:
    """The best `top` of the tasks whose prompts are like that of `asked`, best first; itself is none of them.

    `prompts` are those of `tasks`, in the same order.
    """
    likeness = find_likeness(asked.prompt, prompts)
    near = ((tasks[place], cosine) for place, cosine in likeness.items() if LEAST <= cosine < SAME)
    ranked = [_weigh(task, cosine) for task, cosine in near if not _is_same(task, asked)]
    return tuple(take_diverse(sorted(ranked, key=_order), top, lambda one: one.task.title))


def find_likeness(prompt: str, prompts: Prompts, max_share: float = MAX_SHARE) -> dict[int, float]:
    """The cosine with each task that shares more than one word. What no task has counts as the rarest term there is.

    A single word may bring `max_share` of it; with 1.0 it may be the only one.
    """
    terms = count_terms(prompt)
    found = {term: prompts.find(term) for term in terms}
    unit = _unit(terms, {term: len(having) for term, having in found.items()}, prompts.total)
    shares: defaultdict[int, list[float]] = defaultdict(list)
    for term, having in found.items():
        for place, weight in having:
            shares[place].append(unit[term] * weight)
    cosines = ((place, sum(parts), max(parts)) for place, parts in shares.items())
    return {place: cosine for place, cosine, most in cosines if most <= max_share * cosine}


def take_diverse(ranked: Sequence[S], top: int, title: Callable[[S], str]) -> Iterator[S]:
    """Maximal marginal relevance, as entries are diversified; two tasks are alike as far as their titles are."""
    left = list(ranked)
    chosen: list[S] = []
    said: list[frozenset[str]] = []
    while left and len(chosen) < top:
        best = max(
            left, key=lambda one: (1 - DIVERSITY) * one.score / ranked[0].score - DIVERSITY * _near(title(one), said)
        )
        left.remove(best)
        chosen.append(best)
        said.append(content_words(title(best)))
        yield best


def _unit(terms: Mapping[str, int], df: Mapping[str, int], total: int) -> dict[str, float]:
    vector = {term: (1 + math.log(count)) * idf(df[term], max(total, FEW)) for term, count in terms.items()}
    length = math.hypot(*vector.values())
    return {term: weight / length for term, weight in vector.items()}


def _is_same(task: Task, asked: TaskQuery) -> bool:
    return (
        (asked.sha != "" and task.sha == asked.sha)
        or (asked.number is not None and task.number == asked.number)
        or (asked.branch != "" and task.branch == asked.branch)
    )


def _weigh(task: Task, cosine: float) -> SimilarTask:
    share = task.still / task.files if task.files else 1.0
    factors = (("cosine", cosine), ("outcome", OUTCOMES[task.outcome]), ("files", 0.5 + 0.5 * share))
    return SimilarTask(task, math.prod(value for _, value in factors), factors)


def _order(found: SimilarTask) -> tuple[float, int, str]:
    return -found.score, -found.task.merged_on.toordinal(), found.task.sha


def _near(title: str, said: Iterable[frozenset[str]]) -> float:
    own = content_words(title)
    return max((jaccard(own, other) for other in said), default=0.0)
