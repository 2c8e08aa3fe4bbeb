"""Split a text into clauses, and find the stance of each: for or against something.

The stance is whether a clause forbids something, which side of a pair of opposites it names
(`enable`, `disable`), and which of two things comes first. stance.toml lists, by language, the
words that express a stance. Tables of several languages may match one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from memory_ci.regex import Regex
from memory_ci.text import STOP_WORDS, spell_negations, stem, words

TABLES = Path(__file__).with_name("stance.toml")
MAX_LENGTH = 10_000
"""Number of characters of a text that are read."""

MAX_READ_TEXTS = 2_000
"""Number of texts whose clauses are cached; those of a long text take some kilobytes."""

LANGUAGES_WITHOUT_BLANKS = ("zh", "ja")
LETTERS_BY_LANGUAGE = {
    "ja": Regex("[\u3040-\u30ff]"),
    "zh": Regex("[\u3400-\u9fff]"),
    "ru": Regex("[\u0400-\u04ff]"),
}
ORDER_ROLES = ("before", "after")
EXCLUDING_ROLES = ("instead", "without", "instead_behind", "without_behind")
THEN_ROLES = ("then", "then_behind")
# fmt: off
ROLES = (
    "reminder", "past", *EXCLUDING_ROLES, "condition", *ORDER_ROLES, "never", "always", "split",
    "prefer", "use", "first", *THEN_ROLES, "over", "light",
)
# fmt: on
"""What a word of the tables does to its clause, in the order in which it is tried at one place.

- `never` forbids, `always` orders; `reminder` is a negation that orders (`don't forget to`).
- `past` tells what happened: the clause takes no stance.
- `without` and `instead` exclude what follows, with `_behind` what comes before them.
- `before` and `after` order two things; so do `first` and `then` together.
- `prefer` and `over` together exclude what follows `over`.
- `use` is a verb that orders and says no more. `light` words say nothing (`please`, `the`).
- `condition` begins a condition (`if`), `split` another clause (`because`).
"""

ROLE_BEFORE_PAIRS = "past"
"""The role after which words of pairs of opposites (`enable`, `disable`) are tried."""

QUESTION_MARKS = ("?", "\uff1f")
CLAUSE_BREAK = Regex(
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
    """A mark, a word of the tables that gives a clause its stance: what it does to the clause.

    Attributes:
        role: the effect of the word on a clause, one of ROLES or "pair".
        pair_id: the number of its pair of opposites (`enable`, `disable`), "" if it is of none.
        side: its side of the pair: 0 for the first (`enable`), 1 for the second (`disable`).
        undoes: whether it opposes any use of a thing, as `disable` opposes `use`.
    """

    role: str
    pair_id: str = ""
    side: int = 0
    undoes: bool = False


class Clause(NamedTuple):
    """The words of a clause and the stance on them.

    Attributes:
        words: the stems of the words that carry meaning.
        is_denied: whether the clause forbids.
        forbidden_word: the first word after an English negation, "" without one.
        opening: the first word of the clause.
        is_order: whether the clause tells somebody to do something.
        condition: words like `if` and `only`.
        side_by_pair: the side of each pair of opposites that is named, None if both are.
        undone_pairs: the pairs whose opposing side (`disable`) it names.
        order_role: `before` or `after` for a clause that orders two things, "" for others.
        left_words: the words in front of `before` or `after`.
        right_words: the words behind it.
    """

    words: frozenset[str]
    is_denied: bool = False
    forbidden_word: str = ""
    opening: str = ""
    is_order: bool = False
    condition: str = ""
    side_by_pair: Mapping[str, int | None] = {}
    undone_pairs: frozenset[str] = frozenset()
    order_role: str = ""
    left_words: frozenset[str] = frozenset()
    right_words: frozenset[str] = frozenset()


@lru_cache(maxsize=MAX_READ_TEXTS)
def read_clauses(text: str) -> tuple[Clause, ...]:
    """Return the clauses of a text in order, without its questions.

    The answers are cached: each request is compared with the turns of all sessions.
    """
    start = text[:MAX_LENGTH].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    clauses: list[Clause] = []
    for pieces in _join_clauses(spell_negations(start)):
        clauses += [clause for clause in _read_stances(pieces) if clause.words]
    return tuple(clauses)


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
    for language, letters in LETTERS_BY_LANGUAGE.items():
        if letters.search(text):
            return language
    spaced = [language for language in load_tables() if language not in LETTERS_BY_LANGUAGE]
    return max(spaced, key=lambda language: _count_marked_characters(text, language))


def _count_marked_characters(text: str, language: str) -> int:
    """Return the number of characters of a text that are marks (words of a language's table)."""
    return sum(len(match[0]) for match in _compile_marks(language).pattern.finditer(text))


class MarkPattern(NamedTuple):
    """One pattern for all words of a table, and the mark of each of its groups."""

    pattern: re.Pattern[str]
    mark_by_group: Mapping[str, StanceMark]


@cache
def _compile_marks(language: str) -> MarkPattern:
    """Compile the words of a language by which a clause takes a stance to one pattern.

    Each word (`never`, `instead of`, `before` …) gets a group, by which its role is found. Where
    two words match at one place, the earlier role of `ROLES` counts.
    """
    table = load_tables()[language]
    marked_words: list[tuple[str, StanceMark]] = []
    for role in ROLES:
        marked_words += [(word, StanceMark(role)) for word in getattr(table, role)]
        if role == ROLE_BEFORE_PAIRS:
            marked_words += _list_pair_words(table)

    patterns: list[str] = []
    mark_by_group: dict[str, StanceMark] = {}
    for number, (word, mark) in enumerate(marked_words):
        group = f"m{number}"
        patterns.append(f"(?P<{group}>{_whole_word(language, word)})")
        mark_by_group[group] = mark
    return MarkPattern(re.compile("|".join(patterns), re.IGNORECASE), mark_by_group)


def _list_pair_words(table: StanceWords) -> Iterator[tuple[str, StanceMark]]:
    """Yield the words of pairs of opposites; each two groups of the table are the sides of one."""
    for number, words_of_side in enumerate(table.pairs):
        pair_number, side = divmod(number, 2)
        undoes = not set(words_of_side).isdisjoint(table.undo)
        for word in words_of_side:
            yield word, StanceMark("pair", str(pair_number), side, undoes)


def _whole_word(language: str, pattern: str) -> str:
    """Return a pattern that matches a pattern of a table as whole words.

    In a script without blanks it matches anywhere. A pattern that ends in an apostrophe is joined
    with the next word.
    """
    if language in LANGUAGES_WITHOUT_BLANKS:
        return f"(?:{pattern})"
    end = "" if pattern.endswith("'") else r"(?![\w/-]|\.\w)"
    return rf"(?<![\w/.-])(?:{pattern}){end}"


class Piece(NamedTuple):
    """A part of a clause: one mark, or the words between two marks (then `mark` is None)."""

    text: str
    mark: StanceMark | None = None

    @property
    def role(self) -> str:
        """The role of the mark (`never`, `instead` …), "" for words."""
        return self.mark.role if self.mark else ""


def _split_at_marks(text: str, language: str) -> list[Piece]:
    """Split a part of a text into its marks and the words between them, in order.

    A mark is a word that gives a clause its stance, such as `never` or `instead of`.
    """
    pattern, mark_by_group = _compile_marks(language)
    pieces: list[Piece] = []
    end = 0
    for match in pattern.finditer(text):
        pieces.append(Piece(text[end : match.start()]))
        pieces.append(Piece(match[0], mark_by_group[match.lastgroup or ""]))
        end = match.end()
    pieces.append(Piece(text[end:]))
    return [piece for piece in pieces if piece.mark or piece.text.strip()]


def _join_clauses(text: str) -> Iterator[list[Piece]]:
    """Yield the pieces of each clause of a text, subordinate clauses joined with the next clause.

    `Before you merge, run the tests` is one clause, and so is `First build, then test`. A clause
    with `first` is joined only if the next one begins with `then`.
    """
    subordinate: list[Piece] = []  # a clause whose main clause is still to come
    for pieces in _split_clauses(text):
        if _begins_with(subordinate, ("first",)) and not _begins_with(pieces, THEN_ROLES):
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
    for part in _split_at_breaks(text):
        yield from _split_at_role(_split_at_marks(part, language), "split")


def _is_subordinate(pieces: Sequence[Piece]) -> bool:
    """Return whether a clause only says when, under which condition or what comes first."""
    return _begins_with(pieces, (*ORDER_ROLES, "condition", "first")) or _ends_with(
        pieces, ORDER_ROLES
    )


def _join_subordinate(subordinate: Sequence[Piece], main: Sequence[Piece]) -> list[Piece]:
    """Return one clause in the order of `A before B`, or with its condition first."""
    if _begins_with(subordinate, ORDER_ROLES):
        return [*main, *subordinate]
    return [*subordinate, *main]


def _split_at_breaks(text: str) -> Iterator[str]:
    """Yield the parts of a text between two ends of clauses, without questions.

    A question takes no stance, so the part that ends in a question mark is dropped. The last part,
    behind the last end, has no mark at all.
    """
    start = 0
    for clause_break in CLAUSE_BREAK.finditer(text):
        is_question = clause_break[0] in QUESTION_MARKS
        if not is_question:
            yield text[start : clause_break.start()]
        start = clause_break.end()
    yield text[start:]


def _split_at_role(pieces: Sequence[Piece], role: str) -> list[list[Piece]]:
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


def _read_stances(clause_pieces: Sequence[Piece]) -> Iterator[Clause]:
    """Yield the stance of a clause, and a second one on the words that it excludes.

    `Use pnpm instead of npm` gives `use pnpm`, and `npm` as forbidden. A clause that only tells
    what happened takes no stance, so nothing is yielded for it.

    Args:
        clause_pieces: the marks of the clause (words like `never` and `instead of`, each with a
            role), and the words between them.
    """
    pieces = _resolve_roles(clause_pieces)
    roles = [piece.role for piece in pieces]
    if "past" in roles:
        return
    is_reminder = "reminder" in roles  # "don't forget to" orders
    is_denied = "never" in roles and not is_reminder
    excluding_roles = [role for role in roles if role in EXCLUDING_ROLES]
    if not excluding_roles:
        yield _read_clause(pieces, is_denied=is_denied)
        return

    excluding_role = excluding_roles[0]
    before, *runs_after = _split_at_role(pieces, excluding_role)
    after = [piece for run in runs_after for piece in run]
    if excluding_role.endswith("_behind"):
        # In Japanese the words for `instead of` and `without` stand behind what they exclude.
        main, excluded = after, before
    else:
        main, excluded = before, after
    # "Never commit without tests" does not forbid to commit. It is an order to test.
    is_double_negation = is_denied and excluding_role.startswith("without")
    if not is_double_negation:
        yield _read_clause(main, is_denied=is_denied)
    if main:
        yield _read_clause(excluded, is_denied=not is_denied, is_order=True)


def _resolve_roles(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces of a clause, with the final roles of words that work together.

    - `prefer A over B` is the same as `use A instead of B`, but only if A comes before `over`.
    - `first A, then B` is the same as `A before B`.

    Without their partner, `over`, `first` and `then` say nothing: they get the role `light`.
    """
    has_first = any(piece.role == "first" for piece in pieces)
    role_alone_or_with_first = {
        "prefer": "use",
        "first": "light",
        "then": "before" if has_first else "light",
        "then_behind": "after" if has_first else "light",
    }
    resolved: list[Piece] = []
    is_behind_prefer = False
    has_named_preferred = False  # whether the words for what is preferred were passed
    for piece in pieces:
        role = role_alone_or_with_first.get(piece.role, piece.role)
        if piece.role == "over":
            role = "instead" if has_named_preferred else "light"
        elif piece.role == "prefer":
            is_behind_prefer = True
            # "preferred" stands behind what is preferred: `pnpm is preferred over npm`.
            has_named_preferred = piece.text.endswith("ed")
        elif piece.mark is None and is_behind_prefer:
            has_named_preferred = True
        if role != piece.role:
            piece = Piece(piece.text, StanceMark(role))
        resolved.append(piece)
    return resolved


def _read_clause(pieces: Sequence[Piece], *, is_denied: bool, is_order: bool = False) -> Clause:
    """Return the clause of some pieces: its words, and the stance that its marks take.

    Args:
        pieces: the marks, words like `never` or `before` whose role gives the stance, and the words
            between them.
        is_denied: whether the clause forbids.
        is_order: whether it is an order, whatever its marks say.
    """
    marks = [piece.mark for piece in pieces if piece.mark]
    conditions = [piece.text.lower() for piece in pieces if piece.role == "condition"]
    # Words with the role `light`, such as `please`, do not count as the beginning of a clause.
    weighty_pieces = [piece for piece in pieces if piece.role != "light"]
    clause = Clause(
        words=_collect_words(pieces),
        is_denied=is_denied,
        forbidden_word=_find_forbidden_word(pieces) if is_denied else "",
        opening=_find_opening(weighty_pieces),
        is_order=is_order or _is_order(marks, weighty_pieces),
        condition=" ".join(conditions),
        side_by_pair=_find_named_sides(marks),
        undone_pairs=frozenset(mark.pair_id for mark in marks if mark.undoes),
    )
    return _add_order_of_two(clause, pieces)


def _add_order_of_two(clause: Clause, pieces: Sequence[Piece]) -> Clause:
    """Return a clause with the words on both sides of its first `before` or `after`, if any."""
    order_roles = [piece.role for piece in pieces if piece.role in ORDER_ROLES]
    if not order_roles:
        return clause
    order_role = order_roles[0]
    left_run, *right_runs = _split_at_role(pieces, order_role)
    right_pieces = [piece for run in right_runs for piece in run]
    return clause._replace(
        order_role=order_role,
        left_words=_collect_words(left_run),
        right_words=_collect_words(right_pieces),
    )


def _is_order(marks: Sequence[StanceMark], weighty_pieces: Sequence[Piece]) -> bool:
    """Return whether a clause has `always` or begins with `use`, `enable` or the like."""
    if any(mark.role in ("always", "reminder") for mark in marks):
        return True
    return _begins_with(weighty_pieces, ("use", "pair"))


def _find_named_sides(marks: Sequence[StanceMark]) -> dict[str, int | None]:
    """Return which side a clause names of each pair of opposites, None if it names both.

    `enable` is side 0 of its pair, and `disable` side 1.
    """
    side_by_pair: dict[str, int | None] = {}
    for mark in marks:
        if not mark.pair_id:
            continue
        earlier_side = side_by_pair.get(mark.pair_id, mark.side)
        side_by_pair[mark.pair_id] = mark.side if earlier_side == mark.side else None
    return side_by_pair


def _find_opening(pieces: Sequence[Piece]) -> str:
    """Return the stem of the word with which an order begins, such as `run` of `run the tests`.

    Returns:
        The stem. "" if the clause begins with a mark (a word of the tables, such as `never`), or
        with a gerund: `using npm broke the lock file` is no order.
    """
    text = pieces[0].text if pieces and pieces[0].mark is None else ""
    first_word = next(words(text), "")
    if first_word.isascii() and first_word.endswith("ing"):
        return ""
    return next(_content_stems(first_word), "")


def _find_forbidden_word(pieces: Sequence[Piece]) -> str:
    """Return the stem of the first word behind a negation: in English, what is forbidden.

    Args:
        pieces: the marks of a clause (a negation has the role `never`) and the words between them.

    Returns:
        The stem of the word. "" if it has letters that English lacks: other languages put the
        forbidden word elsewhere.
    """
    is_behind_negation = False
    for piece in pieces:
        if piece.role == "never":
            is_behind_negation = True
        if is_behind_negation and piece.mark is None:
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
