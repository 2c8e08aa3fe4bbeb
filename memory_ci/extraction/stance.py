"""Stance: whether a statement says the opposite of words that are quoted for it.

A clause is read as its words and the stance on them: whether it forbids, which side of pairs of opposites it names, and
what it puts before what. Two clauses are compared where their words are the same for the most part. An odd number of
differences makes them opposites: `never disable X` and `enable X` differ twice, and agree. The words of each language
stand in stance.toml. All tables are read together, so a text may mix languages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from memory_ci.text import STOP_WORDS, stem, words

TABLES = Path(__file__).with_name("stance.toml")
LEAST_SHARED = 0.75  # The share of the words of the shorter clause that the other must have.
MAX_OTHER_WORDS = 3  # Words of a clause that may be compared with a clause of one word.
MIN_ROOT = 3  # Characters of a verb without its endings.
MIN_PREFIX, PREFIX_SHARE = (
    4,
    0.7,
)  # Two forms of a word begin alike: in characters, and as a share of the longer.
MAX_LENGTH = 10_000  # Characters of a text that are read.
UNSPACED = ("zh", "ja")
SCRIPTS = {
    "ja": re.compile("[\u3040-\u30ff]"),
    "zh": re.compile("[\u3400-\u9fff]"),
    "ru": re.compile("[\u0400-\u04ff]"),
}
ORDER = ("before", "after")
EXCLUDING = ("instead", "without", "instead_behind", "without_behind")
THEN = ("then", "then_behind")
# Roles in the order in which they are looked for at one place of a text.
ROLES = (
    "reminder", "past", *EXCLUDING, "condition", *ORDER, "never", "always", "split", "prefer", "use", "first", *THEN,
    "over", "light",
)  # fmt: skip
PAIRS_AFTER = "past"  # Pairs of opposites are looked for behind this role.
QUESTION = ("?", "\uff1f")
BREAK = re.compile(
    "[.!:](?=\\s|$)|[;\u3002\uff01\uff1b\uff0c\u3001\n]|,\\s|\\s[\u2014\u2013-]+\\s|[?\uff1f]"
)


class StanceWords(msgspec.Struct, frozen=True):
    """The table of one language: regular expressions by what they do to a clause."""

    never: tuple[str, ...]
    always: tuple[str, ...]
    reminder: tuple[str, ...]
    instead: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    instead_behind: tuple[str, ...] = ()
    without_behind: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    condition: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    then_behind: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    light: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    pairs: tuple[tuple[str, ...], ...] = ()
    undo: tuple[str, ...] = ()


class StanceMark(NamedTuple):
    """A word of the tables in a text: what it does, and for a pair of opposites which pair and side."""

    role: str
    pair: str = ""
    side: int = 0
    is_undo: bool = False


class Clause(NamedTuple):
    """The words of a clause and the stance on them.

    `head` is the first word behind an English negation, "" without one. `opening` is the first word of the clause.
    `condition` has words like `if` and `only`. `is_order` is true if the clause tells somebody to do something. `sides`
    has the side of each pair of opposites that is named, None if both are; `undone` are the pairs whose second side
    opposes any use. `first` and `second` are the words around `before` or `after`.
    """

    words: frozenset[str]
    is_denied: bool = False
    head: str = ""
    opening: str = ""
    is_order: bool = False
    condition: str = ""
    sides: Mapping[str, int | None] = {}
    undone: frozenset[str] = frozenset()
    pivot: str = ""
    first: frozenset[str] = frozenset()
    second: frozenset[str] = frozenset()


def is_opposite(statement: str, quotes: Iterable[str]) -> bool:
    """Return whether a statement says the opposite of the quotes.

    A clause that agrees with a part of the statement outweighs one that opposes a part of the same words.
    """
    quoted = [clause for quote in quotes for clause in read_clauses(quote)]
    return any(_is_opposed(clause, quoted) for clause in read_clauses(statement))


def read_clauses(text: str) -> list[Clause]:
    """Return the clauses of a text in order, without its questions."""
    clauses: list[Clause] = []
    for pieces in _list_parts(text[:MAX_LENGTH].replace("\u2019", "'")):
        clauses += [clause for clause in _read_part(pieces) if clause.words]
    return clauses


def _is_opposed(claim: Clause, quoted: Sequence[Clause]) -> bool:
    against: list[frozenset[str]] = []
    agreeing: list[frozenset[str]] = []
    for clause in quoted:
        shared = frozenset(word for word in claim.words if _matches(word, clause.words))
        if not _is_comparable(claim, clause, _count_shared(claim.words, clause.words)):
            continue
        if _differ_oddly(claim, clause):
            against.append(shared)
        else:
            agreeing.append(shared)
    return any(not any(_outweighs(other, shared) for other in agreeing) for shared in against)


def _outweighs(agreeing: frozenset[str], opposing: frozenset[str]) -> bool:
    return len(agreeing) >= len(opposing) and (not opposing or not agreeing.isdisjoint(opposing))


def _is_comparable(claim: Clause, quote: Clause, shared: int) -> bool:
    """Return whether two clauses speak of the same thing under the same conditions, and both take a stance."""
    smaller, larger = sorted((len(claim.words), len(quote.words)))
    if (
        not smaller
        or shared < LEAST_SHARED * smaller
        or (smaller == 1 and larger > MAX_OTHER_WORDS)
    ):
        return False
    if claim.condition != quote.condition:
        return False
    if claim.is_denied != quote.is_denied:
        denied, other = (claim, quote) if claim.is_denied else (quote, claim)
        if denied.head and not _matches(denied.head, other.words):
            return False
        # What a quote only tells may well be what the statement forbids.
        return not claim.is_denied or quote.is_order or _matches(quote.opening, claim.words)
    return True


def _differ_oddly(claim: Clause, quote: Clause) -> bool:
    differences = int(claim.is_denied != quote.is_denied)
    for pair in claim.sides.keys() | quote.sides.keys():
        differences += _differ_in(pair, claim, quote)
    if claim.pivot and quote.pivot:
        # The verb may stand on the same side of both orders, so the order with more words in common counts.
        straight = _count_shared(claim.first, quote.first) + _count_shared(
            claim.second, quote.second
        )
        crossing = (
            _count_shared(claim.first, quote.second),
            _count_shared(claim.second, quote.first),
        )
        is_swapped = all(crossing) and sum(crossing) > straight
        if straight or is_swapped:
            differences += (claim.pivot != quote.pivot) != is_swapped
    return differences % 2 == 1


def _differ_in(pair: str, claim: Clause, quote: Clause) -> bool:
    """Return whether two clauses name the two sides of a pair.

    To undo a thing is the opposite of any use of it, and not to undo it agrees with whatever else is done.
    """
    if pair in claim.sides and pair in quote.sides:
        sides = (claim.sides[pair], quote.sides[pair])
        return None not in sides and sides[0] != sides[1]
    undoing, other = (claim, quote) if pair in claim.sides else (quote, claim)
    is_about_use = other.is_denied or other.is_order or undoing.is_denied
    return pair in undoing.undone and not other.undone and is_about_use


# -- words of two clauses


def _count_shared(left: frozenset[str], right: frozenset[str]) -> int:
    smaller, larger = sorted((left, right), key=len)
    return sum(_matches(word, larger) for word in smaller)


def _matches(word: str, others: Iterable[str]) -> bool:
    """Return whether one of the words is the same word, perhaps in another form."""
    return word in others or any(_is_same_word(word, other) for other in others)


def _is_same_word(word: str, other: str) -> bool:
    return _begin_alike(word, other) or _is_participle(word, other) or _is_participle(other, word)


def _is_participle(word: str, other: str) -> bool:
    """Return whether a word is the German participle of another: `geloggt` of `logge`, `gebaut` of `baue`."""
    if not (word.startswith("ge") and word.endswith(("t", "n"))) or other.startswith("ge"):
        return False
    root = re.sub("(?:e?t|en)$", "", word.removeprefix("ge"))
    return len(root) >= MIN_ROOT and root == re.sub("(?:en|e?s?t|e)$", "", other)


def _begin_alike(word: str, other: str) -> bool:
    longer = max(len(word), len(other))
    least = max(MIN_PREFIX, PREFIX_SHARE * longer)
    if min(len(word), len(other)) < least:
        return False
    return word[: math.ceil(least)] == other[: math.ceil(least)]


# -- from a text to clauses


@cache
def load_tables() -> Mapping[str, StanceWords]:
    """Return the tables of stance.toml by language."""
    import tomllib  # 2 ms that most commands spare

    return msgspec.convert(
        tomllib.loads(TABLES.read_text(encoding="utf-8")), dict[str, StanceWords]
    )


def find_language(text: str) -> str:
    """Return the language whose marks cover most of a text; the script decides where it is of one language."""
    for language, letters in SCRIPTS.items():
        if letters.search(text):
            return language
    spaced = [language for language in load_tables() if language not in SCRIPTS]
    return max(
        spaced,
        key=lambda language: sum(
            len(found[0]) for found in _marks(language).pattern.finditer(text)
        ),
    )


class MarkPattern(NamedTuple):
    """One pattern for all words of a table, and the mark of each of its groups."""

    pattern: re.Pattern[str]
    groups: Mapping[str, StanceMark]


@cache
def _marks(language: str) -> MarkPattern:
    table = load_tables()[language]
    marked: list[tuple[str, StanceMark]] = []
    for role in ROLES:
        marked += [(word, StanceMark(role)) for word in getattr(table, role)]
        if role == PAIRS_AFTER:
            marked += _list_pairs(table)
    groups = {f"m{number}": mark for number, (_, mark) in enumerate(marked)}
    patterns = [
        f"(?P<m{number}>{_whole(language, word)})" for number, (word, _) in enumerate(marked)
    ]
    return MarkPattern(re.compile("|".join(patterns), re.IGNORECASE), groups)


def _list_pairs(table: StanceWords) -> Iterator[tuple[str, StanceMark]]:
    for number, group in enumerate(table.pairs):
        is_undo = not set(group).isdisjoint(table.undo)
        for word in group:
            yield word, StanceMark("pair", str(number // 2), number % 2, is_undo)


def _whole(language: str, pattern: str) -> str:
    """Return the pattern for whole words where the script has blanks between them; an apostrophe joins two words."""
    if language in UNSPACED:
        return f"(?:{pattern})"
    end = "" if pattern.endswith("'") else r"(?![\w/-]|\.\w)"
    return rf"(?<![\w/.-])(?:{pattern}){end}"


class Piece(NamedTuple):
    """A run of words (`mark` is None) or one mark of a text."""

    text: str
    mark: StanceMark | None = None


def _list_pieces(text: str, language: str) -> list[Piece]:
    pattern, groups = _marks(language)
    pieces: list[Piece] = []
    end = 0
    for found in pattern.finditer(text):
        pieces += [Piece(text[end : found.start()]), Piece(found[0], groups[found.lastgroup or ""])]
        end = found.end()
    pieces.append(Piece(text[end:]))
    return [piece for piece in pieces if piece.mark or piece.text.strip()]


def _list_parts(text: str) -> Iterator[list[Piece]]:
    """Yield the pieces of each clause. One that only says when or under which condition joins the clause behind it."""
    language = find_language(text)
    opening: list[Piece] = []
    for part in _split(text):
        for pieces in _divide(_list_pieces(part, language), "split"):
            if _begins_with(opening, ("first",)) and not _begins_with(pieces, THEN):
                yield opening
                opening = []
            if opening and pieces:
                yield [*pieces, *opening] if _begins_with(opening, ORDER) else [*opening, *pieces]
                opening = []
            elif _begins_with(pieces, (*ORDER, "condition", "first")) or _ends_with(pieces, ORDER):
                opening = pieces
            else:
                yield pieces
    if opening:
        yield opening


def _split(text: str) -> Iterator[str]:
    """Yield what stands between two ends of clauses, without questions."""
    start = 0
    for found in BREAK.finditer(text):
        if found[0] not in QUESTION:
            yield text[start : found.start()]
        start = found.end()
    yield text[start:]


def _divide(pieces: Sequence[Piece], role: str) -> list[list[Piece]]:
    """Return the runs of pieces between the marks of a role."""
    runs: list[list[Piece]] = [[]]
    for piece in pieces:
        if piece.mark and piece.mark.role == role:
            runs.append([])
        else:
            runs[-1].append(piece)
    return runs


def _begins_with(pieces: Sequence[Piece], roles: Sequence[str]) -> bool:
    return bool(pieces) and pieces[0].mark is not None and pieces[0].mark.role in roles


def _ends_with(pieces: Sequence[Piece], roles: Sequence[str]) -> bool:
    return bool(pieces) and pieces[-1].mark is not None and pieces[-1].mark.role in roles


def _read_part(pieces: Sequence[Piece]) -> Iterator[Clause]:
    """Yield the clause that pieces make; a second one for what `instead of` or `without` excludes in it."""
    pieces = _resolve(pieces)
    roles = [piece.mark.role for piece in pieces if piece.mark]
    if "past" in roles:
        return
    is_denied = "never" in roles and "reminder" not in roles
    excluding = next((role for role in roles if role in EXCLUDING), None)
    if excluding is None:
        yield _read_clause(pieces, is_denied=is_denied)
        return
    main, *others = _divide(pieces, excluding)
    excluded = [piece for other in others for piece in other]
    if excluding.endswith("_behind"):
        main, excluded = excluded, main
    if not (
        is_denied and excluding.startswith("without")
    ):  # never commit without tests: that is an order to test
        yield _read_clause(main, is_denied=is_denied)
    if main:
        yield _read_clause(excluded, is_denied=not is_denied, is_order=True)


def _resolve(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces with marks that two words make together: `prefer … over`, and `first … then`.

    Behind `prefer` must be what is preferred: `we prefer to use pnpm` excludes nothing.
    """
    roles = {piece.mark.role for piece in pieces if piece.mark}
    is_sequence = "first" in roles
    meanings = {
        "prefer": "use",
        "first": "light",
        "then": "before" if is_sequence else "light",
        "then_behind": "after" if is_sequence else "light",
    }
    resolved: list[Piece] = []
    has_prefer = has_preferred = False
    for piece in pieces:
        role = piece.mark.role if piece.mark else ""
        meaning = meanings.get(role, role)
        if role == "over":
            meaning = "instead" if has_preferred else "light"
        elif role == "prefer":
            has_prefer = True
            has_preferred = piece.text.endswith("ed")  # what is preferred comes before it
        elif not role:
            has_preferred = has_preferred or has_prefer
        resolved.append(piece if meaning == role else piece._replace(mark=StanceMark(meaning)))
    return resolved


def _read_clause(pieces: Sequence[Piece], *, is_denied: bool, is_order: bool = False) -> Clause:
    marks = [piece.mark for piece in pieces if piece.mark]
    content = [word for piece in pieces if piece.mark is None for word in _content(piece.text)]
    sides: dict[str, int | None] = {}
    for mark in marks:
        if mark.pair:
            sides[mark.pair] = mark.side if sides.get(mark.pair, mark.side) == mark.side else None
    pivot = next((mark.role for mark in marks if mark.role in ORDER), "")
    around = _divide(pieces, pivot) if pivot else []
    spoken = [piece for piece in pieces if piece.mark is None or piece.mark.role != "light"]
    is_ordered = any(mark.role in ("always", "reminder") for mark in marks) or _begins_with(
        spoken, ("use", "pair")
    )
    return Clause(
        words=frozenset(content),
        is_denied=is_denied,
        head=_find_head(pieces) if is_denied else "",
        opening=_find_opening(spoken),
        is_order=is_order or is_ordered,
        condition=" ".join(
            piece.text.lower() for piece in pieces if piece.mark and piece.mark.role == "condition"
        ),
        sides=sides,
        undone=frozenset(mark.pair for mark in marks if mark.is_undo),
        pivot=pivot,
        first=_content_of(around[:1]),
        second=_content_of(around[1:]),
    )


def _find_opening(spoken: Sequence[Piece]) -> str:
    """Return the word that an order begins with. A gerund begins none: `using npm broke the lock file`."""
    text = spoken[0].text if spoken and spoken[0].mark is None else ""
    first = next(words(text), "")
    is_gerund = first.isascii() and first.endswith("ing")
    return "" if is_gerund else next(_content(first), "")


def _find_head(pieces: Sequence[Piece]) -> str:
    """Return the first word behind a negation, what it forbids; "" where it has letters that English lacks."""
    is_behind = False
    for piece in pieces:
        is_behind = is_behind or (piece.mark is not None and piece.mark.role == "never")
        if is_behind and piece.mark is None and (word := next(_content(piece.text), "")):
            return word if word.isascii() else ""
    return ""


def _content_of(parts: Iterable[Sequence[Piece]]) -> frozenset[str]:
    return frozenset(
        word
        for part in parts
        for piece in part
        if piece.mark is None
        for word in _content(piece.text)
    )


def _content(text: str) -> Iterator[str]:
    for word in words(text.replace("-", " ")):
        if word not in STOP_WORDS and (len(word) > 1 or not word.isascii()):
            yield stem(word)
