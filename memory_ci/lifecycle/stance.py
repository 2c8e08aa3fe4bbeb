"""Stance: the words of one sentence, told apart into what it speaks of and what it says of that.

Whatever stands in a condition belongs to what is spoken of: `when the flag is set` and `when the flag is not set` are
two subjects, not two stances on one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from memory_ci.lifecycle.opposites import (
    AFFIRMING,
    BE,
    DIRECTIONS,
    FILLERS,
    FUNCTION_WORDS,
    LABELS,
    LIGHT,
    LINKS,
    MODALS,
    NEGATORS,
    PARTICIPLES,
    POLES,
    PREFERENCE,
    PREPOSITIONS,
    QUANTITIES,
    SINGLE_CHOICE,
    UNITS,
    VERSIONED,
    Stand,
)
from memory_ci.text import stem

OrderKind = Literal["time", "preference"]
PIVOTS: dict[str, OrderKind] = {"before": "time", "after": "time", "instead": "preference", "over": "preference"}

NUMBER = re.compile(r"v?(\d+(?:\.\d+)*)(%|[a-z]*)")


class Token(NamedTuple):
    """A lower-case word; `is_free` outside of conditions."""

    word: str
    is_free: bool


class Claim(NamedTuple):
    """What is spoken of, as stems in order (sorted where an order is said), and the stance on it.

    That is: whether it denies, sides of antonym pairs, amounts (each a `#` in `about`), and what an order puts first
    and second.
    """

    about: tuple[str, ...]
    denied: bool = False
    poles: tuple[tuple[str, int], ...] = ()
    amounts: tuple[str, ...] = ()
    order: OrderKind | None = None
    first: frozenset[str] = frozenset()
    second: frozenset[str] = frozenset()

    @property
    def subject(self) -> tuple[object, ...]:
        """What two claims must share to be two stances on one thing."""
        return self.about, self.order, tuple(pair for pair, _ in self.poles)


def find_opposition(one: Claim, other: Claim) -> str | None:
    """How two claims with one subject oppose each other; None unless it is in exactly one respect.

    One denies what the other says; or, where neither denies, they differ in one antonym, one amount or the order.
    """
    if one.denied != other.denied:
        return "one says not" if one._replace(denied=other.denied) == other else None
    differences = [pair for (pair, side), (_, opposite) in zip(one.poles, other.poles, strict=True) if side != opposite]
    differences += [f"{a} against {b}" for a, b in _amount_pairs(one, other) if a != b]
    if (one.first, one.second) != (other.first, other.second):
        is_reversed = one.first & other.second and one.second & other.first
        differences.append("the reverse order" if is_reversed else "")
    is_single = len(differences) == 1 and not one.denied
    return (differences[0] or None) if is_single and not _is_refined(one, other) else None


def _amount_pairs(one: Claim, other: Claim) -> list[tuple[str, str]]:
    """The amounts of two claims on one subject, place by place; in each pair the smaller text first."""
    return [(min(a, b), max(a, b)) for a, b in zip(one.amounts, other.amounts, strict=True)]


def _is_refined(one: Claim, other: Claim) -> bool:
    """Whether a version differs only in how exactly it is given: 18 and 18.2."""
    return any(a != b and b.startswith(f"{a}.") for a, b in _amount_pairs(one, other))


def read_claim(tokens: Sequence[Token], min_words: int) -> Claim | None:
    """The claim that the words make; None if fewer than `min_words` of them say anything."""
    reader = _Reader([token.word for token in tokens])
    for at, token in enumerate(tokens):
        if token.is_free:
            reader.read(at)
        else:
            reader.read_condition(token.word)
    is_enough = reader.weight >= min_words and any(word != "#" for part in reader.parts for word in part)
    return reader.claim() if is_enough else None


QUANTITY_STEMS = frozenset(map(stem, QUANTITIES))


def _last_before(words: Sequence[str], passed: Container[str]) -> list[str]:
    """For each place the nearest word before it that is not `passed` over; "" where there is none."""
    return list(accumulate(words[:-1], lambda last, word: last if word in passed else word, initial=""))


class _Reader:
    """Reads words from left to right. `parts` are what stands before and after the word that puts in order.

    A sentence may have a hundred thousand words: no step may look at all of them.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.known = frozenset(words)
        self.directions = _last_before(words, FUNCTION_WORDS)
        self.said = _last_before(words, NEGATORS | {"always", "ever"})
        self.quantity = next((at for at, word in enumerate(words) if stem(word) in QUANTITY_STEMS), len(words))
        self.version = next((at for at, word in enumerate(words) if word in VERSIONED), len(words))
        self.parts: tuple[deque[str], deque[str]] = (deque(), deque())
        self.poles: dict[str, int] = {}
        self.amounts: list[str] = []
        self.denied = False
        self.pivot = ""
        self.weight = 0

    def read(self, at: int) -> None:
        word = self.words[at]
        if word in NEGATORS:
            self.denied = not self.denied
        elif not self.pivot and word in PIVOTS and (word != "over" or PREFERENCE & self.known):
            self.pivot = word
        elif not (self._read_amount(at) or self._read_pole(at)):
            self._read_word(at)

    def read_condition(self, word: str) -> None:
        if word in NEGATORS or word not in FILLERS | {"if", "when", "whenever"}:
            self._put(f"?{stem(word)}")

    def claim(self) -> Claim:
        stance = (self.denied, tuple(sorted(self.poles.items())), tuple(self.amounts))
        before, after = self.parts
        if not self.pivot:
            return Claim((*before, *after), *stance)
        first, second = (frozenset(part) for part in ((after, before) if self.pivot == "after" else (before, after)))
        return Claim(tuple(sorted(before + after)), *stance, PIVOTS[self.pivot], first - second, second - first)

    def _put(self, word: str, *, in_front: bool = False) -> None:
        part = self.parts[1 if self.pivot else 0]
        (part.appendleft if in_front else part.append)(word)
        self.weight += 1

    def _read_word(self, at: int) -> None:
        word = self.words[at]
        if word in LIGHT:
            self.weight += 1
        elif word in UNITS and self._word(at - 1)[:1].isdigit():
            self._put(UNITS[word])
        elif (word in PARTICIPLES or word.endswith("ed")) and self._is_said(at):
            self._put(stem(PARTICIPLES.get(word, word)), in_front=True)
        elif word not in FILLERS:
            direction = self.directions[at]
            self._put(f"{direction}:{stem(word)}" if direction in DIRECTIONS else stem(word))

    def _read_amount(self, at: int) -> bool:
        match = NUMBER.fullmatch(self.words[at])
        if match is None or not self._is_amount(at, match[2]):
            return False
        self._put("#")
        self.amounts.append(match[1])
        if match[2]:
            self._put(UNITS[match[2]])
        return True

    def _is_amount(self, at: int, unit: str) -> bool:
        """Whether the number is the value of what has one value at a time; not a name, as in `step 2` or `HTTP 429`."""
        before, after = self._word(at - 1), self._word(at + 1)
        if before in LABELS or (unit and unit not in UNITS):
            return False
        if unit or after in UNITS or {stem(after), stem(before)} & QUANTITY_STEMS:
            return True
        if before in LINKS:
            return self.quantity < at
        return before.isalpha() and before not in FILLERS and self.version < at - 1

    def _read_pole(self, at: int) -> bool:
        pole = POLES.get(self.words[at])
        if pole is None or not self._is_stance(pole.stand, at):
            return False
        self.weight += 1
        if pole.pair in AFFIRMING:
            self.denied = self.denied != bool(pole.side)
        else:
            self.poles[pole.pair] = pole.side
        return True

    def _is_stance(self, stand: Stand, at: int) -> bool:
        if stand == "verb":
            return self._is_verb(at)
        return stand == "anywhere" or self._is_said(at) or (stand == "choice" and self._is_chosen(at))

    def _is_verb(self, at: int) -> bool:
        if not any(self.parts):
            return not BE & set(self.words[at + 1 : at + 4])  # `exclude patterns are …` speaks of patterns
        return self.words[at].endswith("s") or self._word(at - 1) in MODALS | NEGATORS

    def _is_said(self, at: int) -> bool:
        """Whether a form of `be` stands before the word, or `keep … private` around it."""
        if at + 1 == len(self.words) and {"keep", "make", "leave"} & self.known:
            return True
        return self.said[at] in BE

    def _is_chosen(self, at: int) -> bool:
        """Whether a verb of choice stands shortly before the word, with no preposition between them."""
        near = self.words[max(0, at - 3) : at]
        chosen = [place for place, word in enumerate(near) if word in SINGLE_CHOICE]
        return bool(chosen) and not PREPOSITIONS & set(near[chosen[-1] :])

    def _word(self, at: int) -> str:
        return self.words[at] if 0 <= at < len(self.words) else ""
