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


def _is_opposed(stated: Clause, quoted_clauses: Sequence[Clause]) -> bool:
    """Return whether a quoted clause opposes a clause of the statement, and none outweighs it.

    Args:
        stated: the clause of the statement.
        quoted_clauses: the clauses of its quotes.
    """
    opposing: list[frozenset[str]] = []
    agreeing: list[frozenset[str]] = []
    for clause in quoted_clauses:
        if not _is_comparable(stated, clause):
            continue
        shared_words = frozenset(word for word in stated.words if _matches(word, clause.words))
        if _take_opposite_stances(stated, clause):
            opposing.append(shared_words)
        else:
            agreeing.append(shared_words)
    return any(not _is_outweighed(shared_words, agreeing) for shared_words in opposing)


def _is_outweighed(opposing: frozenset[str], agreeing: Sequence[frozenset[str]]) -> bool:
    """Return whether a clause that agrees is closer to the statement than one that opposes it.

    It is if it shares at least as many words with the statement, and some of the same words.

    Args:
        opposing: the words of the statement that the opposing clause has, too.
        agreeing: the words of the statement that each agreeing clause has, too.
    """
    for shared_words in agreeing:
        has_common_word = not opposing or not shared_words.isdisjoint(opposing)
        if len(shared_words) >= len(opposing) and has_common_word:
            return True
    return False


def _is_comparable(stated: Clause, quoted: Clause) -> bool:
    """Return whether both clauses take a stance on the same thing under the same conditions.

    If only one forbids (`never run X`), the other must be about the forbidden word. A quoted clause
    that only reports (`CI runs X`) is no stance against a statement that forbids the same.
    """
    if not _share_words(stated.words, quoted.words) or stated.condition != quoted.condition:
        return False
    if stated.is_denied == quoted.is_denied:
        return True
    forbidding, allowing = (stated, quoted) if stated.is_denied else (quoted, stated)
    if forbidding.forbidden_word and not _matches(forbidding.forbidden_word, allowing.words):
        return False
    if quoted.is_denied:
        return True
    # An order begins with `use` or the like, or with a verb that the statement has, too.
    return quoted.is_order or _matches(quoted.opening, stated.words)


def _share_words(left: frozenset[str], right: frozenset[str]) -> bool:
    """Return whether the longer of two clauses has most words of the shorter one."""
    shorter, longer = sorted((len(left), len(right)))
    if not shorter or _count_shared(left, right) < MIN_SHARED * shorter:
        return False
    return shorter > 1 or longer <= MAX_LONGER_WORDS


def _take_opposite_stances(stated: Clause, quoted: Clause) -> bool:
    """Return whether the stances of two clauses differ in an odd number of ways.

    Two differences cancel each other: `never disable X` agrees with `enable X`.
    """
    differences = int(stated.is_denied != quoted.is_denied)
    for pair_id in stated.side_by_pair.keys() | quoted.side_by_pair.keys():
        differences += _differ_in_pair(pair_id, stated, quoted)
    differences += _differ_in_order(stated, quoted)
    return differences % 2 == 1


def _differ_in_order(stated: Clause, quoted: Clause) -> bool:
    """Return whether two clauses put the same two things in a different order.

    `lint before commit` and `commit after lint` give one order: the words are swapped, and so is
    `before` with `after`. One swap alone gives the other order: `commit before lint`.
    """
    if not (stated.order_role and quoted.order_role):
        return False
    # The verb may be on the same side in both, so the order with more words in common counts.
    left_in_left = _count_shared(stated.left_words, quoted.left_words)
    right_in_right = _count_shared(stated.right_words, quoted.right_words)
    left_in_right = _count_shared(stated.left_words, quoted.right_words)
    right_in_left = _count_shared(stated.right_words, quoted.left_words)
    same_side_count = left_in_left + right_in_right
    other_side_count = left_in_right + right_in_left
    are_both_sides_swapped = left_in_right > 0 and right_in_left > 0
    are_words_swapped = are_both_sides_swapped and other_side_count > same_side_count
    if not (same_side_count or are_words_swapped):
        return False
    is_order_role_swapped = stated.order_role != quoted.order_role
    return is_order_role_swapped != are_words_swapped


def _differ_in_pair(pair_id: str, stated: Clause, quoted: Clause) -> bool:
    """Return whether two clauses differ about a pair of opposites, such as `enable` and `disable`.

    They do if they name different sides of the pair. If only one names a side, they differ if that
    side undoes the thing (`disable the cache`) and the other clause is about using it (`use the
    cache`, or `never use the cache`).

    Args:
        pair_id: the number of the pair, of which at least one clause names a side.
        stated: a clause of the statement.
        quoted: a clause of a quote.
    """
    if pair_id in stated.side_by_pair and pair_id in quoted.side_by_pair:
        stated_side = stated.side_by_pair[pair_id]
        quoted_side = quoted.side_by_pair[pair_id]
        # A clause that names both sides takes neither (None).
        has_two_sides = stated_side is not None and quoted_side is not None
        return has_two_sides and stated_side != quoted_side

    naming, other = (stated, quoted) if pair_id in stated.side_by_pair else (quoted, stated)
    if pair_id not in naming.undone_pairs or other.undone_pairs:
        return False
    # A clause that neither orders nor forbids only reports. Then `never disable it` still opposes.
    return other.is_denied or other.is_order or naming.is_denied


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
