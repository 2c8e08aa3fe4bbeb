"""Decisions on all candidates of one merged change: duplicates, equal titles, and the limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from memory_ci.extraction.restatement import (
    CandidateWords,
    is_same_learning,
    list_comparison_keys,
    split_words,
)
from memory_ci.extraction.wording import make_title
from memory_ci.records.candidate import Judged


def settle_candidates(judged: Sequence[Judged], limit: int) -> tuple[Judged, ...]:
    """Return the verdicts on the candidates of one merged change, compared with each other.

    Candidates that say the same become one, titles become distinct, and at most `limit` candidates
    are written that nobody marked.

    Args:
        judged: the candidates, each judged by itself.
        limit: the number of unmarked candidates that may be written.
    """
    settled = _make_titles_distinct(_merge_duplicates(judged))
    reason = f"more than {limit} of one merged change"
    for index in _list_over_limit(settled, limit):
        settled[index] = replace(settled[index], verdict="over_limit", reason=reason)
    return tuple(settled)


def _list_over_limit(judged: Sequence[Judged], limit: int) -> list[int]:
    """Return the indices of the written candidates beyond the limit.

    A candidate that its author marked stays. Of the others the most important stay, and among
    equals the earlier.
    """
    unmarked = [
        index
        for index, item in enumerate(judged)
        if item.verdict == "written" and not item.candidate.is_marked
    ]
    unmarked.sort(key=lambda index: judged[index].candidate.importance, reverse=True)
    return unmarked[limit:]


def _merge_duplicates(judged: Sequence[Judged]) -> list[Judged]:
    """Merge candidates that say the same and have the same verdict; all their quotes are kept.

    Only candidates with a comparison key in common are compared: others cannot say the same.
    """
    distinct: list[Judged] = []
    words_of_distinct: list[CandidateWords] = []  # at the same index
    indices_by_key: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for item in judged:
        item_words = split_words(item.candidate)
        keys = [(item.verdict, key) for key in list_comparison_keys(item_words)]
        comparable_indices: set[int] = set()
        for key in keys:
            comparable_indices.update(indices_by_key.get(key, ()))
        duplicate_indices = [
            index
            for index in sorted(comparable_indices)
            if is_same_learning(item_words, words_of_distinct[index])
        ]
        if duplicate_indices:
            first_index = duplicate_indices[0]
            distinct[first_index] = _add_quotes(distinct[first_index], item)
            continue
        for key in keys:
            indices_by_key[key].append(len(distinct))
        distinct.append(item)
        words_of_distinct.append(item_words)
    return distinct


def _add_quotes(item: Judged, duplicate: Judged) -> Judged:
    """Return a candidate with the quotes of its duplicate in addition."""
    quotes = dict.fromkeys((*item.candidate.quotes, *duplicate.candidate.quotes))
    return replace(item, candidate=replace(item.candidate, quotes=tuple(quotes)))


def _make_titles_distinct(judged: Sequence[Judged]) -> list[Judged]:
    """Return the candidates; those that are written have titles that differ from each other.

    Several causes of a fix share its subject as title: the later ones take a title from the body,
    or are only proposed.
    """
    titles: set[str] = set()
    distinct: list[Judged] = []
    for item in judged:
        if item.verdict == "written" and item.candidate.title.casefold() in titles:
            item = _take_title_from_body(item)
            if item.candidate.title.casefold() in titles:
                reason = "has the title of another of this change"
                item = replace(item, verdict="suspected", reason=reason)
        if item.verdict == "written":
            titles.add(item.candidate.title.casefold())
        distinct.append(item)
    return distinct


def _take_title_from_body(item: Judged) -> Judged:
    """Return a candidate with a title made of its body, or unchanged if the body makes none."""
    title = make_title(item.candidate.body.removeprefix("Cause: "))
    return replace(item, candidate=replace(item.candidate, title=title or item.candidate.title))
