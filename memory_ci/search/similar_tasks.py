"""Which of the tasks that were merged are like the one at hand (docs/similar.md)."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from memory_ci.records.retrieval import SimilarTask, Task
from memory_ci.search.query import told
from memory_ci.text import STOP_WORDS, content_words, identifier_parts, jaccard, words

K1, B = (
    1.2,
    0.5,
)  # Those of BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009).
# The score from which on a change is named to a job: read by hand three of four are related (docs/similar.md).
GATE = 20.0
# Where there are fewer than YOUNG changes, the share of the best score that a task can reach: scores grow with N.
GATE_SHARE = 0.3
YOUNG = 200
FEW = 30  # Changes that there are taken to be at least: with fewer, what one of them says would count as common.
LEAST_SHARED = 3  # Terms that a task and a change have in common at least.
LEAST_ASKED, ASKED_SHARE = (
    2,
    0.2,
)  # For a question less will do: a person asks, and judges the answer.
CLASSES = ("fix", "inner", "other")
FIX = re.compile(r"(?i)\W*(?:bug|hot)?fix")
INNER = re.compile(r"(?i)\W*(?:docs?|tests?|ci|chore|build|style|refactor|lint|typing|internal)\b")
TOP = 2
DIVERSITY = 0.3
OUTCOMES = {"success": 1.2, "partial": 1.0, "neutral": 1.0, "failure": 0.8}
MAX_CHARS = (
    20_000  # How much of a prompt is read once code and quotations are out; people write less.
)


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

    def is_of(self, task: Task) -> bool:
        """Whether `task` is this one."""
        is_change = self.sha != "" and self.sha == task.sha
        is_branch = self.branch != "" and self.branch == task.branch
        return is_change or is_branch or (self.number is not None and self.number == task.number)


class Prompts(msgspec.Struct, frozen=True):
    """The prompts of `total` tasks by their terms: for each the (place of the task, weight) of those that have it. The
    weight is the part of BM25 that does not depend on how many have the term. A term's list stays encoded until it is
    asked for: a question has ten of the ten thousand."""

    total: int
    postings: dict[str, msgspec.Raw]

    def find(self, term: str) -> list[tuple[int, float]]:
        """The tasks whose prompts hold `term`."""
        found = self.postings.get(term)
        return [] if found is None else msgspec.msgpack.decode(found, type=list[tuple[int, float]])


def class_of(title: str) -> str:
    """Of which class a change is by its title: a fix, inner work (documents, tests, chores), or another."""
    return "fix" if FIX.match(title) else "inner" if INNER.match(title) else "other"


def count_terms(prompt: str) -> dict[str, int]:
    """How often each term occurs in the prose of a prompt; code, quotations, logs and stop words do not count."""
    text = told(prompt)[:MAX_CHARS]
    found = (*words(text), *(part for part in identifier_parts(text) if len(part) > 1))
    return dict(Counter(term for term in found if term not in STOP_WORDS))


def build_prompts(counts: Sequence[Mapping[str, float]]) -> Prompts:
    """The prompts of tasks, of which each is how often its terms occur; they may be weighted."""
    lengths = [sum(terms.values()) for terms in counts]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for place, terms in enumerate(counts):
        norm = K1 * (1 - B + B * lengths[place] / mean)
        for term, count in terms.items():
            postings[term].append((place, count * (K1 + 1) / (count + norm)))
    encode = msgspec.msgpack.encode
    return Prompts(
        len(counts), {term: msgspec.Raw(encode(found)) for term, found in postings.items()}
    )


def find_similar(
    asked: TaskQuery,
    tasks: Sequence[Task],
    prompts: Prompts,
    top: int = TOP,
    *,
    is_gated: bool = False,
) -> tuple[SimilarTask, ...]:
    """The best `top` of the tasks whose prompts are like the first line of `asked`, best first; itself is none of them.
    `prompts` are those of `tasks`, in the same order. `is_gated`: only what is close enough to be named unasked."""
    title = told(asked.prompt).partition("\n")[0]
    found, reach = _score(title, prompts)
    gate = GATE if prompts.total >= YOUNG else GATE_SHARE * reach
    wanted = set(count_terms(title))
    near = (
        (tasks[place], score)
        for place, (score, shared) in found.items()
        if score > 0 and (not is_gated or (score >= gate and shared >= LEAST_SHARED))
        if not asked.is_of(tasks[place]) and set(count_terms(tasks[place].title)) != wanted
    )
    return _rank(near, top)


def find_answers(
    question: str,
    tasks: Sequence[Task],
    prompts: Prompts,
    top: int,
    is_wanted: Callable[[Task], bool],
) -> tuple[SimilarTask, ...]:
    """The best `top` of the wanted tasks that a question is about: two of its terms at least, and enough of it."""
    found, reach = _score(question, prompts)
    near = (
        (tasks[place], score)
        for place, (score, shared) in found.items()
        if shared >= LEAST_ASKED and score >= ASKED_SHARE * reach and is_wanted(tasks[place])
    )
    return _rank(near, top)


def _rank(near: Iterable[tuple[Task, float]], top: int) -> tuple[SimilarTask, ...]:
    found = []
    for task, score in near:
        share = task.still / task.files if task.files else 1.0
        factors = (
            ("bm25", score),
            ("outcome", OUTCOMES[task.outcome]),
            ("files", 0.5 + 0.5 * share),
        )
        found.append(SimilarTask(task, math.prod(value for _, value in factors), factors))
    found.sort(key=lambda one: (-one.score, -one.task.merged_on.toordinal(), one.task.sha))
    return tuple(take_diverse(found, top, lambda one: one.task.title))


def _score(title: str, prompts: Prompts) -> tuple[dict[int, tuple[float, int]], float]:
    """(for each task that shares a term its BM25 score and the number of terms, the most that a score can be). idf is
    log((N - n + 0.5) / (n + 0.5)) and below zero for what most tasks say."""
    scores: defaultdict[int, float] = defaultdict(float)
    shared: Counter[int] = Counter()
    reach = 0.0
    total = max(prompts.total, FEW)
    for term in count_terms(title):
        having = prompts.find(term)
        idf = math.log((total - len(having) + 0.5) / (len(having) + 0.5))
        reach += max(idf, 0.0) * (K1 + 1)
        for place, weight in having:
            scores[place] += idf * weight
            shared[place] += 1
    return {place: (score, shared[place]) for place, score in scores.items()}, reach


def take_diverse(ranked: Sequence[S], top: int, title: Callable[[S], str]) -> Iterator[S]:
    """Maximal marginal relevance, as entries are diversified; two tasks are alike as far as their titles are."""
    left = list(ranked)
    chosen: list[S] = []
    said: list[frozenset[str]] = []

    def worth(one: S) -> float:
        own = content_words(title(one))
        near = max((jaccard(own, other) for other in said), default=0.0)
        return (1 - DIVERSITY) * one.score / ranked[0].score - DIVERSITY * near

    while left and len(chosen) < top:
        best = max(left, key=worth)
        left.remove(best)
        chosen.append(best)
        said.append(content_words(title(best)))
        yield best
