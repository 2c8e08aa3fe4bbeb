"""Whether a statement says the opposite of words that are quoted for it.

Two clauses are compared if most of their words are the same. They are opposites if their stances
(`memory_ci.extraction.clauses`) differ in an odd number of ways. `never disable X` and `enable X`
differ twice, so they agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from memory_ci.extraction.clauses import Clause, read_clauses

MIN_SHARED = 0.75
"""Share of the words of the shorter clause that the longer one must contain."""

MAX_LONGER_WORDS = 3
"""Number of words of a clause that is compared with a clause of one word."""

MIN_ROOT = 3
"""Number of characters of a verb without its endings."""

MIN_PREFIX = 4
"""Number of characters in which two forms of a word are equal at the beginning."""

MIN_PREFIX_SHARE = 0.7
"""The same as a share of the characters of the longer form."""


def is_opposite(statement: str, quotes: Iterable[str]) -> bool:
    """Return whether a statement says the opposite of the quotes.

    A clause that agrees with some words of the statement outweighs a clause that opposes the same
    words.
    """
    quoted_clauses: list[Clause] = []
    for quote in quotes:
        quoted_clauses += read_clauses(quote)
    return any(_is_opposed(clause, quoted_clauses) for clause in read_clauses(statement))


def _is_opposed(claim: Clause, quoted_clauses: Sequence[Clause]) -> bool:
    """Return whether a clause of a quote opposes a claim, and no other one outweighs that."""
    opposing: list[frozenset[str]] = []
    agreeing: list[frozenset[str]] = []
    for clause in quoted_clauses:
        if not _is_comparable(claim, clause):
            continue
        shared_words = frozenset(word for word in claim.words if _matches(word, clause.words))
        if _differ_oddly(claim, clause):
            opposing.append(shared_words)
        else:
            agreeing.append(shared_words)
    return any(not _is_outweighed(shared_words, agreeing) for shared_words in opposing)


def _is_outweighed(opposing: frozenset[str], agreeing: Sequence[frozenset[str]]) -> bool:
    """Return whether an agreeing clause shares at least as many words with a claim, some the same.

    Args:
        opposing: the words of a claim that an opposing clause has, too.
        agreeing: the same words of each agreeing clause.
    """
    for shared_words in agreeing:
        has_common_word = not opposing or not shared_words.isdisjoint(opposing)
        if len(shared_words) >= len(opposing) and has_common_word:
            return True
    return False


def _is_comparable(claim: Clause, quote: Clause) -> bool:
    """Return whether both clauses take a stance on the same thing under the same conditions."""
    if not _share_words(claim.words, quote.words) or claim.condition != quote.condition:
        return False
    if claim.is_denied == quote.is_denied:
        return True
    denied, allowed = (claim, quote) if claim.is_denied else (quote, claim)
    if denied.head and not _matches(denied.head, allowed.words):
        return False
    # What a quote merely reports may well be what the statement forbids.
    return not claim.is_denied or quote.is_order or _matches(quote.opening, claim.words)


def _share_words(left: frozenset[str], right: frozenset[str]) -> bool:
    """Return whether the longer of two clauses has most words of the shorter one."""
    shorter, longer = sorted((len(left), len(right)))
    if not shorter or _count_shared(left, right) < MIN_SHARED * shorter:
        return False
    return shorter > 1 or longer <= MAX_LONGER_WORDS


def _differ_oddly(claim: Clause, quote: Clause) -> bool:
    """Return whether the stances of two clauses differ in an odd number of ways.

    Two differences cancel each other: `never disable X` agrees with `enable X`.
    """
    differences = int(claim.is_denied != quote.is_denied)
    for pair in claim.sides.keys() | quote.sides.keys():
        differences += _differ_in_pair(pair, claim, quote)
    differences += _differ_in_order(claim, quote)
    return differences % 2 == 1


def _differ_in_order(claim: Clause, quote: Clause) -> bool:
    """Return whether two clauses put the same things in a different order.

    `lint before commit` and `commit after lint` do not.
    """
    if not (claim.pivot and quote.pivot):
        return False
    # The verb may be on the same side in both, so the order with more words in common counts.
    first_in_first = _count_shared(claim.first, quote.first)
    second_in_second = _count_shared(claim.second, quote.second)
    first_in_second = _count_shared(claim.first, quote.second)
    second_in_first = _count_shared(claim.second, quote.first)
    straight = first_in_first + second_in_second
    crossing = first_in_second + second_in_first
    is_swapped = bool(first_in_second and second_in_first) and crossing > straight
    if not (straight or is_swapped):
        return False
    return (claim.pivot != quote.pivot) != is_swapped


def _differ_in_pair(pair: str, claim: Clause, quote: Clause) -> bool:
    """Return whether two clauses name different sides of a pair of opposites.

    If only one clause names a side, they differ if that side undoes a thing (`disable`) and the
    other clause is about its use.

    Args:
        pair: the key of a pair of opposites; at least one clause names a side of it.
        claim: a clause of the statement.
        quote: a clause of a quote.
    """
    if pair in claim.sides and pair in quote.sides:
        claim_side = claim.sides[pair]
        quote_side = quote.sides[pair]
        is_clear = claim_side is not None and quote_side is not None
        return is_clear and claim_side != quote_side
    undoing, using = (claim, quote) if pair in claim.sides else (quote, claim)
    is_about_use = using.is_denied or using.is_order or undoing.is_denied
    return pair in undoing.undone and not using.undone and is_about_use


# -- words of two clauses


def _count_shared(left: frozenset[str], right: frozenset[str]) -> int:
    """Return how many words of the smaller set are in the larger one, perhaps in another form."""
    smaller, larger = sorted((left, right), key=len)
    return sum(_matches(word, larger) for word in smaller)


def _matches(word: str, candidates: Iterable[str]) -> bool:
    """Return whether one of the candidates is the same word, perhaps in another form."""
    return word in candidates or any(_is_same_word(word, candidate) for candidate in candidates)


def _is_same_word(left: str, right: str) -> bool:
    return _begin_alike(left, right) or _is_participle(left, right) or _is_participle(right, left)


def _is_participle(word: str, verb: str) -> bool:
    """Return whether a word is a German participle: `geloggt` of `logge`, `gebaut` of `baue`."""
    if not (word.startswith("ge") and word.endswith(("t", "n"))) or verb.startswith("ge"):
        return False
    root = re.sub("(?:e?t|en)$", "", word.removeprefix("ge"))
    return len(root) >= MIN_ROOT and root == re.sub("(?:en|e?s?t|e)$", "", verb)


def _begin_alike(left: str, right: str) -> bool:
    """Return whether two words are forms of one: they are equal in most of their beginning."""
    shorter, longer = sorted((len(left), len(right)))
    min_prefix = max(MIN_PREFIX, MIN_PREFIX_SHARE * longer)
    if shorter < min_prefix:
        return False
    length = math.ceil(min_prefix)
    return left[:length] == right[:length]
