"""Texts as the stems that FTS5 makes of them, and BM25 over stems as FTS5 computes it, for other engines."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memory_ci.search.database import TOKENIZER
from memory_ci.search.search import CITED_WEIGHT, COLUMN_WEIGHT, quote

K1, B = 1.2, 0.75  # Those of FTS5's bm25().
LEAST_IDF = 1e-6  # What FTS5 gives a term that more than half of the texts hold.
COLUMNS = ("title", "body", "parts", "cited")
BETWEEN_COLUMNS, BEFORE_CITED = "\n", "\f"
LONGEST = (
    200  # Letters of a stem that are looked up; what a longer one stands in is compared whole.
)


class Stemmed(NamedTuple):
    """An entry's words: all columns in one text, how many there are, and those that differ, sorted."""

    text: str
    size: int
    lexemes: tuple[str, ...]


class StemPattern(NamedTuple):
    """A term as it stands in `Stemmed.text`, and the lexemes that an entry has where it holds it. The last one of a
    prefix is a prefix."""

    text: str
    lexemes: tuple[str, ...]
    is_prefix: bool

    @property
    def is_plain(self) -> bool:
        """Whether an entry that has the lexeme holds the term."""
        return len(self.lexemes) == 1 and len(self.lexemes[0]) < LONGEST


class Stemmer:
    """FTS5 itself, on an empty table in memory: what it would index is read back, so each word is as it has it."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        columns = f"{', '.join(COLUMNS)}, content = '', tokenize = '{TOKENIZER}'"
        self._connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5 ({columns})")
        self._connection.execute("CREATE VIRTUAL TABLE words USING fts5vocab (texts, 'instance')")

    def stem(self, rows: Iterable[Sequence[object]]) -> list[Stemmed]:
        """Of rows of `builder.text_row`, numbered from 0."""
        columns = self._words(rows)
        found = []
        for at in range(self._rows):
            *own, cited = (columns[at, name] for name in COLUMNS)
            text = BETWEEN_COLUMNS.join("".join(f" {word} " for word in column) for column in own)
            text += BEFORE_CITED + "".join(f" {word} " for word in cited)
            words = [word for column in (*own, cited) for word in column]
            found.append(
                Stemmed(text, len(words), tuple(sorted({word[:LONGEST] for word in words})))
            )
        return found

    def patterns(self, terms: Iterable[str]) -> dict[str, StemPattern]:
        """Of terms as `search.quote` reads them; those without a word are left out."""
        asked = list(dict.fromkeys(terms))
        legal = [quote(term).removesuffix("*")[1:-1] for term in asked]
        columns = self._words((at, text, "", "", "") for at, text in enumerate(legal))
        found: dict[str, StemPattern] = {}
        for at, term in enumerate(asked):
            if words := columns[at, "title"]:
                text, is_prefix = "".join(f" {word} " for word in words), term.endswith("*")
                lexemes = tuple(word[:LONGEST] for word in words)
                found[term] = StemPattern(text[:-1] if is_prefix else text, lexemes, is_prefix)
        return found

    def _words(self, rows: Iterable[Sequence[object]]) -> dict[tuple[int, str], list[str]]:
        self._connection.execute("BEGIN")
        added = "INSERT INTO texts (rowid, title, body, parts, cited) VALUES (?, ?, ?, ?, ?)"
        self._rows = max(0, self._connection.executemany(added, rows).rowcount)
        found: dict[tuple[int, str], list[str]] = defaultdict(list)
        for at, column, word in self._connection.execute(
            "SELECT doc, col, term FROM words ORDER BY doc, col, offset"
        ):
            found[at, column].append(word)
        self._connection.execute("ROLLBACK")
        return found


def quote_lexeme(lexeme: str) -> str:
    """As tsvector and tsquery read it; FTS5 takes letters and digits only for words."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def build_tsquery(wanted: Sequence[StemPattern], seen: Sequence[StemPattern]) -> str:
    """A tsquery: what may hold one of `wanted`, and none of `seen`."""
    either = " | ".join(map(_lexemes, wanted))
    return f"({either}) & !({' | '.join(map(_lexemes, seen))})" if seen else either


def _lexemes(pattern: StemPattern) -> str:
    *words, last = pattern.lexemes
    is_open = pattern.is_prefix or len(last) >= LONGEST
    return (
        "("
        + " & ".join([*map(quote_lexeme, words), quote_lexeme(last) + (":*" if is_open else "")])
        + ")"
    )


def idf(holding: int, total: int) -> float:
    """As FTS5 has it: never zero."""
    return max(LEAST_IDF, math.log((total - holding + 0.5) / (holding + 0.5)))


def score(text: str, size: int, average: float, asked: Sequence[tuple[str, float]]) -> float:
    """BM25 of one entry; `asked` are texts of patterns, each with its inverse document frequency, once for each time
    that it is asked."""
    own, _, cited = text.partition(BEFORE_CITED)
    norm = K1 * (1 - B + B * size / average)
    total = 0.0
    for pattern, weight in asked:
        if pattern in text:
            frequency = COLUMN_WEIGHT * own.count(pattern) + CITED_WEIGHT * cited.count(pattern)
            total += weight * frequency * (K1 + 1) / (frequency + norm)
    return total
