"""Are entries in other languages found as English ones are?

    python -m benchmarks.languages

One memory of 200 entries, 25 in each of eight languages, and 100 questions a language in other words than the entry's.
The files were written for this by a language model: an entry a line, its questions below it after a question mark.
"Given": the share of questions whose entry is given after the floor and the cap of `retrieve`. "Unrelated": how many of
the questions are answered from five entries a language that have nothing to do with them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean

from memory_ci.commands.evaluate.evaluate_retrieval import (
    RelevanceJudgement,
    RetrievalSet,
    SetEntry,
    SetQuery,
    answer_set,
    replay_set,
)
from memory_ci.commands.evaluate.retrieval_metrics import recall
from memory_ci.commands.retrieve.options import RetrieveOptions, bound_options
from memory_ci.commands.retrieve.ranking import order_hits, rank_task
from memory_ci.records.config import Config
from memory_ci.search.strength import drop_weak

LANGUAGES = ("en", "de", "es", "fr", "pt", "ru", "ja", "zh")
EACH, FIFTH = 25, 5
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def load_languages() -> RetrievalSet:
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
    for language in LANGUAGES:
        lines = (Path(__file__).parent / f"{language}.txt").read_text("utf-8").splitlines()
        yield from ((language, number, line) for number, line in enumerate(lines))


def find_given(of: RetrievalSet) -> dict[str, bool]:
    """Of each question whether its entry is given."""
    given, options, config = {}, RetrieveOptions(), Config()
    for index, asking in replay_set(of):
        asked = bound_options(options, config, asking.today)
        found = rank_task(index, asking.text, asked, options, asking.today)
        hits = drop_weak(
            order_hits(found.hits, asked.limit)[0],
            is_near=found.margin >= 0,
            is_exempt=lambda _: False,
        )
        given[asking.name] = any(hit.located.entry.id in asking.grades for hit in hits)
    return given


def find_answered(of: RetrievalSet) -> dict[str, bool]:
    """Of each question whether anything is given from a fifth of the entries, which is about something else."""
    answered = {}
    entry_of = {one.query: one.entry for one in of.judgements}
    fifth = {entry.id: place % EACH // FIFTH for place, entry in enumerate(of.entries)}
    for part in range(EACH // FIFTH):
        entries = tuple(entry for entry in of.entries if fifth[entry.id] == part)
        queries = tuple(
            one for one in of.queries if fifth[entry_of[one.id]] == (part + 2) % (EACH // FIFTH)
        )
        config, options = Config(), RetrieveOptions()
        for index, asking in replay_set(RetrievalSet(entries, queries, of.judgements)):
            asked = bound_options(options, config, asking.today)
            answered[asking.name] = (
                rank_task(index, asking.text, asked, options, asking.today).margin >= 0
            )
    return answered


def main() -> None:
    data = load_languages()
    answered = list(answer_set(data, Config(), time.perf_counter))
    given, unrelated = find_given(data), find_answered(data)
    scores = {
        language: mean(
            recall(one.ranking, one.asking.grades, 5)
            for one in answered
            if one.asking.kind == language
        )
        for language in LANGUAGES
    }
    print("| language | R@5 | of English | given | unrelated |\n|---|---|---|---|---|")
    for language, score in scores.items():
        shares = [_share(of, language) for of in (given, unrelated)]
        print(
            f"| {language} | {score:.2f} | {score / scores['en']:.2f} | {shares[0]:.2f} | {shares[1]:.2f} |"
        )


def _share(found: Mapping[str, bool], language: str) -> float:
    return mean(is_found for name, is_found in found.items() if name.startswith(language))


if __name__ == "__main__":
    main()
