"""Search for merged changes whose tasks are similar to the current one (docs/serving.md#hints)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from memory_ci.records.retrieval import SimilarTask, Task
from memory_ci.regex import Regex
from memory_ci.search.query import extract_prose
from memory_ci.text import STOP_WORDS, content_words, identifier_parts, jaccard, words

# BM25's parameters (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009).
K1 = 1.2
B = 0.5

GATE = 20.0
"""Score from which a change is named to a job: read by hand, three of four are related
(benchmarks/results/retrieval.md)."""

YOUNG = 200  # Changes below which GATE_SHARE holds instead of GATE.
GATE_SHARE = 0.3
"""Share of the highest score that a task can have: scores grow with the number of changes."""

FEW = 30
"""Changes that are assumed at least: with fewer, each word of one would count as common."""

LEAST_SHARED = 3  # Terms that a task and a change have in common at least.

# The same for a question, and the share of the highest score: a person asks, and judges the answer.
LEAST_ASKED = 2
ASKED_SHARE = 0.2
CLASSES = ("fix", "inner", "other")
FIX = Regex(r"(?i)\W*(?:bug|hot)?fix")
INNER = Regex(r"(?i)\W*(?:docs?|tests?|ci|chore|build|style|refactor|lint|typing|internal)\b")
MAX_TASKS = 2
DIVERSITY = 0.3
OUTCOMES = {"success": 1.2, "partial": 1.0, "neutral": 1.0, "failure": 0.8}
MAX_CHARS = 20_000  # Of a prompt without code and quotations; people write less.


class Scored(Protocol):
    """A hit with a score."""

    @property
    def score(self) -> float:
        """Its score."""


S = TypeVar("S", bound=Scored)


class TaskQuery(msgspec.Struct, frozen=True):
    """The current task.

    Attributes:
        prompt: its text.
        sha: the commit of its change, so that it does not find itself.
        number: the number of its request.
        branch: its branch.
    """

    prompt: str
    sha: str = ""
    number: int | None = None
    branch: str = ""

    def is_of(self, task: Task) -> bool:
        """Return whether `task` is this one, by its commit, its branch or its number."""
        is_same_commit = self.sha != "" and self.sha == task.sha
        is_same_branch = self.branch != "" and self.branch == task.branch
        is_same_number = self.number is not None and self.number == task.number
        return is_same_commit or is_same_branch or is_same_number


class PromptIndex(msgspec.Struct, frozen=True):
    """An inverted index of the prompts of tasks.

    Attributes:
        total: number of tasks.
        postings: for each term the (index of the task, weight) of those that have it, encoded until
            it is needed: a question has ten of the ten thousand terms. The weight is the part of
            BM25 that does not depend on how many tasks have the term.
    """

    total: int
    postings: dict[str, msgspec.Raw]

    def find(self, term: str) -> list[tuple[int, float]]:
        """Return the indices of the tasks whose prompts have `term`, with its weight in each."""
        encoded = self.postings.get(term)
        if encoded is None:
            return []
        return msgspec.msgpack.decode(encoded, type=list[tuple[int, float]])


class _Scores(msgspec.Struct, frozen=True):
    """BM25 scores of tasks, by the index of a task in the list of tasks.

    Attributes:
        by_index: the score of each task that shares a term.
        shared_counts: how many terms each of them shares.
        highest: the highest score that a task can have.
    """

    by_index: Mapping[int, float]
    shared_counts: Mapping[int, int]
    highest: float


def classify_title(title: str) -> str:
    """Return the class of a change by its title.

    It is "fix", "inner" (documents, tests, chores) or "other".
    """
    if FIX.match(title):
        return "fix"
    if INNER.match(title):
        return "inner"
    return "other"


def count_terms(prompt: str) -> dict[str, int]:
    """Return how often each term occurs in the prose of a prompt.

    Code, quotations, logs and stop words do not count.
    """
    prose = extract_prose(prompt)[:MAX_CHARS]
    parts = [part for part in identifier_parts(prose) if len(part) > 1]
    terms = [term for term in (*words(prose), *parts) if term not in STOP_WORDS]
    return dict(Counter(terms))


def build_prompts(counts: Sequence[Mapping[str, float]]) -> PromptIndex:
    """Return an inverted index of prompts with the weights of BM25.

    Args:
        counts: for each prompt how often its terms occur, weighted or not.
    """
    lengths = [sum(term_counts.values()) for term_counts in counts]
    mean_length = sum(lengths) / len(lengths) if any(lengths) else 1.0
    postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for task_index, term_counts in enumerate(counts):
        length_norm = K1 * (1 - B + B * lengths[task_index] / mean_length)
        for term, count in term_counts.items():
            weight = count * (K1 + 1) / (count + length_norm)
            postings[term].append((task_index, weight))
    encode = msgspec.msgpack.encode
    encoded = {term: msgspec.Raw(encode(term_postings)) for term, term_postings in postings.items()}
    return PromptIndex(len(counts), encoded)


def find_similar(
    query: TaskQuery,
    tasks: Sequence[Task],
    prompts: PromptIndex,
    top: int = MAX_TASKS,
    *,
    is_gated: bool = False,
) -> tuple[SimilarTask, ...]:
    """Return the tasks whose prompts are most similar to the first line of a task, best first.

    A task with the same words in its title is left out: it says nothing new.

    Args:
        query: the current task, which is not returned.
        tasks: the tasks to search.
        prompts: the index of their prompts, in the same order.
        top: how many are returned at most.
        is_gated: return only tasks that are similar enough to be named to an agent unasked.
    """
    title = extract_prose(query.prompt).partition("\n")[0]
    title_terms = set(count_terms(title))
    scores = _score(title, prompts)
    least_score = GATE if prompts.total >= YOUNG else GATE_SHARE * scores.highest

    scored_tasks: list[tuple[Task, float]] = []
    for task_index, score in scores.by_index.items():
        task = tasks[task_index]
        is_near = score >= least_score and scores.shared_counts[task_index] >= LEAST_SHARED
        if score <= 0 or (is_gated and not is_near) or query.is_of(task):
            continue
        if set(count_terms(task.title)) != title_terms:
            scored_tasks.append((task, score))
    return _rank(scored_tasks, top)


def find_answers(
    question: str,
    tasks: Sequence[Task],
    prompts: PromptIndex,
    top: int,
    is_wanted: Callable[[Task], bool],
) -> tuple[SimilarTask, ...]:
    """Return the tasks that a question is about, best first.

    They have at least two of its terms, and a share of the highest score.

    Args:
        question: the question.
        tasks: the tasks to search.
        prompts: the index of their prompts, in the same order.
        top: how many are returned at most.
        is_wanted: returns whether a task may be returned.
    """
    scores = _score(question, prompts)
    least_score = ASKED_SHARE * scores.highest
    scored_tasks: list[tuple[Task, float]] = []
    for task_index, score in scores.by_index.items():
        is_near = scores.shared_counts[task_index] >= LEAST_ASKED and score >= least_score
        if is_near and is_wanted(tasks[task_index]):
            scored_tasks.append((tasks[task_index], score))
    return _rank(scored_tasks, top)


def _rank(scored_tasks: Iterable[tuple[Task, float]], top: int) -> tuple[SimilarTask, ...]:
    """Return the best tasks by BM25 score x outcome x share of their files that remain.

    Args:
        scored_tasks: tasks and their BM25 scores.
        top: how many are returned at most.
    """
    ranked: list[SimilarTask] = []
    for task, score in scored_tasks:
        remaining_share = task.still / task.files if task.files else 1.0
        factors = (
            ("bm25", score),
            ("outcome", OUTCOMES[task.outcome]),
            ("files", 0.5 + 0.5 * remaining_share),
        )
        ranked.append(SimilarTask(task, math.prod(value for _, value in factors), factors))
    ranked.sort(key=lambda hit: (-hit.score, -hit.task.merged_on.toordinal(), hit.task.sha))
    return tuple(take_diverse(ranked, top, lambda hit: hit.task.title))


def _score(title: str, prompts: PromptIndex) -> _Scores:
    """Return the BM25 scores of the tasks that share a term with a title.

    The inverse document frequency is log((N - n + 0.5) / (n + 0.5)), which is below zero for a term
    that most tasks have.
    """
    score_by_index: defaultdict[int, float] = defaultdict(float)
    shared_counts: Counter[int] = Counter()
    highest = 0.0
    total = max(prompts.total, FEW)
    for term in count_terms(title):
        postings = prompts.find(term)
        idf = math.log((total - len(postings) + 0.5) / (len(postings) + 0.5))
        highest += max(idf, 0.0) * (K1 + 1)
        for task_index, weight in postings:
            score_by_index[task_index] += idf * weight
            shared_counts[task_index] += 1
    return _Scores(score_by_index, shared_counts, highest)


def take_diverse(ranked: Sequence[S], top: int, title: Callable[[S], str]) -> Iterator[S]:
    """Yield the best hits by maximal marginal relevance: high scores, and different titles.

    Args:
        ranked: hits, best first.
        top: how many are returned at most.
        title: returns the title of a hit, by which hits are similar.
    """
    remaining = list(ranked)
    chosen_titles: list[frozenset[str]] = []

    def marginal_relevance(hit: S) -> float:
        hit_title = content_words(title(hit))
        similarity = max((jaccard(hit_title, chosen) for chosen in chosen_titles), default=0.0)
        return (1 - DIVERSITY) * hit.score / ranked[0].score - DIVERSITY * similarity

    while remaining and len(chosen_titles) < top:
        best = max(remaining, key=marginal_relevance)
        remaining.remove(best)
        chosen_titles.append(content_words(title(best)))
        yield best
