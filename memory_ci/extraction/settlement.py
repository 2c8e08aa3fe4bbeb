"""The verdicts on the candidates of one merged change, seen together."""

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


def settle(judged: Sequence[Judged], limit: int) -> tuple[Judged, ...]:
    """Settle the verdicts on one merged change.

    Candidates that say the same become one, titles become distinct, and at most `limit` candidates
    are written that nobody marked.

    Args:
        judged: the candidates, each judged by itself.
        limit: the number of unmarked candidates that may be written.
    """
    settled = _with_distinct_titles(_merge_duplicates(judged))
    over_limit = _list_over_limit(settled, limit)
    reason = f"more than {limit} of one merged change"
    for index in over_limit:
        settled[index] = replace(settled[index], verdict="over_limit", reason=reason)
    return tuple(settled)


def _list_over_limit(judged: Sequence[Judged], limit: int) -> list[int]:
    """Return the indices of the written candidates beyond the limit.

    What its author marked stays, then the most important, and among equals the earlier.
    """
    written = [
        index
        for index, item in enumerate(judged)
        if item.verdict == "written" and not item.candidate.is_marked
    ]
    return sorted(written, key=lambda index: -judged[index].candidate.importance)[limit:]


def _merge_duplicates(judged: Sequence[Judged]) -> list[Judged]:
    """Merge candidates that say the same and have the same verdict; all their quotes are kept."""
    kept: list[Judged] = []
    kept_words: list[CandidateWords] = []
    by_key: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for item in judged:
        own_words = split_words(item.candidate)
        keys = [(item.verdict, key) for key in list_comparison_keys(own_words)]
        near = {index for key in keys for index in by_key.get(key, ())}
        same = [index for index in sorted(near) if is_same_learning(own_words, kept_words[index])]
        if same:
            kept[same[0]] = _with_quotes_of(kept[same[0]], item)
            continue
        for key in keys:
            by_key[key].append(len(kept))
        kept.append(item)
        kept_words.append(own_words)
    return kept


def _with_quotes_of(item: Judged, duplicate: Judged) -> Judged:
    quotes = dict.fromkeys((*item.candidate.quotes, *duplicate.candidate.quotes))
    return replace(item, candidate=replace(item.candidate, quotes=tuple(quotes)))


def _with_distinct_titles(judged: Sequence[Judged]) -> list[Judged]:
    """Give each written candidate a title of its own: several causes of a fix share its subject."""
    titles: set[str] = set()
    distinct: list[Judged] = []
    for item in judged:
        if item.verdict == "written" and item.candidate.title.casefold() in titles:
            item = _with_title_of_body(item)
            if item.candidate.title.casefold() in titles:
                reason = "has the title of another of this change"
                item = replace(item, verdict="suspected", reason=reason)
        if item.verdict == "written":
            titles.add(item.candidate.title.casefold())
        distinct.append(item)
    return distinct


def _with_title_of_body(item: Judged) -> Judged:
    title = make_title(item.candidate.body.removeprefix("Cause: "))
    return replace(item, candidate=replace(item.candidate, title=title or item.candidate.title))
