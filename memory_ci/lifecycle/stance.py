"""Claims: what each sentence of an entry says about its subject, to find contradictions.

A claim is a subject and a stance on it; claims of opposite sentences differ in the stance only.
Precision is preferred over recall: a sentence about the past, a question, a quotation, an example
or a sentence about "it" makes no claim. A condition is part of the subject: `when the flag is set`
and `when the flag is not set` are two subjects, not two stances on one subject.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from memory_ci.lifecycle.stance_words import (
    ANTONYMS,
    BE,
    CHOICE_DISTANCE,
    CHOICE_VERBS,
    CONDITION_WORDS,
    DIRECTIONS,
    EMPTY_VERBS,
    FUNCTION_WORDS,
    MODALS,
    NEGATING_PAIRS,
    NEGATORS,
    NUMBERED_NAMES,
    PARTICIPLES,
    PIVOTS,
    PREFERENCE_VERBS,
    PREPOSITIONS,
    QUANTITY_LINKS,
    QUANTITY_STEMS,
    SPELLED_NUMBERS,
    UNITS,
    VERSION_VERBS,
    WORDS_BEFORE_THAT,
    WORDS_WITHOUT_CONTENT,
    OrderKind,
    Role,
)
from memory_ci.records.entry import Entry
from memory_ci.regex import Regex
from memory_ci.secrets import lower_case
from memory_ci.text import spell_negations, stem, unfenced_lines

NUMBER = Regex(r"v?(?P<value>\d+(?:\.\d+)*)(?P<unit>%|[a-z]*)")


class Token(msgspec.Struct, frozen=True):
    """A lower-case word, and whether it is in a condition such as `when the flag is set`."""

    word: str
    is_in_condition: bool


class Claim(NamedTuple):
    """The subject of a sentence, and the stance on it.

    Attributes:
        stems: stems of the subject in their order, sorted if the claim states an order.
        is_negated: whether the sentence denies.
        antonyms: the antonym pairs with a word in the sentence, each with the word's side (0, 1).
        amounts: the amounts; `stems` has a `#` in the place of each.
        order: the kind of order that the claim states.
        first: stems of the thing that comes first.
        second: stems of the thing that comes second.
    """

    stems: tuple[str, ...]
    is_negated: bool = False
    antonyms: tuple[tuple[str, int], ...] = ()
    amounts: tuple[str, ...] = ()
    order: OrderKind | None = None
    first: frozenset[str] = frozenset()
    second: frozenset[str] = frozenset()

    @property
    def subject(self) -> tuple[object, ...]:
        """The key that two claims share if they are stances on one subject."""
        return self.stems, self.order, tuple(pair for pair, _ in self.antonyms)


def find_opposition(claim: Claim, opposite: Claim) -> str | None:
    """Return how two claims with one subject oppose each other.

    They oppose each other if they differ in exactly one respect: in the negation, or, where
    neither is negated, in one antonym, one amount or the order.

    Returns:
        The respect in words; None if the claims do not oppose each other.
    """
    if claim.is_negated != opposite.is_negated:
        is_only_negation = claim._replace(is_negated=opposite.is_negated) == opposite
        return "one says not" if is_only_negation else None
    if claim.is_negated:
        return None

    differences: list[str] = []
    # One subject has the same antonym pairs and as many amounts.
    for (pair, side), (_, opposite_side) in zip(claim.antonyms, opposite.antonyms, strict=True):
        if side != opposite_side:
            differences.append(pair)

    for amounts in zip(claim.amounts, opposite.amounts, strict=True):
        smaller, larger = sorted(amounts)
        if larger.startswith(f"{smaller}."):
            return None  # one version is more exact than the other, as 18 and 18.2
        if smaller != larger:
            differences.append(f"{smaller} against {larger}")

    if (claim.first, claim.second) != (opposite.first, opposite.second):
        is_reverse = claim.first & opposite.second and claim.second & opposite.first
        if not is_reverse:
            return None
        differences.append("the reverse order")
    return differences[0] if len(differences) == 1 else None


def read_claim(tokens: Sequence[Token], min_words: int) -> Claim | None:
    """Return the claim that the words of a sentence make: its subject, and what it says about it.

    None if fewer than `min_words` of them have content, so that the sentence claims nothing.
    """
    reader = _Reader([token.word for token in tokens])
    for index, token in enumerate(tokens):
        if token.is_in_condition:
            reader.read_condition(token.word)
        else:
            reader.read_word(index)
    return reader.build_claim() if reader.has_content(min_words) else None


def _list_previous_words(words: Sequence[str], skipped: Container[str]) -> list[str]:
    """Return for each word the last word before it that is not skipped, or ""."""
    previous_words: list[str] = []
    previous = ""
    for word in words:
        previous_words.append(previous)
        if word not in skipped:
            previous = word
    return previous_words


def _find_first(words: Sequence[str], wanted: Container[str]) -> int:
    """Return the index of the first word that is wanted, else the number of words."""
    for index, word in enumerate(words):
        if word in wanted:
            return index
    return len(words)


class _Reader:
    """A reader of the words of a sentence, from left to right.

    A sentence may have a hundred thousand words, so no step may look at all of them.
    """

    def __init__(self, words: Sequence[str]) -> None:
        """Prepare to read the lower-case words of a sentence."""
        self._words = words
        self._distinct_words = frozenset(words)
        # For each word the last word before it, without articles and the like. If it is a direction
        # (`to`, `from`), it belongs to the word: `copy to x` is not `copy from x`.
        self._words_before = _list_previous_words(words, FUNCTION_WORDS)
        # For each word the last word before it, without `not`, `always` and the like. If it is a
        # form of `be`, the word is said of the subject: `is not private`.
        self._verbs_before = _list_previous_words(words, NEGATORS | {"always", "ever"})

        # What the words that were read say so far. A pivot is a word such as `before` or `over`
        # that puts two things in an order; the subject has a part before and a part after it.
        self._pivot = ""
        self._stems_before_pivot: deque[str] = deque()
        self._stems_after_pivot: deque[str] = deque()
        self._antonym_sides: dict[str, int] = {}
        self._amounts: list[str] = []
        self._is_negated = False
        self._content_word_count = 0

    @cached_property
    def _first_quantity_index(self) -> int:
        """The index of the first quantity such as `timeout`, else the number of words."""
        return _find_first([stem(word) for word in self._words], QUANTITY_STEMS)

    @cached_property
    def _first_version_verb_index(self) -> int:
        """The index of the first word that may come before a version, else the number of words."""
        return _find_first(self._words, VERSION_VERBS)

    def read_word(self, index: int) -> None:
        """Read a word that is in no condition.

        It is a negation, a pivot (a word such as `before` that puts two things in an order), an
        amount, an antonym, or else part of the subject.

        Args:
            index: the index of the word.
        """
        word = self._words[index]
        if word in NEGATORS:
            self._is_negated = not self._is_negated
        elif self._is_pivot(word):
            self._pivot = word
        elif not self._read_amount(index) and not self._read_antonym(index):
            self._read_content(index)

    def read_condition(self, word: str) -> None:
        """Read a word of a condition (`when the flag is set`), which is part of the subject."""
        if word in NEGATORS or word not in WORDS_WITHOUT_CONTENT | {"if", "when", "whenever"}:
            self._add_stem(f"?{stem(word)}")

    def has_content(self, min_words: int) -> bool:
        """Return whether enough words were read, and one of them is no amount."""
        if self._content_word_count < min_words:
            return False
        return any(word != "#" for word in (*self._stems_before_pivot, *self._stems_after_pivot))

    def build_claim(self) -> Claim:
        """Return the claim of all words that were read.

        A sentence with a pivot, such as `lint before tests`, states an order: `lint` is first and
        `tests` second. With `after` it is the reverse. Words that both parts have do not count.
        """
        claim = Claim(
            stems=(*self._stems_before_pivot, *self._stems_after_pivot),
            is_negated=self._is_negated,
            antonyms=tuple(sorted(self._antonym_sides.items())),
            amounts=tuple(self._amounts),
        )
        if not self._pivot:
            return claim
        first = frozenset(self._stems_before_pivot)
        second = frozenset(self._stems_after_pivot)
        if self._pivot == "after":
            first, second = second, first
        return claim._replace(
            # Sorted, so that the reverse order is a claim about the same subject.
            stems=tuple(sorted(claim.stems)),
            order=PIVOTS[self._pivot],
            first=first - second,
            second=second - first,
        )

    def _add_stem(self, new_stem: str, *, in_front: bool = False) -> None:
        """Add a stem to the part of the subject before or after the pivot, a word like `before`.

        It counts as a word with content: a sentence that has too few of them makes no claim.
        """
        stems = self._stems_after_pivot if self._pivot else self._stems_before_pivot
        if in_front:
            stems.appendleft(new_stem)
        else:
            stems.append(new_stem)
        self._content_word_count += 1

    def _is_pivot(self, word: str) -> bool:
        """Return whether a word is the first in the sentence that puts two things in an order.

        `over` does so only together with a verb of preference: `prefer tabs over spaces`.
        """
        if self._pivot or word not in PIVOTS:
            return False
        return word != "over" or bool(PREFERENCE_VERBS & self._distinct_words)

    def _read_content(self, index: int) -> None:
        """Read a word that is neither negation, pivot, amount nor antonym; add it to the subject.

        Verbs without a meaning of their own, such as `use`, count as words, but are not part of the
        subject. A participle that is said of the subject comes first, so that `keys are validated`
        and `validated keys` have one subject. After a direction such as `to`, the stem gets it as a
        prefix: `to:disk`.
        """
        word = self._words[index]
        word_before = self._words_before[index]
        is_unit = word in UNITS and self._word_at(index - 1)[:1].isdigit()
        is_participle = word in PARTICIPLES or word.endswith("ed")
        if word in EMPTY_VERBS:
            self._content_word_count += 1
        elif is_unit:
            self._add_stem(UNITS[word])
        elif is_participle and self._is_predicate(index):
            self._add_stem(stem(PARTICIPLES.get(word, word)), in_front=True)
        elif word in WORDS_WITHOUT_CONTENT:
            return
        elif word_before in DIRECTIONS:
            self._add_stem(f"{word_before}:{stem(word)}")
        else:
            self._add_stem(stem(word))

    def _read_amount(self, index: int) -> bool:
        """Read a number that is the value of a quantity, not part of a name as in `step 2`.

        Returns:
            Whether the word was such a number.
        """
        word = self._words[index]
        if word.isalpha():
            return False
        match = NUMBER.fullmatch(word)
        if match is None or not self._is_amount(index, unit=match["unit"]):
            return False
        self._add_stem("#")
        self._amounts.append(match["value"])
        if match["unit"]:
            self._add_stem(UNITS[match["unit"]])
        return True

    def _is_amount(self, index: int, unit: str) -> bool:
        """Return whether a number is an amount: `30 seconds`, `timeout 30`, `use python 3.12`.

        Args:
            index: the index of the number.
            unit: the letters that are written together with it, or "".
        """
        before = self._word_at(index - 1)
        after = self._word_at(index + 1)
        if before in NUMBERED_NAMES or (unit and unit not in UNITS):
            return False
        is_beside_quantity = not QUANTITY_STEMS.isdisjoint((stem(before), stem(after)))
        if unit or after in UNITS or is_beside_quantity:
            return True
        if before in QUANTITY_LINKS:
            # A quantity came before: `limit retries to 3`.
            return self._first_quantity_index < index
        is_name = before.isalpha() and before not in WORDS_WITHOUT_CONTENT
        return is_name and self._first_version_verb_index < index - 1

    def _read_antonym(self, index: int) -> bool:
        """Read a word of an antonym pair, such as `disable` of `enable` and `disable`.

        For most pairs the claim keeps which of the two words (sides 0 and 1) was used. In pairs
        such as `run` and `skip`, the second word is a negation: `skip X` is read as `never X`.

        Returns:
            Whether the word was read. Words that do not say something about the subject in this
            place, such as those in a name, are not.
        """
        antonym = ANTONYMS.get(self._words[index])
        if antonym is None or not self._has_role(antonym.role, index):
            return False
        self._content_word_count += 1
        is_negation = antonym.pair in NEGATING_PAIRS
        if not is_negation:
            self._antonym_sides[antonym.pair] = antonym.side
        elif antonym.side == 1:
            self._is_negated = not self._is_negated
        return True

    def _has_role(self, role: Role, index: int) -> bool:
        """Return whether a word of an antonym pair has its role, and is no part of a name."""
        if role == "verb":
            return self._is_main_verb(index)
        if role == "anywhere" or self._is_predicate(index):
            return True
        return role == "choice" and self._is_chosen(index)

    def _is_main_verb(self, index: int) -> bool:
        """Return whether a word begins the statement, follows a modal verb or ends in `s`."""
        has_subject = self._stems_before_pivot or self._stems_after_pivot
        if not has_subject:
            # `exclude patterns are …` is about patterns.
            return BE.isdisjoint(self._words[index + 1 : index + 4])
        return self._words[index].endswith("s") or self._word_at(index - 1) in MODALS | NEGATORS

    def _is_chosen(self, index: int) -> bool:
        """Return whether `use`, `prefer` or the like comes at most `CHOICE_DISTANCE` words before.

        A preposition between them means that another thing is chosen.
        """
        for word in reversed(self._words[max(0, index - CHOICE_DISTANCE) : index]):
            if word in PREPOSITIONS:
                return False
            if word in CHOICE_VERBS:
                return True
        return False

    def _is_predicate(self, index: int) -> bool:
        """Return whether a word is said of the subject: `is private`, `keep the field private`."""
        if self._verbs_before[index] in BE:
            return True
        is_last = index + 1 == len(self._words)
        return is_last and not self._distinct_words.isdisjoint(("keep", "make", "leave"))

    def _word_at(self, index: int) -> str:
        return self._words[index] if 0 <= index < len(self._words) else ""


# -- the sentences of an entry

NOT_PROSE = Regex(r"^[ \t]*(?:[>|#]|[-*+•] |\d+[.)] ).*$", re.MULTILINE)
"""Quotations, tables, headings and list items, which are often examples."""

BLANKS = Regex(r"[^\S\n]{2,}|[^\S\n ]")
"""Blanks but a single space; they become one, because runs would make later patterns slow."""

BLANK_LINES = Regex(r"\n\s*\n")
"""Runs of blank lines; they are shortened first for the same reason."""

SENTENCE_END = Regex(r"(?<=[.!?])\s+|\s*;\s+|\s+(?:[–—]|--?)\s+|\n[ \t]*\n")  # noqa: RUF001 - dashes

NO_CLAIM_START = Regex(
    r"\s*(?:[\"“]"  # a quotation
    r"|(?:bad|good|wrong|right|correct|incorrect|example|do|don't|before|after|old|new)\s*:"
    r"|(?:it|this|that|these|those|they|he|she|such|here|there|both|otherwise|then|no)\b)",
    re.IGNORECASE,
)
"""The beginning of a sentence that makes no claim which is understood alone."""

NO_CLAIM_PHRASES = (
    *("bump", "bumps", "bumped"),  # something that was done once
    *("e.g", "for example", "for instance"),
    *("was", "were", "wasn't", "weren't", "did", "didn't", "had", "hadn't", "used to", "took"),
    *("broke", "measured", "tried", "previously", "formerly", "originally", "earlier"),
    *("not only", "not just", "not necessarily", "not always", "not merely", "not yet"),
    *("no more", "no fewer", "no less", "no later"),
)
NO_CLAIM = Regex(rf"\b(?:{'|'.join(map(re.escape, NO_CLAIM_PHRASES))})\b", re.IGNORECASE)
"""A phrase of a sentence that is no claim, for example because it is about the past."""

TEXT_IN_BRACKETS = Regex(r"\([^()]*\)|\[[^\[\]]*\]|[*`\"“”]|(?<=\d),(?=\d{3}\b)")
"""Text in brackets, marks of emphasis and quotation, and commas in numbers."""

REASON_PHRASES = (
    *("because", "since", "so that", "due to", "otherwise", "or else", "in order to"),
    *("as it", "as they", "as this", "as that", "as we", "as there"),
    *("to avoid", "to prevent", "to ensure", "to guarantee", "to make sure", "to keep"),
)
REASON = Regex(rf"[,:]?\s*\b(?:{'|'.join(REASON_PHRASES)})\b.*", re.IGNORECASE | re.DOTALL)
"""A reason. It is cut off, because opposite statements have different reasons."""

APOSTROPHE = Regex("[\u2019`]")
REWORDINGS = (
    (Regex(r"(?<=\d)\s+(?=%)"), ""),
    (Regex(r"\bstop using\b|\brefrain from\b", re.IGNORECASE), "avoid"),
    (Regex(r"\b(?:do|does) not need to\b|\bno need to\b", re.IGNORECASE), "not"),
    (Regex(r"\b(?:instead of|rather than)\b|,\s*not\b(?! to\b)", re.IGNORECASE), " instead"),
    (Regex(r"\bturn(ed|s)? (on|off)\b", re.IGNORECASE), r"turn\1-\2"),
)
TOKEN = Regex(r",|#?[^\W_]+(?:[._/:\-']?[^\W_]+|_+[^\W_]+)*_*[%#+]*")

MIN_WORDS = 2
"""Words with content that a title must have to make a claim."""

MIN_BODY_WORDS = 3
"""The same for a sentence of the body, which depends on the sentences around it."""


def parse_entry_claims(entry: Entry) -> frozenset[Claim]:
    """Return the claims of an entry: those of its title and of each sentence of its body."""
    prose = NOT_PROSE.sub("\n", "\n".join(unfenced_lines(entry.body.splitlines())))
    body = BLANK_LINES.sub("\n\n", BLANKS.sub(" ", prose))
    title = BLANKS.sub(" ", entry.title)
    claims = [parse_claim(sentence) for sentence in SENTENCE_END.split(title)]
    claims += [parse_claim(sentence, MIN_BODY_WORDS) for sentence in SENTENCE_END.split(body)]
    return frozenset(claim for claim in claims if claim is not None)


def parse_claim(sentence: str, min_words: int = MIN_WORDS) -> Claim | None:
    """Return the claim that a sentence makes; None if it makes no claim.

    A claim is a subject and what the sentence says about it: whether it denies, with which words
    of an antonym pair, with which amounts. Opposite sentences have claims with the same subject.
    Before the words are read, variants of an expression are made equal, and text in brackets and
    reasons are removed.

    Args:
        sentence: the sentence.
        min_words: how many words with content a claim has at least.
    """
    sentence = spell_negations(APOSTROPHE.sub("'", sentence))
    for pattern, replacement in REWORDINGS:
        sentence = pattern.sub(replacement, sentence)
    if _makes_no_claim(sentence):
        return None

    statement = TEXT_IN_BRACKETS.sub(" ", sentence)
    if contains_any(REASON_PHRASES, statement):
        statement = REASON.sub("", statement)
    phrases = list(_split_phrases(statement))
    # `In CI, run the tests` and `run the tests in CI` are the same claim, so an opening phrase that
    # says when or where is moved to the end.
    opening_phrase = phrases[0]
    if len(phrases) > 1 and opening_phrase:
        first_token = opening_phrase[0]
        if first_token.is_in_condition or first_token.word in PREPOSITIONS:
            phrases = [*phrases[1:], opening_phrase]
    return read_claim([token for phrase in phrases for token in phrase], min_words)


def _makes_no_claim(sentence: str) -> bool:
    """Return whether a sentence is a question, cut off, a quotation, an example or about the past.

    So is one about `it` or `this`, which is not understood alone.
    """
    if sentence.rstrip().endswith(("?", "…")) or NO_CLAIM_START.match(sentence):
        return True
    return contains_any(NO_CLAIM_PHRASES, sentence) and NO_CLAIM.search(sentence) is not None


def contains_any(phrases: Iterable[str], text: str) -> bool:
    """Return whether a text contains one of some phrases, in any case, or within other words.

    Most sentences contain none, and this is several times faster than to search for a pattern.
    """
    lowered = lower_case(text)
    return any(phrase in lowered for phrase in phrases)


def _split_phrases(text: str) -> Iterator[list[Token]]:
    """Yield the words between commas.

    A word such as `when` and all words after it, up to the next comma, are in a condition.
    """
    phrase: list[Token] = []
    is_in_condition = False
    previous_word = ""
    for match in TOKEN.finditer(text):
        word = match.group().lower()
        if word == ",":
            yield phrase
            phrase = []
            is_in_condition = False
            continue
        is_complement = word == "that" and previous_word in WORDS_BEFORE_THAT
        if word in CONDITION_WORDS and not is_complement:
            is_in_condition = True
        phrase.append(Token(SPELLED_NUMBERS.get(word, word), is_in_condition))
        previous_word = word
    yield phrase
