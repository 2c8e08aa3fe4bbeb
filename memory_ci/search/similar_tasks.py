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

# An agent that did not ask is shown only tasks that are very similar to its own.
MIN_HINT_SCORE = 20.0
"""Least score of such a task: read by hand, three of four are related
(benchmarks/results/retrieval.md)."""

SMALL_HISTORY = 200
MIN_HINT_SHARE = 0.3
"""Share of the highest possible score that such a task has in a history of fewer than SMALL_HISTORY
changes. Scores grow with the number of changes, so no fixed score would do there."""

MIN_HINT_TERMS = 3  # Terms that such a task shares with the current one.

# A person who asks judges the answer: less is required of a task.
MIN_ANSWER_TERMS = 2
MIN_ANSWER_SHARE = 0.2  # Of the highest possible score.

MIN_TOTAL = 30
"""Changes that are assumed at least, to compute how rare a word is."""

CLASSES = ("fix", "inner", "other")
# The beginning of a title: `fix: …`, `hotfix …`.
FIX_TITLE = Regex(r"(?i)\W*(?:bug|hot)?fix")
# The beginning of the title of a change that users do not notice: `docs: …`, `[CI] …`.
INNER_TITLE = Regex(r"(?i)\W*(?:docs?|tests?|ci|chore|build|style|refactor|lint|typing|internal)\b")
MAX_TASKS = 2
DIVERSITY = 0.3  # Weight of the difference to the titles that are already chosen.
OUTCOME_FACTORS = {"success": 1.2, "partial": 1.0, "neutral": 1.0, "failure": 0.8}
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
    if FIX_TITLE.match(title):
        return "fix"
    if INNER_TITLE.match(title):
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


def build_prompt_index(term_counts: Sequence[Mapping[str, float]]) -> PromptIndex:
    """Return an inverted index of the prompts of tasks, with the weights of BM25.

    Args:
        term_counts: for each prompt how often its terms occur, weighted or not.
    """
    lengths = [sum(counts.values()) for counts in term_counts]
    mean_length = sum(lengths) / len(lengths) if any(lengths) else 1.0
    postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for task_index, counts in enumerate(term_counts):
        length_norm = K1 * (1 - B + B * lengths[task_index] / mean_length)
        for term, count in counts.items():
            weight = count * (K1 + 1) / (count + length_norm)
            postings[term].append((task_index, weight))
    encoded_postings: dict[str, msgspec.Raw] = {}
    for term, term_postings in postings.items():
        encoded_postings[term] = msgspec.Raw(msgspec.msgpack.encode(term_postings))
    return PromptIndex(len(term_counts), encoded_postings)


def find_similar(
    query: TaskQuery,
    tasks: Sequence[Task],
    prompts: PromptIndex,
    top: int = MAX_TASKS,
    *,
    is_hint: bool = False,
) -> tuple[SimilarTask, ...]:
    """Return the tasks whose prompts are most similar to the first line of a task, best first.

    A task with the same words in its title is left out: it says nothing new.

    Args:
        query: the current task, which is not returned.
        tasks: the tasks to search.
        prompts: the index of their prompts, in the same order.
        top: how many are returned at most.
        is_hint: return only tasks that are similar enough to be shown to an agent that did not ask.
    """
    title = extract_prose(query.prompt).partition("\n")[0]
    title_terms = set(count_terms(title))
    scores = _score_tasks(title, prompts)
    min_hint_score = MIN_HINT_SCORE
    if prompts.total < SMALL_HISTORY:
        min_hint_score = MIN_HINT_SHARE * scores.highest

    scored_tasks: list[tuple[Task, float]] = []
    for task_index, score in scores.by_index.items():
        task = tasks[task_index]
        shares_enough = scores.shared_counts[task_index] >= MIN_HINT_TERMS
        is_very_similar = score >= min_hint_score and shares_enough
        if score <= 0 or (is_hint and not is_very_similar):
            continue
        is_same_title = set(count_terms(task.title)) == title_terms
        if not query.is_of(task) and not is_same_title:
            scored_tasks.append((task, score))
    return _rank_tasks(scored_tasks, top)


def find_answers(
    question: str,
    tasks: Sequence[Task],
    prompts: PromptIndex,
    top: int,
    is_wanted: Callable[[Task], bool],
) -> tuple[SimilarTask, ...]:
    """Return the tasks that a question is about, best first.

    A task must share MIN_ANSWER_TERMS terms with the question, and have at least MIN_ANSWER_SHARE
    of the score that a task with all of its terms can have.

    Args:
        question: the question.
        tasks: the tasks to search.
        prompts: the index of their prompts, in the same order.
        top: how many are returned at most.
        is_wanted: returns whether a task may be returned.
    """
    scores = _score_tasks(question, prompts)
    min_score = MIN_ANSWER_SHARE * scores.highest
    scored_tasks: list[tuple[Task, float]] = []
    for task_index, score in scores.by_index.items():
        shares_enough = scores.shared_counts[task_index] >= MIN_ANSWER_TERMS
        if shares_enough and score >= min_score and is_wanted(tasks[task_index]):
            scored_tasks.append((tasks[task_index], score))
    return _rank_tasks(scored_tasks, top)


def _rank_tasks(scored_tasks: Iterable[tuple[Task, float]], top: int) -> tuple[SimilarTask, ...]:
    """Return the best tasks by BM25 x outcome x (0.5 + 0.5 x share of their files that remain).

    Args:
        scored_tasks: tasks and their BM25 scores.
        top: how many are returned at most.
    """
    ranked: list[SimilarTask] = []
    for task, score in scored_tasks:
        remaining_share = task.remaining_count / task.files if task.files else 1.0
        factors = (
            ("bm25", score),
            ("outcome", OUTCOME_FACTORS[task.outcome]),
            ("files", 0.5 + 0.5 * remaining_share),
        )
        ranked.append(SimilarTask(task, math.prod(value for _, value in factors), factors))
    ranked.sort(key=lambda hit: (-hit.score, -hit.task.merged_on.toordinal(), hit.task.sha))
    return tuple(take_diverse(ranked, top, lambda hit: hit.task.title))


def _score_tasks(title: str, prompts: PromptIndex) -> _Scores:
    """Return the BM25 scores of the tasks that share a term with a title.

    The inverse document frequency is log((N - n + 0.5) / (n + 0.5)), which is below zero for a term
    that most tasks have.
    """
    score_by_index: defaultdict[int, float] = defaultdict(float)
    shared_counts: Counter[int] = Counter()
    highest = 0.0
    total = max(prompts.total, MIN_TOTAL)
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
    remaining_hits = list(ranked)
    chosen_titles: list[frozenset[str]] = []

    def marginal_relevance(hit: S) -> float:
        hit_title = content_words(title(hit))
        similarity = max(
            (jaccard(hit_title, chosen_title) for chosen_title in chosen_titles), default=0.0
        )
        return (1 - DIVERSITY) * hit.score / ranked[0].score - DIVERSITY * similarity

    while remaining_hits and len(chosen_titles) < top:
        best = max(remaining_hits, key=marginal_relevance)
        remaining_hits.remove(best)
        chosen_titles.append(content_words(title(best)))
        yield best
