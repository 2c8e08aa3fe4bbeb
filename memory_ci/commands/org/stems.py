"""Stems of texts as FTS5 makes them, and BM25 as FTS5 computes it, for other engines."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memory_ci.search.database import TOKENIZER
from memory_ci.search.search import CITED_WEIGHT, COLUMN_WEIGHT, quote_term

# The parameters of FTS5's bm25().
K1 = 1.2
B = 0.75
LEAST_IDF = 1e-6  # The IDF that FTS5 gives a term of more than half of the texts.

COLUMNS = ("title", "body", "parts", "cited")
BETWEEN_COLUMNS = "\n"
BEFORE_CITED = "\f"
LONGEST = 200  # Letters of a stem that are looked up; texts with longer stems are compared whole.


class Stemmed(NamedTuple):
    """The stems of an entry.

    Attributes:
        text: the stems of all columns in one text.
        size: their number.
        lexemes: the distinct stems, each cut to `LONGEST` letters, sorted.
    """

    text: str
    size: int
    lexemes: tuple[str, ...]


class StemPattern(NamedTuple):
    """A term of a query as stems.

    Attributes:
        text: the term as it occurs in `Stemmed.text`.
        lexemes: the lexemes of each entry that holds it; the last one of a prefix is a prefix.
        is_prefix: whether the term is a prefix.
    """

    text: str
    lexemes: tuple[str, ...]
    is_prefix: bool

    @property
    def is_plain(self) -> bool:
        """Whether each entry that has the lexeme holds the term."""
        return len(self.lexemes) == 1 and len(self.lexemes[0]) < LONGEST


class Stemmer:
    """FTS5 on an empty table in memory: the words that it indexes are read back."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        columns = f"{', '.join(COLUMNS)}, content = '', tokenize = '{TOKENIZER}'"
        self._connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5 ({columns})")
        self._connection.execute("CREATE VIRTUAL TABLE words USING fts5vocab (texts, 'instance')")

    def stem(self, rows: Iterable[Sequence[object]]) -> list[Stemmed]:
        """Return the stems of rows of `builder.text_row`, which are numbered from 0."""
        count, words_by_column = self._read_words(rows)
        stemmed = []
        for number in range(count):
            *columns, cited = (words_by_column[number, name] for name in COLUMNS)
            text = BETWEEN_COLUMNS.join(_join_words(column) for column in columns)
            text += BEFORE_CITED + _join_words(cited)
            words = [word for column in (*columns, cited) for word in column]
            lexemes = sorted({word[:LONGEST] for word in words})
            stemmed.append(Stemmed(text, len(words), tuple(lexemes)))
        return stemmed

    def patterns(self, terms: Iterable[str]) -> dict[str, StemPattern]:
        """Return the patterns of terms as `quote_term` reads them, without terms of no word."""
        unique_terms = list(dict.fromkeys(terms))
        rows = []
        for number, term in enumerate(unique_terms):
            text = quote_term(term).removesuffix("*")[1:-1]
            rows.append((number, text, "", "", ""))
        _, words_by_column = self._read_words(rows)

        patterns: dict[str, StemPattern] = {}
        for number, term in enumerate(unique_terms):
            words = words_by_column[number, "title"]
            if words:
                text = _join_words(words)
                is_prefix = term.endswith("*")
                lexemes = tuple(word[:LONGEST] for word in words)
                patterns[term] = StemPattern(text[:-1] if is_prefix else text, lexemes, is_prefix)
        return patterns

    def _read_words(
        self, rows: Iterable[Sequence[object]]
    ) -> tuple[int, dict[tuple[int, str], list[str]]]:
        """Index rows, and return their number and their words by row and column."""
        self._connection.execute("BEGIN")
        insert = "INSERT INTO texts (rowid, title, body, parts, cited) VALUES (?, ?, ?, ?, ?)"
        count = max(0, self._connection.executemany(insert, rows).rowcount)
        words: dict[tuple[int, str], list[str]] = defaultdict(list)
        query = "SELECT doc, col, term FROM words ORDER BY doc, col, offset"
        for number, column, word in self._connection.execute(query):
            words[number, column].append(word)
        self._connection.execute("ROLLBACK")
        return count, words


def _join_words(words: Iterable[str]) -> str:
    """Join words with a blank on both sides of each, so that a word is found whole."""
    return "".join(f" {word} " for word in words)


def quote_lexeme(lexeme: str) -> str:
    """Quote a lexeme for tsvector and tsquery; FTS5 makes words of letters and digits only."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def build_tsquery(wanted: Sequence[StemPattern], seen: Sequence[StemPattern]) -> str:
    """Return a tsquery for entries that may hold a wanted pattern, but no seen pattern."""
    query = " | ".join(_build_conjunction(pattern) for pattern in wanted)
    if not seen:
        return query
    excluded = " | ".join(_build_conjunction(pattern) for pattern in seen)
    return f"({query}) & !({excluded})"


def _build_conjunction(pattern: StemPattern) -> str:
    lexemes = [quote_lexeme(lexeme) for lexeme in pattern.lexemes]
    if pattern.is_prefix or len(pattern.lexemes[-1]) >= LONGEST:
        lexemes[-1] += ":*"
    return f"({' & '.join(lexemes)})"


def idf(holding: int, total: int) -> float:
    """Return the inverse document frequency as FTS5 computes it; it is never zero."""
    return max(LEAST_IDF, math.log((total - holding + 0.5) / (holding + 0.5)))


def score(text: str, size: int, average: float, asked: Sequence[tuple[str, float]]) -> float:
    """Return the BM25 of one entry.

    Args:
        text: `Stemmed.text` of the entry.
        size: the number of its stems.
        average: the mean number of stems of all entries.
        asked: texts of patterns with their IDF, repeated as in the query.
    """
    columns, _, cited = text.partition(BEFORE_CITED)
    norm = K1 * (1 - B + B * size / average)
    total = 0.0
    for pattern, weight in asked:
        if pattern in text:
            frequency = COLUMN_WEIGHT * columns.count(pattern) + CITED_WEIGHT * cited.count(pattern)
            total += weight * frequency * (K1 + 1) / (frequency + norm)
    return total
