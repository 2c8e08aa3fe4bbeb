"""Split a text into clauses, and find the stance of each: for or against something.

The stance is whether a clause forbids something, which side of a pair of opposites it names
(`enable`, `disable`), and which of two things comes first. stance.toml lists, by language, the
words that express a stance. Tables of several languages may match one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from memory_ci.regex import Regex
from memory_ci.text import STOP_WORDS, spell_negations, stem, words

TABLES = Path(__file__).with_name("stance.toml")
MAX_LENGTH = 10_000
"""Number of characters of a text that are read."""

UNSPACED = ("zh", "ja")
SCRIPTS = {
    "ja": Regex("[\u3040-\u30ff]"),
    "zh": Regex("[\u3400-\u9fff]"),
    "ru": Regex("[\u0400-\u04ff]"),
}
ORDER = ("before", "after")
EXCLUDING = ("instead", "without", "instead_behind", "without_behind")
THEN = ("then", "then_behind")
# fmt: off
ROLES = (
    "reminder", "past", *EXCLUDING, "condition", *ORDER, "never", "always", "split", "prefer",
    "use", "first", *THEN, "over", "light",
)
# fmt: on
"""Roles in the order in which they are tried at one place of a text."""

PAIRS_AFTER = "past"
"""The role after which pairs of opposites are tried."""

QUESTION = ("?", "\uff1f")
BREAK = Regex(
    "[.!:](?=\\s|$)|[;\u3002\uff01\uff1b\uff0c\u3001\n]|,\\s|\\s[\u2014\u2013-]+\\s|[?\uff1f]"
)


class StanceWords(msgspec.Struct, frozen=True):
    """The table of one language: regular expressions by their effect on a clause."""

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
    """The role of a word of the tables.

    Attributes:
        role: the effect of the word on a clause.
        pair: the number of its pair of opposites, "" if it is of none.
        side: its side of the pair, 0 or 1.
        is_undo: whether its side opposes any use of a thing.
    """

    role: str
    pair: str = ""
    side: int = 0
    is_undo: bool = False


class Clause(NamedTuple):
    """The words of a clause and the stance on them.

    Attributes:
        words: the stems of the words that carry meaning.
        is_denied: whether the clause forbids.
        head: the first word after an English negation, "" without one.
        opening: the first word of the clause.
        is_order: whether the clause tells somebody to do something.
        condition: words like `if` and `only`.
        sides: the side of each pair of opposites that is named, None if both are.
        undone: the pairs whose second side, which is named, opposes any use.
        pivot: `before` or `after`, "" without one.
        first: the words in front of the pivot.
        second: the words behind it.
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


def read_clauses(text: str) -> list[Clause]:
    """Return the clauses of a text in order, without its questions."""
    start = text[:MAX_LENGTH].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    clauses: list[Clause] = []
    for pieces in _join_clauses(spell_negations(start)):
        clauses += [clause for clause in _read_part(pieces) if clause.words]
    return clauses


# -- the tables of words


@cache
def load_tables() -> Mapping[str, StanceWords]:
    """Return the tables of stance.toml by language."""
    import tomllib  # 2 ms that most commands spare

    return msgspec.convert(
        tomllib.loads(TABLES.read_text(encoding="utf-8")), dict[str, StanceWords]
    )


def find_language(text: str) -> str:
    """Return the language of a text, a key of `load_tables`.

    The script decides if only one language uses it, else the language whose marks (words of its
    table) cover most of the text.
    """
    for language, letters in SCRIPTS.items():
        if letters.search(text):
            return language
    spaced = [language for language in load_tables() if language not in SCRIPTS]
    return max(spaced, key=lambda language: _count_marked(text, language))


def _count_marked(text: str, language: str) -> int:
    """Return the number of characters of a text that are marks of a language."""
    return sum(len(match[0]) for match in _compile_marks(language).pattern.finditer(text))


class MarkPattern(NamedTuple):
    """One pattern for all words of a table, and the mark of each of its groups."""

    pattern: re.Pattern[str]
    groups: Mapping[str, StanceMark]


@cache
def _compile_marks(language: str) -> MarkPattern:
    """Compile the words of a language's table to one pattern, with a group for each of them."""
    table = load_tables()[language]
    marked_words: list[tuple[str, StanceMark]] = []
    for role in ROLES:
        marked_words += [(word, StanceMark(role)) for word in getattr(table, role)]
        if role == PAIRS_AFTER:
            marked_words += _list_pairs(table)

    patterns: list[str] = []
    groups: dict[str, StanceMark] = {}
    for number, (word, mark) in enumerate(marked_words):
        group = f"m{number}"
        patterns.append(f"(?P<{group}>{_whole_word(language, word)})")
        groups[group] = mark
    return MarkPattern(re.compile("|".join(patterns), re.IGNORECASE), groups)


def _list_pairs(table: StanceWords) -> Iterator[tuple[str, StanceMark]]:
    """Yield the words of pairs of opposites; each two groups of the table are the sides of one."""
    for number, group in enumerate(table.pairs):
        pair, side = divmod(number, 2)
        is_undo = not set(group).isdisjoint(table.undo)
        for word in group:
            yield word, StanceMark("pair", str(pair), side, is_undo)


def _whole_word(language: str, pattern: str) -> str:
    """Return a pattern that matches a pattern of a table as whole words.

    In a script without blanks it matches anywhere. A pattern that ends in an apostrophe is joined
    with the next word.
    """
    if language in UNSPACED:
        return f"(?:{pattern})"
    end = "" if pattern.endswith("'") else r"(?![\w/-]|\.\w)"
    return rf"(?<![\w/.-])(?:{pattern}){end}"


class Piece(NamedTuple):
    """A run of words (`mark` is None) or one mark of a text."""

    text: str
    mark: StanceMark | None = None

    @property
    def role(self) -> str:
        """The role of the mark, "" for words."""
        return self.mark.role if self.mark else ""


def _list_pieces(text: str, language: str) -> list[Piece]:
    """Return a part of a text as its marks and the words between them, in order."""
    pattern, groups = _compile_marks(language)
    pieces: list[Piece] = []
    end = 0
    for match in pattern.finditer(text):
        pieces.append(Piece(text[end : match.start()]))
        pieces.append(Piece(match[0], groups[match.lastgroup or ""]))
        end = match.end()
    pieces.append(Piece(text[end:]))
    return [piece for piece in pieces if piece.mark or piece.text.strip()]


def _join_clauses(text: str) -> Iterator[list[Piece]]:
    """Yield the pieces of each clause of a text, subordinate clauses joined with the next clause.

    `Before you merge, run the tests` is one clause, and so is `First build, then test`.
    """
    subordinate: list[Piece] = []  # a clause whose main clause is still to come
    for pieces in _split_clauses(text):
        if _begins_with(subordinate, ("first",)) and not _begins_with(pieces, THEN):
            yield subordinate
            subordinate = []
        if subordinate and pieces:
            yield _join_subordinate(subordinate, pieces)
            subordinate = []
        elif _is_subordinate(pieces):
            subordinate = pieces
        else:
            yield pieces
    if subordinate:
        yield subordinate


def _split_clauses(text: str) -> Iterator[list[Piece]]:
    """Yield the pieces between two ends of clauses or marks that split a clause."""
    language = find_language(text)
    for part in _split(text):
        yield from _divide(_list_pieces(part, language), "split")


def _is_subordinate(pieces: Sequence[Piece]) -> bool:
    """Return whether a clause only says when, under which condition or what comes first."""
    return _begins_with(pieces, (*ORDER, "condition", "first")) or _ends_with(pieces, ORDER)


def _join_subordinate(subordinate: Sequence[Piece], main: Sequence[Piece]) -> list[Piece]:
    """Return one clause in the order of `A before B`, or with its condition first."""
    if _begins_with(subordinate, ORDER):
        return [*main, *subordinate]
    return [*subordinate, *main]


def _split(text: str) -> Iterator[str]:
    """Yield the parts of a text between two ends of clauses, without questions."""
    start = 0
    for end in BREAK.finditer(text):
        if end[0] not in QUESTION:
            yield text[start : end.start()]
        start = end.end()
    yield text[start:]


def _divide(pieces: Sequence[Piece], role: str) -> list[list[Piece]]:
    """Split pieces at the marks of a role, which are left out, as `str.split` does."""
    runs: list[list[Piece]] = [[]]
    for piece in pieces:
        if piece.role == role:
            runs.append([])
        else:
            runs[-1].append(piece)
    return runs


def _begins_with(pieces: Sequence[Piece], roles: Sequence[str]) -> bool:
    return bool(pieces) and pieces[0].role in roles


def _ends_with(pieces: Sequence[Piece], roles: Sequence[str]) -> bool:
    return bool(pieces) and pieces[-1].role in roles


def _read_part(part: Sequence[Piece]) -> Iterator[Clause]:
    """Yield the clause that some pieces make, and one for what `instead of` or `without` excludes.

    Nothing is yielded for a part about the past.
    """
    pieces = _resolve(part)
    roles = [piece.role for piece in pieces]
    if "past" in roles:
        return
    is_denied = "never" in roles and "reminder" not in roles
    excluding_roles = [role for role in roles if role in EXCLUDING]
    if not excluding_roles:
        yield _read_clause(pieces, is_denied=is_denied)
        return

    excluding = excluding_roles[0]
    main, *runs = _divide(pieces, excluding)
    excluded = [piece for run in runs for piece in run]
    if excluding.endswith("_behind"):
        main, excluded = excluded, main
    # "Never commit without tests" is an order to test.
    is_order_to_do = is_denied and excluding.startswith("without")
    if not is_order_to_do:
        yield _read_clause(main, is_denied=is_denied)
    if main:
        yield _read_clause(excluded, is_denied=not is_denied, is_order=True)


def _resolve(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces with the final roles of words that only have a meaning as a pair.

    The pairs are `prefer ... over` and `first ... then`. `over` excludes the words after it only if
    `prefer` and a preferred thing precede it: `we prefer to use pnpm` excludes nothing.
    """
    is_sequence = any(piece.role == "first" for piece in pieces)
    new_roles = {
        "prefer": "use",
        "first": "light",
        "then": "before" if is_sequence else "light",
        "then_behind": "after" if is_sequence else "light",
    }
    resolved: list[Piece] = []
    has_prefer = False
    has_preferred = False
    for piece in pieces:
        role = new_roles.get(piece.role, piece.role)
        if piece.role == "over":
            role = "instead" if has_preferred else "light"
        elif piece.role == "prefer":
            has_prefer = True
            # Before "preferred" comes what is preferred.
            has_preferred = piece.text.endswith("ed")
        elif not piece.role:
            has_preferred = has_preferred or has_prefer
        if role != piece.role:
            piece = piece._replace(mark=StanceMark(role))
        resolved.append(piece)
    return resolved


def _read_clause(pieces: Sequence[Piece], *, is_denied: bool, is_order: bool = False) -> Clause:
    """Return the clause of some pieces: its words, and the stance that its marks take.

    Args:
        pieces: the marks and the words between them.
        is_denied: whether the clause forbids.
        is_order: whether it is an order, whatever its marks say.
    """
    marks = [piece.mark for piece in pieces if piece.mark]
    conditions = [piece.text.lower() for piece in pieces if piece.role == "condition"]
    weighty_pieces = [piece for piece in pieces if piece.role != "light"]
    clause = Clause(
        words=_collect_words(pieces),
        is_denied=is_denied,
        head=_find_head(pieces) if is_denied else "",
        opening=_find_opening(weighty_pieces),
        is_order=is_order or _is_order(marks, weighty_pieces),
        condition=" ".join(conditions),
        sides=_find_sides(marks),
        undone=frozenset(mark.pair for mark in marks if mark.is_undo),
    )
    pivots = [mark.role for mark in marks if mark.role in ORDER]
    if not pivots:
        return clause
    before, *behind = _divide(pieces, pivots[0])
    second = frozenset[str]().union(*(_collect_words(run) for run in behind))
    return clause._replace(pivot=pivots[0], first=_collect_words(before), second=second)


def _is_order(marks: Sequence[StanceMark], weighty_pieces: Sequence[Piece]) -> bool:
    """Return whether a clause has `always` or begins with `use`, `enable` or the like."""
    if any(mark.role in ("always", "reminder") for mark in marks):
        return True
    return _begins_with(weighty_pieces, ("use", "pair"))


def _find_sides(marks: Sequence[StanceMark]) -> dict[str, int | None]:
    """Return the side of each pair of opposites that is named, None if both are."""
    sides: dict[str, int | None] = {}
    for mark in marks:
        if not mark.pair:
            continue
        is_same = sides.get(mark.pair, mark.side) == mark.side
        sides[mark.pair] = mark.side if is_same else None
    return sides


def _find_opening(pieces: Sequence[Piece]) -> str:
    """Return the stem of the word with which an order begins, "" if a mark begins it.

    No order begins with a gerund: `using npm broke the lock file`.
    """
    text = pieces[0].text if pieces and pieces[0].mark is None else ""
    first_word = next(words(text), "")
    if first_word.isascii() and first_word.endswith("ing"):
        return ""
    return next(_content_stems(first_word), "")


def _find_head(pieces: Sequence[Piece]) -> str:
    """Return the stem of the first word behind a negation, which it forbids.

    Returns:
        the stem of the word; "" if it has letters that English lacks.
    """
    is_behind = False
    for piece in pieces:
        is_behind = is_behind or piece.role == "never"
        if not is_behind or piece.mark is not None:
            continue
        word = next(_content_stems(piece.text), "")
        if word:
            return word if word.isascii() else ""
    return ""


def _collect_words(pieces: Iterable[Piece]) -> frozenset[str]:
    """Return the stems of the words that carry meaning, without marks."""
    stems: set[str] = set()
    for piece in pieces:
        if piece.mark is None:
            stems.update(_content_stems(piece.text))
    return frozenset(stems)


def _content_stems(text: str) -> Iterator[str]:
    """Yield the stems of the words of a text that carry meaning, the parts of `a-b` one by one."""
    for word in words(text.replace("-", " ")):
        if word not in STOP_WORDS and (len(word) > 1 or not word.isascii()):
            yield stem(word)
