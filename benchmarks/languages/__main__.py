"""Measure whether entries in other languages are found as well as English ones.

    python -m benchmarks.languages

One memory of 200 entries, 25 in each of eight languages, and 100 questions a language in other words than the entry's.
The files were written for this by a language model: an entry a line, its questions below it after a question mark.
"Given": the share of questions whose entry is given after the floor and the cap of `retrieve`. "Unrelated": how many of
the questions are answered from five entries a language that have nothing to do with them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean

from memory_ci.commands.evaluate.evaluate_retrieval import answer_set
from memory_ci.commands.evaluate.records import QueryAnswer
from memory_ci.commands.evaluate.retrieval_metrics import recall
from memory_ci.commands.evaluate.retrieval_set import (
    RelevanceJudgement,
    RetrievalSet,
    SetEntry,
    SetQuery,
    replay_set,
)
from memory_ci.commands.retrieve.options import RetrieveOptions, bound_options
from memory_ci.commands.retrieve.ranking import order_hits, rank_task
from memory_ci.records.config import Config
from memory_ci.search.strength import drop_weak

LANGUAGES = ("en", "de", "es", "fr", "pt", "ru", "ja", "zh")
EACH = 25  # Entries of each language.
FIFTH = 5  # Entries of each language in a fifth of the memory.
PARTS = EACH // FIFTH
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def load_languages() -> RetrievalSet:
    """Load the entries of all languages, and their questions, each with the entry that answers it."""
    entries: list[SetEntry] = []
    queries: list[SetQuery] = []
    judgements = []
    for language, number, line in _lines():
        if line.startswith("? "):
            queries.append(SetQuery(f"{language}:{number}", line[2:], ts=NOW, kind=language))
            judgements.append(RelevanceJudgement(queries[-1].id, entries[-1].id))
        else:
            entries.append(SetEntry(f"{language}-{number}", line))
    return RetrievalSet(tuple(entries), tuple(queries), tuple(judgements))


def _lines() -> Iterator[tuple[str, int, str]]:
    """Yield each line of the files as (language, number of the line, text)."""
    for language in LANGUAGES:
        lines = (Path(__file__).parent / f"{language}.txt").read_text("utf-8").splitlines()
        yield from ((language, number, line) for number, line in enumerate(lines))


def find_served(data: RetrievalSet) -> dict[str, bool]:
    """Return for each question whether the entry that answers it is served."""
    is_served = {}
    options = RetrieveOptions()
    for index, query in replay_set(data):
        request = bound_options(options, Config(), query.today)
        ranked = rank_task(index, query.text, request, options, query.today)
        hits, _ = order_hits(ranked.hits, request.limit)
        strong_hits = drop_weak(hits, is_near=ranked.margin >= 0, is_exempt=lambda _: False)
        is_served[query.name] = any(hit.located.entry.id in query.grades for hit in strong_hits)
    return is_served


def find_answered(data: RetrievalSet) -> dict[str, bool]:
    """Return for each question whether it is answered from entries that are about something else.

    The memory is split into fifths, and each question is asked of another fifth than that of its entry.
    """
    is_answered = {}
    entry_by_query = {judgement.query: judgement.entry for judgement in data.judgements}
    part_by_entry = {entry.id: number % EACH // FIFTH for number, entry in enumerate(data.entries)}
    options = RetrieveOptions()
    for part in range(PARTS):
        other_part = (part + 2) % PARTS
        entries = tuple(entry for entry in data.entries if part_by_entry[entry.id] == part)
        queries = tuple(
            query for query in data.queries if part_by_entry[entry_by_query[query.id]] == other_part
        )
        for index, query in replay_set(RetrievalSet(entries, queries, data.judgements)):
            request = bound_options(options, Config(), query.today)
            ranked = rank_task(index, query.text, request, options, query.today)
            is_answered[query.name] = ranked.margin >= 0
    return is_answered


def main() -> None:
    """Print a row for each language."""
    data = load_languages()
    answers = list(answer_set(data, Config(), time.perf_counter))
    is_served = find_served(data)
    is_answered = find_answered(data)
    recalls = {language: _measure_recall(answers, language) for language in LANGUAGES}
    print("| language | R@5 | of English | given | unrelated |\n|---|---|---|---|---|")
    for language, recall_at_5 in recalls.items():
        of_english = recall_at_5 / recalls["en"]
        served = _share(is_served, language)
        unrelated = _share(is_answered, language)
        print(
            f"| {language} | {recall_at_5:.2f} | {of_english:.2f} | {served:.2f} | {unrelated:.2f} |"
        )


def _measure_recall(answers: Iterable[QueryAnswer], language: str) -> float:
    """Return the mean recall@5 of the questions in a language."""
    return mean(
        recall(answer.ranking, answer.query.grades, 5)
        for answer in answers
        if answer.query.kind == language
    )


def _share(outcomes: Mapping[str, bool], language: str) -> float:
    """Return the share of the questions in a language whose outcome is true."""
    return mean(outcome for name, outcome in outcomes.items() if name.startswith(language))


if __name__ == "__main__":
    main()
